"""Observation × disk → decision, row by row, on real files."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stockade_daemon.errors import ToolFailure
from stockade_daemon.gate.intents import EditIntent
from stockade_daemon.gate.spans import Span

if TYPE_CHECKING:
    from tests.gate.conftest import Actor

Refused = Callable[..., AbstractContextManager[None]]
Digest = Callable[[bytes], str]
LINES = b"".join(b"line %d\n" % number for number in range(1, 101))


async def test_a_new_file_is_created(actor: "Actor", root: Path) -> None:
    done = await actor.write("new/deep/a.txt", b"1\n")
    assert (root / "new/deep/a.txt").read_bytes() == b"1\n"
    assert (done.operation, done.before, done.path) == ("create", None, "new/deep/a.txt")


async def test_an_edit_of_nothing_is_not_found(actor: "Actor", refused: Refused) -> None:
    with refused("FS_NOT_FOUND", "Check the path"):
        await actor.gate.decide(EditIntent("a", b"a", "0" * 64, (Span(0, 0, b"x"),)))


async def test_a_write_without_a_read_is_refused(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "a").write_bytes(b"precious\n")
    with refused("FS_NOT_OBSERVED", "Read the file with `read`, then repeat"):
        await actor.write("a", b"x\n")
    assert (root / "a").read_bytes() == b"precious\n"


async def test_an_edit_without_a_read_is_refused(actor: "Actor", root: Path, refused: Refused, digest: Digest) -> None:
    (root / "a").write_bytes(b"precious\n")
    with refused("FS_NOT_OBSERVED", "Read the file with `read`, then repeat"):
        await actor.edit("a", b"precious", b"x")
    with refused("FS_NOT_OBSERVED"):  # also for a body that does not ask first
        await actor.gate.decide(EditIntent("a", b"a", digest(b"precious\n"), (Span(0, 1, b"x"),)))
    assert (root / "a").read_bytes() == b"precious\n"


async def test_what_was_read_may_be_replaced_and_edited(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(b"1\n")
    await actor.read("a")
    assert (await actor.edit("a", b"1", b"2")).operation == "update"
    await actor.edit("a", b"2", b"3")
    await actor.write("a", b"4\n")
    await actor.edit("a", b"4", b"5")
    assert (root / "a").read_bytes() == b"5\n"


async def test_an_empty_file_can_be_seen_whole(actor: "Actor", root: Path) -> None:
    (root / "a").touch()
    await actor.read("a")
    await actor.write("a", b"x")
    assert (root / "a").read_bytes() == b"x"


async def test_a_part_does_not_allow_a_write(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "a").write_bytes(LINES)
    await actor.read("a", 1, 50)
    with refused("FS_PARTIAL_OBSERVATION", "100 lines", "offset 51, limit 50", "Or change the lines that were shown"):
        await actor.write("a", b"line 1\n")
    assert (root / "a").read_bytes() == LINES


async def test_windows_add_up(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(LINES)
    await actor.read("a", 61, 100)
    await actor.read("a", 1, 60)
    await actor.write("a", b"new\n")
    assert (root / "a").read_bytes() == b"new\n"


async def test_windows_of_different_bytes_do_not_add_up(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "a").write_bytes(LINES)
    await actor.read("a", 1, 60)
    (root / "a").write_bytes(LINES.replace(b"line 1\n", b"LINE 1\n"))
    await actor.read("a", 61, 100)
    with refused("FS_PARTIAL_OBSERVATION"):
        await actor.write("a", b"new\n")


async def test_an_edit_needs_the_lines_that_it_changes(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "a").write_bytes(LINES)
    await actor.read("a", 10, 14)
    await actor.edit("a", b"line 12\n", b"LINE 12\n")
    with refused("FS_PARTIAL_OBSERVATION", "Line 90", "offset 90, limit 1"):
        await actor.edit("a", b"line 90\n", b"LINE 90\n")
    assert (root / "a").read_bytes() == LINES.replace(b"line 12", b"LINE 12")


async def test_a_window_moves_with_the_lines_that_an_own_edit_adds(
    actor: "Actor", root: Path, refused: Refused
) -> None:
    (root / "a").write_bytes(LINES)
    await actor.read("a", 10, 14)
    await actor.edit("a", b"line 10\n", b"A\nB\nC\n")
    await actor.edit("a", b"line 14\n", b"LINE 14\n")  # now line 16
    with refused("FS_PARTIAL_OBSERVATION", "Line 17"):
        await actor.edit("a", b"line 15\n", b"LINE 15\n")


async def test_a_line_cut_short_is_not_seen(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "a").write_bytes(b"a" * 100_000)
    await actor.read("a", 1, 0)
    with refused("FS_PARTIAL_OBSERVATION", "Line 1 is longer than the 51200 bytes", "`shell`"):
        await actor.write("a", b"b")


@pytest.mark.parametrize(
    ("seen", "where"),
    [
        ([], "offset 1, limit 9)"),
        ([(1, 3)], "offset 4, limit 6)"),
        ([(2, 3), (6, 9)], "offset 1, limit 1)"),
        ([(1, 3), (6, 6)], "offset 4, limit 2)"),
    ],
)
async def test_the_first_lines_that_are_missing_are_named(
    actor: "Actor", root: Path, refused: Refused, seen: list[tuple[int, int]], where: str
) -> None:
    (root / "a").write_bytes(b"x\n" * 9)
    await actor.read("a", 1, 0)
    for first, last in seen:
        await actor.read("a", first, last)
    with refused("FS_PARTIAL_OBSERVATION", where):
        await actor.write("a", b"b")


async def test_a_line_that_read_can_never_show_is_named(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "a").write_bytes(b"1\n2\n" + b"a" * 60_000 + b"\n4\n" + b"b" * 60_000)
    await actor.read("a", 1, 3)
    with refused("FS_PARTIAL_OBSERVATION", "Line 5 is longer"):
        await actor.write("a", b"b")
    with refused("FS_PARTIAL_OBSERVATION", "offset 4, limit 1), then"):
        await actor.edit("a", b"4\n", b"x\n")


@pytest.mark.parametrize("change", [b"v=2;k=AAAA\n", b"v=1;k=BBBB\n"])
async def test_other_bytes_are_stale_whatever_the_clock_says(
    actor: "Actor", root: Path, refused: Refused, change: bytes
) -> None:
    file = root / "a"
    file.write_bytes(b"v=1;k=AAAA\n")
    await actor.read("a")
    before = file.stat()
    file.write_bytes(change)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with refused("FS_STALE_VERSION", "Read the file again"):
        await actor.write("a", b"mine\n")
    # The text to replace is gone, too: stale is what is reported.
    with refused("FS_STALE_VERSION"):
        await actor.edit("a", b"not there", b"x")
    assert file.read_bytes() == change
    await actor.read("a")
    await actor.write("a", b"mine\n")


async def test_the_same_bytes_in_a_new_file_are_not_stale(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(b"1\n")
    await actor.read("a")
    (root / "t").write_bytes(b"1\n")
    (root / "t").rename(root / "a")
    await actor.edit("a", b"1", b"2")
    assert (root / "a").read_bytes() == b"2\n"


async def test_a_vanished_file_can_be_written_again_and_not_edited(
    actor: "Actor", root: Path, refused: Refused
) -> None:
    (root / "a").write_bytes(b"1\n")
    await actor.read("a")
    (root / "a").unlink()
    with refused("FS_NOT_FOUND"):
        await actor.edit("a", b"1", b"2")
    done = await actor.write("a", b"3\n")
    assert done.operation == "create"
    assert "gone" in done.note


async def test_an_observed_absence_allows_creation(actor: "Actor", root: Path, refused: Refused) -> None:
    with refused("FS_NOT_FOUND"):
        await actor.read("a")
    seen = await actor.gate.absent("a")
    assert seen is not None
    assert seen.body() == {"path": "a", "state": "absent"}
    with refused("FS_NOT_FOUND"):
        await actor.edit("a", b"1", b"2")
    await actor.write("a", b"1\n")
    assert (root / "a").read_bytes() == b"1\n"


async def test_a_file_in_place_of_an_observed_absence_is_stale(actor: "Actor", root: Path, refused: Refused) -> None:
    await actor.gate.absent("a")
    (root / "a").write_bytes(b"theirs\n")
    with refused("FS_STALE_VERSION"):
        await actor.write("a", b"mine\n")
    assert (root / "a").read_bytes() == b"theirs\n"


@pytest.mark.parametrize("kind", ["file", "directory", "dangling link"])
async def test_what_appears_between_decision_and_commit_survives(
    actor: "Actor", root: Path, refused: Refused, kind: str
) -> None:
    planned = await actor.plan_write("n", b"mine\n")
    match kind:
        case "file":
            (root / "n").write_bytes(b"theirs\n")
        case "directory":
            (root / "n").mkdir()
        case _:
            (root / "n").symlink_to("nowhere")
    with refused("FS_STALE_VERSION"):
        await actor.commit(planned)
    assert actor.begun == []
    if kind == "file":
        assert (root / "n").read_bytes() == b"theirs\n"
    assert os.listdir(root) == ["n"]


async def test_a_change_between_decision_and_commit_is_stale(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "a").write_bytes(b"1\n")
    await actor.read("a")
    planned = await actor.plan_edit("a", b"1", b"2")
    (root / "a").write_bytes(b"9\n")
    with refused("FS_STALE_VERSION"):
        await actor.commit(planned)
    assert (root / "a").read_bytes() == b"9\n"


@pytest.mark.parametrize("tool", ["edit", "write"])
async def test_what_vanishes_between_decision_and_commit_is_stale_and_stays_gone(
    actor: "Actor", root: Path, refused: Refused, tool: str
) -> None:
    (root / "a").write_bytes(b"1\n")
    await actor.read("a")
    planned = await (actor.plan_edit("a", b"1", b"2") if tool == "edit" else actor.plan_write("a", b"2\n"))
    (root / "a").unlink()
    with refused("FS_STALE_VERSION", "vanished"):
        await actor.commit(planned)
    assert actor.begun == []
    assert os.listdir(root) == []


async def test_deciding_changes_nothing(actor: "Actor", root: Path) -> None:
    planned = await actor.plan_write("n/x", b"1\n")
    assert planned.text == "--- /dev/null\n+++ b/n/x\n@@ -0,0 +1,1 @@\n+1\n"
    assert os.listdir(root) == []


async def test_one_sessions_read_does_not_allow_anothers_write(
    sessions: Callable[[], "Actor"], root: Path, refused: Refused
) -> None:
    (root / "a").write_bytes(b"1\n")
    await sessions().read("a")
    with refused("FS_NOT_OBSERVED"):
        await sessions().write("a", b"2\n")


@pytest.mark.parametrize(
    "spans",
    [
        (),
        (Span(2, 9, b""),),
        (Span(-1, 1, b""),),
        (Span(2, 1, b""),),
        (Span(0, 2, b""), Span(1, 3, b"")),
        (Span(2, 3, b""), Span(0, 1, b"")),
    ],
)
async def test_spans_that_cannot_be_are_the_tools_fault(
    actor: "Actor", root: Path, spans: tuple[Span, ...], digest: Digest
) -> None:
    (root / "a").write_bytes(b"abc\n")
    await actor.read("a")
    with pytest.raises(ToolFailure) as caught:
        await actor.gate.decide(EditIntent("a", b"a", digest(b"abc\n"), spans))
    assert caught.value.code == "INVALID_TOOL_OUTPUT"


async def test_a_body_that_worked_from_other_bytes_is_stale(
    actor: "Actor", root: Path, refused: Refused, digest: Digest
) -> None:
    (root / "a").write_bytes(b"abc\n")
    await actor.read("a")
    with refused("FS_STALE_VERSION"):
        await actor.gate.decide(EditIntent("a", b"a", digest(b"abd\n"), (Span(0, 1, b"x"),)))


@pytest.mark.parametrize(("first", "last"), [(0, 1), (1, 3), (3, 1), (4, 3), (-1, -2)])
async def test_lines_that_do_not_exist_cannot_have_been_shown(
    actor: "Actor", root: Path, first: int, last: int
) -> None:
    (root / "a").write_bytes(b"1\n2")
    with pytest.raises(ToolFailure):
        await actor.read("a", first, last)


async def test_an_invented_handle_shows_nothing(actor: "Actor") -> None:
    with pytest.raises(ToolFailure):
        actor.gate.part("0" * 32, first=1, last=1)


async def test_a_session_rebuilt_from_its_events_knows_what_it_knew(
    sessions: Callable[[], "Actor"], root: Path, refused: Refused
) -> None:
    (root / "a").write_bytes(LINES)
    (root / "link").symlink_to("a")
    first = sessions()
    opened = await first.gate.read("link")
    os.close(opened.descriptor)
    parts = [first.gate.part(opened.handle, first=start, last=start + 4) for start in (10, 15)]
    for part in parts:
        first.gate.showed(part)
    bodies = [part.body() for part in parts]
    bodies.append((await first.edit("a", b"line 10\n", b"A\nB\n")).body())
    second = sessions()
    for body in bodies:
        second.gate.restore(body)
    await second.edit("link", b"line 19\n", b"LINE 19\n")
    with refused("FS_PARTIAL_OBSERVATION"):
        await second.edit("a", b"line 20\n", b"LINE 20\n")
    (root / "a").write_bytes(b"9\n")
    with refused("FS_STALE_VERSION"):
        await second.write("a", b"x")
