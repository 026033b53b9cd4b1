"""A workspace of real files, and somebody who reads and changes them through a gate."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stockade_daemon.errors import Refusal
from stockade_daemon.gate import paths, syscalls, temporary
from stockade_daemon.gate.content import digest_of
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.intents import Committed, EditIntent, Planned, WriteIntent
from stockade_daemon.gate.spans import Span
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json


@dataclass(slots=True)
class Actor:
    """One session's hands: what a tool and the pipeline do, without either."""

    gate: Gate
    begun: list[dict[str, Json]]

    async def read(self, path: str, first: int = 1, last: int | None = None) -> bytes:
        """Reads and shows lines `first` to `last` (None: all)."""
        opened = await self.gate.read(path)
        try:
            content = os.pread(opened.descriptor, opened.size, 0)
        finally:
            os.close(opened.descriptor)
        lines = content.count(b"\n") + (not content.endswith(b"\n") if content else 0)
        self.gate.showed(self.gate.part(opened.handle, first=first, last=lines if last is None else last))
        return content

    async def plan_edit(self, path: str, old: bytes, new: bytes) -> Planned:
        """An edit of every place where `old` stands, as a body would ask for it."""
        opened = await self.gate.read(path, editing=True)
        try:
            content = os.pread(opened.descriptor, opened.size, 0)
        finally:
            os.close(opened.descriptor)
        spans = []
        at = content.find(old)
        while at >= 0:
            spans.append(Span(at, at + len(old), new))
            at = content.find(old, at + len(old))
        return await self.gate.decide(EditIntent(path, opened.real, opened.digest, tuple(spans)))

    async def edit(self, path: str, old: bytes, new: bytes) -> Committed:
        return await self.commit(await self.plan_edit(path, old, new))

    async def plan_write(self, path: str, content: bytes) -> Planned:
        return await self.gate.decide(WriteIntent(path, content))

    async def write(self, path: str, content: bytes) -> Committed:
        return await self.commit(await self.plan_write(path, content))

    async def commit(self, planned: Planned) -> Committed:
        async def begun(body: dict[str, Json]) -> None:
            self.begun.append(body)

        return await self.gate.commit(planned, begun=begun)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    return directory


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    with Workspace.open(str(root)) as workspace:
        yield workspace


@pytest.fixture
def sessions(workspace: Workspace) -> Callable[[], Actor]:
    """Makes sessions on the workspace."""
    return lambda: Actor(Gate(workspace), [])


@pytest.fixture
def actor(sessions: Callable[[], Actor]) -> Actor:
    return sessions()


@contextmanager
def refused(code: str, *words: str) -> Iterator[None]:
    """The code within is refused with `code`, in a message that holds each of `words`."""
    with pytest.raises(Refusal) as caught:
        yield
    assert caught.value.code == code, caught.value.message
    for word in words:
        assert word in caught.value.message


@pytest.fixture(name="refused")
def refused_fixture() -> Callable[..., object]:
    return refused


@pytest.fixture(params=["openat2", "walk"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with the kernel's resolution and with our own walk."""
    monkeypatch.setattr(paths, "walk_always", request.param == "walk")
    return str(request.param)


@pytest.fixture(params=["unnamed", "named", "named, no renameat2"])
def either_temporary(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with O_TMPFILE, as on a file system without it, and as on one without renameat2's flags too."""
    monkeypatch.setattr(temporary, "always_named", request.param != "unnamed")

    def renameat2(directory: int, old: bytes, new: bytes, flags: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    if request.param == "named, no renameat2":
        monkeypatch.setattr(syscalls, "renameat2", renameat2)
    return str(request.param)


@pytest.fixture
def digest() -> Callable[[bytes], str]:
    return digest_of
