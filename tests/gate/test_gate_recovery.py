"""After a crash the disk says what became of a commit that had begun. The crashes are real: SIGKILL in mid-commit."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stockade_daemon import json_text
from stockade_daemon.gate.recovery import Proof, prove, recover
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json

if TYPE_CHECKING:
    from tests.gate.conftest import Actor

# Commits one write and kills itself at the given call, before or after it. The begun body goes to stdout first.
_VICTIM = """
import asyncio, os, signal, sys
from stockade_daemon import json_text
from stockade_daemon.gate import publish, syscalls, temporary
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.intents import WriteIntent
from stockade_daemon.gate.workspace import Workspace

root, path, new, place, when, named = sys.argv[1:]
temporary.always_named = named == "named"

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def deadly(owner, name):
    real = getattr(owner, name)
    def call(*args, **options):
        if when == "before":
            die()
        result = real(*args, **options)
        die()
        return result
    setattr(owner, name, call)

async def main():
    with Workspace.open(root) as workspace:
        gate = Gate(workspace)
        if os.path.exists(os.path.join(root, path)):
            opened = await gate.read(path)
            gate.showed(gate.part(opened.handle, first=1, last=1))
        planned = await gate.decide(WriteIntent(path, new.encode()))
        async def begun(body):
            sys.stdout.buffer.write(json_text.dump(body))
            sys.stdout.flush()
            module, _, name = place.partition(".")
            deadly({"syscalls": syscalls, "publish": publish, "os": os}[module], name)
        await gate.commit(planned, begun=begun)

asyncio.run(main())
"""


def _crash(root: Path, path: str, new: str, place: str, when: str, named: str = "unnamed") -> dict[str, Json]:
    command = [sys.executable, "-c", textwrap.dedent(_VICTIM), str(root), path, new, place, when, named]
    done = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONPATH": ":".join(sys.path)})
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    body = json_text.parse(done.stdout)
    assert isinstance(body, dict)
    return body


@pytest.mark.parametrize("named", ["unnamed", "named"])
@pytest.mark.parametrize(
    ("place", "when", "proof"),
    [
        ("publish.write_all", "before", "none"),
        ("publish.write_all", "after", "none"),
        ("syscalls.renameat2", "before", "none"),
        ("syscalls.renameat2", "after", "applied"),
    ],
)
def test_a_replacement_is_whole_or_not_at_all(
    root: Path, workspace: Workspace, place: str, when: str, proof: Proof, named: str
) -> None:
    (root / "a").write_bytes(b"old\n")
    begun = _crash(root, "a", "new\n", place, when, named)
    assert prove(workspace, begun) == proof
    assert recover(workspace, begun) == proof
    assert (root / "a").read_bytes() == (b"old\n" if proof == "none" else b"new\n")
    assert os.listdir(root) == ["a"]


@pytest.mark.parametrize("named", ["unnamed", "named"])
@pytest.mark.parametrize(
    ("place", "when", "proof"),
    [("os.fsync", "after", "none"), ("publish._standing", "before", "applied")],
)
def test_a_creation_is_whole_or_not_at_all(
    root: Path, workspace: Workspace, place: str, when: str, proof: Proof, named: str
) -> None:
    begun = _crash(root, "x/y/a", "new\n", place, when, named)
    assert prove(workspace, begun) == proof
    assert recover(workspace, begun) == proof
    if proof == "none":
        assert os.listdir(root) == []
    else:
        assert (root / "x/y/a").read_bytes() == b"new\n"
        assert os.listdir(root / "x/y") == ["a"]


def test_a_file_half_written_in_place_gets_its_old_bytes_back(root: Path, workspace: Workspace) -> None:
    (root / "a").write_bytes(b"old\n")
    os.link(root / "a", root / "b")
    begun = _crash(root, "a", "n\n", "os.ftruncate", "before")
    assert (root / "b").read_bytes() == b"n\nd\n"
    assert prove(workspace, begun) == "unknown"
    assert recover(workspace, begun) == "none"
    assert (root / "b").read_bytes() == b"old\n"
    assert sorted(os.listdir(root)) == ["a", "b"]


def test_what_others_wrote_since_is_unknown_and_stays(root: Path, workspace: Workspace) -> None:
    (root / "a").write_bytes(b"old\n")
    begun = _crash(root, "a", "new\n", "syscalls.renameat2", "after")
    (root / "a").write_bytes(b"theirs\n")
    assert recover(workspace, begun) == "unknown"
    assert (root / "a").read_bytes() == b"theirs\n"
    assert os.listdir(root) == ["a"]


def test_what_an_exchange_displaced_wrongly_gets_its_name_back(root: Path, workspace: Workspace) -> None:
    (root / "a").write_bytes(b"old\n")
    begun = _crash(root, "a", "new\n", "syscalls.renameat2", "after")
    (root / str(begun["temporary"])).write_bytes(b"saved at the last moment\n")
    assert recover(workspace, begun) == "none" or prove(workspace, begun) == "unknown"
    assert (root / "a").read_bytes() == b"saved at the last moment\n"
    assert os.listdir(root) == ["a"]


def test_a_recorded_name_that_is_not_ours_is_not_removed(root: Path, workspace: Workspace) -> None:
    (root / "precious").write_bytes(b"1\n")
    (root / "a").write_bytes(b"old\n")
    begun = _crash(root, "a", "new\n", "publish.write_all", "before")
    recover(workspace, begun | {"temporary": "precious"})
    assert sorted(os.listdir(root)) == ["a", "precious"]


async def test_a_commit_that_was_finished_is_proven(actor: "Actor", workspace: Workspace, root: Path) -> None:
    await actor.write("a", b"1\n")
    assert prove(workspace, actor.begun[0]) == "applied"
    (root / "a").unlink()
    assert prove(workspace, actor.begun[0]) == "none"


@pytest.mark.parametrize("body", [{}, {"path": "a"}, {"path": "a", "after": 1}, {"path": 1, "after": "x"}])
def test_a_body_that_is_none_is_an_error(workspace: Workspace, body: dict[str, Json]) -> None:
    for judge in (prove, recover):
        with pytest.raises(ValueError):
            judge(workspace, body)


async def test_a_failed_write_in_place_puts_the_old_bytes_back(
    actor: "Actor", root: Path, refused: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file-size limit of the process ends the write half way, as a full disk would."""
    (root / "a").write_bytes(b"old\n")
    os.link(root / "a", root / "b")
    await actor.read("a")
    planned = await actor.plan_write("a", bytes(b"x" * 100_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        with refused("FS_TOO_LARGE"):  # type: ignore[attr-defined]
            await actor.commit(planned)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert (root / "a").read_bytes() == (root / "b").read_bytes() == b"old\n"
    assert sorted(os.listdir(root)) == ["a", "b"]


def test_what_somebody_wrote_after_a_crash_in_place_stays_and_so_does_the_journal(
    root: Path, workspace: Workspace
) -> None:
    for place, when in (("publish.overwrite", "before"), ("publish.overwrite", "after"), ("os.ftruncate", "before")):
        (root / "a").write_bytes(b"old\n")
        os.link(root / "a", root / "b")
        begun = _crash(root, "a", "n\n", place, when)
        (root / "a").write_bytes(b"precious, written since\n")
        assert recover(workspace, begun) == "unknown"
        assert (root / "b").read_bytes() == b"precious, written since\n"
        for name in os.listdir(root):
            (root / name).unlink()
