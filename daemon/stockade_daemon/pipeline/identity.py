"""Identity: ids that clients choose, tokens that the daemon mints, the digest that makes repeating safe."""

import hashlib
import re
import secrets
from collections.abc import Mapping

from stockade_daemon.errors import RequestError
from stockade_daemon.values import Call, Json

_SESSION = re.compile(r"[A-Za-z0-9._-]{1,128}\Z")
_CALL = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")
_TOOL = 128  # characters of a tool's name that are recorded


def check_session_id(session_id: str) -> None:
    """Raises RequestError INVALID_ARGUMENT."""
    if not _SESSION.match(session_id):
        raise RequestError("INVALID_ARGUMENT", "session_id must be 1 to 128 of A-Z a-z 0-9 . _ -")


def check_call_id(call_id: str, name: str = "call_id") -> None:
    """Raises RequestError INVALID_ARGUMENT."""
    if not _CALL.match(call_id):
        raise RequestError("INVALID_ARGUMENT", f"{name} must be 1 to 128 of A-Z a-z 0-9 . _ : -")


def check_same(call_id: str, known: str, wanted: str) -> None:
    """Compares digests of two calls of one id. Raises RequestError ALREADY_EXISTS."""
    if known != wanted:
        raise RequestError(
            "ALREADY_EXISTS", f"call {call_id} exists with another tool or other arguments; choose another id"
        )


def digest(tool: str, arguments: bytes) -> str:
    """SHA-256, lower-case hex, of the tool's name, a NUL and the arguments' text."""
    return hashlib.sha256(tool.encode("utf-8", "backslashreplace") + b"\0" + arguments).hexdigest()


def frozen(
    session_id: str, call_id: str, tool: str, text: bytes, arguments: Mapping[str, Json], *, digest: str
) -> Call:
    """The call, as every stage will see it."""
    return Call(
        session_id=session_id,
        call_id=call_id,
        token=secrets.token_hex(16),
        tool=tool[:_TOOL],
        arguments_text=text,
        arguments=arguments,
        digest=digest,
    )
