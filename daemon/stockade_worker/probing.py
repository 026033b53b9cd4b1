"""The inner half of `stockade profile probe`: tries, in a worker, what its profile forbids.

Every attempt is a real one (attempts.py), and its verdict follows from what the kernel answered:

    open      it was done
    held      it was refused with an error that a layer answers with, perhaps another one than the attempt is for
    untried   anything else: what it takes is not there, or the error is nobody's answer; nothing is known

The attempts belong to layers, and to those that the daemon says are in force: a layer that the host does not give is
not tried.
"""

import errno
import os
from collections.abc import Callable
from typing import Any

from stockade_toolkit import Answer, Files
from stockade_worker.attempts import ATTEMPTS, Attempt, Done, Given, Skipped


def run(arguments: Given, files: Files) -> Answer:
    """Tries all that belongs to `arguments["layers"]`.

    With `eat`, takes that many bytes of memory instead; with `spoil`, changes what it can in the workspace.
    """
    if arguments.get("eat"):
        eaten = bytearray(int(arguments["eat"]))
        for at in range(0, len(eaten), 4096):
            eaten[at] = 1
        return Answer({"eaten": len(eaten)}, "")
    if arguments.get("spoil"):
        return Answer(_spoiled(str(arguments["spoil"])), "")
    found = []
    for attempt in ATTEMPTS:
        if attempt.layer in arguments["layers"]:
            told = _tried(attempt, arguments)
            if told is not None:
                verdict, by, detail = told
                found.append(
                    {"layer": attempt.layer, "what": attempt.what, "verdict": verdict, "by": by, "detail": detail}
                )
    return Answer({"attempts": found}, "")


def _tried(attempt: Attempt, given: Given) -> tuple[str, str, str] | None:
    """Verdict, who answered where that is not the layer itself, and a detail; None where nothing is forbidden."""
    try:
        attempt.act(given)
    except Skipped:
        return None
    except Done as done:
        return "open", "", str(done)
    except OSError as error:
        said = os.strerror(error.errno) if error.errno else str(error)
        by = attempt.answers.get(error.errno or 0)
        if error.errno in (errno.EPERM, errno.ENOSYS) and attempt.filtered():
            by = "seccomp"
        if by is None:
            return "untried", "", f"{said}, which is no layer's answer to this"
        return "held", "" if by == attempt.layer else by, said
    except Exception as error:
        return "untried", "", f"{type(error).__name__}: {error}"
    return "held", "", ""


def _spoiled(witness: str) -> dict[str, Any]:
    """Changes the workspace in every way; says what was changed, and the last reason why something was not."""
    changes: dict[str, Callable[[], object]] = {
        "append": lambda: _write(witness, os.O_APPEND),
        "create": lambda: _write("stockade-new", os.O_CREAT | os.O_EXCL),
        "make a directory": lambda: os.mkdir("stockade-directory"),
        "rename": lambda: os.rename(witness, "stockade-directory/renamed"),
        "remove": lambda: os.unlink("stockade-directory/renamed"),
    }
    changed, reason = [], ""
    for what, change in changes.items():
        try:
            change()
            changed.append(what)
        except OSError as error:
            reason = f"{what}: {os.strerror(error.errno or 0)}"
    return {"changed": changed, "reason": reason}


def _write(name: str, flags: int) -> None:
    descriptor = os.open(name, os.O_WRONLY | flags, 0o600)
    try:
        os.write(descriptor, b"spoiled\n")
    finally:
        os.close(descriptor)
