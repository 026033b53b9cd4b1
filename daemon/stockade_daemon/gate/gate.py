"""The gate of one session: reads, observations, and the way of an intent from wish to committed bytes.

    read → showed            the body gets sealed bytes; what it really showed becomes an observation
    decide → Planned         observation × disk, by the table of decision.py; nothing changes
    commit → Committed       under the file's lock: everything checked again, recorded as begun, published

Policy and people are asked between `decide` and `commit`, and not here. All methods belong to the event loop's thread;
file work goes to threads.
"""

import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from stockade_daemon.errors import GateRefusal, ToolFailure
from stockade_daemon.gate import attributes, links, locating, locks, outside, suggest, trees
from stockade_daemon.gate.content import MAX_FILE_BYTES, Snapshot, require_regular, sealed, take
from stockade_daemon.gate.decision import admit_edit, plan_edit, plan_write
from stockade_daemon.gate.effects import mark
from stockade_daemon.gate.effects.rules import Rules
from stockade_daemon.gate.effects.transactions import Transactions, restored_effects
from stockade_daemon.gate.fingerprints import Fingerprint, fingerprint
from stockade_daemon.gate.hidden import Hidden, not_to_be_written
from stockade_daemon.gate.intents import Committed, EditIntent, Planned, WriteIntent
from stockade_daemon.gate.listing import Listed
from stockade_daemon.gate.locating import Located
from stockade_daemon.gate.locks import Key, held, is_held
from stockade_daemon.gate.names import encoded, shown
from stockade_daemon.gate.observations import Observation, Observations, part_of, restored, restored_names
from stockade_daemon.gate.paths import Resolved, resolve, spelled
from stockade_daemon.gate.protected import Protected
from stockade_daemon.gate.publish import Facts, closed, method_for, publish, read_only, recheck, settled
from stockade_daemon.gate.refusals import moved, named_as_directory, os_errors, too_large
from stockade_daemon.gate.scratch import ScratchPaths
from stockade_daemon.gate.temporary import new_name
from stockade_daemon.gate.threads import aside, finished
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json

Begun: TypeAlias = Callable[[dict[str, Json]], Awaitable[None]]

_HANDLES: Final = 4096  # reads remembered at once; older ones can no longer be said to have been shown


@dataclass(frozen=True, slots=True)
class Opened:
    """A file's bytes, for a body."""

    handle: str  # minted by the gate; `showed` takes it back
    descriptor: int  # a sealed memfd, at its beginning; the caller closes it
    asked: str  # the path as it was asked for
    real: bytes  # relative to the workspace, links followed
    digest: str  # SHA-256 of the bytes, lower-case hex
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class _Look:
    """A path and its bytes at one moment, without descriptors."""

    real: bytes
    asked: bytes
    as_directory: bool
    disk: Snapshot | None


class Gate:
    """One session's gate. `protected`: patterns beside those of protected.py; `hidden` and `scratch`: see hidden.py and
    scratch.py; `told` is called when the session knows something new of a file."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        protected: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
        scratch: tuple[str, ...] = (),
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self._workspace = workspace
        self._hidden = Hidden(workspace, hidden)
        self._protected = Protected(workspace, protected, hides=self._hidden.hides)
        self._scratch = ScratchPaths(scratch)
        self._seen = Observations()
        self._looks = outside.Looks()
        self._told = told
        self._handles: dict[str, Observation] = {}
        rules = Rules(workspace, self._protected, self._hidden, self._scratch)
        self.transactions = Transactions(workspace, rules, self._looks)

    def under(self, *, protected: tuple[str, ...], hidden: tuple[str, ...], scratch: tuple[str, ...] = ()) -> "Gate":
        """The session's gate under other patterns. Both know the same: what either has shown, handed out or committed,
        the other has too."""
        gate = Gate(self._workspace, protected=protected, hidden=hidden, scratch=scratch, told=self._told)
        gate._seen, gate._handles, gate._looks = self._seen, self._handles, self._looks
        gate.transactions = self.transactions.under(gate.transactions)
        return gate

    async def read(self, path: str, *, editing: bool = False) -> Opened:
        """The bytes of a file, and a handle to say later what of them was shown.

        With `editing`, refuses at once what an edit of this file would be refused: FS_NOT_OBSERVED, FS_STALE_VERSION,
        FS_PROTECTED. So a body that looks for text in stale bytes never gets to say that it is not there.
        Raises GateRefusal FS_* by path, kind, size and permission; ArgumentsRefusal INVALID_ARGS.
        """
        try:
            return await self._read(path, editing=editing)
        except GateRefusal as refusal:
            if not editing or refusal.code != "FS_STALE_VERSION":
                raise
        await self._commits_are_known(path)
        return await self._read(path, editing=editing)

    async def _commits_are_known(self, path: str) -> None:
        """Waits for a commit to this file that is under way: its bytes may be on the disk already, and what the session
        knows not yet be of them."""

        def keys() -> tuple[Key, list[Key]]:
            with resolve(self._workspace, path) as place:
                return locks.of_path(self._workspace, place.real), links.keys(place.status)

        own, shared = await aside(lambda: settled(keys, encoded(path)))
        async with held(own), held(*shared):
            pass

    async def _read(self, path: str, *, editing: bool) -> Opened:
        def work() -> tuple[_Look, Snapshot, int]:
            look = settled(lambda: self._look(path, writing=editing), encoded(path))
            if look.disk is None:
                raise self._not_found(look.asked)
            with os_errors("hand over", look.asked):
                return look, look.disk, sealed(look.disk.content)

        look, disk, descriptor = await aside(work, undo=lambda result: os.close(result[2]))
        if editing:
            try:
                admit_edit(look.asked, self._seen.find(look.real, look.asked), disk)
            except BaseException:
                os.close(descriptor)
                raise
        handle = secrets.token_hex(16)
        while len(self._handles) >= _HANDLES:
            del self._handles[next(iter(self._handles))]
        self._handles[handle] = Observation(look.real, look.asked, disk.digest, len(disk.content), disk.lines)
        return Opened(handle, descriptor, path, look.real, disk.digest, len(disk.content))

    async def locate(self, path: str) -> Located:
        """Where a path of a directory or a regular file leads; nothing is read, and nothing is observed.

        Raises GateRefusal FS_* by path, kind and permission; ArgumentsRefusal INVALID_ARGS.
        """

        def look() -> Located:
            return locating.locate(self._workspace, self._hidden, self._scratch, path)

        return await aside(lambda: settled(look, encoded(path)))

    async def entries(self, path: str, *, first: int, most: int) -> Listed:
        """The names of a directory, without the hidden ones, from number `first` on, `most` of them. Observes nothing.

        Raises GateRefusal FS_* by path, kind and permission, FS_TOO_LARGE; ArgumentsRefusal INVALID_ARGS.
        """

        def look() -> Listed:
            return locating.entries(self._workspace, self._hidden, self._scratch, path, first=first, most=most)

        return await aside(lambda: settled(look, encoded(path)))

    def part(self, handle: str, *, first: int, last: int) -> Observation:
        """What it is to have seen lines `first` to `last` of a read file, whole. Nothing is recorded yet.

        Lines count from 1 and end with the byte 0x0A, whatever the encoding. `last` = `first` - 1 says that no line was
        shown whole: of an empty file that is everything, of any other it is a part. Raises ToolFailure
        INVALID_TOOL_OUTPUT for a handle or lines that are not so.
        """
        opened = self._handles.get(handle)
        if opened is None:
            raise ToolFailure(
                "INVALID_TOOL_OUTPUT", "The tool showed a file that it had not opened. This is a fault of the tool."
            )
        return part_of(opened, first, last)

    def showed(self, seen: Observation) -> None:
        """Records a part of a file as what reached the model: for a read that succeeded, once for each run of lines."""
        self._seen.add(seen)
        self._told()

    def forget(self, handle: str) -> None:
        """Lets go of a handle, when the call that read is over. An unknown one is nothing."""
        self._handles.pop(handle, None)

    async def absent(self, path: str) -> Observation | None:
        """Records that the session was told that nothing is at `path`; None where something is by now.

        Raises as `read` does for the path itself.
        """

        def look() -> Observation | None:
            asked = spelled(self._workspace, path)
            if self._hidden.hides(asked):
                return Observation(asked, asked, None)
            with resolve(self._workspace, path, self._hidden) as place:
                absent = place.status is None or self._hidden.holds(place)
                return Observation(place.real, place.asked, None) if absent else None

        seen = await aside(lambda: settled(look, encoded(path)))
        if seen is not None:
            self._seen.add(seen)
            self._told()
        return seen

    async def decide(self, intent: EditIntent | WriteIntent) -> Planned:
        """What `intent` would do, exactly, if it may be done at all. Changes nothing.

        Raises GateRefusal by the table in decision.py and by path, kind, size and permission; FS_PROTECTED;
        ToolFailure INVALID_TOOL_OUTPUT for spans that cannot be; ArgumentsRefusal INVALID_ARGS.
        """
        if isinstance(intent, WriteIntent) and len(intent.content) > MAX_FILE_BYTES:
            raise too_large(encoded(intent.path), len(intent.content), MAX_FILE_BYTES)
        try:
            return await self._decide(intent)
        except GateRefusal as refusal:
            if refusal.code != "FS_STALE_VERSION":
                raise
        await self._commits_are_known(intent.path)
        return await self._decide(intent)

    async def _decide(self, intent: EditIntent | WriteIntent) -> Planned:
        creating = isinstance(intent, WriteIntent)
        look = await aside(
            lambda: settled(lambda: self._look(intent.path, writing=True, creating=creating), encoded(intent.path))
        )
        seen = self._seen.find(look.real, look.asked)

        def plan() -> Planned:
            if isinstance(intent, WriteIntent):
                return plan_write(intent, look.real, look.asked, seen, look.disk)
            if look.disk is None:
                raise self._not_found(look.asked)
            if look.real != intent.real:
                raise moved(look.asked, look.real, intent.real)
            return plan_edit(intent, look.real, look.asked, seen, look.disk)

        return await aside(plan)

    async def commit(
        self, planned: Planned, *, begun: Begun, committed: Callable[[Committed], Awaitable[None]] | None = None
    ) -> Committed:
        """Makes `planned` true, or refuses and leaves the old bytes.

        `begun` is awaited with what recovery needs (see recovery.py) after the last refusal that the gate can foresee
        and before the first byte changes; it refuses, or records durably. `committed` is awaited as soon as the change
        is on the disk. Once `begun` has been called a cancellation waits until both are over.
        Raises GateRefusal: FS_STALE_VERSION where the disk is no longer as it was decided about, FS_PROTECTED,
        FS_PERMISSION_DENIED, FS_CONFLICT, FS_IO_ERROR.
        """
        async with trees.shared(self._workspace.place), held(*locks.of_change(self._workspace, planned.real)):
            facts = await aside(lambda: self._recheck(planned))
            async with held(*(links.keys(facts.status) if facts.method == "in place" else [])):
                return await finished(self._make(planned, facts, begun, committed))

    def restore(self, body: Mapping[str, Json]) -> None:
        """Learns again from the body of a recorded `fs/observed` or `fs/committed` event, in their order.

        What it learns is compared with the bytes like everything else. Raises ValueError for another body.
        """
        if body.get("operation") == "transaction":
            for path, digest in restored_effects(body):
                self._looks.knows(path, digest)
            return
        seen = restored(body)
        if "operation" in body:
            for each in (seen, *restored_names(body)):
                self._seen.put(each)
        else:
            self._seen.add(seen)

    async def changed_outside(self, most: int) -> list[outside.Changed]:
        """The files that this session was shown and that others have changed since, each content told once.

        Of the `most` files observed last. One that is being committed is looked at the next time.
        """
        if self._workspace.descriptor < 0:
            return []
        known = self._seen.latest(most)
        known = {path: digest for path, digest in known.items() if not self._is_busy(path)}
        # A descriptor of its own: no call keeps the session's from being closed meanwhile.
        with self._workspace.again() as workspace:
            found = await finished(aside(lambda: self._looks.look(workspace, known, self._hidden)))
        return self._looks.new([each for each in found if not self._is_busy(each.path)], self._seen)

    def seen_directories(self, most: int) -> list[str]:
        """The directories of the `most` files observed last, one for each, absolute."""
        parents = (path.rpartition(b"/")[0] for path in self._seen.latest(most))
        return [os.path.join(self._workspace.place, os.fsdecode(parent)) for parent in parents]

    async def fingerprints(self, paths: Sequence[str]) -> list[Fingerprint | None]:
        """Of regular files, what tells whether they have changed; None for what is none, or cannot be read."""
        return await aside(lambda: [fingerprint(self._workspace, self._hidden, self._scratch, path) for path in paths])

    def hides(self, path: bytes) -> bool:
        """Whether a name of the workspace is one that this session must not see."""
        return self._hidden.hides(path)

    def hidden_names(self) -> tuple[bytes, ...]:
        """The names that a view of the workspace has to cover now; file work. Raises OSError."""
        return self._hidden.names()

    async def _make(
        self,
        planned: Planned,
        facts: Facts,
        begun: Begun,
        committed: Callable[[Committed], Awaitable[None]] | None,
    ) -> Committed:
        name = new_name()
        await begun(facts.body(planned, name))
        with self._looks.leaving_out(planned.before):
            happened = await aside(lambda: publish(self._workspace, planned, facts.method, name))
            mark.committed()
            self._seen.put(planned.seen)
            several = facts.method == "in place" and planned.links > 1
            alike = self._seen.of_content(planned.before) if several else []
            names = await aside(lambda: links.among(self._workspace, facts.status, alike)) if alike else []
            names_seen = self._seen.follow(planned.seen, planned.before, names)
        self._told()
        if facts.method == "in place" and planned.links < 2:
            happened = "; ".join(note for note in ("written in place, which keeps the file's owner", happened) if note)
        done = Committed(
            path=shown(planned.real),
            operation=planned.operation,
            before=planned.before,
            after=planned.after,
            size=len(planned.content),
            note="; ".join(note for note in (planned.note, happened) if note),
            seen=planned.seen,
            names_seen=names_seen,
        )
        if committed is not None:
            await committed(done)
        return done

    def _recheck(self, planned: Planned) -> Facts:
        def look() -> Facts:
            with resolve(self._workspace, planned.asked, self._hidden) as place:
                disk = recheck(place, planned)
                if self._holds(place):
                    raise not_to_be_written(place.asked)
                self._may_write(place)
                method = method_for(disk.status if disk else None)
                if planned.before == planned.after:
                    method = "none"
                status = disk.status if disk else os.fstat(place.parent)
                return Facts(method, status, len(place.missing))

        return settled(look, planned.asked)

    def _look(self, path: str, *, writing: bool, creating: bool = False) -> _Look:
        asked = spelled(self._workspace, path)
        if self._hidden.hides(asked):
            raise not_to_be_written(asked) if creating else self._not_found(asked)
        self._scratch.check(asked, writing=writing)
        with resolve(self._workspace, path, self._hidden) as place:
            if self._holds(place):
                raise not_to_be_written(place.asked) if creating else self._not_found(place.asked)
            self._scratch.check(place.real, writing=writing)
            require_regular(place)
            if writing:
                self._may_write(place)
                if not attributes.takes_names(place.parent):
                    raise closed(place.asked, place.parent)
            disk = take(place, as_text=not creating) if place.status is not None else None
            if writing and disk is not None and not attributes.writable(place.parent, place.name, disk.status):
                raise read_only(place.asked, disk.status)
            return _Look(place.real, place.asked, place.as_directory, disk)

    def _not_found(self, asked: bytes) -> GateRefusal:
        return suggest.not_found(self._workspace, asked, self._hidden)

    def _holds(self, place: Resolved) -> bool:
        """Whether what was found is hidden; looks through the workspace for a file that has several names."""
        with os_errors("look up", place.asked):
            return self._hidden.holds(place)

    def _may_write(self, place: Resolved) -> None:
        self._protected.check(place.real, place.asked)
        if place.status is None and place.as_directory:
            raise named_as_directory(place.asked)
        if place.status is not None and place.status.st_nlink > 1:
            with os_errors("look up", place.asked):
                self._protected.check_links(place.status, place.asked)

    def _is_busy(self, real: bytes) -> bool:
        if trees.is_held_alone(self._workspace.place):
            return True
        return is_held(locks.of_path(self._workspace, real)) or self._looks.leaves_out(self._seen.digest(real))
