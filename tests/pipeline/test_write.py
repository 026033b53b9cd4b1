"""`write`: what it makes, what it replaces, what it refuses and what it says."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_client import Daemon
from stockade_client.results import CallResult
from stockade_client.session import Session
from tests.pipeline.conftest import ALLOWING


@pytest_asyncio.fixture
async def session(daemon: Daemon, workspace: Path) -> AsyncIterator[Session]:
    """Writes are allowed; two names are hidden or protected."""
    profile = workspace.parent / f"{workspace.name}-writes.toml"
    profile.write_text(f'{ALLOWING}[filesystem]\nhidden = ["secret/**"]\nprotected = ["kept/**"]\n')
    async with daemon.session(workspace=workspace, profile=profile) as session:
        yield session


def code(result: CallResult) -> str:
    return result.error.code if result.error else "ok"


def value(result: CallResult) -> dict[str, object]:
    assert isinstance(result.value, dict), result
    return dict(result.value)


async def test_a_new_file_is_made_with_its_directories(session: Session, workspace: Path) -> None:
    result = await session.call("write", path="new/deep/b.txt", content="one\ntwo")
    assert value(result)["created"] is True
    assert (workspace / "new/deep/b.txt").read_bytes() == b"one\ntwo"
    assert result.content == ("Created new/deep/b.txt, 7 bytes.",)
    async with session.events() as events:
        types = [event.type async for event in events]
    assert [each for each in types if each.startswith("fs/")] == ["fs/write-intent", "fs/begun", "fs/committed"]


async def test_what_was_written_counts_as_seen(session: Session, workspace: Path) -> None:
    assert (await session.call("write", path="b.txt", content="1\n")).ok
    assert (await session.call("edit", path="b.txt", old_string="1", new_string="2")).ok
    assert (await session.call("write", path="b.txt", content="3\n")).ok
    assert (workspace / "b.txt").read_bytes() == b"3\n"


async def test_a_file_is_replaced_only_when_all_of_it_was_seen_as_it_is(session: Session, workspace: Path) -> None:
    assert code(await session.call("write", path="a.txt", content="x\n")) == "FS_NOT_OBSERVED"
    await session.call("read", path="a.txt", limit=2)
    assert code(await session.call("write", path="a.txt", content="x\n")) == "FS_PARTIAL_OBSERVATION"
    await session.call("read", path="a.txt", offset=3)
    (workspace / "a.txt").chmod(0o640)
    result = await session.call("write", path="a.txt", content="x\n")
    assert value(result)["created"] is False
    assert (workspace / "a.txt").read_bytes() == b"x\n"
    assert (workspace / "a.txt").stat().st_mode & 0o7777 == 0o640
    (workspace / "a.txt").write_bytes(b"theirs\n")
    assert code(await session.call("write", path="a.txt", content="y\n")) == "FS_STALE_VERSION"
    assert (workspace / "a.txt").read_bytes() == b"theirs\n"


async def test_a_cut_line_does_not_count_as_seen(session: Session, workspace: Path) -> None:
    (workspace / "long.js").write_bytes(b"a" * 100_000 + b"\nb\n")
    assert (await session.call("read", path="long.js")).ok
    assert code(await session.call("write", path="long.js", content="b\n")) == "FS_PARTIAL_OBSERVATION"


async def test_a_cut_line_counts_as_seen_once_it_is_read_alone(session: Session, workspace: Path) -> None:
    (workspace / "long.js").write_bytes(b"before\n" + b"a" * 2500 + b"\n")
    assert "read it whole with limit=1 (offset=2)" in str((await session.call("read", path="long.js")).content)
    refused = await session.call("edit", path="long.js", old_string="aaa\n", new_string="b\n")
    assert code(refused) == "FS_PARTIAL_OBSERVATION"
    assert refused.error is not None
    assert "(offset 2, limit 1)" in refused.error.message
    shown = await session.call("read", path="long.js", offset=2, limit=1)
    assert (value(shown)["content"], value(shown)["cut_lines"]) == ("a" * 2500 + "\n", [])
    assert (await session.call("edit", path="long.js", old_string="aaa\n", new_string="b\n")).ok
    assert (await session.call("write", path="long.js", content="c\n")).ok


@pytest.mark.parametrize(("line", "fits"), [("a" * 51_200, True), ("a" * 51_201, False), ("é" * 25_601, False)])
async def test_a_line_that_does_not_fit_is_cut_even_alone_and_a_command_is_named(
    session: Session, workspace: Path, line: str, fits: bool
) -> None:
    (workspace / "long.js").write_text(f"{line}\n")
    shown = await session.call("read", path="long.js", offset=1, limit=1)
    assert (value(shown)["content"] == f"{line}\n") is fits
    assert ("a command in `shell`" in str(shown.content)) is not fits
    done = await session.call("write", path="long.js", content="c\n")
    assert done.ok is fits
    if not fits:
        assert code(done) == "FS_PARTIAL_OBSERVATION"


async def test_a_file_that_is_gone_is_made_again_and_the_result_says_so(session: Session, workspace: Path) -> None:
    await session.call("read", path="a.txt")
    (workspace / "a.txt").unlink()
    result = await session.call("write", path="a.txt", content="x\n")
    assert value(result)["created"] is True
    assert "gone" in str(value(result)["note"])
    assert "gone" in result.content[0]


async def test_a_changed_style_is_reported_and_the_content_is_literal(session: Session, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"\xef\xbb\xbfx\r\ny\r\n")
    await session.call("read", path="a.txt")
    result = await session.call("write", path="a.txt", content="x\nz")
    assert (workspace / "a.txt").read_bytes() == b"x\nz"
    assert value(result)["style"] == {
        "line_endings": {"before": "crlf", "after": "lf"},
        "final_newline": {"before": True, "after": False},
        "byte_order_mark": {"before": "utf-8", "after": None},
    }
    assert "line endings change from CRLF to LF" in result.content[0]


async def test_a_file_of_several_names_is_written_in_place_and_the_result_says_so(
    session: Session, workspace: Path
) -> None:
    os.link(workspace / "a.txt", workspace / "b.txt")
    await session.call("read", path="a.txt")
    result = await session.call("write", path="a.txt", content="x")
    assert (workspace / "b.txt").read_bytes() == b"x"
    assert "2 hard links" in str(value(result)["note"])
    assert "newline at the end is removed" in str(value(result)["note"])


@pytest.mark.parametrize(
    ("encoding", "written"),
    [("latin-1", b"\xe9\n"), ("utf-16-le", b"\xe9\0\n\0"), ("utf-8-sig", b"\xef\xbb\xbf\xc3\xa9\n")],
)
async def test_an_encoding_that_is_named_is_used(
    session: Session, workspace: Path, encoding: str, written: bytes
) -> None:
    assert (await session.call("write", path="b.txt", content="é\n", encoding=encoding)).ok
    assert (workspace / "b.txt").read_bytes() == written


async def test_content_that_an_encoding_cannot_carry_is_refused(session: Session, workspace: Path) -> None:
    assert code(await session.call("write", path="b.txt", content="€", encoding="latin-1")) == "INVALID_ARGS"
    assert code(await session.call("write", path="b.txt", content="x", encoding="nothing")) == "INVALID_ARGS"
    assert code(await session.call_json("write", b'{"path": "b.txt", "content": "x\\ud800y"}')) == "INVALID_ARGS"
    assert not (workspace / "b.txt").exists()


async def test_names_that_must_not_be_written_are_refused_before_they_exist(session: Session, workspace: Path) -> None:
    for path in ("kept/b.txt", "secret/b.txt", ".git/hooks/pre-commit", ".git/config"):
        assert code(await session.call("write", path=path, content="x")) == "FS_PROTECTED", path
    for path in ("../b.txt", "/etc/b.txt", "~/b.txt"):
        assert code(await session.call("write", path=path, content="x")) == "FS_OUTSIDE_WORKSPACE", path
    (workspace / "out").symlink_to("../outside.txt")
    assert code(await session.call("write", path="out", content="x")) == "FS_OUTSIDE_WORKSPACE"
    assert sorted(os.listdir(workspace)) == ["a.txt", "out"]


async def test_what_is_no_file_is_not_written(session: Session, workspace: Path) -> None:
    (workspace / "d").mkdir()
    os.mkfifo(workspace / "p")
    assert code(await session.call("write", path="d", content="x")) == "FS_IS_DIRECTORY"
    assert code(await session.call("write", path="new/", content="x")) == "FS_IS_DIRECTORY"
    assert code(await session.call("write", path="p", content="x")) == "FS_NOT_REGULAR_FILE"
    assert code(await session.call("write", path="a.txt/b", content="x")) == "FS_NOT_DIRECTORY"
    assert code(await session.call("write", path="n" * 300, content="x")) == "FS_NAME_TOO_LONG"


async def test_a_refused_question_leaves_no_file_and_no_directory(asking: Session, workspace: Path) -> None:
    call = await asking.start("write", path="n/x", content="1\n")
    await call.cancel()
    assert code(await call.result()) in ("ABORTED", "ABORTED_BEFORE_DISPATCH")
    assert sorted(os.listdir(workspace)) == ["a.txt"]


async def test_a_write_of_one_session_is_no_observation_of_another(daemon: Daemon, workspace: Path) -> None:
    profile = workspace.parent / f"{workspace.name}-two.toml"
    profile.write_text(ALLOWING)
    async with (
        daemon.session(workspace=workspace, profile=profile) as one,
        daemon.session(workspace=workspace, profile=profile) as two,
    ):
        for each in (one, two):
            await each.call("read", path="a.txt")
        assert (await one.call("write", path="a.txt", content="A\n")).ok
        assert code(await two.call("write", path="a.txt", content="B\n")) == "FS_STALE_VERSION"
    assert (workspace / "a.txt").read_bytes() == b"A\n"
