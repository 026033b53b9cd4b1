"""Which `--` of a program's template ends its options for sure (getopt(3)): from there on nothing is an option.

A `--` that follows an option may be that option's value, and only the program knows which of its options have one. So
it counts only where what stands before it, whatever a call leaves out, is no option.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stockade_daemon.values import Part

_END: Final = "--"
_Before = frozenset[bool]  # what the element before may be: an option (True), something else (False)


class Options:
    """Follows the elements of an argument vector, the program first."""

    def __init__(self, given: Mapping[str, Mapping[str, Any]], dashes: Sequence[str]) -> None:
        """`given`: the schema of each argument; `dashes`: those whose text may begin with a dash."""
        self._given = given
        self._dashes = dashes
        self._before: _Before = frozenset({False})
        self.over = False

    def passes(self, parts: Sequence[Part]) -> None:
        """Takes note of what one element of the template gives; all of it may be left out where it has a `when`."""
        before = self._before
        for part in parts:
            self._pass(part)
        if parts[0].given is not None:
            self._before |= before

    def _pass(self, part: Part) -> None:
        before = self._before
        kind, text = part.pieces[0] if part.pieces else ("text", "")
        if kind == "argument":
            # What follows an option and begins with a dash is its value.
            self._before = frozenset({text in self._dashes and False in before})
            schema = self._given[text]
            if schema.get("type") == "array":
                if text in self._dashes and schema.get("maxItems") != 1:
                    self._before |= {True}  # its second item follows its first, which is no option
                if not schema.get("minItems"):
                    self._before |= before
        elif part.pieces == (("text", _END),):
            self.over = self.over or (part.given is None and True not in before)
            self._before = frozenset({False})
        else:
            joined = text.startswith(_END) and "=" in text  # --name=value
            self._before = frozenset({text.startswith("-") and text != "-" and not joined})
