"""Which layers a worker really has: what was asked for, compared with what the kernel says."""

from collections.abc import Mapping
from typing import Any, Final

from stockade_daemon.values import Layer, Network

_NONE = "0000000000000000"
_CAPABILITY_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_HOSTS = 'network.mode is "host": workers have the host\'s network'
_REFUSED: Final = "this host refuses user namespaces"
_NAMESPACES: Final = {
    "user": "user", "mount": "mnt", "pid": "pid", "net": "net", "ipc": "ipc", "uts": "uts", "cgroup_ns": "cgroup",
    "time": "time_for_children",
}  # fmt: skip


def held(
    facts: Mapping[str, Any],
    ours: Mapping[str, int],
    *,
    own_uid: bool,
    overlay: bool,
    cgroup: Layer,
    network: Network = "none",
    in_place: bool = False,
    uid: int | None = None,
) -> tuple[Layer, ...]:
    """The layers of a sealed worker. `ours`: inode numbers of the daemon's own namespaces, which none may equal.
    `cgroup`: what was found when it was put into its control group. `in_place`: it is in none of its own. `uid`: the
    host uid that it was given; in a user namespace it sees another number, so only in place can the two be compared.
    """
    namespaces = facts.get("namespaces", {})
    layers = []
    for name, kind in _NAMESPACES.items():
        reason = "" if namespaces.get(kind) not in (None, ours.get(kind)) else "this kernel has none"
        if reason and namespaces.get(kind):
            reason = _HOSTS if network == "host" and name == "net" else "the kernel gave none but the daemon's own"
        if reason and in_place:
            reason = _REFUSED
        layers.append(Layer(name, not reason, reason))
    # These have no number of their own: a worker that could not do them never reports itself as sealed.
    seen = "" if not in_place else f"{_REFUSED}: Landlock alone keeps files from workers"
    layers += [Layer("root", not in_place, seen), Layer("proc", not in_place, seen), Layer("rlimits", True)]
    if in_place and own_uid:
        own_uid = all(str(facts.get(name)).split() == [str(uid)] * 4 for name in ("Uid", "Gid"))
    layers.append(
        Layer(
            "uid", own_uid, "" if own_uid else "the daemon is not root, so workers keep its host uid; nothing else does"
        )
    )
    groups = str(facts.get("Groups", "?")).split()
    layers.append(
        Layer(
            "groups",
            not groups,
            "" if not groups else f"supplementary groups stay: {len(groups)}; only root can drop them",
        )
    )
    bare = all(facts.get(name) == _NONE for name in _CAPABILITY_SETS)
    gone = "a capability set is not empty"
    if in_place and all(facts.get(name) == _NONE for name in _CAPABILITY_SETS if name != "CapBnd"):
        gone = "only root can empty the bounding set; with no_new_privs nothing comes of it"
    layers.append(Layer("capabilities", bare, "" if bare else gone))
    for name, line, wanted in (("no_new_privs", "NoNewPrivs", "1"), ("seccomp", "Seccomp", "2")):
        layers.append(Layer(name, facts.get(line) == wanted, "" if facts.get(line) == wanted else "not in force"))
    # A worker that has entered Landlock has tried it; one that could not is never sealed.
    version = facts.get("landlock")
    known = isinstance(version, int) and version > 0
    layers.append(Layer("landlock", known, "" if known else "this kernel has no Landlock, or it is switched off"))
    layers.append(cgroup)
    if overlay:
        layers.append(Layer("overlay", True))
    return tuple(layers)


def missing(layers: tuple[Layer, ...], required: tuple[str, ...]) -> list[Layer]:
    """The required layers that are not held. `overlay` counts only for workers that have the workspace that way."""
    by_name = {layer.name: layer for layer in layers}
    lacking = []
    for name in required:
        layer = by_name.get(name)
        if layer is None and name == "overlay":
            continue
        if layer is None or not layer.held:
            lacking.append(layer or Layer(name, False, "unknown to this version"))
    return lacking
