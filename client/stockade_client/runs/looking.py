"""What is in the files of a session's workspace beside what was expected to be there."""

import hashlib
from typing import Final

from stockade_client.results import CallResult, Json
from stockade_client.runs import patterns
from stockade_client.runs.outcomes import Difference
from stockade_client.runs.patterns import Search
from stockade_client.session import Session

_LINES: Final = 2000  # of a file in one read
_NO_TEXT: Final = ("FS_NOT_TEXT", "FS_NOT_UTF8", "FS_TOO_LARGE")  # a read that has found a file, and shows none of it
_THERE: Final = (*_NO_TEXT, "FS_IS_DIRECTORY", "FS_NOT_REGULAR_FILE")  # one that has found something of that name


class _Unseen(Exception):
    """A look has shown nothing."""

    def __init__(self, look: CallResult) -> None:
        super().__init__(look.call_id)
        self.look = look


async def file_difference(
    session: Session, path: str, pattern: Json, results: list[CallResult], search: Search
) -> Difference | None:
    """How a file of the session's workspace differs from its pattern. A call that could not look at it is added to
    `results`."""
    try:
        told = await _told(session, path, pattern, search)
    except _Unseen as unseen:
        look = unseen.look
        results.append(look)
        return Difference(f"{path} cannot be looked at: {look.error or look.text[-400:].strip()}", look.error)
    return None if told is None else Difference(told)


async def _told(session: Session, path: str, pattern: Json, search: Search) -> str | None:
    """Raises _Unseen."""
    found = await session.call("read", path=path, limit=_LINES)
    code = "" if found.error is None else found.error.code
    nothing = code == "FS_NOT_FOUND" or (code == "FS_NOT_DIRECTORY" and not path.endswith("/"))
    if pattern is None:
        if nothing:
            return None
        if found.ok or code in _THERE:
            return f"{path} should not be there and is" + (" a directory" if code == "FS_IS_DIRECTORY" else "")
    elif isinstance(pattern, dict) and "$sha256" in pattern:
        wanted = pattern["$sha256"]
        if nothing:
            return f"{path} should have the SHA-256 {wanted} and is not there"
        if found.ok or code in _NO_TEXT:
            digest = found.field("digest") if found.ok else await _digest(session, path)
            return None if digest == wanted else f"{path} should have the SHA-256 {wanted} and has {digest}"
    elif found.ok:
        return await _text_difference(session, path, pattern, found, search)
    raise _Unseen(found)


async def _digest(session: Session, path: str) -> str:
    """Of a file that is no text, by a command."""
    result = await session.call("shell", argv=["sha256sum", "--", path])
    stdout = result.field("stdout")
    if result.ok and result.field("exit_code") == 0 and isinstance(stdout, str):
        return stdout.removeprefix("\\")[:64]
    raise _Unseen(result)


async def _text_difference(session: Session, path: str, pattern: Json, found: CallResult, search: Search) -> str | None:
    if not isinstance(found.field("content"), str):
        return f'{path} is a picture and no text: expect {{"$sha256": …}} of it'
    if pattern == {"$any": True}:
        return None
    if isinstance(pattern, str) and found.field("digest") == hashlib.sha256(pattern.encode("utf-8")).hexdigest():
        return None
    text, whole = await _text(session, path, found)
    if not whole and not isinstance(pattern, str):
        return f'{path} has lines too long to be shown whole, so nobody can tell: expect {{"$sha256": …}} of it'
    told = await patterns.difference(pattern, text, path, search)
    if told is None and isinstance(pattern, str):
        return f"{path} has the expected text and other bytes (a byte-order mark, or long lines that are not shown)"
    return told


async def _text(session: Session, path: str, first: CallResult) -> tuple[str, bool]:
    """What reads show of a text, one window after the other, and whether that is all of it."""
    shown, text, whole = first, "", True
    while True:
        lines = str(shown.field("content")).split("\n")
        begins, cut = shown.field("first_line"), shown.field("cut_lines")
        for number in cut if isinstance(cut, list) else []:
            # A line that is cut in a window is shown whole by itself, as long as it is no longer than a window.
            line = await _shown(session, path, offset=number, limit=1)
            whole = whole and not line.field("cut_lines")
            if isinstance(number, int) and isinstance(begins, int):
                lines[number - begins] = str(line.field("content")).removesuffix("\n")
        text += "\n".join(lines)
        last, total = shown.field("last_line"), shown.field("total_lines")
        if not isinstance(last, int) or not isinstance(total, int) or last >= total:
            return text, whole
        shown = await _shown(session, path, offset=last + 1, limit=_LINES)


async def _shown(session: Session, path: str, *, offset: Json, limit: int) -> CallResult:
    found = await session.call("read", path=path, offset=offset, limit=limit)
    if not found.ok:
        raise _Unseen(found)
    return found
