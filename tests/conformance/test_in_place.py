"""Workers on a host that refuses user namespaces: what a body may not do there, and that nothing of it is left.

The kernel refuses for real (tests/end_to_end/lesser_host.py). What isolation probes ask is asked there as well.
"""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from stockade_client import Daemon, StockadeError
from stockade_client.session import Session
from tests.conformance.daemon import PROFILE, Running, daemon
from tests.conformance.function_door import Loop, client, lacking_in_place
from tests.conformance.planting import Plant, planted

pytestmark = pytest.mark.skipif(bool(lacking_in_place()), reason=f"needs {lacking_in_place()}")


@pytest.fixture(scope="module")
def plant() -> Iterator[Plant]:
    with planted(Path("/var/tmp")) as plant:
        yield plant


@contextlib.contextmanager
def _serving(plant: Plant) -> Iterator[Running]:
    try:
        with daemon(
            plant, "strict", module="tests.conformance.daemon_with_bodies", lacking=["user_namespaces"]
        ) as running:
            yield running
    finally:
        subprocess.run(["rm", "-rf", str(plant.base / "daemon")], check=True)


class Bodies:
    """Runs Python as the body of a function, and gives what it printed."""

    def __init__(self, loop: Loop, session: Session) -> None:
        self.loop = loop
        self.session = session

    def run(self, program: str) -> str:
        return self.loop.run(self._run(program))

    async def _run(self, program: str) -> str:
        call = await self.session.start("blind", program=program)
        await call.result()
        out = b""
        async with call.output(follow=False) as pieces:
            async for piece in pieces:
                out += piece
        return out.decode()


@pytest.fixture(scope="module")
def bodies(plant: Plant) -> Iterator[Bodies]:
    with (
        _serving(plant) as running,
        client(running.address) as (loop, connected),
        loop.entered(connected.session(workspace=str(plant.workspace), profile=PROFILE)) as session,
    ):
        yield Bodies(loop, session)


_CALLS: Final = """
import ctypes, errno, fcntl, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
IO_SETUP = 206 if os.uname().machine == "x86_64" else 0
def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""
# Each is possible for a process of this uid that has no sandbox.
REFUSED: Final = {
    "make a process": "os.fork()",
    "make a thread": "import _thread; _thread.start_new_thread(print, ())",
    "start a program": "os.posix_spawn('/bin/true', ['true'], {})",
    "take off its death signal": "checked(libc.prctl(1, 0, 0, 0, 0))",
    "limit another process": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))",
    "signal its init": "os.kill(os.getppid(), 0)",
    "signal by way of a descriptor": "signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0)",
    "change a mode": "os.chmod(OWN, 0o600)",
    "change a mode by a descriptor": "os.fchmod(os.open(RUNNER, os.O_RDONLY), 0o600)",
    "change times": "os.utime(RUNNER)",
    "set an attribute": "os.setxattr(RUNNER, 'user.x', b'x')",
    "set a flag by ioctl": "fcntl.ioctl(os.open(RUNNER, os.O_RDONLY), 0x40086602, b'\\0' * 8)",
    "take a lease": "fcntl.fcntl(os.open(RUNNER, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
    "lock a file": "fcntl.flock(os.open(RUNNER, os.O_RDONLY), fcntl.LOCK_SH)",
    "lock a part of a file": "fcntl.lockf(os.open(RUNNER, os.O_RDONLY), fcntl.LOCK_SH)",
    "lock a part by an open file": "fcntl.fcntl(os.open(RUNNER, os.O_RDONLY), 37, b'\\0' * 32)",
    "hint at how a file is used": "fcntl.fcntl(os.open(RUNNER, os.O_RDONLY), 1036, b'\\2' + b'\\0' * 7)",
    "widen a pipe": "fcntl.fcntl(os.pipe()[1], 1031, 1 << 20)",
    "widen a socket": "socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)",
    "become another program": "os.execv('/bin/true', ['true'])",
    "change its uid": "os.setresuid(-1, -1, -1)",
    "ask for a process's descriptor": "os.pidfd_open(os.getppid())",
    "ask for a process's group": "os.getpgid(os.getppid())",
    "ask for a process's processors": "os.sched_getaffinity(os.getppid())",
    "make a file in memory": "os.memfd_create('x')",
    "take contexts of the host": "checked(libc.syscall(IO_SETUP, 10, ctypes.create_string_buffer(8)))",
    "write out the host's disks": "os.sync() or checked(libc.syncfs(os.open(RUNNER, os.O_RDONLY)))",
    "watch a directory": "checked(libc.inotify_init1(0))",
    "make a Unix socket": "socket.socket(socket.AF_UNIX)",
    "make an IPv4 socket": "socket.socket(socket.AF_INET)",
    "make a datagram pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "make a raw pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)",
    "make System V memory": "checked(libc.shmget(0, 4096, 0o1600))",
    "read the accounts": "open('/etc/passwd').read()",
    "read its own /proc": "open('/proc/self/status').read()",
    "list processes": "os.listdir('/proc')",
    "read the workspace": "open(OWN).read()",
    "write the workspace": "open(OWN, 'r+')",
    "truncate a file": "os.truncate(OWN, 0)",
    "make a file": "open('/tmp/stockade-in-place', 'x')",
    "make a file without a name": "os.open('/tmp', os.O_TMPFILE | os.O_RDWR, 0o600)",
    "make a directory": "os.mkdir('/tmp/stockade-in-place')",
    "remove a file": "os.unlink(OWN)",
    "name a file anew": "os.rename(OWN, OWN + '2')",
    "link a file": "os.link(RUNNER, '/tmp/stockade-in-place')",
    "write a device": "open('/dev/urandom', 'wb')",
    "mount": "checked(libc.mount(b'x', b'/tmp', b'tmpfs', 0, None))",
    "make a namespace": "checked(libc.unshare(0x10000000))",
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_body_in_place_cannot(bodies: Bodies, plant: Plant, what: str) -> None:
    names = f"OWN = {str(plant.workspace / 'observed.txt')!r}; RUNNER = {str(plant.shared / 'doc.txt')!r}\n"
    program = f"""{_CALLS}{names}
try:
    {REFUSED[what]}
except OSError as error:
    print("refused", errno.errorcode[error.errno])
except RuntimeError as error:
    print("refused", error)
else:
    print("possible")
sys.stdout.flush()
os._exit(0)
"""
    said = bodies.run(program)
    assert said.startswith("refused "), said
    assert said.split()[1] in {"EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "EXDEV", "can't"}, said


def test_a_body_in_place_reads_what_its_profile_shows_and_uses_the_gate(bodies: Bodies, plant: Plant) -> None:
    program = f"""
import json, os, sqlite3, ssl
print(open({str(plant.shared / "doc.txt")!r}).read().split()[1])
opened = FILES.open("observed.txt")
print(len(os.pread(opened.descriptor, 1 << 20, 0)) == opened.size)
"""
    assert bodies.run(program).split() == ["canary", "True"]


def test_a_result_in_place_says_what_held_and_what_did_not(bodies: Bodies) -> None:
    result = bodies.loop.run(bodies.session.call("blind", program="pass"))
    layers = {layer.name: layer for layer in result.layers}
    assert result.ok
    for name in ("no_new_privs", "landlock", "seccomp", "rlimits"):
        assert layers[name].held, name
    for name in ("user", "mount", "pid", "net", "ipc", "uts", "root", "proc"):
        assert not layers[name].held, name
        assert "refuses user namespaces" in layers[name].reason
    for name in ("uid", "groups", "capabilities"):
        assert layers[name].held == (os.geteuid() == 0) or name == "groups", name


def test_a_body_in_place_that_never_ends_is_ended_at_its_limit_and_gone(bodies: Bodies) -> None:
    program = "import os\nprint(os.getpid(), flush=True)\nwhile True:\n    pass\n"

    async def late() -> tuple[str, str]:
        call = await bodies.session.start("blind", program=program)
        result = await call.result()
        out = b""
        async with call.output(follow=False) as pieces:
            async for piece in pieces:
                out += piece
        return (result.error.code if result.error else ""), out.decode()

    code, said = bodies.loop.run(late())
    assert code in {"TOOL_TIMEOUT", "RESOURCE_LIMIT"}
    assert _ends(int(said))


@pytest.mark.parametrize("victim", ["daemon", "init", "template"])
def test_a_body_in_place_dies_with_what_it_belongs_to(victim: str) -> None:
    program = "import os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()\n"
    bodies: list[int] = []

    async def killed(running: Running, connected: Daemon, workspace: str) -> None:
        async with connected.session(workspace=workspace, profile=PROFILE) as session:
            call = await session.start("blind", program=program)
            async with call.output(follow=True) as pieces:
                async for piece in pieces:
                    bodies.append(int(piece))
                    break
            init = _parent(bodies[0])
            os.kill({"daemon": running.pid, "init": init, "template": _parent(init)}[victim], signal.SIGKILL)
            assert (await call.result()).error is not None

    with (
        planted(Path("/var/tmp")) as plant,
        _serving(plant) as running,
        client(running.address) as (loop, connected),
        # With the daemon goes the call's answer.
        pytest.raises(StockadeError) if victim == "daemon" else contextlib.nullcontext(),
    ):
        loop.run(killed(running, connected, str(plant.workspace)))
    assert _ends(bodies[0])


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _ends(pid: int) -> bool:
    """Waits until a process is gone, or left for others to collect."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 30)[0])
    finally:
        os.close(descriptor)
