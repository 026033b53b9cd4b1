"""The effects of commands on one session's workspace: planned, shown to whoever decides, committed whole."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from stockade_daemon.gate import trees
from stockade_daemon.gate.effects import commit, upper
from stockade_daemon.gate.effects.area import Area
from stockade_daemon.gate.effects.areas import Areas
from stockade_daemon.gate.effects.mark import Mark, committed, mark
from stockade_daemon.gate.effects.orphans import gathered, orphans
from stockade_daemon.gate.effects.plan import Planner
from stockade_daemon.gate.effects.rules import Rules
from stockade_daemon.gate.effects.survey import Survey
from stockade_daemon.gate.effects.tree import Tree
from stockade_daemon.gate.effects.undo import METHOD
from stockade_daemon.gate.effects.upper import Found
from stockade_daemon.gate.effects.values import Made, Plan
from stockade_daemon.gate.names import of_body
from stockade_daemon.gate.outside import Looks
from stockade_daemon.gate.publish import settled
from stockade_daemon.gate.refusals import refuse_os_error
from stockade_daemon.gate.temporary import new_name
from stockade_daemon.gate.threads import aside, finished
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json

Record: TypeAlias = Callable[[dict[str, Json]], Awaitable[None]]

_IN_ONE_RECORD: Final = 1000  # names


@dataclass(frozen=True, slots=True)
class Prospect:
    """What committing would do, and what it takes to do it. Nothing on the disk has changed."""

    plan: Plan
    made: Made
    found: list[Found] = field(repr=False)
    survey: Survey = field(repr=False)


@dataclass(frozen=True, slots=True)
class Witness:
    """Who has a say in a commit, and records it."""

    begun: Record  # awaited with what recovery needs, before the first byte goes anywhere
    allowed: Callable[[], Awaitable[None]]  # awaited when nobody else can commit to the workspace; it refuses, or not
    done: Record  # awaited with each part of the record, in order, as soon as everything is on the disk


class Transactions:
    """Of one session, under one set of rules."""

    def __init__(self, workspace: Workspace, rules: Rules, looks: Looks) -> None:
        self._workspace = workspace
        self._rules = rules
        self._looks = looks

    def under(self, others: "Transactions") -> "Transactions":
        """The same under the rules of others."""
        return Transactions(self._workspace, others._rules, self._looks)

    async def begin(self) -> Mark:
        """The moment before a command begins: what changes after it is not the command's."""
        return await mark()

    async def plan(self, made: Made, since: Mark, *, exact: bool) -> Prospect:
        """What the command did, and by which steps it becomes true. `exact`: with digests of everything.

        Only when nobody is left that could write to the upper directory. Raises GateRefusal: FS_CONFLICT where somebody
        else has changed what it changed, FS_PROTECTED, FS_NAME_TOO_LONG, FS_TOO_LARGE, FS_IO_ERROR and others.
        """

        def work() -> Prospect:
            try:
                return self._plan(gathered(made), since, exact=exact)
            except OSError as error:
                raise refuse_os_error(error, "look at what the command changed in", b"the workspace") from error

        return await aside(work)

    def _plan(self, made: Made, since: Mark, *, exact: bool) -> Prospect:
        descriptor = os.open(made.upper, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with Tree(descriptor) as tree:
                found = list(upper.read(tree, made.marks, made.shut, os.fsencode(made.orphans)))
                made = replace(made, shut=upper.shut_in(found))
                left = list(orphans(tree, made))
                survey = Survey(Tree(self._workspace.descriptor), since)
                plan = Planner(found, tree, survey, made=made, exact=exact).run(left[1:])
                reasons = settled(lambda: self._rules.reasons(plan, tree), b"the workspace")
                survey.workspace.forget()
                return Prospect(replace(plan, reasons=reasons), made, found + left, survey)
        finally:
            os.close(descriptor)

    async def commit(self, prospect: Prospect, areas: Areas, witness: Witness, *, power: bool) -> None:
        """Makes all of it true, or nothing. Once `begun` has been called a cancellation waits until it is over.

        Raises GateRefusal FS_CONFLICT, FS_PERMISSION_DENIED, FS_IO_ERROR, and then the workspace is as it was, but for
        what the refusal names; InfrastructureFailure TOOL_OUTCOME_UNKNOWN where it has all of it and that cannot be
        recorded.
        """
        await finished(self._commit(prospect, areas, witness, power=power))

    async def _commit(self, prospect: Prospect, areas: Areas, witness: Witness, *, power: bool) -> None:
        plan, name = prospect.plan, new_name()
        known = False
        head = self._head(plan)
        await asyncio.to_thread(areas.note, name, self._workspace)
        commit.passing("noted")
        await witness.begun({**head, "method": METHOD, "temporary": name.decode()})
        commit.passing("begun")
        try:
            ready = await asyncio.to_thread(
                commit.prepare, self._workspace.descriptor, name, prospect.found, plan, prospect.survey, prospect.made
            )
            made = recorded = False
            try:
                async with trees.alone(self._workspace.place):
                    await witness.allowed()
                    await asyncio.to_thread(commit.perform, ready, power=power)
                    made = True
                    committed()
                    for each in plan.effects:
                        self._looks.knows(each.path, each.after)
                    for part in _parts(head, plan):
                        await witness.done(part)
                    recorded = True
                commit.passing("recorded")
            finally:
                if made and not recorded:
                    known = True  # its area and its note tell the next start that it was made
                    ready.area.close()
                else:
                    await asyncio.to_thread(ready.close)
                commit.passing("removed")
        finally:
            if not known:
                await asyncio.to_thread(self._forget, areas, name)

    def _forget(self, areas: Areas, name: bytes) -> None:
        """Where the area could not be removed, its note stays for the next start."""
        try:
            there = Area.is_there(self._workspace.descriptor, name)
        except OSError:
            there = True  # nobody knows
        if there:
            areas.leave(name)
        else:
            areas.forget(name)

    def _head(self, plan: Plan) -> dict[str, Json]:
        return {"path": plan.summary, "operation": METHOD, "before": None, "after": plan.digest}


def _parts(head: dict[str, Json], plan: Plan) -> Iterator[dict[str, Json]]:
    """The bodies of the fs/committed events; the last one, whose `part` is `parts`, says that it is done."""
    named = [each for each in plan.effects if not each.inside]
    parts = max(1, -(-len(named) // _IN_ONE_RECORD))
    for number in range(parts):
        some = named[number * _IN_ONE_RECORD : (number + 1) * _IN_ONE_RECORD]
        yield {**head, "part": number + 1, "parts": parts, "effects": [each.body() for each in some]}


def restored_effects(body: Mapping[str, Json]) -> Iterator[tuple[bytes, str | None]]:
    """Path and digest of what a recorded transaction changed. Raises ValueError."""
    effects = body.get("effects", ())
    if not isinstance(effects, Sequence) or isinstance(effects, str):
        raise ValueError("a recorded transaction tells of no list of effects")
    for each in effects:
        path = of_body(each, "path") if isinstance(each, Mapping) else None
        if path is None or not isinstance(each, Mapping):
            raise ValueError(f"a recorded transaction tells of {each!r}, which is no effect")
        after = each.get("after")
        yield path, after if isinstance(after, str) else None
