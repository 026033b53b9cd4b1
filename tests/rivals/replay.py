"""Builds the workspace again from the ledger and the outsider's log, and finds what either does not account for.

Only recorded things are used: a call's arguments and `fs/begun`, `fs/committed` with their digests; of the outsider,
what it wrote and what it displaced. What a change came to is worked out anew from its arguments by plain text
replacement, and must have the digest that was recorded.
"""

import base64
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from stockade_client.values import Event
from tests.rivals.history import EMPTY, History, digest_of, lost, named

Tree: TypeAlias = Mapping[str, bytes]  # contents by path

_DIGESTS = re.compile(r"seen ([0-9a-f]{12}), on disk now ([0-9a-f]{12})")


@dataclass(slots=True)
class Report:
    faults: list[str] = field(default_factory=list)
    commits: int = 0
    saves: int = 0  # of the outsider
    unknown: int = 0  # of these, those that cannot say what they displaced
    taken_back: int = 0  # commits that had begun and were refused at the last moment
    refusals: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Change:
    """One call that committed."""

    call: str
    tool: str
    arguments: dict[str, Any]
    path: str
    before: str | None
    after: str


def replayed(
    before: Tree, after: Tree, sessions: Mapping[str, Sequence[Event]], log: Iterable[dict[str, Any]]
) -> Report:
    """`sessions`: all events of each. `log`: the outsider's records in order."""
    report = Report()
    histories = {path: History(digest_of(content)) for path, content in before.items()}
    contents = {digest_of(content): content for content in before.values()}

    def of(path: str) -> History:
        return histories.setdefault(path, History(None))

    for record in log:
        content = None if record["content"] is None else base64.b64decode(record["content"])
        if content is not None:
            contents[digest_of(content)] = content
        of(record["path"]).steps.append((record["displaced"], None if content is None else digest_of(content)))
        of(record["path"]).emptied |= record["in_place"]
        report.saves += 1
    changes: list[_Change] = []
    for name, events in sessions.items():
        for story in _stories(events).values():
            _read(name, story, changes, of, report)
    _rebuild(changes, contents, report)
    for change in changes:
        of(change.path).steps.append((change.before, change.after))
    for name, events in sessions.items():
        _Refusals(name, histories, contents, report).judge(events)
    for path, history in histories.items():
        report.unknown += history.unknown()
        last = digest_of(after[path]) if path in after else None
        report.faults += [f"{path}: {fault}" for fault in lost(history, last)]
        if last is not None and contents.get(last) != after[path]:
            report.faults.append(f"{path}: its last bytes cannot be built from what is recorded")
    report.faults += [f"{path}: nobody is recorded to have made it" for path in after if path not in histories]
    return report


def _stories(events: Sequence[Event]) -> dict[str, dict[str, Event]]:
    """Events by call and type; of a type that comes twice, the last."""
    stories: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in events:
        if event.call_id:
            stories[event.call_id][event.type] = event
    return stories


def _read(session: str, story: Mapping[str, Event], changes: list[_Change], of: Any, report: Report) -> None:
    call, begun, committed = (story.get(type) for type in ("tool/call", "fs/begun", "fs/committed"))
    result = story.get("tool/result")
    if call is None or result is None:
        report.faults.append(f"{session}: a call has no tool/call or no tool/result")
        return
    where = f"{session} {call.call_id}"
    if begun is not None and committed is None:
        report.taken_back += 1
        of(str(begun.body["path"])).passing.add(str(begun.body["after"]))
    if committed is None:
        if result.body["ok"] and call.body["tool"] != "read":
            report.faults.append(f"{where}: succeeded without fs/committed")
        return
    if begun is None or any(begun.body[key] != committed.body[key] for key in ("path", "before", "after")):
        report.faults.append(f"{where}: fs/committed is not what fs/begun announced")
    if not result.body["ok"]:
        report.faults.append(f"{where}: committed, and told as a failure")
    body: Any = committed.body
    arguments = json.loads(str(call.body["arguments"]))
    changes.append(_Change(where, str(call.body["tool"]), arguments, body["path"], body["before"], body["after"]))
    report.commits += 1


def _rebuild(changes: Sequence[_Change], contents: dict[str, bytes], report: Report) -> None:
    """Works out each change's content, from that of the version before it, whoever made that."""
    waiting = list(changes)
    while waiting:
        still = []
        for change in waiting:
            if change.tool != "write" and change.before not in contents:
                still.append(change)
                continue
            made = _made(change, contents)
            if digest_of(made) == change.after:
                contents[change.after] = made
            else:
                given = digest_of(made)[:12]
                report.faults.append(f"{change.call}: its arguments give {given}, not {named(change.after)}")
        if len(still) == len(waiting):
            report.faults += [f"{each.call}: displaced {named(each.before)}, which nobody wrote" for each in still]
            return
        waiting = still


def _made(change: _Change, contents: Mapping[str, bytes]) -> bytes:
    if change.tool == "write":
        return str(change.arguments["content"]).encode()
    assert change.before is not None
    text = contents[change.before].decode()
    for edit in change.arguments.get("edits", [change.arguments]):
        text = text.replace(edit["old_string"], edit["new_string"], 1)
    return text.encode()


class _Refusals:
    """Whether each refusal of one session had a reason."""

    def __init__(
        self, session: str, histories: Mapping[str, History], contents: Mapping[str, bytes], report: Report
    ) -> None:
        self._session = session
        self._histories = histories
        self._report = report
        self._prefixes = {digest[:12]: digest for digest in (*contents, EMPTY)}
        for history in histories.values():
            self._prefixes |= {digest[:12]: digest for digest in history.passing}
        self._seen: dict[str, set[str | None]] = defaultdict(set)  # by path, up to now

    def judge(self, events: Sequence[Event]) -> None:
        paths: dict[str, str] = {}
        for event in events:
            body: Any = event.body
            match event.type:
                case "tool/call":
                    paths[event.call_id] = str(json.loads(body["arguments"])["path"])
                case "fs/observed" | "fs/committed":
                    self._seen[str(body["path"])].add(body.get("digest"))
                case "tool/result" if not body["ok"]:
                    self._refused(event.call_id, paths[event.call_id], body["error"]["code"], body["error"]["message"])

    def _refused(self, call: str, path: str, code: str, message: str) -> None:
        self._report.refusals[code] += 1
        history = self._histories.get(path, History(None))
        why = self._needless(history, path, code, message)
        if why:
            self._report.faults.append(f"{self._session} {call}: {why}: {code} {message}")

    def _needless(self, history: History, path: str, code: str, message: str) -> str:
        """Why there was no reason to refuse; empty where there was one."""
        there = history.versions() - {None}
        gone = history.first is None or any(after is None for _, after in history.steps)
        if code == "FS_STALE_VERSION" and (digests := _DIGESTS.search(message)):
            seen, present = (self._prefixes.get(prefix) for prefix in digests.groups())
            if seen is None or present is None or seen == present:
                return "it names a digest that nobody wrote, or the same twice"
            if seen not in self._seen[path] and "decided" not in message:
                return "it names a digest that this session has not seen"
            return "" if history.left(seen) else "nothing had displaced what this session saw"
        if code in ("FS_STALE_VERSION", "FS_NOT_FOUND"):
            return "" if gone and (there or code == "FS_NOT_FOUND") else "no file had come or gone"
        if code == "FS_NOT_OBSERVED":
            return "this session had seen it" if self._seen[path] else ""
        if code == "FS_CONFLICT":
            return "" if history.steps else "nobody else wrote the file"
        return "this is no answer to a rival"
