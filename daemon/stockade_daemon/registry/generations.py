"""The tools that there are now, as one generation after another. A generation never changes.

A call takes its manifest, which holds the code that runs, from the generation that was current when it was taken; so it
ends with that one whatever comes meanwhile.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from stockade_daemon.errors import ArgumentsRefusal
from stockade_daemon.registry import custom
from stockade_daemon.registry.registry import Registry
from stockade_daemon.values import Manifest


@dataclass(frozen=True, slots=True)
class Refused:
    """A file, or an installed package, whose tools could not be taken."""

    origin: str
    stem: str  # its tools are named so, or that and `_` and more
    reason: str  # `ORIGIN:LINE: what is wrong; what to do`
    kept: tuple[str, ...]  # its tools of before, which stay


@dataclass(frozen=True, slots=True)
class Change:
    """What a new generation brought, by names of tools."""

    number: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class Generations:
    """Holds the current generation. `current` is replaced, never changed."""

    def __init__(self, built_in: Registry) -> None:
        self.built_in = built_in
        self.current = built_in
        self.number = 1
        self.refused: tuple[Refused, ...] = ()

    def names(self) -> tuple[str, ...]:
        """Of the built-in tools, which no other tool can have."""
        return tuple(each.name for each in self.built_in.catalog())

    def find(self, name: str, only: Collection[str] = ()) -> Manifest:
        """A tool of the current generation, among those that `only` names where that is not empty.

        Raises ArgumentsRefusal UNKNOWN_TOOL, which names the refused file that the tool may stand in.
        """
        try:
            return self.current.find(name, only)
        except ArgumentsRefusal as refusal:
            hinted = not only or name in only  # or else a name that is hidden would be told from one that nobody has
            mine = [each for each in self.refused if hinted and custom.is_name_of(each.stem, name)]
            if not mine:
                raise
            closest = max(mine, key=lambda each: len(each.stem))
            raise ArgumentsRefusal(
                refusal.code, f"{refusal.message} The file that may have it is refused: {closest.reason}."
            ) from None

    def succeed(self, custom: Iterable[Manifest], refused: Iterable[Refused]) -> Change:
        """Makes the built-in tools and `custom` the current generation, where that is another than the present one.

        The names have been judged: none is a built-in tool's, no two are the same.
        """
        self.refused = tuple(refused)
        before = _by_name(self.current)
        after = {**_by_name(self.built_in), **{each.name: each for each in custom}}
        change = Change(
            self.number + 1,
            tuple(sorted(after.keys() - before.keys())),
            tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name])),
            tuple(sorted(before.keys() - after.keys())),
        )
        if change:
            self.current = Registry(after)
            self.number = change.number
        return change


def _by_name(registry: Registry) -> Mapping[str, Manifest]:
    return {each.name: each for each in registry.catalog()}
