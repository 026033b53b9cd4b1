"""What a case's words about replies mean: `ok`, `error`, a kind of error, `each ok or not_text`, `exit 0`."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.conformance.cases.replies import Played, Reply
from tests.conformance.cases.verdicts import Fails, Missing

CODES: Final[dict[str, tuple[str, ...]]] = {
    "invalid_args": ("INVALID_ARGS",),
    "not_observed": ("FS_NOT_OBSERVED",),
    "partial_observation": ("FS_PARTIAL_OBSERVATION",),
    "stale": ("FS_STALE_VERSION",),
    "not_found": ("FS_NOT_FOUND",),
    "exists": ("FS_EXISTS",),
    "no_match": ("FS_EDIT_NOT_FOUND",),
    "ambiguous": ("FS_AMBIGUOUS_EDIT",),
    "not_utf8": ("FS_NOT_UTF8",),
    "not_text": ("FS_NOT_TEXT",),
    "patch_invalid": ("FS_PATCH_INVALID",),
    "patch_conflict": ("FS_PATCH_CONFLICT",),
    "io": ("FS_IO_ERROR",),
    "invalid_pattern": ("SEARCH_INVALID_PATTERN",),
    "approval_expired": ("APPROVAL_EXPIRED",),
    "approval_mismatch": ("APPROVAL_MISMATCH",),
    "approval_consumed": ("APPROVAL_DECIDED",),
    "already_decided": ("APPROVAL_DECIDED",),
    "not_regular": ("FS_NOT_REGULAR_FILE",),
    "is_directory": ("FS_IS_DIRECTORY",),
    "not_directory": ("FS_NOT_DIRECTORY",),
    "symlink_loop": ("FS_SYMLINK_LOOP",),
    "name_too_long": ("FS_NAME_TOO_LONG",),
    "outside_root": ("FS_OUTSIDE_WORKSPACE",),
    "denied": ("DENIED", "APPROVAL_REJECTED", "FS_PROTECTED"),
    "permission": ("FS_PERMISSION_DENIED",),
    "too_large": ("FS_TOO_LARGE", "INVALID_ARGS"),
    "output_limit": ("OUTPUT_LIMIT",),
    "resource_limit": ("RESOURCE_LIMIT",),
    "timeout": ("TOOL_TIMEOUT",),
    "cancelled": ("ABORTED",),
    "hook_failed": ("HOOK_FAILED",),
    "code_error": ("CODE_RUN_FAILED",),
    # Not in the table of kinds: what the design's codes are called where a case needs them.
    "conflict": ("FS_CONFLICT",),
    "protected": ("FS_PROTECTED",),
    "unknown_tool": ("UNKNOWN_TOOL",),
}

_NUMBERS: Final = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_SCOPE: Final = re.compile(r"^(each bad call|each reply|each|both|all|first (?:\w+)|last (?:\w+))\b[ ,:]*")


@dataclass(frozen=True, slots=True)
class Expected:
    """Which replies are meant, and what each of them may be."""

    scope: str  # last | each | each bad call | both | first N | last N
    allowed: tuple[str, ...]  # empty: nothing is said


def expected(result: Any) -> Expected:
    """From the words of `result` (or of `error_kind`, a list included)."""
    if isinstance(result, list):
        return Expected("last", tuple(map(str, result)))
    words = str(result).removeprefix("documented: ").strip()
    scope = "last"
    if found := _SCOPE.match(words):
        scope = {"each reply": "each", "all": "each"}.get(found[1], found[1])
        words = words[found.end() :]
    return Expected(scope, tuple(word.strip() for word in re.split(r"\s+or\s+", words) if word.strip()))


def chosen(scope: str, played: Played) -> list[Reply]:
    """The replies that a scope names. Raises Missing for one that is not known."""
    replies = list(played.all())
    match scope.split(" "):
        case ["last"]:
            return played.last()
        case ["each"]:
            return replies
        case ["each", "bad", "call"]:
            good = 0  # reads before the first bad call, which only make it possible
            while good < len(replies) and replies[good].tool == "read" and isinstance(replies[good].arguments, dict):
                good += 1
            return replies[good:]
        case ["both"]:
            return replies[-2:]
        case ["first", number]:
            return replies[: _number(number)]
        case ["last", number]:
            return replies[-_number(number) :]
    raise Missing(f"a meaning of {scope!r}")


def _number(word: str) -> int:
    if word.isdecimal() and int(word):
        return int(word)
    if word in _NUMBERS:
        return _NUMBERS[word]
    raise Missing(f"a meaning of {word!r} calls")


def fits(word: str, reply: Reply) -> bool | None:
    """Whether a reply is what the word says; None where the word is not understood."""
    first = re.split(r"[ ,;]", word, maxsplit=1)[0]
    if first == "ok":
        return reply.ok
    if first == "error":
        return not reply.ok and not reply.pending
    if first == "exit":
        return bool(reply.ok and reply.field("exit_code") == int(word.split(" ")[1]))
    if first in CODES:
        return reply.code in CODES[first]
    return None


def require(allowed: Sequence[str], replies: Iterable[Reply]) -> None:
    """Raises Fails for a reply that is none of what is allowed, Missing where words that nobody understands decide."""
    for reply in replies:
        said = {word: fits(word, reply) for word in allowed}
        if any(said.values()):
            continue
        if unknown := [word for word, fitting in said.items() if fitting is None]:
            raise Missing(f"a meaning of {' or '.join(unknown)!r} for {reply}")
        raise Fails(f"{reply}; expected {' or '.join(allowed)}")
