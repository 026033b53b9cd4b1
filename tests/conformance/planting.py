"""What the runner plants on the host, and what a careless launcher would let through to a body.

Everything has the run's random token in it, so that a probe which finds it has found this host and nothing else.
What is made here is removed here.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.conformance.processes import end_those_with

GROUP: Final = 4242  # a supplementary group of the launcher's, where its identity may have one
OWN: Final = ".p-"  # how names of the runner's own begin in the workspace: the probes' programs
WALL_S: Final = 4
CPU_S: Final = 2
_CREDENTIALS: Final = (
    ".ssh/id_isoprobe", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".docker/config.json",
)  # fmt: skip
_CONTROL_FILES: Final = (".git/config", ".git/HEAD", ".bashrc", ".vscode/settings.json")


@dataclass(frozen=True, slots=True)
class Plant:
    """A prepared host. Placeholders of probes are the keys of `words`."""

    base: Path
    token: str
    words: dict[str, str]
    inherited: tuple[int, ...]  # descriptors that a launcher should not pass on
    peer: socket.socket = field(repr=False)  # the other end of an inherited socket

    @property
    def workspace(self) -> Path:
        return self.base / "ws"

    @property
    def shared(self) -> Path:
        """The directory that a profile shows read-only."""
        return self.base / "ro"

    @property
    def canary(self) -> Path:
        """Where the canary lives; the working directory of every launcher."""
        return self.base / "canary"

    @property
    def secret(self) -> Path:
        return self.canary / "secret.txt"

    def filled(self, program: str) -> str:
        return re.sub(r"@([A-Z0-9_]+)@", lambda found: self.words[found[1]], program)

    @property
    def environment(self) -> dict[str, str]:
        """A launcher's environment: a secret, a home with credentials, and variables that load code."""
        return {
            "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
            "HOME": str(self.base / "home"),
            "LANG": "C.UTF-8",
            "ISO_SECRET": f"{self.token}-env",
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_PAGER": "cat",
            "SSH_AUTH_SOCK": "/isoprobe-none",
        }

    def reset_secret(self) -> None:
        self.secret.write_text(f"{self.token} canary\n")

    def orphan(self) -> str:
        """What stands on the command line of a process that tries to outlive its call."""
        return f"isoprobe-orphan-{self.token}"


def groups() -> list[int] | None:
    """Supplementary groups for a launcher: root may give itself a strange one."""
    return [0, GROUP] if os.getuid() == 0 else None


@contextlib.contextmanager
def planted(place: Path) -> Iterator[Plant]:
    """Plants everything below a new directory in `place`, and in /tmp and /dev/shm; removes it at the end."""
    number = secrets.token_hex(4)
    token = f"tok{secrets.token_hex(8)}"
    # Children inherit what is ignored.
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    with contextlib.ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGUSR2, before)
        base = Path(tempfile.mkdtemp(prefix="isoprobe-", dir=place))
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        base.chmod(0o755)
        outside = [Path(tempfile.gettempdir()) / f"isoprobe-{number}", Path("/dev/shm") / f"isoprobe-{number}"]
        for path in outside:
            stack.callback(path.unlink, missing_ok=True)
        _files(base, token, outside)
        made = stack.enter_context(_canary(base, token, number))
        inherited, peer = stack.enter_context(_descriptors(base, int(made["pid"])))
        words = _words(base, token, number, made, outside)
        plant = Plant(base, token, words, inherited, peer)
        stack.callback(end_those_with, plant.orphan())
        yield plant


def _files(base: Path, token: str, outside: list[Path]) -> None:
    for name in ("ws", "ro", "canary", "home", "scripts"):
        (base / name).mkdir(mode=0o755)
    for path in (base / "canary/secret.txt", base / "ro/doc.txt", base / "ro/doc2.txt", *outside):
        path.write_text(f"{token} canary\n")
        path.chmod(0o644)
    workspace = base / "ws"
    for name in (".git/hooks", "sub/.git/hooks", ".vscode", "lower", "lower/below"):
        (workspace / name).mkdir(parents=True)
    for name in _CONTROL_FILES:
        (workspace / name).write_text("# canary\n")
    for name in ("observed.txt", "lower/kept.txt", "lower/below/kept.txt"):
        (workspace / name).write_text("one\ntwo\n")
    os.mkfifo(workspace / "host.fifo", 0o666)
    for name in _CREDENTIALS:
        path = base / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{token}\n")
    if os.getuid() == 0:
        program = workspace / ".suid_id"
        shutil.copy("/usr/bin/id", program)
        program.chmod(0o4755)
        secret = workspace / ".grp_secret"
        secret.write_text("group canary\n")
        os.chown(secret, 0, GROUP)
        secret.chmod(0o640)


@contextlib.contextmanager
def _canary(base: Path, token: str, number: str) -> Iterator[dict[str, Any]]:
    """The canary process (canary.py); gives what it says."""
    config: dict[str, Any] = {
        "dir": str(base / "canary"),
        "token": token,
        "id": number,
        "shmkey": 0x15000000 | int(number[:6], 16),
        "abstract": f"isoprobe-{number}",
        "sockets": [str(base / each) for each in ("canary/svc.sock", "ro/svc.sock", "ws/host.sock")],
        "fifos": [str(base / "ws/host.fifo")],
    }
    program = str(Path(__file__).with_name("canary.py"))
    with subprocess.Popen(
        [sys.executable, program, "isoprobe-canary-proc", json.dumps(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin", "ISO_SECRET": f"{token}-env"},
    ) as process:
        assert process.stdout is not None
        made: dict[str, Any] = json.loads(process.stdout.readline())
        for path in config["sockets"]:
            os.chmod(path, 0o777)  # a refusal must be the boundary's, not the file mode's
        yield made


@contextlib.contextmanager
def _descriptors(base: Path, canary_pid: int) -> Iterator[tuple[tuple[int, ...], socket.socket]]:
    """A directory, a file, a socket and a process, open and inheritable."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    opened = [os.open(base / "canary", os.O_RDONLY), os.open(base / "canary/secret.txt", os.O_RDONLY)]
    opened.append(os.pidfd_open(canary_pid))
    try:
        yield (*opened, ours.fileno()), theirs
    finally:
        for descriptor in opened:
            os.close(descriptor)
        ours.close()
        theirs.close()


def _words(base: Path, token: str, number: str, made: dict[str, Any], outside: list[Path]) -> dict[str, str]:
    words: dict[str, object] = {
        "TOKEN": token,
        "ID": number,
        "BASE": base,
        "WS": base / "ws",
        "RO": base / "ro",
        "HOME": base / "home",
        "CANARY_DIR": base / "canary",
        "CANARY_FILE": base / "canary/secret.txt",
        "CANARY_PID": made["pid"],
        "CANARY_ADDR": made["addr"],
        "CANARY_FD": made["fd"],
        "TMP_CANARY": outside[0],
        "SHM_CANARY": outside[1],
        "SOCK": base / "canary/svc.sock",
        "ABSTRACT": f"isoprobe-{number}",
        "SHM_KEY": 0x15000000 | int(number[:6], 16),
        "TCP4": made["tcp4"],
        "TCP6": made["tcp6"],
        "UDP4": made["udp4"],
        "HOSTNAME": os.uname().nodename,
        "MACHINE_ID": _line("/etc/machine-id") or "none",
        "RUNNER_SID": os.getsid(0),
        "RUNNER_PGID": os.getpgrp(),
        "RUN_UID": os.getuid(),
        "WALL": WALL_S,
        "CPU": CPU_S,
    }
    for name in ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup"):
        words[f"NS_{name.upper()}"] = os.readlink(f"/proc/self/ns/{name}")
    return {name: str(value) for name, value in words.items()}


def _line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def fingerprint(place: Path) -> dict[str, tuple[object, ...]]:
    """Every name below `place`, but the runner's own, with what a body could have changed of it."""
    found: dict[str, tuple[object, ...]] = {}
    for directory, names, files in os.walk(place):
        for name in (*names, *files):
            path = os.path.join(directory, name)
            if name.startswith(OWN):
                continue
            # In a control run other probes make and remove files meanwhile.
            with contextlib.suppress(FileNotFoundError):
                found[os.path.relpath(path, place)] = _print_of(path)
    return found


def _print_of(path: str) -> tuple[object, ...]:
    about = os.lstat(path)
    content = Path(path).read_bytes() if stat.S_ISREG(about.st_mode) else None
    marks = tuple(sorted(os.listxattr(path, follow_symlinks=False)))
    return about.st_mode, about.st_uid, about.st_gid, about.st_nlink, about.st_mtime_ns, content, marks
