"""Workers on a host that refuses user namespaces: what a body may not do there, and that nothing of it is left.

The kernel refuses for real (tests/end_to_end/lesser_host.py). What isolation probes ask is asked there as well.
"""

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from stockade_client import Daemon, StockadeError
from stockade_client.session import Session
from tests.conformance.daemon import PROFILE, Running, daemon
from tests.conformance.function_door import Loop, client, lacking_in_place
from tests.conformance.planting import Plant, planted
from tests.everybodys_python import everybodys_python

pytestmark = pytest.mark.skipif(bool(lacking_in_place()), reason=f"needs {lacking_in_place()}")


@pytest.fixture(scope="module")
def plant() -> Iterator[Plant]:
    with planted(Path("/var/tmp")) as plant:
        yield plant


@contextlib.contextmanager
def _serving(plant: Plant, *, more: str = "") -> Iterator[Running]:
    module = "tests.conformance.daemon_with_bodies"
    try:
        with daemon(plant, "strict", module=module, lacking=["user_namespaces"], more=more) as running:
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


_WAITS: Final = "import os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()\n"
_CALLS: Final = """
import ctypes, errno, fcntl, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
IO_SETUP = 206 if os.uname().machine == "x86_64" else 0
def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""
# Each is possible for a process of this uid that has no sandbox; OWN and SHOWN belong to it, HERE too.
POSSIBLE_OUTSIDE: Final = {
    "make a process": "os.fork() or os._exit(0)",
    "make a thread": "import _thread; _thread.start_new_thread(int, ())",
    "start a program": "os.posix_spawn('/bin/true', ['true'], {})",
    "become another program": "os.execv('/bin/echo', ['echo', 'possible'])",
    "take off its death signal": "checked(libc.prctl(1, 0, 0, 0, 0))",
    "change its uid": "os.setresuid(-1, -1, -1)",
    "limit another process": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))",
    "signal its init": "os.kill(os.getppid(), 0)",
    "signal by way of a descriptor": "signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0)",
    "ask for a process's descriptor": "os.pidfd_open(os.getppid())",
    "ask for a process's group": "os.getpgid(os.getppid())",
    "ask for a process's processors": "os.sched_getaffinity(os.getppid())",
    "change a mode": "os.chmod(OWN, 0o600)",
    "change a mode by a descriptor": "os.fchmod(os.open(SHOWN, os.O_RDONLY), 0o644)",
    "change times": "os.utime(SHOWN)",
    "set an attribute": "os.setxattr(SHOWN, 'user.x', b'x')",
    "set a flag by ioctl": "fcntl.ioctl(os.open(SHOWN, os.O_RDONLY), 0x40086602, FLAGS)",
    "take a lease": "fcntl.fcntl(os.open(SHOWN, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
    "take notes of a directory": "fcntl.fcntl(os.open(os.path.dirname(SHOWN), os.O_RDONLY), fcntl.F_NOTIFY, 1)",
    "lock a file": "fcntl.flock(os.open(SHOWN, os.O_RDONLY), fcntl.LOCK_SH)",
    "lock a part of a file": "fcntl.lockf(os.open(SHOWN, os.O_RDONLY), fcntl.LOCK_SH)",
    "lock a part by an open file": "fcntl.fcntl(os.open(SHOWN, os.O_RDONLY), 37, b'\\0' * 32)",
    "hint at how a file is used": "fcntl.fcntl(os.open(SHOWN, os.O_RDONLY), 1036, b'\\2' + b'\\0' * 7)",
    "widen a pipe": "fcntl.fcntl(os.pipe()[1], 1031, 1 << 17)",
    "widen a socket": "socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)",
    "make a file in memory": "os.memfd_create('x')",
    "take contexts of the host": "checked(libc.syscall(IO_SETUP, 1, ctypes.create_string_buffer(8)))",
    "write out a file system": "checked(libc.syncfs(os.open(SHOWN, os.O_RDONLY)))",
    "watch a directory": "checked(libc.inotify_init1(0))",
    "make a Unix socket": "socket.socket(socket.AF_UNIX)",
    "make an IPv4 socket": "socket.socket(socket.AF_INET)",
    "make a datagram pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "make a raw pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)",
    "make System V memory": "made = libc.shmget(0, 4096, 0o1600); checked(made); libc.shmctl(made, 0, None)",
    "read the accounts": "open('/etc/passwd').read()",
    "read its own /proc": "open('/proc/self/status').read()",
    "list processes": "os.listdir('/proc')",
    "read the workspace": "open(OWN).read()",
    "write the workspace": "open(OWN, 'r+')",
    "write what is shown": "open(SHOWN, 'r+')",
    "truncate a file": "os.truncate(OWN, 0)",
    "make a file": "open(HERE + '/new', 'x')",
    "make a file without a name": "os.open(HERE, os.O_TMPFILE | os.O_RDWR, 0o600)",
    "make a directory": "os.mkdir(HERE + '/new')",
    "remove a file": "os.unlink(OWN)",
    "name a file anew": "os.rename(OWN, OWN + '2')",
    "link a file": "os.link(OWN, OWN + '2')",
    "write a device": "open('/dev/urandom', 'wb')",
    "make a namespace": "checked(libc.unshare(0x10000000))",
}
# What some hosts refuse without a sandbox as well.
REFUSED_ANYWAY: Final = {
    "mount": "checked(libc.mount(b'x', b'/tmp', b'tmpfs', 0, None))",
    "trace its init": "checked(libc.ptrace(16, os.getppid(), 0, 0))",
    "read its init's memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "read its init's descriptors": "os.listdir(f'/proc/{os.getppid()}/fd')",
}
_ANSWERS: Final = {"EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "EXDEV", "can't"}


def _program(attempt: str, here: Path, shown: Path) -> str:
    return f"""{_CALLS}
HERE, SHOWN, FLAGS = {str(here)!r}, {str(shown)!r}, {_flags(shown)!r}
OWN = HERE + "/own"
try:
    {attempt}
except OSError as error:
    print("refused", errno.errorcode[error.errno])
except RuntimeError as error:
    print("refused", error)
else:
    print("possible")
sys.stdout.flush()
os._exit(0)
"""


def _flags(path: Path) -> bytes:
    """Those that it has (FS_IOC_GETFLAGS, ioctl_iflags(2)). ext4 refuses a set that leaves out those of its own,
    whoever asks."""
    flags = bytearray(8)
    with path.open("rb") as file, contextlib.suppress(OSError):
        fcntl.ioctl(file, 0x80086601, flags)
    return bytes(flags)


def _files(uid: int, here: Path, shown: Path) -> None:
    """What belongs to a body, as far as modes say."""
    here.mkdir(exist_ok=True)
    (here / "own").write_text("its own\n")
    shown.write_text("shown\n")
    for path in (here, here / "own", shown):
        os.chown(path, uid, -1)


@pytest.fixture(scope="module")
def uid(bodies: Bodies) -> int:
    return int(bodies.run("import os; print(os.getuid())"))


@pytest.mark.parametrize("what", POSSIBLE_OUTSIDE)
def test_without_a_sandbox_a_process_of_that_uid_can(plant: Plant, uid: int, what: str) -> None:
    """The control of the next test. Its parent has its uid, too."""
    around = (
        "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-I', '-S', '-c', sys.argv[1]]).returncode)"
    )
    identity: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}
    outside = plant.base / "outside"
    shown = plant.base / "scripts" / "shown.txt"
    try:
        _files(uid, outside, shown)
        done = subprocess.run(
            [everybodys_python()[0], "-I", "-S", "-c", around, _program(POSSIBLE_OUTSIDE[what], outside, shown)],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
            **identity,
        )
    finally:
        shutil.rmtree(outside)
        shown.unlink()
    assert done.stdout.splitlines()[-1] == "possible", done.stdout


@pytest.mark.parametrize("what", [*POSSIBLE_OUTSIDE, *REFUSED_ANYWAY])
def test_a_body_in_place_cannot(bodies: Bodies, plant: Plant, uid: int, what: str) -> None:
    here, shown = plant.workspace / "his", plant.shared / "shown.txt"
    _files(uid, here, shown)
    said = bodies.run(_program({**POSSIBLE_OUTSIDE, **REFUSED_ANYWAY}[what], here, shown))
    assert said.startswith("refused "), said
    assert said.split()[1] in _ANSWERS, said


def test_a_body_in_place_is_nobody_else(bodies: Bodies) -> None:
    said = bodies.run("import os; print(*os.getresuid(), *os.getresgid(), *os.getgroups())").split()
    if os.geteuid() == 0:
        assert len(set(said)) == 1
        assert int(said[0]) >= 1_900_000_000
    else:
        assert set(said[:3]) == {str(os.getuid())}


def test_a_body_in_place_is_in_its_control_group_and_its_init_cannot_be_looked_at(bodies: Bodies) -> None:
    async def looked() -> tuple[str, int, bool]:
        call = await bodies.session.start("blind", program=_WAITS)
        async with call.output(follow=True) as pieces:
            async for piece in pieces:
                seen = _seen(int(piece))
                break
        await call.cancel()
        held = next(layer.held for layer in (await call.result()).layers if layer.name == "cgroup")
        return *seen, held

    groups, owner, held = bodies.loop.run(looked())
    assert owner == 0
    assert ("stockade-" in groups) == held


@pytest.mark.parametrize("view", ["/proc", "/etc", "/dev", "/sys"])
def test_a_mount_that_leads_to_the_hosts_view_of_itself_is_refused(view: str) -> None:
    with planted(Path("/var/tmp")) as plant:
        link = plant.shared / "link"
        link.symlink_to(view)
        more = f'\n[[filesystem.mounts]]\npath = "{link}"\nmode = "ro"\n'
        with _serving(plant, more=more) as running, client(running.address) as (loop, connected):

            async def refused() -> str:
                async with connected.session(workspace=str(plant.workspace), profile=PROFILE) as session:
                    return str((await session.call("blind", program="pass")).error)

            assert f"shows {view} of the host" in loop.run(refused())


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
    bodies: list[int] = []

    async def killed(running: Running, connected: Daemon, workspace: str) -> None:
        async with connected.session(workspace=workspace, profile=PROFILE) as session:
            call = await session.start("blind", program=_WAITS)
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


def _seen(body: int) -> tuple[str, int]:
    """A body's control groups, and whose its init is in /proc: root's, where it is not dumpable (proc(5))."""
    return Path(f"/proc/{body}/cgroup").read_text(), os.stat(f"/proc/{_parent(body)}/status").st_uid


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
