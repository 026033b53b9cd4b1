"""What `stockade profile probe` tries in a worker: for each layer something that it refuses, done in earnest.

Filters look before anything else in the kernel does. So a call whose arguments no kernel takes, refused with the
filter's errors all the same, shows that a refusal of the call is the filter's (`Attempt.filtered`).
"""

import ctypes
import errno
import os
import resource
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from stockade_worker import kernel

_GET_NO_NEW_PRIVS = 39  # prctl(2)
_IO_URING_SETUP = 425
_MODES = "file modes"
_libc = ctypes.CDLL(None, use_errno=True)
# Not there in a network namespace of its own; kept from by Landlock's scope (landlock(7)); no such socket at all.
_OF_ABSTRACT = {errno.ECONNREFUSED: "net", errno.EPERM: "landlock", errno.EAFNOSUPPORT: "seccomp"}
_FAMILIES = (
    ("sockets_local", socket.AF_UNIX),
    ("sockets_inet", socket.AF_INET),
    ("none (AF_PACKET)", socket.AF_PACKET),
)
_NOWHERE = ctypes.c_void_p(8)  # EFAULT, where it is looked at
Given = Mapping[str, Any]


class Done(Exception):
    """What should have been refused was done; the text says what was reached."""


class Skipped(Exception):
    """The profile does not forbid it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Something to try. What `act` raises is the verdict: Done, OSError; nothing means that a fact is as it should."""

    layer: str
    what: str
    act: Callable[[Given], None]
    answers: Mapping[int, str] = field(default_factory=dict)  # whose answer an error number is
    filtered: Callable[[], bool] = lambda: False  # whether the call is refused whatever its arguments are


def _refused_always(function: str, *arguments: object) -> Callable[[], bool]:
    """For `filtered`: calls the C library's function with arguments that no kernel takes."""

    def asked() -> bool:
        return getattr(_libc, function)(*arguments) < 0 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)

    return asked


def _unless(held: bool, reached: str) -> None:
    if not held:
        raise Done(reached)


def _done(what: Callable[[], object], reached: str = "it was done") -> None:
    """Does what must be refused."""
    what()
    raise Done(reached)


def _first_besides(refused: Sequence[OSError], *usual: int) -> OSError:
    """The answer to several tries that says least for the layer; of the usual ones a later one counts for more."""
    odd = [error for error in refused if error.errno not in usual]
    return odd[0] if odd else max(refused, key=lambda error: usual.index(error.errno or 0))


def _another(name: str) -> Callable[[Given], None]:
    def attempt(given: Given) -> None:
        number = os.stat(f"/proc/self/ns/{name}").st_ino
        _unless(number != given["namespaces"][name], "the namespace is the daemon's")

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
    refused = []
    for directory in ("/", "/usr", "/etc", "/run"):  # not every profile shows all of them
        try:
            os.close(os.open(f"{directory}/stockade-probe", os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError as error:
            refused.append(error)
            continue
        raise Done(directory)
    raise _first_besides(refused, errno.ENOENT, errno.EROFS)


def _settings_of_the_kernel(given: Given) -> None:
    _unless(bool(os.statvfs("/proc/sys").f_flag & os.ST_RDONLY), "/proc/sys is writable but for the modes in it")


def _read_memory(given: Given) -> None:
    if not given["kcore"]:  # the kernel has none
        raise Skipped
    _done(lambda: os.close(os.open("/proc/kcore", os.O_RDONLY)))


def _groups(given: Given) -> None:
    groups = os.getgroups()  # not from /proc, which is not everywhere
    _unless(not groups, f"groups {', '.join(map(str, groups))}")


def _give_away(given: Given) -> None:
    # What is printed goes through a pipe of the worker's own (pipe(7)): there is one whatever may be written.
    _done(lambda: os.fchown(1, 0, 0), "a file of uid 0")


def _use_a_capability(given: Given) -> None:
    _done(lambda: kernel.prctl(kernel.PR_CAPBSET_DROP, 0), "CAP_SETPCAP")


def _no_new_privs(given: Given) -> None:
    _unless(kernel.prctl(_GET_NO_NEW_PRIVS) == 1, "set-id programs give privileges")


def _families(given: Given) -> None:
    """Families that the profile does not allow, and one that none does, whose sockets else want a capability: EPERM."""
    refused = []
    for group, family in _FAMILIES:
        if group in given["groups"]:
            continue
        try:
            socket.socket(family, socket.SOCK_DGRAM).close()
        except OSError as error:
            refused.append(error)
            continue
        raise Done(f"a socket of group {group}")
    raise _first_besides(refused, errno.EAFNOSUPPORT)


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


def _write_a_device(given: Given) -> None:
    path = "/dev/urandom"
    os.close(os.open(path, os.O_RDONLY))
    if not os.stat(path).st_mode & 0o002:
        raise OSError(0, f"the mode of {path} does not allow it")
    _done(lambda: os.close(os.open(path, os.O_WRONLY)))


def _set_up_io_uring(given: Given) -> None:
    try:
        kernel.call(_IO_URING_SETUP, 1, None, what="io_uring_setup")
    except OSError as error:
        if error.errno == errno.EFAULT:
            raise Done("the kernel looked at its arguments") from None
        raise
    raise Done("it was done")


def _hidden(given: Given) -> None:
    """Names that must not be there, in a workspace where something else is."""
    if not given["hidden"] or not given["workspace"]:  # without a view nothing of it is there
        raise Skipped
    if os.getcwd() != given["workspace"]:
        raise OSError(0, f"the worker is in {os.getcwd()}, not in the workspace")
    if given["witness"]:
        os.lstat(given["witness"])
    found = []
    for name in given["hidden"]:
        try:
            os.lstat(name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        found.append(name)
    _unless(not found, ", ".join(found))


def _change_secrets(given: Given) -> None:
    refused = []
    for name in given["secrets"]:
        path = f"/run/secrets/{name}"
        _unless(os.stat(path).st_mode & 0o777 == 0o400, f"{path} has another mode than 0400")
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError as error:
            refused.append(error)
            continue
        raise Done(path)
    if not refused:
        raise Skipped
    raise refused[-1]


def _mount(given: Given) -> None:
    _done(lambda: kernel.mount("probe", "/tmp", "tmpfs", 0))


ATTEMPTS: tuple[Attempt, ...] = (
    Attempt("user", "become uid 0", _become_root, {errno.EINVAL: "user", errno.EPERM: "capabilities"}),
    Attempt("user", "be in the daemon's user namespace", _another("user")),
    Attempt(
        "mount", "mount a file system", _mount, {errno.EPERM: "capabilities"},
        _refused_always("mount", None, b"/", _NOWHERE, 0, None),
    ),
    Attempt("mount", "be in the daemon's mount namespace", _another("mnt")),
    Attempt("pid", "see other processes", _see_processes),
    Attempt("pid", "be in the daemon's namespace of processes", _another("pid")),
    Attempt(
        "net", "connect to a server on the host's 127.0.0.1", _connect,
        {
            errno.ECONNREFUSED: "net", errno.ENETUNREACH: "net", errno.EHOSTUNREACH: "net",
            errno.EAFNOSUPPORT: "seccomp", errno.EACCES: "landlock",
        },
    ),
    Attempt("net", "see a network interface besides lo", _interfaces),
    Attempt("net", "connect to an abstract socket of the host", _abstract, _OF_ABSTRACT),
    Attempt("ipc", "share the daemon's System V and message queues", _another("ipc")),
    Attempt(
        "uts", "rename the host", lambda given: _done(lambda: socket.sethostname("probe")),
        {errno.EPERM: "seccomp or capabilities"},
    ),
    Attempt("uts", "share the daemon's host name", _another("uts")),
    Attempt("cgroup_ns", "see the host's control groups", _cgroups),
    Attempt("cgroup_ns", "be in the daemon's namespace of control groups", _another("cgroup")),
    Attempt("time", "be in the daemon's time namespace", _another("time")),
    Attempt("root", "read a file of the host by its path", _host_file, {errno.ENOENT: "root", errno.EACCES: _MODES}),
    Attempt("root", "write into the system", _write_the_system, {errno.EROFS: "root", errno.EACCES: _MODES}),
    Attempt(
        "proc", "change a setting of the kernel",
        lambda given: _done(lambda: os.close(os.open("/proc/sys/kernel/hostname", os.O_WRONLY))),
        {errno.EROFS: "proc", errno.EACCES: _MODES},
    ),
    Attempt("proc", "find the kernel's settings writable", _settings_of_the_kernel),
    Attempt(
        "proc", "read the kernel's memory", _read_memory,
        {errno.ENOENT: "proc", errno.EACCES: _MODES, errno.EPERM: "capabilities"},
    ),
    Attempt(
        "uid", "give a file to uid 0", _give_away, {errno.EINVAL: "user", errno.EPERM: "capabilities"},
        _refused_always("fchown", -1, 0, 0),
    ),
    Attempt("groups", "keep a group of the daemon's", _groups),
    Attempt(
        "capabilities", "change the root directory", lambda given: _done(lambda: os.chroot("/tmp")),
        {errno.EPERM: "capabilities"}, _refused_always("chroot", _NOWHERE),
    ),
    Attempt("capabilities", "use a capability", _use_a_capability, {errno.EPERM: "capabilities"}),
    Attempt("no_new_privs", "gain privileges by a set-id program", _no_new_privs),
    Attempt("landlock", "write a device whose mode allows it", _write_a_device, {errno.EACCES: "landlock"}),
    Attempt("landlock", "connect to an abstract socket of the host", _abstract, _OF_ABSTRACT),
    Attempt(
        "landlock", "read a file of the host by its path", _host_file,
        {errno.ENOENT: "root", errno.EACCES: f"landlock or {_MODES}"},
    ),
    Attempt(
        "seccomp", "make a user namespace", lambda given: _done(lambda: kernel.unshare(kernel.CLONE_NEWUSER)),
        {errno.ENOSPC: "user", errno.EPERM: "a setting of the host"}, _refused_always("unshare", 1),
    ),
    Attempt(
        "seccomp", "set up io_uring", _set_up_io_uring,
        {errno.EPERM: "seccomp or a setting of the host", errno.ENOSYS: "seccomp or a kernel without it"},
    ),
    Attempt(
        "seccomp", "make sockets that the profile does not allow", _families,
        {errno.EAFNOSUPPORT: "seccomp", errno.EPERM: "capabilities"},
    ),
    Attempt("rlimits", "open more files than open_files", _many_files, {errno.EMFILE: "rlimits"}),
    Attempt("rlimits", "raise a limit", _raise_limits, {errno.EPERM: "rlimits"}),
    Attempt("hidden", "find a hidden name in the workspace", _hidden),
    Attempt(
        "secrets", "change a secret", _change_secrets,
        {errno.EACCES: "secrets", errno.EROFS: "secrets", errno.EPERM: "secrets"},
    ),
)  # fmt: skip
