"""Workers on a host that refuses user namespaces: what they are given, and why some calls cannot be.

Without user namespaces no mount can be made for a worker. So nothing of the workspace can be shown to it, and only
functions run that ask the gate for files. The worker's side is stockade_worker/enter_in_place.py.
"""

import os
import stat

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.sandbox import filters, library, user_namespaces
from stockade_daemon.sandbox.plan import Plan, start_of
from stockade_daemon.values import Access, Profile


def plan(profile: Profile, *, host_uid: int | None) -> Plan:
    """The plan of a profile for functions. Raises OSError where a filter cannot be compiled, SandboxFailure
    (SANDBOX_UNAVAILABLE) where the profile gives what cannot be given."""
    if os.geteuid() == 0 and host_uid is None:
        raise _unavailable(
            "workers would be root here: the daemon lacks CAP_KILL, CAP_SETUID, CAP_SETGID or CAP_SETPCAP, or has few "
            "uids mapped"
        )
    if profile.secrets:
        raise _unavailable(f"profile {profile.name} gives secrets, which takes a mount")
    programs = filters.compiled(profile.syscalls, in_place=True)
    return Plan(
        profile=profile.name,
        root={
            "interpreter": library.executable(),
            "trees": list(library.trees()),
            "packages": library.packages(),
            "host_uid": host_uid,
        },
        # No network, whatever the profile says: no socket can be made.
        start=start_of(profile, programs, host_uid=host_uid, readable=_readable(profile), mounts=profile.mounts),
        blob=programs.blob,
    )


def refuse(access: Access) -> None:
    """Raises SandboxFailure (SANDBOX_UNAVAILABLE) for every call but that of a function without a view."""
    if access is not Access.NONE:
        raise _unavailable(
            "commands, and functions that look at the workspace themselves, need a view of it, which takes a mount"
        )


def _readable(profile: Profile) -> list[str]:
    """Trees and files of the host that a worker may read. A link of `system` is left out: what it leads to is there
    where a tree that holds it is listed."""
    found = [path for path in profile.system if os.path.lexists(path) and not stat.S_ISLNK(os.lstat(path).st_mode)]
    return [*found, *library.trees(), *library.packages().values()]


def _unavailable(why: str) -> SandboxFailure:
    return SandboxFailure(
        "SANDBOX_UNAVAILABLE", f"this host refuses user namespaces, and {why}. To have them: {user_namespaces.here()}"
    )
