"""Whether what was played is what the case expects."""

import os
import stat
from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.cases import expecting
from tests.conformance.cases.filling import bytes_of
from tests.conformance.cases.properties import CHECKS
from tests.conformance.cases.replies import Played, Reply
from tests.conformance.cases.verdicts import PATIENCE, Fails, Missing, hold

_FIELDS: Final = ("exit_code", "stdout", "stderr", "signal")
_KNOWN: Final = {
    "result", "error_kind", "files", "absent", "present", "steps", "any_of", "state", "xattr", "mtime_unchanged",
    "max_seconds", "max_rss_growth_mb", "call", *_FIELDS,
}  # fmt: skip


def in_words(expect: Mapping[str, Any]) -> list[str]:
    """The keys whose values are prose, those of steps and alternatives included."""
    found = [key for key in expect if key.endswith("_property") or key in ("invariant", "property")]
    for part in (*expect.get("steps", ()), *expect.get("any_of", ())):
        found += in_words(part)
    return found


# Cases in which nothing can happen that would be judged.
_IDLE: Final = {
    "SHL-32": "a shell that waits: this one ends at once, and its processes with it (OWN-SHL-01 has one that waits)",
}


def missing(played_id: str, expect: Mapping[str, Any]) -> str:
    """What of an expectation cannot be judged; empty: all of it can."""
    if played_id in _IDLE:
        return _IDLE[played_id]
    words = in_words(expect)
    unknown = sorted(set(expect) - _KNOWN - set(words))
    if unknown:
        return f"a way to judge {', '.join(unknown)}"
    if words and played_id not in CHECKS:
        return f"a check of {', '.join(dict.fromkeys(words))}"
    for part in (*expect.get("steps", ()), *expect.get("any_of", ())):
        if lacking := missing(played_id, part):
            return lacking
    return ""


def remember(played: Played) -> None:
    """Notes the expected files as they are before the first call."""
    for item in _files(played.case.expect):
        path = played.places.within(item["path"])
        played.before[path] = _content(path)
        if played.before[path] is not None:
            played.modified[path] = os.stat(path).st_mtime_ns


def judge(played: Played) -> None:
    """Raises Fails with the first thing that differs, Missing for words that nobody understands."""
    expect = played.case.expect
    if "any_of" in expect:
        _any(played, expect["any_of"])
    _judge(played, expect)
    if in_words(expect):
        CHECKS[played.case.id](played)


_REPEATS_REJECTED: Final = "repeats rejected as approval_consumed"


def _any(played: Played, choices: list[Mapping[str, Any]]) -> None:
    faults = []
    for choice in choices:
        try:
            _judge(played, choice)
            return
        except Fails as error:
            faults.append(str(error))
    raise Fails(f"none of the alternatives holds: {'; or '.join(faults)}")


def _judge(played: Played, expect: Mapping[str, Any]) -> None:
    replies = played.last()
    if expect.get("result") == _REPEATS_REJECTED:
        for reply in replies:
            hold(reply.ok and reply.again, f"{reply} was not answered again")
            hold(set(reply.again) == {"AskAlreadyDecided"}, f"answers that were sent again were told {reply.again}")
    elif "result" in expect:
        said = expecting.expected(expect["result"])
        replies = expecting.chosen(said.scope, played)
        if said.allowed:
            expecting.require(said.allowed, replies)
    if "state" in expect:
        _state(str(expect["state"]), replies)
    _reply(expect, replies)
    for step in expect.get("steps", ()):
        _step(played, step)
    _disk(played, expect)
    if "max_seconds" in expect:
        for reply in played.all():
            most = PATIENCE * expect["max_seconds"]
            hold(reply.seconds <= most, f"{reply.tool} took {reply.seconds:.1f} s, more than {most:g}")
    if "max_rss_growth_mb" in expect:
        grown = played.grown / (1 << 20)
        hold(grown <= expect["max_rss_growth_mb"], f"the daemon grew by {grown:.0f} MiB at its peak")


def _step(played: Played, step: Mapping[str, Any]) -> None:
    number = step["call"]
    if not 0 <= number < len(played.replies):
        raise Missing(f"the call {number} that a step names")
    replies = played.replies[number]
    hold(replies, f"call {number} has no reply")
    try:
        if "result" in step:
            allowed = expecting.expected(step["result"]).allowed
            expecting.require(allowed, replies)
        if "state" in step:
            _state(str(step["state"]), replies)
        _reply(step, replies)
        _disk(played, step)
    except Fails as error:
        raise Fails(f"call {number}: {error}") from None


def _reply(expect: Mapping[str, Any], replies: list[Reply]) -> None:
    if "error_kind" in expect:
        expecting.require(expecting.expected(expect["error_kind"]).allowed, replies)
    for name in _FIELDS:
        if name in expect:
            for reply in replies:
                found = reply.field(name)
                hold(
                    found == expect[name], f"{reply.tool}: {name} is {found!r:.200}, not {expect[name]!r:.200}; {reply}"
                )


def _state(words: str, replies: list[Reply]) -> None:
    if not words.startswith("approval_required"):
        raise Missing(f"a meaning of the state {words!r}")
    for reply in replies:
        hold(reply.pending, f"{reply}; expected it to be pending with an ask in the queue")


def _disk(played: Played, expect: Mapping[str, Any]) -> None:
    for item in expect.get("files", ()):
        _file(played, item)
    for name in expect.get("absent", ()):
        path = played.places.within(name)
        hold(not os.path.lexists(path), f"{name} exists")
    for name in expect.get("present", ()):
        path = played.places.within(name)
        hold(os.path.lexists(path), f"{name} does not exist")
    if "xattr" in expect:
        path = played.places.within(expect["files"][0]["path"])
        for name, value in expect["xattr"].items():
            wanted = os.fsencode(value)
            found = os.getxattr(path, name) if name in os.listxattr(path) else None
            hold(found == wanted, f"the extended attribute {name} is {found!r}, not {wanted!r}")
    if expect.get("mtime_unchanged"):
        for path, modified in played.modified.items():
            hold(os.stat(path).st_mtime_ns == modified, f"{os.fsdecode(path)} was written to")


def _file(played: Played, item: Mapping[str, Any]) -> None:
    path = played.places.within(item["path"])
    wanted = played.before.get(path) if item.get("py") == "unchanged" else None
    if wanted is None and ("py" in item or "b64" in item):
        wanted = bytes_of(item, "an expected content")
    found = _content(path)
    hold(found is not None, f"{item['path'][:80]} is gone, or is no regular file")
    if wanted is not None:
        hold(found == wanted, f"{item['path'][:80]} holds {found!r:.160}, not {wanted!r:.160}")
    if "mode" in item:
        mode = f"{stat.S_IMODE(os.stat(path).st_mode):04o}"
        hold(mode == item["mode"], f"{item['path'][:80]} has the mode {mode}, not {item['mode']}")


def _content(path: bytes) -> bytes | None:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _files(expect: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = list(expect.get("files", ()))
    for part in (*expect.get("steps", ()), *expect.get("any_of", ())):
        found += _files(part)
    return found
