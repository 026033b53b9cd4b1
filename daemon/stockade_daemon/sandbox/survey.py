"""Asking the host what it can enforce for this daemon: the kernel by a program of its own, the rest from its files."""

import asyncio
import contextlib
import ctypes
import json
import os
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyseccomp

from stockade_daemon.errors import InfrastructureFailure
from stockade_daemon.sandbox import library, user_namespaces
from stockade_daemon.sandbox.mounter import Mode
from stockade_daemon.sandbox.plan import PATH
from stockade_daemon.sandbox.syscalls import GROUPS
from stockade_daemon.sandbox.uids import UidRange

_BOOT: Final = "import sys; sys.path.insert(0, sys.argv.pop(1)); from stockade_worker.survey import main; main()"
_PATIENCE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the kernel said to one question; errno 0: yes."""

    errno: int
    text: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found. Answers of the kernel are named as stockade_worker.survey names its questions."""

    release: str
    machine: str
    uid: int  # of the daemon
    mode: Mode  # of the mounter
    uids: UidRange | None  # for workers
    answers: dict[str, Answer]
    idmap: dict[str, Answer]  # by directory
    missing_calls: tuple[str, ...]  # that no sandbox can be built without
    landlock_abi: int
    landlock_errno: int
    settings: dict[str, str]  # that decide about user namespaces
    libseccomp: str
    unknown_calls: tuple[str, ...]  # of the allowed ones, which this libseccomp does not know
    state: str  # the directory
    state_kind: str  # its file system
    state_free_mb: int
    state_free_names: int | None  # None where the file system does not count them
    open_files: int  # hard limit of the daemon
    surroundings: tuple[str, ...]  # hints of a container or a virtual machine
    git: str  # version; empty: none where workers look
    ripgrep: str  # the program that workers get; empty: none is installed beside the daemon


async def survey(place: Path, workspaces: tuple[Path, ...], uids: UidRange | None, mode: Mode) -> Survey:
    """Asks everything. `place` is an empty directory of the state directory's file system.

    Raises InfrastructureFailure where the program that asks the kernel cannot be run.
    """
    worker = "-" if uids is None else str(uids.first)
    kernel = await _kernel(worker, place, [str(place.parent), *(str(each) for each in workspaces if each.is_dir())])
    return await asyncio.to_thread(_assembled, kernel, place, uids, mode)


async def _kernel(worker: str, place: Path, paths: list[str]) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        library.executable(), "-I", "-S", "-B", "-c", _BOOT, str(library.source().parent),
        worker, str(place), json.dumps(list(library.packages().values())), *paths,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={"LC_ALL": "C.UTF-8"}, start_new_session=True, cwd="/",
    )  # fmt: skip
    try:
        async with asyncio.timeout(_PATIENCE_S):
            out, err = await process.communicate()
    except TimeoutError as error:
        raise InfrastructureFailure(
            "SANDBOX_FAILED", f"the kernel was not asked within {_PATIENCE_S:g} s; look at the host's load"
        ) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        said = err.decode("utf-8", "replace").strip()[-1000:]
        raise InfrastructureFailure(
            "SANDBOX_FAILED", f"the program that asks the kernel ended with {said or 'no word'}"
        )
    found: dict[str, Any] = json.loads(out)
    return found


def _assembled(kernel: dict[str, Any], place: Path, uids: UidRange | None, mode: Mode) -> Survey:
    host = os.uname()
    space = os.statvfs(place)
    own = {"landlock", "calls", "idmap"}
    return Survey(
        release=host.release,
        machine=host.machine,
        uid=os.geteuid(),
        mode=mode,
        uids=uids,
        answers={name: Answer(*answer) for name, answer in kernel.items() if name not in own},
        idmap={path: Answer(*answer) for path, answer in kernel.get("idmap", {}).items()},
        missing_calls=tuple(kernel["calls"]),
        landlock_abi=kernel["landlock"][0],
        landlock_errno=kernel["landlock"][1],
        settings=user_namespaces.settings(),
        libseccomp=libseccomp(),
        unknown_calls=_unknown_calls(),
        state=str(place.parent.parent),
        state_kind=_file_system(place),
        state_free_mb=space.f_bavail * space.f_frsize // (1024 * 1024),
        state_free_names=space.f_favail if space.f_files else None,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        surroundings=_surroundings(),
        git=_git(),
        ripgrep=library.programs().get("rg", ""),
    )


def libseccomp() -> str:
    """The version of the library that compiles the filters (seccomp_version(3))."""

    class Version(ctypes.Structure):
        _fields_ = (("major", ctypes.c_uint), ("minor", ctypes.c_uint), ("micro", ctypes.c_uint))

    ask = ctypes.CDLL("libseccomp.so.2").seccomp_version
    ask.restype = ctypes.POINTER(Version)
    found = ask().contents
    return f"{found.major}.{found.minor}.{found.micro}"


def _unknown_calls() -> tuple[str, ...]:
    """-1 (__NR_SCMP_ERROR) is a name that libseccomp has never heard of; other negative numbers are calls that it knows
    and this machine does not have."""
    names = sorted({name for group in GROUPS.values() for name in group if not name.startswith("riscv_")})
    return tuple(name for name in names if pyseccomp.resolve_syscall(pyseccomp.system_arch(), name) == -1)


def _line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _file_system(path: Path) -> str:
    """The kind of the file system that `path` lies on, by its device (proc_pid_mountinfo(5))."""
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        fields = line.split(" ")
        if fields[2] == wanted:
            return fields[fields.index("-") + 1]
    return "unknown"  # btrfs and overlayfs may show a device of their own


def _surroundings() -> tuple[str, ...]:
    """Hints only: a container or a virtual machine need not say what it is."""
    hints = []
    for path, name in (("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman"), ("/run/systemd/container", "")):
        if os.path.exists(path):
            hints.append(f"container ({name or _line(Path(path)) or 'unknown'})")
    if "microsoft" in os.uname().release.lower():
        hints.append("virtual machine (WSL)")
    elif " hypervisor" in _line(Path("/proc/cpuinfo")):
        product = _line(Path("/sys/class/dmi/id/product_name"))
        hints.append(f"virtual machine ({product})" if product else "virtual machine")
    return tuple(hints)


def _git() -> str:
    path = shutil.which("git", path=PATH)
    if path is None:
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip().removeprefix("git version ")
    return ""
