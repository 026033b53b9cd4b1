"""Which setting of the host refuses user namespaces, and how it is changed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MAX: Final = "user.max_user_namespaces"  # namespaces(7)
_CLONE: Final = "kernel.unprivileged_userns_clone"  # Debian's
_APPARMOR: Final = "kernel.apparmor_restrict_unprivileged_userns"  # Ubuntu's


def settings() -> dict[str, str]:
    """The settings that decide, by the name that sysctl(8) has for them; those that this kernel has."""
    found = {}
    for name in (_MAX, _CLONE, _APPARMOR):
        try:
            found[name] = Path("/proc/sys", name.replace(".", "/")).read_text().strip()
        except OSError:
            continue
    return found


def remedy(found: Mapping[str, str]) -> str:
    """What to change, as far as settings tell; else who else may refuse. A daemon of root meets them as well: what it
    starts has given up root before it makes a namespace."""
    if found.get(_MAX) == "0":
        return f"sysctl -w {_MAX}=15000"
    if found.get(_CLONE) == "0":
        return f"sysctl -w {_CLONE}=1"
    if found.get(_APPARMOR, "0") != "0":
        return f"sysctl -w {_APPARMOR}=0, or give the daemon's interpreter an AppArmor profile with `userns,`"
    return (
        "no setting refuses them, so a system-call filter or a security module does: in a container allow clone, "
        "unshare and mount (Docker: --security-opt seccomp=FILE, --security-opt apparmor=unconfined)"
    )


def here() -> str:
    """The remedy on this host."""
    return remedy(settings())
