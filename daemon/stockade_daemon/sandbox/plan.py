"""A profile as a plan: what the mounter builds and what the zygote gives every worker, as plain data."""

import contextlib
import os
import re
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stockade_daemon.sandbox import filters, library
from stockade_daemon.values import Network, Profile

INSIDE_UID = 1000
HOSTNAME = "stockade"
# Bodies of the built-in tools share a template; importing them is safe, because they are ours.
MODULES = tuple(
    f"stockade_worker.tools.{name}"
    for name in ("read", "edit", "write", "multi_edit", "list", "todo_write", "glob", "grep", "job")
)
_HOME = "/tmp"  # noqa: S108 (the worker's own)
_MOST_RESOLVER = 16 * 1024  # characters of /etc/resolv.conf
PATH = "/usr/local/bin:/usr/bin:/bin"
_SIGNS = re.compile(r"[][*?!#\\ ]")  # what has a meaning in a pattern of git's
_FILES = {
    "/etc/passwd": "root:x:0:0:root:/:/usr/sbin/nologin\n"
    f"agent:x:{INSIDE_UID}:{INSIDE_UID}:agent:/tmp:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "/etc/group": f"root:x:0:\nagent:x:{INSIDE_UID}:\nnogroup:x:65534:\n",
    "/etc/hostname": f"{HOSTNAME}\n",
    "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/resolv.conf": "",
    # git will not look into a repository of another owner, lest its configuration run as the user (git-config(1),
    # safe.directory). In here everything runs as the worker, and a mount's owner may be anybody.
    "/etc/gitconfig": "[safe]\n\tdirectory = *\n[core]\n\texcludesFile = /etc/gitexclude\n",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """`root` for the mounter, `start` and `blob` for the zygote (stockade_worker.plan.WorkerPlan)."""

    profile: str  # its name, for errors
    root: dict[str, Any]
    start: dict[str, Any]
    blob: bytes


def plan(profile: Profile, *, workspace: str | None, host_uid: int | None) -> Plan:
    """The plan of a profile for one workspace. Raises OSError where a filter cannot be compiled."""
    programs = filters.compiled(profile.syscalls)
    return Plan(
        profile=profile.name,
        root={
            "system": list(profile.system),
            "mounts": list(profile.mounts),
            "secrets": dict(profile.secrets),
            "trees": [each for each in library.trees() if not _below(each, profile.system)],
            "library": library.packages(),
            "programs": library.programs(),
            "files": _FILES
            | {"/etc/gitexclude": _excluded(profile.scratch)}
            | (_names_of_the_host() if profile.network == "host" else {}),
            "workspace": workspace,
            "interpreter": library.executable(),
            "host_uid": host_uid,
        },
        start=start_of(
            profile,
            programs,
            host_uid=host_uid,
            network=profile.network,
            workspace=workspace,
            mounts_below_tmp=below_tmp(profile.mounts),
        ),
        blob=programs.blob,
    )


def start_of(
    profile: Profile,
    programs: filters.Programs,
    *,
    host_uid: int | None,
    network: Network = "none",
    workspace: str | None = None,
    mounts_below_tmp: Sequence[str] = (),
    readable: Sequence[str] | None = None,
    mounts: Sequence[str] = (),
) -> dict[str, Any]:
    """What a zygote is sent, with the blob of `programs`. `readable` and `mounts` are those of a worker in place:
    elsewhere the mounter has them."""
    return {
        "type": "start",
        "hostname": HOSTNAME,
        "modules": list(MODULES),
        "environment": environment(profile),
        "network": network,
        "workspace": workspace,
        "mounts_below_tmp": list(mounts_below_tmp),
        "limits": _limits(profile, host_uid=host_uid),
        "readable": None if readable is None else list(readable),
        "mounts": list(mounts),
        "allow_bytes": len(programs.allow),
    }


def _limits(profile: Profile, *, host_uid: int | None) -> dict[str, int]:
    """The limits that a worker sets for itself."""
    limits = profile.limits
    open_files = limits.open_files
    if host_uid is None:
        # Descriptors under way between processes are counted by host uid and compared with each sender's own limit
        # (unix(7)). A worker of the daemon's uid must meet its own before the daemon and its templates meet theirs.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most != resource.RLIM_INFINITY:
            open_files = min(open_files, most // 2)
    return {
        "tmp_kb": limits.tmp_mb * 1024,
        "tmp_inodes": limits.tmp_inodes,
        "cpu_s": limits.cpu_s,
        # Init is one, and the control group's limit is to be met first: it counts how often that happened.
        "processes": limits.processes + 2,
        "open_files": open_files,
        "file_bytes": limits.file_mb * 1024 * 1024,
    }


def _excluded(scratch: Sequence[str]) -> str:
    """Patterns by which git lets alone what is scratch (gitignore(5)): it is not the workspace's, so `git add --all` is
    not to add it. They count from a repository's root, so they are right for one that is the workspace's own."""
    return "".join("/" + _SIGNS.sub(r"\\\g<0>", path) + "\n" for path in scratch)


def _names_of_the_host() -> dict[str, str]:
    """How the host finds addresses by name. Raises OSError where it cannot be read."""
    with contextlib.suppress(FileNotFoundError), open("/etc/resolv.conf", encoding="utf-8", errors="replace") as file:
        return {
            "/etc/resolv.conf": file.read(_MOST_RESOLVER),
            "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        }
    return {}


def environment(profile: Profile) -> dict[str, str]:
    """A body's environment, from nothing: what the profile sets and passes, and where programs and HOME are."""
    # The interpreter's directory comes first, so that python3 inside is the one that is sure to be there.
    first = os.path.dirname(library.executable())
    own = {"PATH": PATH if first in PATH.split(":") else f"{first}:{PATH}", "HOME": _HOME, "TMPDIR": _HOME}
    own |= {"USER": "agent", "LOGNAME": "agent"}
    passed = {name: os.environ[name] for name in profile.environment_pass if name in os.environ}
    return {**own, **passed, **profile.environment}


def below_tmp(mounts: tuple[str, ...]) -> list[str]:
    """The mounts that a worker's own /tmp and /var/tmp hide, outer ones first. One inside another comes with it."""
    found: list[str] = []
    for path in sorted(mounts):
        if _below(path, ("/tmp", "/var/tmp")) and not _below(path, tuple(found)):  # noqa: S108 (the worker's own)
            found.append(path)
    return found


def _below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)
