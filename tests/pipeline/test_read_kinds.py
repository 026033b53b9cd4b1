"""`read` of what is no plain text: images, binary files, long lines, special files."""

import base64
import gzip
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from stockade_client.results import CallResult
from stockade_client.session import Session
from stockade_daemon.policy.decisions import Accept, PostDecision
from stockade_daemon.policy.subjects import Finished
from stockade_daemon.policy.waterfall import Next
from stockade_worker.frames import MAX_IMAGE
from tests.pipeline.conftest import Staged


def png(size: int = 0) -> bytes:
    """One grey pixel; with `size`, a text chunk makes it so long."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    begin = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    end = chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b"")
    filling = size - len(begin) - len(end) - 12
    return begin + (chunk(b"tEXt", b"c\0" + b"x" * (filling - 2)) if filling > 2 else b"") + end


IMAGES = {
    "image/png": png(),
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF\0",
    "image/gif": b"GIF89a\x01\0\x01\0\0\0\0;",
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0",
}


def code(result: CallResult) -> str:
    return result.error.code if result.error else "ok"


@pytest.mark.parametrize("kind", IMAGES)
async def test_an_image_is_a_block_of_the_result_by_its_bytes(session: Session, workspace: Path, kind: str) -> None:
    (workspace / "picture.txt").write_bytes(IMAGES[kind])
    result = await session.call("read", path="picture.txt")
    assert [(each.mime, each.data) for each in result.images] == [(kind, IMAGES[kind])]
    assert isinstance(result.value, dict)
    assert result.value["mime"] == kind
    assert f"image of {len(IMAGES[kind])} bytes" in result.content[0]
    assert result.as_json()["images"] == [{"mime": kind, "data": base64.b64encode(IMAGES[kind]).decode()}]


async def test_an_image_that_was_shown_does_not_count_as_read(session: Session, workspace: Path) -> None:
    (workspace / "p.png").write_bytes(png())
    assert (await session.call("read", path="p.png")).ok
    assert code(await session.call("write", path="p.png", content="x")) == "FS_NOT_OBSERVED"


async def test_the_largest_image_comes_whole_also_by_its_event_and_a_larger_one_is_refused(
    session: Session, workspace: Path
) -> None:
    largest = png(MAX_IMAGE)
    (workspace / "p.png").write_bytes(largest)
    result = await session.call("read", path="p.png")
    assert [each.data for each in result.images] == [largest]
    async with session.events() as events:
        bodies: list[Any] = [event.body async for event in events if event.type == "tool/result"]
    (body,) = bodies
    assert base64.b64decode(body["images"][0]["data"]) == largest
    (workspace / "p.png").write_bytes(png(MAX_IMAGE + 1))
    refused = await session.call("read", path="p.png")
    assert code(refused) == "FS_NOT_TEXT"
    assert refused.images == ()
    assert refused.error is not None
    assert "PNG image" in refused.error.message
    assert str(MAX_IMAGE) in refused.error.message


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (bytes(range(256)) * 10, "a binary file of 2560 bytes"),
        (b"\0", "a binary file of 1 byte"),
        (b"\x7fELF\x02\x01\x01\0", "an ELF program or library of 8 bytes"),
        (gzip.compress(b"text", mtime=0), "a gzip file of"),
        (b"\x1f\x8b\x08\xff\xff", "a gzip file of 5 bytes"),
        (b"PK\x03\x04\x14\0", "a ZIP archive of 6 bytes"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF document of 15 bytes"),
        (b"SQLite format 3\0\x10\0", "an SQLite database of 18 bytes"),
    ],
)
async def test_a_binary_file_is_refused_with_what_it_is(
    session: Session, workspace: Path, data: bytes, what: str
) -> None:
    (workspace / "b").write_bytes(data)
    result = await session.call("read", path="b")
    assert code(result) == "FS_NOT_TEXT"
    assert result.error is not None
    assert what in result.error.message
    async with session.events() as events:
        assert "fs/observed" not in [event.type async for event in events]


async def test_what_is_no_file_is_refused_at_once(session: Session, workspace: Path) -> None:
    os.mkfifo(workspace / "p")
    (workspace / "d").mkdir()
    assert code(await session.call("read", path="p")) == "FS_NOT_REGULAR_FILE"
    assert code(await session.call("read", path="d")) == "FS_IS_DIRECTORY"


async def test_a_long_line_is_cut_and_the_rest_is_shown(session: Session, workspace: Path) -> None:
    (workspace / "long").write_bytes(b"a" * 5000 + b"\nb\n")
    result = await session.call("read", path="long")
    assert isinstance(result.value, dict)
    assert result.value["cut_lines"] == [1]
    assert "1 long line is cut and does not count as read" in result.content[0]
    assert "[3000 characters of this line left out]" in result.content[0]
    async with session.events() as events:
        (seen,) = [event.body async for event in events if event.type == "fs/observed"]
    assert seen["lines"] == [[2, 2]]


async def test_what_a_window_left_out_is_said_with_how_to_go_on(session: Session, workspace: Path) -> None:
    (workspace / "many").write_bytes(b"x\n" * 5000)
    assert "lines 1-2000 of 5000; continue with offset=2001]" in (await session.call("read", path="many")).content[0]
    last = await session.call("read", path="many", offset=4001)
    assert "[many: lines 4001-5000 of 5000]" in last.content[0]
    assert code(await session.call("read", path="many", offset=5001)) == "INVALID_ARGS"


async def test_near_names_are_told_where_nothing_is_found(session: Session, workspace: Path) -> None:
    result = await session.call("read", path="A.TXT")
    assert code(result) == "FS_NOT_FOUND"
    assert result.error is not None
    assert "a.txt" in result.error.message


async def _hide(finished: Finished, following: Next[PostDecision]) -> PostDecision:
    return Accept(content=("hidden",))


async def test_text_that_replaces_a_result_takes_its_image_too(staged: Staged) -> None:
    (staged.workspace / "p.png").write_bytes(png())

    assert "images" in await staged.call("c1", "read", path="p.png")
    staged.services.post_execute.add(_hide)
    hidden = await staged.call("c2", "read", path="p.png")
    assert hidden["content"] == ["hidden"]
    assert "images" not in hidden
