"""What a call came to beside what it was expected to come to."""

import hashlib
from typing import Final

from stockade_client.results import CallResult, Json
from stockade_client.runs import patterns, printed
from stockade_client.runs.entries import EntryCall
from stockade_client.runs.patterns import Search
from stockade_client.runs.printed import STREAMS
from stockade_client.session import Session

_LINES: Final = 2000  # of a file in one read
_NO_TEXT: Final = ("FS_NOT_TEXT", "FS_NOT_UTF8", "FS_TOO_LARGE")  # a read that has found a file, and shows none of it
_THERE: Final = (*_NO_TEXT, "FS_IS_DIRECTORY", "FS_NOT_REGULAR_FILE")  # one that has found something of that name


async def difference(session: Session, call: EntryCall, result: CallResult, search: Search) -> str | None:
    """How the result differs from what was expected; None where it does not. What is searched in an output is
    searched in all of it: where its value leaves out the middle, the rest is asked for."""
    expected, error = call.expected, result.error
    if expected.ok and error is not None:
        return f"{call.tool} should have succeeded and failed with {error}"
    if not expected.ok and error is None:
        code = f" with {expected.code}" if expected.code else ""
        return f"{call.tool} should have failed{code} and succeeded: {result.text[-400:].strip()}"
    if error is not None:
        if expected.code is not None and error.code != expected.code:
            return f"{call.tool} should have failed with {expected.code} and failed with {error}"
        if expected.domain is not None and error.domain != expected.domain:
            return f"the error's domain should be {expected.domain} and is {error.domain} ({error})"
    for name, pattern in expected.parts:
        if name in STREAMS and pattern is not None and not isinstance(result.field(name), str):
            return f"{call.tool} should have {name}, and its result has none"
        told = await _part_difference(session, result, pattern, name, search)
        if told is not None:
            return told
    return _status(call, result)


async def _part_difference(
    session: Session, result: CallResult, pattern: Json, name: str, search: Search
) -> str | None:
    found = _part(result, name)
    searched = [name] if name in STREAMS and patterns.searches(pattern) else []
    if name == "value" and isinstance(pattern, dict) and isinstance(found, dict):
        searched = [each for each in STREAMS if patterns.searches(pattern.get(each))]
    for stream in searched:
        if not printed.cut(result, stream):
            continue
        if not printed.kept(result, stream):
            kept = f"{result.field(f'{stream}_kept')} of {result.field(f'{stream}_bytes')} bytes were kept"
            return f"{name} cannot be told: of {stream}, {kept}, and not the middle"
        whole = await printed.whole(session.job(result.call_id), stream)
        found = {**found, stream: whole} if isinstance(found, dict) else whole
    return await patterns.difference(pattern, found, name, search)


def _status(call: EntryCall, result: CallResult) -> str | None:
    status, signal = result.field("exit_code"), result.field("signal")
    wanted = call.expected.exit_code
    if not call.expected.ok or wanted == "any" or (status is None and signal is None):
        return None
    if status == wanted:
        return None
    came = f"is {status}" if status is not None else f"there is none: signal {signal} ended it"
    said = "\n".join(
        text.strip()[-2000:] for text in (result.field("stdout"), result.field("stderr")) if isinstance(text, str)
    ).strip()
    return f"the exit status should be {wanted} and {came}" + (f"; it printed\n{said}" if said else "")


def _part(result: CallResult, name: str) -> Json:
    if name == "message":
        return None if result.error is None else result.error.message
    if name == "text":
        return result.text
    return result.value if name == "value" else result.field(name)


async def file_difference(
    session: Session, path: str, pattern: Json, results: list[CallResult], search: Search
) -> str | None:
    """How a file of the session's workspace differs from its pattern. The calls that look at it are added to
    `results` where they say why."""
    found = await session.call("read", path=path, limit=_LINES)
    code = "" if found.error is None else found.error.code
    nothing = code == "FS_NOT_FOUND" or (code == "FS_NOT_DIRECTORY" and not path.endswith("/"))
    if pattern is None:
        if nothing:
            return None
        if found.ok or code in _THERE:
            return f"{path} should not be there and is" + (" a directory" if code == "FS_IS_DIRECTORY" else "")
    elif isinstance(pattern, dict) and "$sha256" in pattern:
        digest = found.field("digest")
        if code in _NO_TEXT:
            digest = await _digest(session, path, results)
            if digest is None:
                return f"{path} cannot be looked at: {results[-1].error or results[-1].text[-400:].strip()}"
        wanted = pattern["$sha256"]
        if digest is not None:
            return None if digest == wanted else f"{path} should have the SHA-256 {wanted} and has {digest}"
        if nothing:
            return f"{path} should have the SHA-256 {wanted} and is not there"
    elif found.error is None:
        return await _text_difference(session, path, pattern, found, results, search)
    results.append(found)
    return f"{path} cannot be looked at: {found.error}"


async def _text_difference(
    session: Session, path: str, pattern: Json, found: CallResult, results: list[CallResult], search: Search
) -> str | None:
    if not isinstance(found.field("content"), str):
        return f'{path} is a picture and no text: expect {{"$sha256": …}} of it'
    if isinstance(pattern, str) and found.field("digest") == hashlib.sha256(pattern.encode("utf-8")).hexdigest():
        return None
    shown = await _windows(session, path, found)
    if shown[-1].error is not None:
        results.append(shown[-1])
        return f"{path} cannot be looked at: {shown[-1].error}"
    text = "".join(str(each.field("content")) for each in shown)
    told = await patterns.difference(pattern, text, path, search)
    if told is not None:
        return told
    if isinstance(pattern, str):
        return f"{path} has the expected text and other bytes (a byte-order mark, or long lines that are not shown)"
    if pattern != {"$any": True} and any(each.field("cut_lines") for each in shown):
        return f'{path} has lines too long to be shown whole, so nobody can tell: expect {{"$sha256": …}} of it'
    return None


async def _windows(session: Session, path: str, first: CallResult) -> list[CallResult]:
    """What reads show of a text, one window after the other. The last one may have failed."""
    shown = [first]
    while True:
        last, total = shown[-1].field("last_line"), shown[-1].field("total_lines")
        if not isinstance(last, int) or not isinstance(total, int) or last >= total:
            return shown
        shown.append(await session.call("read", path=path, offset=last + 1, limit=_LINES))


async def _digest(session: Session, path: str, results: list[CallResult]) -> str | None:
    """Of a file that is no text, by a command. None where it cannot be told: the command is the last of `results`."""
    result = await session.call("shell", argv=["sha256sum", "--", path])
    stdout = result.field("stdout")
    if result.ok and result.field("exit_code") == 0 and isinstance(stdout, str):
        return stdout.removeprefix("\\")[:64]
    results.append(result)
    return None
