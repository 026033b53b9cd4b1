"""Runs a program with some of a sandbox's layers and without the others: `python -m tests.sandbox.layered < PLAN`.

The plan is one of the tests' own (`Layered`, as JSON). Nothing of the product reads such a plan: what enters a sandbox
there has no way to leave a layer out. The layers themselves are the product's, entered by its functions in its order;
only the two processes that the product has for that, template and worker, are here one after the other in one file.

Everything happens below a mount namespace of this program's own, propagation made private first.
"""

import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox.plan import HOSTNAME, plan
from stockade_worker import enter, kernel, mounts, root, trees, userns
from stockade_worker.frames import Channel
from stockade_worker.mounter import Mounter
from stockade_worker.plan import WorkerPlan

HOST_UID = 1_999_999_000  # what no account has
GROUP = 4242  # a supplementary group that the launcher has, where it may
_CLONED = {
    "user": kernel.CLONE_NEWUSER,
    "mount": kernel.CLONE_NEWNS,
    "pid": kernel.CLONE_NEWPID,
    "net": kernel.CLONE_NEWNET,
    "ipc": kernel.CLONE_NEWIPC,
    "uts": kernel.CLONE_NEWUTS,
}
# Steps that are no layers, or are done otherwise here.
_SKIPPED = {"admission", "session", "user"}


@dataclass(frozen=True, slots=True)
class Layered:
    """Which layers, and what is tried in them."""

    layers: frozenset[str]
    program: str  # Python; prints HELD or BROKEN
    given: dict[str, Any]  # what the program knows of the host, as `given`
    profile: str  # TOML
    workspace: str
    place: str  # an empty directory, for the mounts
    outer: bool  # begin in a user namespace: what an ordinary user needs for most layers

    def text(self) -> str:
        return json.dumps({**asdict(self), "layers": sorted(self.layers)})


def main(wanted: Layered) -> int:
    """Exit status of the program, once everything is gone."""
    if os.getuid() == 0:
        os.setgroups([GROUP])
    if wanted.outer:
        uid, gid = os.getuid(), os.getgid()
        kernel.unshare(kernel.CLONE_NEWUSER)
        userns.map_single(1000, uid, gid)
    if wanted.outer or os.getuid() == 0:
        kernel.unshare(kernel.CLONE_NEWNS)
        kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("layered", wanted.place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=1m")
    os.chdir(wanted.place)
    wanted.given["namespaces"] = {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")}
    return _run(wanted, lambda: _template(wanted), _flags(wanted.layers & {"mount", "pid"}))


def _run(wanted: Layered, body: Callable[[], NoReturn], flags: int) -> int:
    pid = kernel.clone(flags)
    if pid == 0:
        try:
            body()
        except BaseException as error:
            print(f"ERROR {type(error).__name__}: {error}", flush=True)
        os._exit(70)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _flags(layers: frozenset[str]) -> int:
    flags = 0
    for name in layers:
        flags |= _CLONED.get(name, 0)
    return flags


def _plans(wanted: Layered) -> tuple[dict[str, Any], WorkerPlan]:
    profile = profiles.parse(wanted.profile.encode(), name="layered", source="", directories=[profiles.shipped()])
    made = plan(profile, workspace=wanted.workspace, host_uid=None)
    return made.root, WorkerPlan.from_frame(made.start, made.blob)


def _template(wanted: Layered) -> NoReturn:
    """The root, as the product's template has it; then the worker."""
    plans = _plans(wanted)
    workspace = _workspace(wanted) if "overlay" in wanted.layers else _bound(wanted)
    if "root" in wanted.layers:
        covered = root.build(plans[0])
        held = [trees.hold(path, f".{root.EMPTY_DIRECTORY}") for path in sorted(plans[0]["mounts"])]
        root._pivot()
        root._add(held, covered)
        root._seal(wanted.workspace)
    user = "user" in wanted.layers
    if user:
        _become_nobody(wanted)
    flags = _flags(wanted.layers - {"pid"} if not user else wanted.layers)
    os._exit(_run(wanted, lambda: _worker(wanted, plans[1], workspace), flags) & 0xFF)


def _become_nobody(wanted: Layered) -> None:
    if "groups" in wanted.layers:
        os.setgroups([])
    if "uid" in wanted.layers:
        os.setresgid(HOST_UID, HOST_UID, HOST_UID)
        os.setresuid(HOST_UID, HOST_UID, HOST_UID)
        # The product executes an interpreter here; until that, a process that changed its uid does not own its /proc.
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)


def _workspace(wanted: Layered) -> int:
    """The overlay that the product's mounter makes, over the workspace."""
    for name in ("upper", "work"):
        os.makedirs(f"scratch/{name}", exist_ok=True)
        os.chmod(f"scratch/{name}", 0o777)
    here, _ = socket.socketpair()
    mounter = Mounter(Channel(here), "user" if wanted.outer else "root")
    found = os.stat(wanted.workspace)
    where = {"path": wanted.workspace, "device": found.st_dev, "inode": found.st_ino}
    mounter._mount("workspace", {"key": 1, **where, "owner": None, "worker": None})
    layers = os.path.abspath("scratch")
    (made,) = mounter._mount("overlay", {"key": 1, "layers": layers, "cover": None, "scratch": []})
    return made


def _bound(wanted: Layered) -> int | None:
    """Without the overlay: the workspace itself."""
    return kernel.open_tree(wanted.workspace) if "root" in wanted.layers else None


def _worker(wanted: Layered, plan: WorkerPlan, workspace: int | None) -> NoReturn:
    user = "user" in wanted.layers
    if user:
        uid = 1000 if wanted.outer else HOST_UID if "uid" in wanted.layers else 0
        userns.map_single(1000, uid, uid)
    if "uts" in wanted.layers:
        socket.sethostname(HOSTNAME)
    if "proc" in wanted.layers:
        mounts.covers()
    request = {"workspace": workspace is not None, "writable": True, "scratch": []}
    made = enter.steps(plan, request, control=-1, given=() if workspace is None else (workspace,))
    steps = {name: step for name, step in made if name not in _SKIPPED}
    for name, step in steps.items():
        if name == "rlimits" and not user:
            _become_nobody(wanted)
        if name == "capabilities" and not user and "uid" in wanted.layers:
            continue  # gone with uid 0, and without a user namespace there is no second change of uid
        # Without the overlay the workspace itself is there, as soon as there is a root to put it into.
        if name in wanted.layers or (name == "workspace" and wanted.layers & {"overlay", "root"}):
            step()
    # As the product's init does: some namespaces are those of the next child.
    pid = os.fork()
    if pid == 0:
        # Not another interpreter: with some layers alone there is no way to it for this uid.
        exec(wanted.program, {"given": wanted.given, "say": _say})
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _say(held: bool) -> None:
    print("HELD" if held else "BROKEN", flush=True)


if __name__ == "__main__":
    found = json.loads(sys.stdin.read())
    sys.exit(main(Layered(**{**found, "layers": frozenset(found["layers"])})))
