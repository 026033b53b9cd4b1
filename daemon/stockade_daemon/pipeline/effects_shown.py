"""The card of what a command did: every name that it changed, texts as differences, the rest by size and digest."""

import os
import stat
from collections import Counter
from collections.abc import Mapping
from typing import Final

from stockade_daemon.gate.content import MAX_FILE_BYTES
from stockade_daemon.gate.difference import difference
from stockade_daemon.gate.effects.transactions import Prospect
from stockade_daemon.gate.effects.tree import Tree
from stockade_daemon.gate.effects.values import CHANGES, Effect
from stockade_daemon.gate.names import shown, told
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json

_MOST: Final = 2000  # effects on a card
_MOST_TEXT: Final = 512 * 1024  # characters of differences on a card
_MOST_FILE: Final = min(4 * 1024 * 1024, MAX_FILE_BYTES)  # bytes of a file that is compared
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


def for_effects(card: Mapping[str, Json], prospect: Prospect, workspace: Workspace) -> dict[str, Json]:
    """`card`, about a call's arguments, with what the call did. File work.

    Beside that of the arguments: `transaction` (SHA-256 that binds all of it, shown or not), `counts` by change,
    `files`, `bytes` (of new content), `effects`, `effects_total`, `left_out`, and `complete`: whether all of it is on
    the card, word for word.
    """
    plan = prospect.plan
    effects: list[Json] = []
    complete, left = True, _MOST_TEXT
    upper = os.open(prospect.made.upper, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with Tree(upper) as new, Tree(workspace.descriptor) as old:
            for each in plan.effects[:_MOST]:
                body, whole = _one(each, old, new, left)
                left -= len(str(body.get("difference", "")))
                complete = complete and whole
                effects.append(body)
    finally:
        os.close(upper)
    counts = Counter(each.change for each in plan.effects)
    return {
        **card,
        "transaction": plan.digest,
        "counts": {change: counts[change] for change in CHANGES},
        "files": sum(each.kind == "file" for each in plan.effects),
        "bytes": sum(each.size for each in plan.effects if each.held),
        "effects": effects,
        "effects_total": len(plan.effects),
        "left_out": [{"path": shown(path), "why": why} for path, why in plan.left_out],
        "reasons": [{"path": shown(path), "why": why} for path, why in plan.reasons],
        "complete": complete and len(plan.effects) <= _MOST,
    }


def _one(effect: Effect, old: Tree, new: Tree, left: int) -> tuple[dict[str, Json], bool]:
    """What the card says of one of them, and whether that is everything."""
    body = effect.body()
    body["path"] = told(effect.path) if effect.path else "."
    if effect.kind != "file" or effect.change in ("metadata", "renamed") or effect.size == 0:
        return body, True
    if effect.size > _MOST_FILE:
        return body | {"cut": True}, False
    before = _bytes(old, effect.path) if effect.change in ("changed", "deleted", "replaced") else None
    after = _bytes(new, effect.held) if effect.held else b""
    if after is None or (before is None and effect.change == "changed"):
        return body | {"cut": True}, False
    found = difference(effect.path, before, after)
    body |= {"added": found.added, "removed": found.removed}
    if b"\0" in after[:8192] or b"\0" in (before or b"")[:8192]:
        return body | {"binary": True}, False
    if len(found.text) > left:
        return body | {"cut": True}, False
    return body | {"difference": found.text}, found.complete


def _bytes(tree: Tree, path: bytes) -> bytes | None:
    """The bytes of a file; None where it is none, too large, or cannot be read now."""
    try:
        directory, name = tree.at(path)
        descriptor = os.open(name, _READ, dir_fd=directory)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_FILE:
            return None
        return file.read(_MOST_FILE)
