"""What stands at an offset of an output: when a disk is full, when a daemon is gone, when a call is tried again."""

import asyncio
import errno
import os
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stockade_daemon import json_text
from stockade_daemon.pipeline.kept_bytes import ORDER, file_of, order_in
from stockade_daemon.pipeline.printed import Printed
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.policy.waterfall import Next
from stockade_daemon.profiles import read as profiles
from stockade_daemon.registry import Registry
from stockade_daemon.values import Limits, Outcome
from tests.pipeline.conftest import Staged

KEEPS = 1 << 20
TRIED = "echo attempt; head -c 70000 /dev/zero | tr '\\0' x; echo err >&2"


@pytest.fixture
def limits() -> Limits:
    return replace(profiles.load("dev", directories=(profiles.shipped(),)).limits, output_mb=1)


def printed(place: Path, limits: Limits) -> Printed:
    return Printed(place, "s", "c", limits, lambda: None)


async def view(source: Printed, offset: int = 0) -> bytes:
    """What there is of both streams from an offset on."""
    found = b""
    while piece := (await source.read("both", offset + len(found), 10_000))[1]:
        found += piece
    return found


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """The kernel writes up to there, and then refuses (RLIMIT_FSIZE of setrlimit(2))."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_half_a_write_is_cut_back_and_the_next_attempt_stands_where_it_is_said_to(
    tmp_path: Path, limits: Limits
) -> None:
    output = printed(tmp_path, limits)
    await output.stdout.append(b"a" * 100_000)
    with no_file_longer_than(150_000):
        await output.stdout.append(b"b" * 100_000)
    assert (output.stdout.size, output.stdout.dropped, output.stdout.full) == (100_000, 100_000, True)
    assert file_of(tmp_path, "s", "c", "stdout").stat().st_size == 100_000
    output.stdout.end()
    output.stderr.end()
    output.again()
    await output.stdout.append(b"c" * 10)
    assert await output.stdout.read(99_999, 20) == b"a" + b"c" * 10
    assert (await output.value())["stdout"] == "c" * 10
    output.close()


async def test_a_write_that_has_begun_is_over_when_its_task_is(tmp_path: Path) -> None:
    """Whoever closes the files after that closes them under no thread."""
    output = printed(tmp_path, profiles.load("ci", directories=(profiles.shipped(),)).limits)
    data, path = b"x" * (48 << 20), file_of(tmp_path, "s", "c", "stdout")
    writing = asyncio.create_task(output.stdout.append(data))
    while not path.exists():  # noqa: ASYNC110 (a file of a thread)
        await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait([writing])
    assert writing.cancelled()
    assert path.stat().st_size == len(data)
    output.close()


async def test_where_not_even_the_first_file_can_be_made_memory_is_the_whole_of_it(
    tmp_path: Path, limits: Limits
) -> None:
    output = printed(tmp_path, limits)
    await output.stderr.append(b"e" * 10)
    await output.stdout.append(b"a" * 60_000)
    await output.stderr.append(b"f" * 10)
    with no_file_longer_than(1000):
        await output.stdout.append(b"b" * 60_000)
    assert os.listdir(tmp_path) == []
    assert await view(output) == b"e" * 10 + b"a" * 60_000 + b"f" * 10
    assert output.small()["stdout"] == b"a" * 60_000
    output.close()


async def test_the_order_of_both_streams_is_found_again_as_it_was_read(tmp_path: Path, limits: Limits) -> None:
    """By a daemon that takes the place of one which had no time to say anything."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    output = printed(tmp_path, limits)
    wanted = b""
    for number in range(1500):
        data = bytes([number % 251]) * chance.choice((1, 10, 300))
        await (output.stdout if chance.random() < 0.5 else output.stderr).append(data)
        wanted += data
        if number % 100 == 99:
            assert await view(output) == wanted
            if output.small() == {}:
                again = printed(tmp_path, limits)
                again.go_on()
                assert await view(again) == wanted
                assert await view(again, len(wanted) // 2) == wanted[len(wanted) // 2 :]
                again.close()
    assert output.small() == {}, "it came to files"
    output.close()


async def test_what_is_short_outlives_its_daemon_once_somebody_is_asked(tmp_path: Path, limits: Limits) -> None:
    output = printed(tmp_path, limits)
    for number in range(4):
        await (output.stderr if number % 2 else output.stdout).append(b"%d\n" % number)
    await output.outlive()
    output.close()
    again = printed(tmp_path, limits)
    again.go_on()
    assert await view(again) == b"0\n1\n2\n3\n"
    assert again.small() == {}, "the ledger must not have it as empty"
    again.close()


@pytest.mark.parametrize("opened", [0, 1, 2])
async def test_what_an_earlier_daemon_kept_stays_as_it_is_where_it_cannot_be_opened(
    tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch, opened: int
) -> None:
    """The ledger must not have it as empty, and nothing is written over it."""
    output = printed(tmp_path, limits)
    await output.stdout.append(b"x" * 70_000)
    await output.stderr.append(b"y" * 70_000)
    output.close()
    kept = contents(tmp_path)
    assert len(kept) == 3
    descriptors, opens = set(os.listdir("/proc/self/fd")), iter(range(opened))

    def limited(path: Path, flags: int, mode: int = 0o777) -> int:
        if next(opens, None) is None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, flags, mode)

    real = os.open
    again = printed(tmp_path, limits)
    with monkeypatch.context() as few:
        few.setattr(os, "open", limited)
        with pytest.raises(OSError, match="Too many open files"):
            again.go_on()
    assert set(os.listdir("/proc/self/fd")) == descriptors
    assert again.small() == {}
    assert again.size("both") == 0
    await again.stdout.append(b"z")
    again.close()
    assert contents(tmp_path) == kept


def contents(place: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in place.iterdir()}


async def test_one_stream_alone_needs_one_file(tmp_path: Path, limits: Limits) -> None:
    output = printed(tmp_path, limits)
    for _ in range(3):
        await output.stdout.append(b"x" * 40_000)
    output.close()
    assert [name.rpartition(".")[2] for name in os.listdir(tmp_path)] == ["stdout"]
    assert order_in(file_of(tmp_path, "s", "c", ORDER)) is None


async def test_what_a_further_attempt_prints_stands_behind_and_the_value_has_it_alone(staged: Staged) -> None:
    async def twice(judged: Judged, following: Next[Outcome]) -> Outcome:
        await following()
        return await following()

    shell = replace(Registry.load().find("shell"), name="again", idempotent=True, output_schema=None)
    staged.services.tools.succeed([shell], [])
    staged.services.execute.add(twice, owner="mine")
    await staged.engine.begin("s", "c", "again", b'{"command": "%s"}' % TRIED.replace("\\", "\\\\").encode())
    under_way = await staged.engine.running_output("s", "c", begun=True)
    assert under_way is not None
    once, followed = b"attempt\n" + b"x" * 70_000, b""
    while await under_way.more("stdout", len(followed)):
        followed += (await under_way.read("stdout", len(followed), 1 << 20))[1]
    await staged.engine.wait("s", "c", 30)
    text = await staged.ledger.output("s", "c", "value")
    assert text is not None
    value: Any = json_text.parse(text, max_bytes=len(text))
    assert (value["stdout_bytes"], value["stdout_kept"], value["stderr"]) == (len(once), len(once), "err\n")
    assert staged.engine.output_file("s", "c", "stdout").read_bytes() == once + once
    assert (once + once).startswith(followed)
    assert len(followed) > len(once), "whoever follows is told of the second attempt while it runs"
    assert f"--offset {len(once) + 32768}" in value["stdout"]
