"""What a call came to beside what it was expected to come to."""

import hashlib
from typing import Final

from stockade_client.results import CallResult, Json
from stockade_client.runs import patterns
from stockade_client.runs.entries import EntryCall
from stockade_client.session import Session

_LINES: Final = 2000  # of a file in one read


def difference(call: EntryCall, result: CallResult) -> str | None:
    """How the result differs from what was expected; None where it does not."""
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
        told = patterns.difference(pattern, _part(result, name), name)
        if told is not None:
            return told
    return _status(call, result)


def _status(call: EntryCall, result: CallResult) -> str | None:
    status, signal = result.field("exit_code"), result.field("signal")
    wanted = call.expected.exit_code
    if not call.expected.ok or wanted == "any" or (status is None and signal is None):
        return None
    if status == wanted:
        return None
    came = f"is {status}" if status is not None else f"there is none: signal {signal} ended it"
    printed = "\n".join(
        text.strip()[-2000:] for text in (result.field("stdout"), result.field("stderr")) if isinstance(text, str)
    ).strip()
    return f"the exit status should be {wanted} and {came}" + (f"; it printed\n{printed}" if printed else "")


def _part(result: CallResult, name: str) -> Json:
    if name == "message":
        return None if result.error is None else result.error.message
    if name == "text":
        return result.text
    return result.value if name == "value" else result.field(name)


async def file_difference(session: Session, path: str, pattern: Json, results: list[CallResult]) -> str | None:
    """How a file of the session's workspace differs from its pattern. The calls that look at it are added to
    `results` where they say why."""
    found = await session.call("read", path=path, limit=_LINES)
    code = "" if found.error is None else found.error.code
    if pattern is None:
        return None if code == "FS_NOT_FOUND" else f"{path} should not be there and is"
    if isinstance(pattern, dict) and "$sha256" in pattern:
        digest = found.field("digest") if found.ok else await _digest(session, path, results)
        wanted = pattern["$sha256"]
        return None if digest == wanted else f"{path} should have the SHA-256 {wanted} and has {digest}"
    if found.error is not None:
        results.append(found)
        return f"{path} cannot be looked at: {found.error}"
    if isinstance(pattern, str) and found.field("digest") == hashlib.sha256(pattern.encode("utf-8")).hexdigest():
        return None
    content = await _content(session, path, found)
    told = patterns.difference(pattern, content, path)
    if told is None and isinstance(pattern, str):
        return f"{path} has the expected text and other bytes (a byte-order mark, or long lines that are not shown)"
    return told


async def _content(session: Session, path: str, first: CallResult) -> str:
    """The text of a file, read in windows. Lines that are too long for a read are as it shows them."""
    parts, shown = [], first
    while True:
        content, last = shown.field("content"), shown.field("last_line")
        parts.append(content if isinstance(content, str) else "")
        if not shown.ok or not content or not isinstance(last, int):
            return "".join(parts)
        if f"lines {shown.field('first_line')}-{last} of {last}" in shown.text:
            return "".join(parts)
        shown = await session.call("read", path=path, offset=last + 1, limit=_LINES)


async def _digest(session: Session, path: str, results: list[CallResult]) -> Json:
    """Of a file that is no text, by a command."""
    result = await session.call("shell", argv=["sha256sum", "--", path])
    stdout = result.field("stdout")
    if result.ok and result.field("exit_code") == 0 and isinstance(stdout, str):
        return stdout.removeprefix("\\")[:64]
    results.append(result)
    return f"none that can be told ({result.error or stdout})"
