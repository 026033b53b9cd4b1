"""`multi_edit`: in order, all or nothing, and only the matched bytes."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stockade_client import Daemon
from stockade_client.results import CallResult
from stockade_client.session import Session
from stockade_toolkit import Span, ToolError
from stockade_worker.tools import text
from stockade_worker.tools.replacing import Replacement, Text
from tests.pipeline.conftest import ALLOWING


@pytest_asyncio.fixture
async def session(daemon: Daemon, workspace: Path) -> AsyncIterator[Session]:
    profile = workspace.parent / f"{workspace.name}-edits.toml"
    profile.write_text(ALLOWING)
    async with daemon.session(workspace=workspace, profile=profile) as session:
        yield session


def code(result: CallResult) -> str:
    return result.error.code if result.error else "ok"


def one(old: str, new: str, **more: bool) -> dict[str, Any]:
    return {"old_string": old, "new_string": new, **more}


async def test_edits_are_made_in_order_each_in_the_result_of_the_one_before(session: Session, workspace: Path) -> None:
    await session.call("read", path="a.txt")
    edits = [one("one", "ONE"), one("ONE\ntwo", "1\n2"), one("e", "E", replace_all=True)]
    result = await session.call("multi_edit", path="a.txt", edits=edits)
    assert (workspace / "a.txt").read_bytes() == b"1\n2\nthrEE\n"
    assert isinstance(result.value, dict)
    assert result.value["replacements"] == [1, 1, 2]
    assert str(result.value["difference"]).startswith("--- a/a.txt\n+++ b/a.txt\n")
    async with session.events() as events:
        types = [event.type async for event in events]
    assert [each for each in types if each.startswith("fs/")] == [
        "fs/observed",
        "fs/edit-intent",
        "fs/begun",
        "fs/committed",
    ]


async def test_where_one_edit_does_not_fit_none_is_made(session: Session, workspace: Path) -> None:
    before = (workspace / "a.txt").read_bytes()
    await session.call("read", path="a.txt")
    for edits, expected in (
        ([one("one", "1"), one("one", "x")], "FS_EDIT_NOT_FOUND"),
        ([one("one", "two"), one("two", "x")], "FS_AMBIGUOUS_EDIT"),
        ([one("one", "1"), one("two", "two")], "INVALID_ARGS"),
        ([], "INVALID_ARGS"),
        ([one("", "x")], "INVALID_ARGS"),
        ([one("one", "1", replaceAll=True)], "INVALID_ARGS"),
    ):
        result = await session.call("multi_edit", path="a.txt", edits=edits)
        assert code(result) == expected, edits
    assert (workspace / "a.txt").read_bytes() == before
    result = await session.call("multi_edit", path="a.txt", edits=[one("one", "1"), one("one", "x")])
    assert result.error is not None
    assert "edit 2 of 2" in result.error.message
    assert "No edit was made" in result.error.message


async def test_the_lines_of_the_original_that_were_matched_must_have_been_seen(
    session: Session, workspace: Path
) -> None:
    assert code(await session.call("multi_edit", path="a.txt", edits=[one("one", "1")])) == "FS_NOT_OBSERVED"
    await session.call("read", path="a.txt", limit=1)
    edits = [one("one", "1"), one("three", "3")]
    assert code(await session.call("multi_edit", path="a.txt", edits=edits)) == "FS_PARTIAL_OBSERVATION"
    assert (await session.call("multi_edit", path="a.txt", edits=[one("one", "1"), one("1", "uno")])).ok
    assert (workspace / "a.txt").read_bytes() == b"uno\ntwo\nthree\n"
    (workspace / "a.txt").write_bytes(b"theirs\n")
    assert code(await session.call("multi_edit", path="a.txt", edits=[one("nix", "x")])) == "FS_STALE_VERSION"
    assert code(await session.call("multi_edit", path="none", edits=[one("nix", "x")])) == "FS_NOT_FOUND"


async def test_line_endings_and_other_bytes_stay(session: Session, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\nc\nd")
    await session.call("read", path="a.txt")
    result = await session.call("multi_edit", path="a.txt", edits=[one("a\nb", "x\ny"), one("y", "y\nz")])
    assert result.ok, result
    assert (workspace / "a.txt").read_bytes() == b"\xef\xbb\xbfx\r\ny\r\nz\r\nc\nd"


async def test_another_encoding_is_named(session: Session, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes("é\nü\n".encode("latin-1"))
    assert code(await session.call("read", path="a.txt")) == "FS_NOT_UTF8"
    await session.call("read", path="a.txt", encoding="latin-1")
    edits = [one("é", "è"), one("ü", "ö")]
    assert code(await session.call("multi_edit", path="a.txt", edits=edits)) == "FS_NOT_UTF8"
    assert (await session.call("multi_edit", path="a.txt", edits=edits, encoding="latin-1")).ok
    assert (workspace / "a.txt").read_bytes() == "è\nö\n".encode("latin-1")


def _applied(data: bytes, spans: list[Span]) -> bytes:
    parts, reached = [], 0
    for span in spans:
        assert reached <= span.start < span.end, spans
        parts += [data[reached : span.start], span.replacement]
        reached = span.end
    return b"".join([*parts, data[reached:]])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_random_replacements_are_those_of_a_plain_string(encoding: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    alphabet = "abé\n" if encoding != "utf-8" else "abé𝄞\n"
    for _ in range(2000):
        plain = "".join(chance.choices(alphabet, k=chance.randrange(1, 30)))
        data = plain.encode(encoding)
        changing = Text(data, text.decode(data, "f", encoding), "f")
        made = 0
        for _ in range(chance.randrange(1, 6)):
            old = "".join(chance.choices(alphabet, k=chance.randrange(1, 4)))
            new = "".join(chance.choices(alphabet, k=chance.randrange(0, 4)))
            everywhere = chance.random() < 0.6
            if old == new or plain.count(old) == 0 or (plain.count(old) > 1 and not everywhere):
                with pytest.raises(ToolError):
                    changing.replace(Replacement(old, new, everywhere))
                continue
            assert changing.replace(Replacement(old, new, everywhere)) == plain.count(old), (plain, old, new)
            plain = plain.replace(old, new)
            made += 1
        if made:
            assert _applied(data, changing.spans()).decode(encoding) == plain
