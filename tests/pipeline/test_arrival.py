"""The order of two streams, and where a text is cut, against what is plainly true."""

import random

from hypothesis import given
from hypothesis import strategies as st

from stockade_daemon.pipeline import edges
from stockade_daemon.pipeline.arrival import COARSE, EXACT, Arrival

ADDED = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9)), max_size=60)


def view_of(arrival: Arrival, streams: tuple[bytes, bytes], start: int = 0) -> bytes:
    """All that can be read from an offset on."""
    found, offset = b"", start
    while run := arrival.at(offset):
        found += streams[run.part][run.offset : run.offset + run.size]
        offset += run.size
    return found


def written(added: list[tuple[int, int]]) -> tuple[Arrival, tuple[bytes, bytes], bytes]:
    """The order of what was written, the streams, and what the view must be. No two neighbours are alike."""
    arrival, streams, wanted, number = Arrival(), [b"", b""], b"", 0
    for part, count in added:
        data = bytes((number + each) % 251 for each in range(count))
        number += count
        streams[part] += data
        wanted += data
        arrival.add(part, count)
    return arrival, (streams[0], streams[1]), wanted


@given(ADDED, st.data())
def test_the_view_of_both_is_what_was_written_from_any_offset_on(
    added: list[tuple[int, int]], data: st.DataObject
) -> None:
    arrival, streams, wanted = written(added)
    start = data.draw(st.integers(0, len(wanted)))
    assert arrival.size == len(wanted)
    assert view_of(arrival, streams, start) == wanted[start:]
    again = Arrival.restored(arrival.kept(), (len(streams[0]), len(streams[1])))
    if arrival.kept() is not None:
        assert view_of(again, streams, start) == wanted[start:]
    assert again.closed


@given(ADDED, st.integers(0, 40), st.integers(0, 40))
def test_where_streams_have_more_than_their_order_knows_it_follows_and_nothing_is_moved(
    added: list[tuple[int, int]], out: int, err: int
) -> None:
    """As after a kill of the daemon between a write and its note."""
    arrival, streams, wanted = written(added)
    longer = streams[0] + b"o" * out, streams[1] + b"e" * err
    order = arrival.ends(0, 0, 0).tobytes()
    view = view_of(Arrival.restored(order, (len(longer[0]), len(longer[1]))), longer)
    assert view.startswith(wanted)
    assert sorted(view) == sorted(b"".join(longer))


@given(ADDED, st.data())
def test_where_streams_have_less_than_their_order_knows_the_view_ends_and_nothing_is_moved(
    added: list[tuple[int, int]], data: st.DataObject
) -> None:
    """As after a kill in the middle of the first writes, or a power cut."""
    arrival, streams, wanted = written(added)
    less = tuple(stream[: data.draw(st.integers(0, len(stream)))] for stream in streams)
    order = arrival.ends(0, 0, 0).tobytes()
    view = view_of(Arrival.restored(order, (len(less[0]), len(less[1]))), (less[0], less[1]))
    assert wanted.startswith(view)
    if less == streams:
        assert view == wanted


@given(ADDED, st.integers(1, 9), st.integers(0, 1))
def test_the_order_of_what_is_about_to_be_told_is_the_order_once_it_is(
    added: list[tuple[int, int]], count: int, part: int
) -> None:
    arrival, _, _ = written(added)
    begin = max(0, len(arrival.ends(0, 0, 0)) - 1)
    beforehand = arrival.ends(begin, part, count)
    arrival.add(part, count)
    assert beforehand == arrival.ends(begin, 0, 0)


def test_an_order_of_very_many_changes_stays_small_and_loses_no_byte() -> None:
    arrival, streams, wanted, seen = Arrival(), (bytearray(), bytearray()), bytearray(), 0
    for number in range(EXACT * 8):
        part, data = number % 2, bytes([number % 251])
        streams[part].extend(data)
        wanted += data
        arrival.add(part, 1)
        held = sum(map(len, streams)) - arrival.size
        assert held < COARSE
        seen = max(seen, held)
    assert seen, "the order became coarser"
    arrival.end()
    arrival.end()
    exact = bytes(streams[0]), bytes(streams[1])
    view = view_of(arrival, exact)
    assert view[: EXACT - 1] == wanted[: EXACT - 1]
    assert len(view) == len(wanted)
    kept = arrival.kept()
    assert kept is not None
    assert len(kept) < 1 << 20
    assert view_of(Arrival.restored(kept, (len(exact[0]), len(exact[1]))), exact) == view


@given(st.text(), st.data())
def test_a_text_cut_at_edges_is_still_a_text(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    at = data.draw(st.integers(0, len(whole)))
    head = edges.head(whole[:at])
    begin = max(0, at - edges.LONGEST)
    tail = edges.tail(whole[begin:], at - begin)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert head.decode() + tail.decode() in {text, _without_one(whole, len(head), tail)}
    assert at - len(head) <= edges.LONGEST
    assert len(whole) - at - len(tail) <= edges.LONGEST


def _without_one(whole: bytes, head: int, tail: bytes) -> str:
    """The character at the cut is left out."""
    return (whole[:head] + whole[len(whole) - len(tail) :]).decode()


def test_no_byte_that_is_no_utf8_is_lost_to_an_edge() -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(500):
        whole = bytes(chance.choice(b"\x80\xbf\xc3\xe2\xf0\xffab") for _ in range(12))
        at = chance.randrange(13)
        begin = max(0, at - edges.LONGEST)
        tail = edges.tail(whole[begin:], at - begin)
        assert whole.endswith(tail)
        cut = whole[at : len(whole) - len(tail)]
        assert all(0x80 <= byte < 0xC0 for byte in cut), "only the rest of a character is left out"
