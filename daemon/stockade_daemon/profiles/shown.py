"""What of the host a profile may show to workers, and what it may never show.

Two keys list host paths. `filesystem.system` is what programs need on any host; hosts differ, so its missing members
are left out, and it is kept away from every place where sockets and secrets lie. `filesystem.mounts` is what an admin
adds by hand, for example a toolchain in a home directory: it may lie nearly anywhere, and must exist.
"""

from typing import Final

from stockade_daemon.settings import Unfit, absolute_path

# Views of the host's processes, devices and services. /tmp is refused for `system` alone.
VIEWS: Final = ("/proc", "/sys", "/dev", "/run")
_NAMES_OF_VIEWS: Final = (*VIEWS, "/var/run", "/var/lock")
# Files that every worker gets with contents of the daemon's making.
MADE_UP: Final = (
    "/etc/passwd",
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/gitconfig",
    "/etc/gitexclude",
)
# Workers have their own in these places; a mount would hide it. What lies below them can be mounted.
_OWN: Final = ("/tmp", "/var/tmp", "/var")  # noqa: S108 (refused, not made)
_ONLY_MODE: Final = "ro"
# What belongs to the distribution. These are shown as they are, sockets included; programs listen elsewhere.
_OF_THE_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/gnu/store"),
)


def system_path(value: object) -> str:
    """A host path that may be shown to workers, read-only. The host's own views of itself may not."""
    path = absolute_path(value)
    if path == "/":
        raise Unfit('is "/", the whole host; name the directories that programs need, for example "/usr"')
    _no_view(path, (*_NAMES_OF_VIEWS, "/tmp"))  # noqa: S108
    _nothing_made_up(path)
    if not any(path == each or path.startswith(f"{each}/") for each in _OF_THE_SYSTEM):
        raise Unfit(f'is "{path}", which is no directory of the distribution\'s; list it under `filesystem.mounts`')
    return path


def mount(value: object) -> str:
    """The path of one extra read-only tree: `{path = "/opt/toolchain", mode = "ro"}`."""
    if not isinstance(value, dict):
        raise Unfit('must be a table, for example {path = "/opt/toolchain", mode = "ro"}')
    for name in value:
        if name not in ("path", "mode"):
            raise Unfit(f"has the unknown key {name!r}; its keys are path and mode", (name,))
    if "path" not in value:
        raise Unfit('lacks `path`; write for example {path = "/opt/toolchain", mode = "ro"}')
    if value.get("mode", _ONLY_MODE) != _ONLY_MODE:
        raise Unfit(
            f'has another mode than "{_ONLY_MODE}", the only one: what calls share, none of them may change', ("mode",)
        )
    try:
        return _mount_path(value["path"])
    except Unfit as unfit:
        raise Unfit(f"`path` {unfit}", ("path", *unfit.within)) from None


def _mount_path(value: object) -> str:
    if isinstance(value, str) and value.startswith("~"):
        raise Unfit("begins with ~, which is not expanded: the daemon's home need not be yours; write it out")
    path = absolute_path(value)
    if path == "/":
        raise Unfit('is "/", the whole host; name the tree that is needed, for example "/opt/toolchain"')
    _no_view(path, _NAMES_OF_VIEWS)
    if path in _OWN:
        raise Unfit(f'is "{path}", where workers have their own; name what is needed below it')
    _nothing_made_up(path)
    return path


def _no_view(path: str, trees: tuple[str, ...]) -> None:
    for tree in trees:
        if path == tree or path.startswith(tree + "/"):
            raise Unfit(f'is "{path}"; {tree} of the host is never shown, workers get their own or none: remove it')


def _nothing_made_up(path: str) -> None:
    if path == "/etc":
        raise Unfit('is "/etc", which holds secrets; name what programs need of it, for example "/etc/ssl/certs"')
    if path in MADE_UP:
        raise Unfit(f'is "{path}", which workers get with contents of its own: remove it')
