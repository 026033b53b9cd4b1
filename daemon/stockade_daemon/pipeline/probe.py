"""The outer half of `stockade profile probe`: workers under a profile, on a workspace made for it, and what held.

What a worker says is checked against what it may say. Whether the workspace is as it was, and as whom a worker runs,
the daemon looks itself. What could not be tried proves nothing, and is told as that.
"""

import asyncio
import json
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from stockade_daemon import json_text
from stockade_daemon.errors import ConfigurationError, GateRefusal, SandboxFailure
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.intents import WriteIntent
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.profiles.tighten import tighten
from stockade_daemon.removing import remove_tree
from stockade_daemon.sandbox.attached import Place
from stockade_daemon.sandbox.channel import ChannelClosed
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.room import namespaces_of_this_process
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Access, Layer, Profile
from stockade_worker.frames import BrokenFrame

Verdict: TypeAlias = Literal["held", "open", "absent", "untried"]
_MODULE: Final = "stockade_worker.probing"
_ALWAYS: Final = ("hidden", "secrets")  # no layers, but forbidden all the same
_WITHIN_S: Final = 60.0
_LAST_WORDS_S: Final = 5.0
_EAT_MB: Final = 64  # the memory limit of the worker that tries to have more
_NOTHING: Final = "nothing was tried"
_WITNESS: Final = "stockade-witness.txt"  # a file that is there whatever the profile hides
_MOST_SHOWN: Final = 80  # characters of a pattern
_VERDICTS: Final[dict[str, Verdict]] = {"held": "held", "open": "open", "untried": "untried"}  # of a worker
_UNANSWERED: Final[tuple[str, str, Verdict, str]] = (
    "root", "answer the daemon", "untried", "the worker ended without an answer",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attempt:
    """Something that was tried."""

    layer: str  # or hidden, protected, secrets
    what: str
    verdict: Verdict
    detail: str = ""
    by: str = ""  # who refused it, where that was not `layer`


@dataclass(frozen=True, slots=True)
class Probed:
    attempts: tuple[Attempt, ...]
    layers: tuple[Layer, ...]  # as the worker reported them


async def probe(pool: Pool, profile: Profile, place: Path) -> Probed:
    """Tries what `profile` forbids. `place`: a private directory, left as it was.

    Raises SandboxFailure where no worker can be made.
    """
    async with AsyncExitStack() as stack:
        directory = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="probe-", dir=place))
        stack.push_async_callback(asyncio.to_thread, remove_tree, directory)
        root, hidden, protected, unmade = await asyncio.to_thread(_workspace, directory, profile)
        workspace = stack.enter_context(Workspace.open(str(root)))
        gate = Gate(workspace, protected=profile.protected, hidden=profile.hidden, scratch=profile.scratch)
        given = {
            "workspace": workspace.path,
            "witness": "" if gate.hides(_WITNESS.encode()) else _WITNESS,
            "hidden": hidden,
            "kcore": await asyncio.to_thread(os.path.exists, "/proc/kcore"),
            "secrets": list(profile.secrets),
            "canary": str(directory / "canary"),
            "namespaces": _numbers(),
            "groups": list(profile.syscalls),
            "open_files": profile.limits.open_files,
            "port": await stack.enter_async_context(_server()),
            "abstract": stack.enter_context(_Abstract()).name,
        }
        attempts: list[Attempt] = []
        async with _room(pool, profile, workspace, gate) as room, AsyncExitStack() as working:
            try:
                worker = await working.enter_async_context(pool.worker(room, Access.OVERLAY))
            except SandboxFailure as failure:
                if failure.code != "SANDBOX_UNAVAILABLE" or "overlay" in profile.required_layers:
                    raise
                # A host that refuses user namespaces gives functions without a view.
                attempts.append(Attempt("overlay", _NOTHING, "absent", failure.message))
                worker = await working.enter_async_context(pool.worker(room, Access.NONE))
                given["workspace"] = ""
            layers = worker.layers
            trying = [layer.name for layer in layers if layer.held]
            if "uid" in trying:
                attempts.append(_own_uid(worker))
            said = await _ask(worker, {**given, "layers": [*trying, *_ALWAYS]})
        attempts += [Attempt(*_UNANSWERED)] if said is None else _attempts(said)
        attempts += [
            Attempt(
                layer.name,
                _NOTHING,
                "open" if layer.name in profile.required_layers else "absent",
                layer.reason,
            )
            for layer in layers
            if not layer.held
        ]
        attempts += unmade
        if "overlay" in trying:
            attempts.append(await _wrote_nothing(pool, profile, workspace, gate))
        attempts += [await _protected(gate, name) for name in protected]
        if "cgroup" in trying:
            attempts.append(await _memory(pool, profile, workspace, gate))
    return Probed(tuple(attempts), layers)


@asynccontextmanager
async def _room(pool: Pool, profile: Profile, workspace: Workspace, gate: Gate) -> AsyncIterator[str]:
    name = f"probe:{secrets.token_hex(8)}"
    place = Place(workspace.path, workspace.device, workspace.inode)
    pool.open_room(name, profile, place, hidden=gate.hidden_names if profile.hidden else None)
    try:
        yield name
    finally:
        await pool.close_room(name, for_good=True)


@asynccontextmanager
async def _server() -> AsyncIterator[int]:
    """A TCP server on the host's loopback device; gives its port."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


class _Abstract:
    """A listening abstract socket of the host (unix(7)). A context manager."""

    def __enter__(self) -> "_Abstract":
        self.name = f"stockade-probe-{secrets.token_hex(8)}"
        self._end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._end.bind(f"\0{self.name}")
        self._end.listen()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.close()


def _workspace(directory: Path, profile: Profile) -> tuple[Path, list[str], list[str], list[Attempt]]:
    """Makes a workspace with a name for every pattern; gives it, the hidden and the protected names, and the patterns
    for which no name could be made.
    """
    root = directory / "workspace"
    root.mkdir()
    (directory / "canary").write_text("not for workers\n")
    (root / _WITNESS).write_text("as it was\n")
    unmade = []
    names: dict[str, list[str]] = {"hidden": [], "protected": []}
    for kind, patterns in (("hidden", profile.hidden), ("protected", profile.protected)):
        for pattern in patterns:
            name = "/".join("d" if part == "**" else part.replace("*", "x") for part in pattern.split("/"))
            try:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).touch()
            except (FileExistsError, NotADirectoryError):
                continue  # another pattern's file is this one's directory, which it is for as well
            except OSError as error:
                what = f"do something with a name such as {pattern[:_MOST_SHOWN]}"
                unmade.append(Attempt(kind, what, "untried", f"none could be made: {error.strerror}"))
            else:
                names[kind].append(name)
    return root, names["hidden"], names["protected"], unmade


def _own_uid(worker: Worker) -> Attempt:
    """As whom it runs, in the kernel's words and the host's numbers: real, effective, saved and of its files."""
    what = "run as the daemon's user of the host"
    try:
        lines = Path(f"/proc/{worker.host_pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError as error:
        return Attempt("uid", what, "untried", f"the worker cannot be looked at: {error.strerror}")
    uids = next((line.split()[1:] for line in lines if line.startswith("Uid:")), [])
    held = bool(uids) and str(os.geteuid()) not in uids
    return Attempt("uid", what, "held" if held else "open", f"uid {', '.join(dict.fromkeys(uids))}")


def _numbers() -> dict[str, int]:
    """Numbers of the daemon's namespaces, by the names of /proc/self/ns."""
    found = namespaces_of_this_process()
    return {**found, "time": found.get("time_for_children", 0)}


async def _ask(worker: Worker, arguments: Mapping[str, Any]) -> Any:
    """The worker's value; None where it ends, or says nothing in time."""
    try:
        async with asyncio.timeout(_WITHIN_S):
            await worker.requests.send({"type": "function", "module": _MODULE}, json.dumps(arguments).encode())
            frame = await worker.requests.receive()
    except (ChannelClosed, BrokenFrame, TimeoutError):
        return None
    if frame.type != "value":
        return None
    try:
        return json_text.parse(frame.blob[int(frame.header["text_bytes"]) :], max_bytes=len(frame.blob))
    except (ValueError, KeyError, TypeError):
        return None


def _attempts(said: Any) -> list[Attempt]:
    """What the worker's value tells. It is our own module's, but it comes from inside."""
    try:
        return [
            Attempt(
                str(each["layer"]),
                str(each["what"]),
                _VERDICTS[each["verdict"]],
                str(each["detail"]),
                str(each["by"]),
            )
            for each in said["attempts"]
        ]
    except (KeyError, TypeError):
        return [Attempt(*_UNANSWERED)]


async def _wrote_nothing(pool: Pool, profile: Profile, workspace: Workspace, gate: Gate) -> Attempt:
    """A body changes all that it can in its view; the workspace must be as it was."""
    what = "change the workspace"
    before = await asyncio.to_thread(_state, workspace.path)
    async with _room(pool, profile, workspace, gate) as room, pool.worker(room, Access.OVERLAY) as worker:
        said = await _ask(worker, {"spoil": _WITNESS})
        worker.kill()
        await worker.gone()
    same = await asyncio.to_thread(_state, workspace.path) == before
    if not same:
        return Attempt("overlay", what, "open", "files of it changed")
    match said:
        case {"changed": [*changed], "reason": str(reason)}:
            if changed:
                done = ", ".join(map(str, changed))
                return Attempt("overlay", what, "held", f"as it was, though a body could: {done}")
            return Attempt("overlay", what, "untried", f"a body could not change its view either: {reason}")
    return Attempt("overlay", what, "untried", _UNANSWERED[-1])


def _state(root: str) -> list[tuple[str, bytes]]:
    return sorted((str(path), path.read_bytes() if path.is_file() else b"") for path in Path(root).rglob("*"))


async def _protected(gate: Gate, name: str) -> Attempt:
    what = f"write {name} through the gate"
    try:
        await gate.decide(WriteIntent(name, b"x"))
    except GateRefusal as refusal:
        if refusal.code == "FS_PROTECTED":
            return Attempt("protected", what, "held", refusal.code)
        return Attempt("protected", what, "untried", f"{refusal.code}, which says nothing of its being protected")
    return Attempt("protected", what, "open", "it would be written")


async def _memory(pool: Pool, profile: Profile, workspace: Workspace, gate: Gate) -> Attempt:
    """A worker with a small limit asks for more."""
    limit = min(profile.limits.memory_mb, _EAT_MB)
    what = f"have more memory than memory_mb (tried with {limit} MiB)"
    try:
        small = tighten(profile, f"limits.memory_mb = {limit}\n".encode())
        async with _room(pool, small, workspace, gate) as room, pool.worker(room, Access.NONE) as worker:
            said = await _ask(worker, {"eat": 2 * limit << 20})
            account = worker.account(None if said is not None else await worker.last_words(_LAST_WORDS_S))
    except ConfigurationError as error:
        raise AssertionError("a smaller limit is narrower") from error
    except SandboxFailure as failure:
        return Attempt("cgroup", what, "untried", failure.message)
    if said is not None:
        return Attempt("cgroup", what, "open", "it had it")
    if not account.oom:
        return Attempt("cgroup", what, "untried", "it ended, but not by its memory")
    return Attempt("cgroup", what, "held", "the kernel ended it")
