"""The inner half of `stockade profile probe`: tries, in a worker, what its profile forbids.

Every attempt is a real one. What is refused raises OSError, whose text is the detail; what is done is `open`. The
attempts belong to layers, and to those that the daemon says are in force: a layer that the host does not give is not
tried.
"""

import errno
import os
import resource
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from stockade_toolkit import Answer, Files
from stockade_worker import kernel

_GET_NO_NEW_PRIVS = 39  # prctl(2)
_IO_URING_SETUP = 425
Given = Mapping[str, Any]


class Done(Exception):
    """What should have been refused was done; the text says what was reached."""


def run(arguments: Given, files: Files) -> Answer:
    """Tries all that belongs to `arguments["layers"]`; with `eat`, takes that many bytes of memory instead."""
    if arguments.get("eat"):
        eaten = bytearray(int(arguments["eat"]))
        for at in range(0, len(eaten), 4096):
            eaten[at] = 1
        return Answer({"eaten": len(eaten)}, "")
    found = []
    for layer, what, attempt in _ATTEMPTS:
        if layer in arguments["layers"]:
            held, detail = _tried(attempt, arguments)
            if held is not None:
                found.append({"layer": layer, "what": what, "held": held, "detail": detail})
    return Answer({"attempts": found}, "")


class Skipped(Exception):
    """The profile does not forbid it."""


def _tried(attempt: Callable[[Given], None], given: Given) -> tuple[bool | None, str]:
    try:
        attempt(given)
    except Skipped:
        return None, ""
    except Done as done:
        return False, str(done)
    except OSError as error:
        return True, os.strerror(error.errno) if error.errno else str(error)
    return True, ""


def _unless(held: bool, reached: str) -> None:
    if not held:
        raise Done(reached)


def _done(what: Callable[[], object], reached: str = "it was done") -> None:
    """Does what must be refused."""
    what()
    raise Done(reached)


def _another(name: str) -> Callable[[Given], None]:
    def attempt(given: Given) -> None:
        number = os.stat(f"/proc/self/ns/{name}").st_ino
        _unless(number != given["namespaces"].get(name), "the namespace is the daemon's")

    return attempt


def _become_root(given: Given) -> None:
    _done(lambda: os.setresuid(0, 0, 0), "uid 0")


def _see_processes(given: Given) -> None:
    seen = {name for name in os.listdir("/proc") if name.isdigit()} - {"1", str(os.getpid()), str(os.getppid())}
    _unless(not seen, f"processes {', '.join(sorted(seen))}")


def _connect(given: Given) -> None:
    socket.create_connection(("127.0.0.1", int(given["port"])), timeout=5).close()
    raise Done("a server of the host")


def _interfaces(given: Given) -> None:
    with open("/proc/net/dev", encoding="ascii") as lines:
        names = {line.partition(":")[0].strip() for line in lines if ":" in line}
    _unless(names <= {"lo"}, ", ".join(sorted(names)))


def _abstract(given: Given) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        _done(lambda: end.connect("\0" + str(given["abstract"])), "a service of the host")


def _cgroups(given: Given) -> None:
    with open("/proc/self/cgroup", encoding="utf-8") as lines:
        below = [line.strip() for line in lines if not line.rstrip().endswith(":/")]
    _unless(not below, ", ".join(below))


def _host_file(given: Given) -> None:
    _done(lambda: os.close(os.open(given["canary"], os.O_RDONLY)), "a file of the daemon's")


def _write_the_system(given: Given) -> None:
    for directory in ("/", "/usr", "/etc", "/run"):
        try:
            os.close(os.open(f"{directory}/stockade-probe", os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError as error:
            refused = error
            continue
        raise Done(directory)
    raise refused


def _groups(given: Given) -> None:
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        groups = next(line.split()[1:] for line in lines if line.startswith("Groups:"))
    _unless(not groups, f"groups {', '.join(groups)}")


def _give_away(given: Given) -> None:
    with open("/tmp/stockade-probe", "wb") as file:
        _done(lambda: os.fchown(file.fileno(), 0, 0), "a file of uid 0")


def _no_new_privs(given: Given) -> None:
    _unless(kernel.prctl(_GET_NO_NEW_PRIVS) == 1, "set-id programs give privileges")


def _families(given: Given) -> None:
    allowed = set(given["groups"])
    for group, family in (("sockets_local", socket.AF_UNIX), ("sockets_inet", socket.AF_INET)):
        if group not in allowed:
            try:
                socket.socket(family, socket.SOCK_STREAM).close()
            except OSError:
                continue
            raise Done(f"a socket of group {group}")
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    raise Done("a raw socket")


def _many_files(given: Given) -> None:
    most = int(given["open_files"])
    with ExitStack() as stack:
        for _ in range(most + 1):
            stack.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        raise Done(f"more than {most} descriptors")


def _raise_limits(given: Given) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
    except ValueError as error:  # how Python says EPERM here
        raise PermissionError(errno.EPERM, str(error)) from error
    raise Done(f"{hard + 1} descriptors")


def _hidden(given: Given) -> None:
    names = [name for name in given["hidden"] if os.path.lexists(name)]
    _unless(not names, ", ".join(names))


def _change_secrets(given: Given) -> None:
    if not given["secrets"]:
        raise Skipped
    for name in given["secrets"]:
        path = f"/run/secrets/{name}"
        _unless(os.stat(path).st_mode & 0o777 == 0o400, f"{path} has another mode than 0400")
        _done(lambda path=path: os.close(os.open(path, os.O_WRONLY)), path)  # type: ignore[misc]


def _mount(given: Given) -> None:
    _done(lambda: kernel.mount("probe", "/tmp", "tmpfs", 0))


_ATTEMPTS: tuple[tuple[str, str, Callable[[Given], None]], ...] = (
    ("user", "become uid 0", _become_root),
    ("user", "be in the daemon's user namespace", _another("user")),
    ("mount", "mount a file system", _mount),
    ("pid", "see other processes", _see_processes),
    ("net", "connect to a server on the host's 127.0.0.1", _connect),
    ("net", "see a network interface besides lo", _interfaces),
    ("net", "connect to an abstract socket of the host", _abstract),
    ("ipc", "share the daemon's System V and message queues", _another("ipc")),
    ("uts", "rename the host", lambda given: _done(lambda: socket.sethostname("probe"))),
    ("uts", "share the daemon's host name", _another("uts")),
    ("cgroup_ns", "see the host's control groups", _cgroups),
    ("time", "be in the daemon's time namespace", _another("time")),
    ("root", "read a file of the host by its path", _host_file),
    ("root", "write into the system", _write_the_system),
    ("proc", "change a setting of the kernel", lambda given: _done(
        lambda: os.close(os.open("/proc/sys/kernel/hostname", os.O_WRONLY)))),
    ("proc", "read the kernel's memory", lambda given: _done(lambda: os.close(os.open("/proc/kcore", os.O_RDONLY)))),
    ("uid", "give a file to uid 0", _give_away),
    ("groups", "keep a group of the daemon's", _groups),
    ("capabilities", "change the root directory", lambda given: _done(lambda: os.chroot("/tmp"))),
    ("no_new_privs", "gain privileges by a set-id program", _no_new_privs),
    ("landlock", "write a device whose mode allows it", lambda given: _done(
        lambda: os.close(os.open("/dev/urandom", os.O_WRONLY)))),
    ("landlock", "connect to an abstract socket of the host", _abstract),
    ("seccomp", "make a user namespace", lambda given: _done(lambda: kernel.unshare(kernel.CLONE_NEWUSER))),
    ("seccomp", "set up io_uring", lambda given: _done(
        lambda: kernel.call(_IO_URING_SETUP, 1, None, what="io_uring_setup"))),
    ("seccomp", "make sockets that the profile does not allow", _families),
    ("rlimits", "open more files than open_files", _many_files),
    ("rlimits", "raise a limit", _raise_limits),
    ("hidden", "find a hidden name in the workspace", _hidden),
    ("secrets", "change a secret", _change_secrets),
)  # fmt: skip
