"""What somebody may have meant by a name that does not exist: the nearest ones that do."""

import difflib
import os
import unicodedata
from itertools import islice
from typing import Final

from stockade_daemon.errors import GateRefusal, Refusal
from stockade_daemon.gate.hidden import Hidden
from stockade_daemon.gate.names import spelled_out, told
from stockade_daemon.gate.paths import Resolved, resolve
from stockade_daemon.gate.refusals import Moved
from stockade_daemon.gate.workspace import Workspace

_LOOKED_AT: Final = 2000  # names of a directory
_OFFERED: Final = 3


def not_found(workspace: Workspace, path: bytes, hidden: Hidden) -> GateRefusal:
    """FS_NOT_FOUND for `path`, with near names from the deepest directory of it that exists; none that is hidden."""
    text = f"{told(path)} does not exist."
    try:
        with resolve(workspace, path, hidden) as place:
            near = _near(place, hidden)
    except (Refusal, Moved, OSError):
        near = []
    if near:
        text += f" Near it there {'is' if len(near) == 1 else 'are'} {', '.join(near)}."
    return GateRefusal("FS_NOT_FOUND", f"{text} Check the path.")


def _near(place: Resolved, hidden: Hidden) -> list[str]:
    covered = frozenset(hidden.names())
    wanted = (place.missing or (place.name,))[0]
    above = b"/".join(place.real.split(b"/")[: -1 - len(place.missing)])
    directory = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.parent)
    try:
        with os.scandir(directory) as entries:
            names = [os.fsencode(entry.name) for entry in islice(entries, _LOOKED_AT)]
            names = [name for name in names if not _is_hidden(hidden, covered, above, name)]
    finally:
        os.close(directory)
    # Names that look alike (composed or not, upper or lower case) come before names that are spelled alike.
    folded = {name: _folded(name) for name in names}
    same = sorted(name for name in names if folded[name] == _folded(wanted))
    close = difflib.get_close_matches(_folded(wanted), folded.values(), n=_OFFERED, cutoff=0.6)
    alike = sorted((name for name in names if folded[name] in close), key=lambda name: close.index(folded[name]))
    found = dict.fromkeys([*same, *alike])
    return [
        f"{told(b'/'.join(part for part in (above, name) if part))}{_apart(wanted, name)}"
        for name in islice(found, _OFFERED)
    ]


def _apart(wanted: bytes, name: bytes) -> str:
    """What tells a name from one that looks like it, and from those that a tool can be given; mostly empty."""
    try:
        found, asked = name.decode("utf-8"), wanted.decode("utf-8")
    except UnicodeDecodeError:
        return " (a name that is not UTF-8; only a command in `shell` reaches it)"
    if unicodedata.normalize("NFC", found) == unicodedata.normalize("NFC", asked):
        return f" (composed of other, canonically equivalent Unicode characters: {spelled_out(name)})"
    if _folded(name) == _folded(wanted):
        return " (with other upper and lower case)"
    if "".join(found.split()) == "".join(asked.split()):
        return " (with other white space)"
    return ""


def _is_hidden(hidden: Hidden, covered: frozenset[bytes], above: bytes, name: bytes) -> bool:
    path = b"/".join(part for part in (above, name) if part)
    return path in covered or hidden.hides(path)


def _folded(name: bytes) -> str:
    return unicodedata.normalize("NFC", name.decode("utf-8", "backslashreplace")).casefold()
