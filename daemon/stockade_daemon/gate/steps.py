"""Several patterns at once, followed name by name: for walks, where it matters what may still match further below.

Places in the patterns that the names so far lead to are a set of states; one more name leads from a set to the next.
The sets that a walk meets are few, so what each name may do to one is worked out once.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from stockade_daemon.gate.names import encoded
from stockade_daemon.path_patterns import ANY_DEPTH, Part, after, fits, parts_of

States: TypeAlias = frozenset[tuple[int, int]]  # a pattern's number, and a place in it

MATCHED: Final[States] = frozenset({(-1, 0)})  # some pattern has matched, and so has everything further below

_TABLES: Final = 256  # kept at once


@dataclass(slots=True)
class _Table:
    """What a name does to one set of states."""

    always: States  # whatever the name is
    names: dict[bytes, States] = field(default_factory=dict)
    folded: dict[bytes, States] = field(default_factory=dict)  # by names in lower case
    stars: list[tuple[Part, bool, States]] = field(default_factory=list)  # true: fitted in lower case


class Steps:
    """`patterns` begin at the workspace's root. Those of `folded` are in lower case, are compared without regard to
    case, and begin at the root of the host, of which `above` is the workspace's path."""

    __slots__ = ("_all", "_tables", "everywhere", "start")

    def __init__(self, patterns: tuple[str, ...], folded: tuple[str, ...] = (), above: bytes = b"") -> None:
        self._all = [(parts_of(encoded(each)), False) for each in patterns]
        self._all += [(parts_of(encoded(each)), True) for each in folded]
        self._tables: dict[States, _Table] = {}
        at_root = [self._at(number, 0) for number in range(len(self._all))]
        # What `**` at a beginning makes true of every directory, so that no link into one adds it.
        self.everywhere: States = frozenset().union(
            *(at for (parts, _), at in zip(self._all, at_root, strict=True) if parts[0] == ANY_DEPTH)
        )
        states: States = frozenset().union(*at_root[len(patterns) :])
        for name in (name for name in above.split(b"/") if name):
            states = self.step(states, name)
        # States at the root of the workspace: of nothing matched so far, or MATCHED.
        self.start: States = states if states == MATCHED else states.union(*at_root[: len(patterns)])

    def step(self, states: States, name: bytes) -> States:
        """The states after one more name; empty where nothing can match any more."""
        if states == MATCHED:
            return MATCHED
        table = self._tables.get(states)
        if table is None:
            if len(self._tables) >= _TABLES:
                self._tables.clear()
            table = self._tables[states] = self._table(states)
        low = name.lower()
        found = [there for there in (table.names.get(name), table.folded.get(low)) if there is not None]
        found += [there for part, fold, there in table.stars if fits(low if fold else name, part)]
        states = table.always.union(*found) if found else table.always
        return MATCHED if states >= MATCHED else states

    def _table(self, states: States) -> _Table:
        table = _Table(frozenset())
        for number, place in states:
            parts, fold = self._all[number]
            part = parts[place]
            if part == ANY_DEPTH:
                table.always |= self._at(number, place if place < len(parts) - 1 else len(parts))
            elif len(part) > 1:
                table.stars.append((part, fold, self._at(number, place + 1)))
            else:
                by_name = table.folded if fold else table.names
                by_name[part[0]] = by_name.get(part[0], frozenset()) | self._at(number, place + 1)
        return table

    def _at(self, number: int, place: int) -> States:
        parts, _ = self._all[number]
        return MATCHED if place == len(parts) else frozenset((number, each) for each in after(place, parts))
