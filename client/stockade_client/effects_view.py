"""What a command did, as a person is shown it before it is committed: counts, a tree, what is left out, differences.

A yes commits all of it, so all of it is told of: what the card has no room for is counted, and whatever an entry has
that is not known here is shown as it came. Names are of the command's making: one that holds a line's end, or looks
like words of ours, is quoted, and no line of a file can pass for a line of this.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.text import Text

from stockade_client.results import Json
from stockade_client.shown_text import difference, text

SHOWN: Final = frozenset(
    {"effects", "effects_total", "counts", "files", "bytes", "left_out", "complete", "reasons", "transaction"}
    | {"lengths"}
)
_ORDER: Final = ("created", "changed", "deleted", "renamed", "replaced", "metadata")
_STYLES: Final = {
    "created": "green",
    "changed": "yellow",
    "deleted": "red",
    "renamed": "cyan",
    "replaced": "bold red",
    "metadata": "magenta",
}
_KNOWN: Final = frozenset(
    {
        *("path", "change", "kind", "size", "from", "mode", "before_mode", "target", "before", "after"),
        *("added", "removed", "difference", "binary", "cut"),
    }
)
_DIGEST: Final = 12  # digits of one that are shown; the transaction binds all
_DEEPEST: Final = 20  # directories that are drawn one in the other; a command may make two thousand
_WIDEST: Final = 32  # columns of a name, before what follows goes out of line


@dataclass(slots=True)
class _Directory:
    """What is below a directory; names in the order in which they came."""

    directories: "dict[str, _Directory]" = field(default_factory=dict)
    entries: list[tuple[str, Mapping[str, Json]]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, parts: Sequence[str], effect: Mapping[str, Json]) -> None:
        place = self
        place.counts[_word(effect)] += 1
        for name in parts[:-1]:
            place = place.directories.setdefault(name, _Directory())
            place.counts[_word(effect)] += 1
        place.entries.append((parts[-1], effect))


def parts(card: Mapping[str, Json]) -> list[Text]:
    """The effects of a card that has some, part by part."""
    effects = _mappings(card.get("effects"))
    made = [
        Text("The command has run in a private view. Yes commits all that it did, no drops all of it:", style="bold"),
        _totals(card),
        _tree(effects),
    ]
    missing = _number(card.get("effects_total")) - len(effects)
    if missing > 0:
        made.append(Text(f"… and {missing} more, which are not shown here and are committed as well", "bold red"))
    elif card.get("complete") is False:
        made.append(Text("Not all of it stands here word for word: binary and large files are told by size", "bold"))
    for key, heading in (("reasons", "Asked about in any case:"), ("left_out", "Never committed, and left out:")):
        listed = _mappings(card.get(key))
        if listed:
            made.append(Text(heading, style="bold"))
        for each in listed:
            made.append(_name(_text(each.get("path"))).append(": ").append_text(_plain(each.get("why"))))
    for effect in effects:
        made.extend(_content(effect))
    if card.get("transaction"):
        made.append(Text("transaction ", style="dim").append_text(text(_text(card["transaction"]))))
    return made


def size(count: int) -> str:
    """Bytes in few characters: 999 B, 1.2 kB, 34 MB."""
    if count < 1000:
        return f"{count} B"
    amount, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while amount >= 999.5 and len(units) > 1:
        amount /= 1000
        units.pop(0)
    unit = units[0]
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"


def _totals(card: Mapping[str, Json]) -> Text:
    counts = card.get("counts")
    found = {name: _number(count) for name, count in counts.items()} if isinstance(counts, dict) else {}
    said = [_counted(found)] if any(found.values()) else []
    if "files" in card:
        number = _number(card["files"])
        said.append(f"{number} file{'' if number == 1 else 's'}")
    if "bytes" in card:
        said.append(f"{size(_number(card['bytes']))} of new content")
    return text(" · ".join(said))


def _counted(counts: Mapping[str, int]) -> str:
    known = [name for name in _ORDER if counts.get(name)]
    names = [*known, *(name for name in counts if name not in _ORDER and counts[name])]
    return ", ".join(f"{counts[name]} {'with other metadata' if name == 'metadata' else name}" for name in names)


def _tree(effects: Iterable[Mapping[str, Json]]) -> Text:
    top = _Directory()
    for effect in effects:
        names = [each for each in _text(effect.get("path")).split("/") if each] or ["."]
        top.add([*names[:_DEEPEST], *filter(None, ["/".join(names[_DEEPEST:])])], effect)
    lines = list(_lines(top, ""))
    return Text("\n").join(lines)


def _lines(directory: _Directory, indent: str) -> Iterable[Text]:
    for name, below in directory.directories.items():
        names = [name]
        while len(below.directories) == 1 and not below.entries:  # a way without a fork is one line
            ((name, below),) = below.directories.items()
            names.append(name)
        line = Text(indent).append_text(_name("/".join(names)).append("/"))
        line.stylize("bold")
        yield line.append(f"  {_counted(below.counts)}", style="not bold dim")
        yield from _lines(below, f"{indent}  ")
    width = min(_WIDEST, max((len(_name(name).plain) for name, _ in directory.entries), default=0))
    for name, effect in directory.entries:
        yield _entry(name, effect, indent, width)


def _entry(name: str, effect: Mapping[str, Json], indent: str, width: int) -> Text:
    change = _word(effect)
    shown = _name(name)
    if effect.get("kind") == "directory":
        shown.append("/")
    line = Text(indent).append_text(text(f"{change:<8}", _STYLES.get(change, "bold"))).append(" ")
    line.append_text(shown).append(" " * max(0, width - len(shown.plain)))
    for fact in _facts(effect):
        line.append("  ").append_text(fact)
    line.rstrip()
    return line


def _facts(effect: Mapping[str, Json]) -> Iterable[Text]:
    kind = effect.get("kind")
    if kind not in ("file", "directory", None):
        yield text(_text(kind))
    if "target" in effect:
        yield Text("to ").append_text(_name(_text(effect["target"])))
    if "from" in effect:
        yield Text("from ").append_text(_name(_text(effect["from"])))
    if kind != "directory" and "size" in effect:
        yield Text(size(_number(effect["size"])))
    if "added" in effect or "removed" in effect:
        yield Text(f"+{_number(effect.get('added'))} -{_number(effect.get('removed'))}")
    before, mode = effect.get("before_mode"), effect.get("mode")
    if mode is not None and before is not None and mode != before:
        yield text(f"mode {_text(before)} to {_text(mode)}", "bold")
    elif mode is not None and before is None:
        yield text(f"mode {_text(mode)}", "dim")
    if effect.get("binary") is True:
        yield Text("binary")
    for name, value in effect.items():
        if name not in _KNOWN and value not in (None, ""):
            yield text(f"{name} {_text(value)}")


def _content(effect: Mapping[str, Json]) -> Iterable[Text]:
    """The difference, below a line that no line of a difference can be; without one, the digests."""
    digests = [
        f"{word} {_text(effect[word])[:_DIGEST]}" for word in ("before", "after") if effect.get(word) not in (None, "")
    ]
    shown = effect.get("difference")
    said = f": {_word(effect)}"
    heading = Text("=== ", style="bold").append_text(_name(_text(effect.get("path")))).append_text(text(said))
    if isinstance(shown, str) and shown:
        yield heading
        yield difference(shown)
        if effect.get("cut") is True:
            yield Text("The difference goes on; only its beginning is shown here", "bold red")
    elif effect.get("cut") is True:
        what = "a large difference is not shown"
        yield heading.append(", ").append_text(text(", ".join([what, *digests]), "not bold"))
    elif effect.get("binary") is True:
        yield heading.append(", ").append_text(text(", ".join(["binary", *digests]), "not bold"))


def _name(path: str) -> Text:
    """A path on one line, set off where it could be taken for something else."""
    odd = any(each in path for each in ("\n", "\t", "  ", '"', ": ", " from ", " to ")) or path != path.strip()
    return text(json.dumps(path, ensure_ascii=False) if odd or not path else path)


def _word(effect: Mapping[str, Json]) -> str:
    return " ".join(_text(effect.get("change")).split()) or "?"


def _mappings(value: Json | None) -> list[Mapping[str, Json]]:
    """The entries of a list; one that is no object is shown as it came."""
    if not isinstance(value, list):
        return []
    return [each if isinstance(each, dict) else {"path": _text(each), "why": "?"} for each in value]


def _plain(value: Json | None) -> Text:
    """Words of the daemon's, on one line."""
    return text(" ".join(_text(value).split()))


def _number(value: Json | None) -> int:
    return value if isinstance(value, int) else 0


def _text(value: Json | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
