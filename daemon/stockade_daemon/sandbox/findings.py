"""From what was asked to what follows: each answer as a finding, with what it means for calls and what changes it.

Pure: the same survey gives the same findings, so that hosts which are not at hand can be judged too.
"""

import errno
import os
import shlex
import sys
from collections.abc import Iterator
from typing import Final, Literal

from stockade_daemon.sandbox import user_namespaces
from stockade_daemon.sandbox.library import RIPGREP
from stockade_daemon.sandbox.survey import Answer, Survey
from stockade_daemon.values import Finding, Layer

State = Literal["ok", "degraded", "missing"]
_WORKER_DESCRIPTORS: Final = 5
_FEW_DESCRIPTORS: Final = 4096
_LITTLE_MB: Final = 1024
_FEW_NAMES: Final = 10_000
# Rights by the ABI that brought them (landlock(7)), with the kernel.
_LANDLOCK: Final = (
    (2, "moving files between directories", "5.19"),
    (3, "truncating", "6.2"),
    (4, "TCP", "6.7"),
    (5, "ioctl of devices", "6.10"),
    (6, "abstract sockets and signals", "6.12"),
)
_SCOPES_ABI: Final = 6
_NOT_UPPER: Final = frozenset({"overlay", "nfs", "nfs4", "vfat", "fuse", "9p", "virtiofs", "ecryptfs"})


def findings(survey: Survey, layers: tuple[Layer, ...]) -> tuple[Finding, ...]:
    """All findings about the host. `layers`: those of a worker that was made; empty where none could be."""
    return tuple(_all(survey, layers))


def _all(survey: Survey, layers: tuple[Layer, ...]) -> Iterator[Finding]:
    yield _kernel(survey)
    yield _user_namespaces(survey)
    yield _other_namespaces(survey)
    yield _time(survey)
    yield _proc(survey)
    yield _seccomp(survey)
    yield _libseccomp(survey)
    yield _landlock(survey)
    yield _cgroups(survey, layers)
    yield _overlay(survey)
    if survey.mode == "root":
        yield _idmap(survey)
    yield _uids(survey)
    yield from _directory(survey)
    yield _open_files(survey)
    yield _git(survey)
    yield _ripgrep(survey)
    yield Finding(
        "surroundings",
        "ok",
        ", ".join(survey.surroundings) or "no sign of a container or a virtual machine",
        "Where a container refuses something, its own settings are the place to change it.",
    )


def _kernel(survey: Survey) -> Finding:
    found = f"Linux {survey.release}, {survey.machine}"
    if not survey.missing_calls:
        return Finding("kernel", "ok", found, "Every system call that a sandbox is built with is there.")
    return Finding(
        "kernel",
        "missing",
        f"{found}; without {', '.join(survey.missing_calls)}",
        "No call can run: the sandbox is built with these system calls.",
        "run Linux 5.12 or newer; in a container, let its system-call filter allow them",
    )


def _user_namespaces(survey: Survey) -> Finding:
    made, usable = survey.answers["user"], survey.answers["mount"]
    if not made.errno and not usable.errno:
        return Finding("user_namespaces", "ok", "can be made", "Workers have no privilege on the host.")
    what = f"making one: {made.text}" if made.errno else f"made, but without rights inside: {usable.text}"
    return Finding(
        "user_namespaces",
        "missing",
        "; ".join([what, *(f"{name} = {value}" for name, value in survey.settings.items())]),
        "Commands do not run. Functions that ask for files do, in place: under profiles that require none of the "
        "layers which are missing then, kept by Landlock (Linux 6.12), the system-call filter and limits.",
        user_namespaces.remedy(survey.settings),
    )


def _other_namespaces(survey: Survey) -> Finding:
    refused = {name: survey.answers[name] for name in ("pid", "net", "ipc", "uts", "cgroup_ns")}
    lacking = [f"{name}: {answer.text}" for name, answer in refused.items() if answer.errno]
    if not lacking:
        return Finding("namespaces", "ok", ", ".join(refused), "Workers see no process, network or name of the host.")
    return Finding(
        "namespaces",
        "missing",
        _said(survey, "; ".join(lacking)),
        _follows(survey, "No call can run: every worker has these namespaces."),
        _as_user(survey, "run a kernel that has them, with user.max_*_namespaces above 0"),
    )


def _as_user(survey: Survey, otherwise: str) -> str:
    """A remedy, where the first one is that there are user namespaces."""
    return "see user_namespaces" if survey.answers["user"].errno else otherwise


def _follows(survey: Survey, otherwise: str) -> str:
    """What it means for calls, where the first reason is not that there are no user namespaces."""
    return "See user_namespaces." if survey.answers["user"].errno else otherwise


def _said(survey: Survey, text: str) -> str:
    """What was found, where nothing is found without user namespaces."""
    return "cannot be tried without user namespaces" if survey.answers["user"].errno else text


def _time(survey: Survey) -> Finding:
    answer = survey.answers["time"]
    if not answer.errno:
        return Finding("time_namespaces", "ok", "can be made", "Results have the layer `time`.")
    return Finding(
        "time_namespaces",
        "degraded",
        _said(survey, answer.text),
        "Calls run without the layer `time`; the clocks are the host's with it, too.",
        _as_user(survey, "run Linux 5.6 or newer with CONFIG_TIME_NS"),
    )


def _proc(survey: Survey) -> Finding:
    answer = survey.answers["proc"]
    if not answer.errno:
        return Finding("proc", "ok", "can be mounted", "Workers have a /proc of their own processes.")
    return Finding(
        "proc",
        "missing",
        _said(survey, answer.text),
        _follows(survey, "No call can run: a worker's root has a /proc of its own."),
        _as_user(survey, "in a container, uncover /proc (Docker: --security-opt systempaths=unconfined)"),
    )


def _seccomp(survey: Survey) -> Finding:
    answer = survey.answers["seccomp"]
    if not answer.errno:
        return Finding("seccomp", "ok", "filters can be loaded", "System calls are limited to the profile's groups.")
    return Finding(
        "seccomp",
        "missing",
        answer.text,
        "No call can run: workers are not sealed without a filter.",
        "run a kernel with CONFIG_SECCOMP_FILTER",
    )


def _libseccomp(survey: Survey) -> Finding:
    if not survey.unknown_calls:
        return Finding("libseccomp", "ok", survey.libseccomp, "It knows every system call that profiles allow.")
    return Finding(
        "libseccomp",
        "degraded",
        f"{survey.libseccomp}; does not know {', '.join(survey.unknown_calls)}",
        "These newer calls answer ENOSYS in workers, and programs take older ones.",
        "install a newer libseccomp 2 (Debian, Ubuntu: apt-get install --only-upgrade libseccomp2)",
    )


def _landlock(survey: Survey) -> Finding:
    if survey.mode == "in-place" and survey.landlock_abi < _SCOPES_ABI:
        return Finding(
            "landlock",
            "missing",
            f"ABI {survey.landlock_abi}" if survey.landlock_abi else "none",
            "No call can run: without user namespaces Landlock alone keeps files and signals from workers.",
            "run Linux 6.12 or newer with landlock in lsm=, or see user_namespaces",
        )
    lacking = [(what, since) for abi, what, since in _LANDLOCK if survey.landlock_abi < abi]
    if survey.landlock_abi == 0:
        off = survey.landlock_errno == errno.EOPNOTSUPP
        return Finding(
            "landlock",
            "missing",
            "switched off at boot" if off else "this kernel has none, or a system-call filter hides it",
            "Calls run without the layer `landlock`; profiles that require it are refused.",
            "boot with landlock first in lsm=, as in lsm=landlock,yama,apparmor"
            if off
            else "run Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK; in a container, let its system-call filter "
            "allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self",
        )
    found = f"ABI {survey.landlock_abi}"
    if not lacking:
        return Finding("landlock", "ok", found, "A second part of the kernel says no to what the sandbox refuses.")
    return Finding(
        "landlock",
        "degraded",
        f"{found}; without {', '.join(what for what, _ in lacking)}",
        "The layer `landlock` holds less; namespaces and the system-call filter hold these all the same.",
        f"run Linux {lacking[-1][1]} or newer",
    )


def _cgroups(survey: Survey, layers: tuple[Layer, ...]) -> Finding:
    layer = next((each for each in layers if each.name == "cgroup"), None)
    if layer is None:
        return Finding(
            "cgroups", "missing", "not tried: no worker could be made", "Nothing is known until a worker can be made."
        )
    if layer.held:
        return Finding(
            "cgroups", "ok", "memory, pids and cpu", "A call's limits hold for all of its processes together."
        )
    partly = layer.reason.startswith("in force for") and not layer.reason.startswith("in force for nothing")
    return Finding(
        "cgroups",
        "degraded" if partly else "missing",
        layer.reason,
        "Calls run without the layer `cgroup`: memory is looked at every 50 ms, and processors are not shared out.",
        _cgroups_remedy(survey, layer.reason),
    )


def _cgroups_remedy(survey: Survey, reason: str) -> str:
    if os.strerror(errno.EROFS) in reason:
        return "mount the control groups writable (mount -o remount,rw; a container has to be given them that way)"
    if "mounts no control" in reason:
        return "mount control groups (mount -t cgroup2 none /sys/fs/cgroup; a container has to be given them)"
    service = "start it as a service with Delegate=yes and DelegateSubgroup=daemon"
    if survey.uid == 0:
        return f"version 2: {service}"
    return f"version 1: run the daemon as root; version 2: {service}, or with systemd-run --user --scope"


def _overlay(survey: Survey) -> Finding:
    if survey.mode == "in-place":
        return Finding(
            "overlay",
            "missing",
            "not tried: no mount can be made for a worker",
            "Commands have no private view, and do not run; functions do.",
            "see user_namespaces",
        )
    user = survey.answers["overlay_user"]
    where = f"on {survey.state_kind} at {survey.state}"
    if survey.mode == "user":
        if user.errno:
            return _no_overlay(survey, user, where)
        return Finding(
            "overlay",
            "degraded",
            f"in a user namespace (userxattr), {where}",
            "Commands have a private view; renaming a directory in it answers EXDEV and hard links are split.",
            "run the daemon as root",
        )
    answer = survey.answers["overlay_root"]
    in_user = "refused" if user.errno else "possible"
    if not answer.errno:
        return Finding(
            "overlay",
            "ok",
            f"redirect_dir and index, {where}; in a user namespace {in_user}",
            "Commands have a private view in which renames and links behave.",
        )
    return _no_overlay(survey, answer, f"with redirect_dir and index {where}; in a user namespace {in_user}")


def _no_overlay(survey: Survey, answer: Answer, where: str) -> Finding:
    remedy = "run Linux 5.11 or newer with CONFIG_OVERLAY_FS (modprobe overlay)"
    if survey.state_kind in _NOT_UPPER:
        remedy = "choose a --state directory on ext4, xfs or btrfs; in a container, a volume"
    return Finding(
        "overlay",
        "missing",
        f"{answer.text}, {where}",
        "Commands cannot have their private view as it should be, and may not run; functions do.",
        _as_user(survey, remedy) if survey.mode == "user" else remedy,
    )


def _idmap(survey: Survey) -> Finding:
    refused = [f"{path}: {answer.text}" for path, answer in survey.idmap.items() if answer.errno]
    if not refused:
        return Finding(
            "idmapped_mounts", "ok", ", ".join(survey.idmap), "Workers see their owner's files there as their own."
        )
    return Finding(
        "idmapped_mounts",
        "degraded",
        _said(survey, "; ".join(refused)),
        "Commands see a workspace there as somebody else's: files that only the owner may read cannot be read. With "
        "the state there, commands under a profile that has `filesystem.scratch` are refused.",
        _as_user(
            survey,
            "keep workspaces on a file system that knows id-mapped mounts (ext4, xfs, btrfs), on Linux 5.19 or newer",
        ),
    )


def _uids(survey: Survey) -> Finding:
    if survey.uids is not None:
        first, last = survey.uids.first, survey.uids.first + survey.uids.count - 1
        return Finding(
            "worker_uids", "ok", f"{first} to {last}", "Each session's workers have a host uid that nobody else has."
        )
    in_place = survey.mode == "in-place"
    rights = "CAP_KILL, CAP_SETUID, CAP_SETGID or " + ("CAP_SETPCAP" if in_place else "CAP_SYS_ADMIN")
    meaning = (
        "Workers keep the daemon's host uid: the layers `uid` and, where it has supplementary groups, `groups` are not "
        "held."
    )
    if survey.uid == 0 and in_place:
        meaning = "No call can run: without user namespaces workers would be root."
    return Finding(
        "worker_uids",
        "degraded",
        f"the daemon runs as uid {survey.uid}"
        + (f", without {rights}, or with few uids mapped" if survey.uid == 0 else ""),
        meaning,
        "run the daemon as root"
        + (", with these capabilities and 32 or more uids in its user namespace" if survey.uid == 0 else ""),
    )


def _directory(survey: Survey) -> Iterator[Finding]:
    names = survey.state_free_names
    little = survey.state_free_mb < _LITTLE_MB or (names is not None and names < _FEW_NAMES)
    yield Finding(
        "state",
        "degraded" if little else "ok",
        f"{survey.state}, {survey.state_kind}: {survey.state_free_mb} MiB free"
        + (f", {names} names" if names is not None else ""),
        "What commands write goes here until their call ends, and the ledger stays here.",
        "make room, or choose another --state" if little else "",
    )


def _open_files(survey: Survey) -> Finding:
    few = survey.open_files < _FEW_DESCRIPTORS
    return Finding(
        "open_files",
        "degraded" if few else "ok",
        f"at most {survey.open_files} descriptors for the daemon",
        f"Each worker takes {_WORKER_DESCRIPTORS} and each session some, so this bounds what runs at one time.",
        "raise the hard limit: LimitNOFILE=65536 of the service, or `ulimit -Hn`" if few else "",
    )


def _git(survey: Survey) -> Finding:
    if survey.git:
        return Finding("git", "ok", survey.git, "Commands can use git.")
    return Finding(
        "git",
        "degraded",
        "none in the directories that workers see",
        "Commands cannot use git; nothing else does.",
        "apt-get install git, dnf install git or apk add git",
    )


def _ripgrep(survey: Survey) -> Finding:
    if survey.ripgrep:
        return Finding("ripgrep", "ok", survey.ripgrep, "`grep` and `glob` search with it.")
    return Finding(
        "ripgrep",
        "missing",
        "its program is not in the daemon's Python environment",
        "`grep` and `glob` fail; nothing else does.",
        f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(RIPGREP)}, then start the daemon again",
    )
