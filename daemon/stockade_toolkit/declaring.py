"""`@tool`: a function, and what its types and docstring cannot say of it.

Nothing is looked at here, only kept: a call needs the function alone, and what looks at it (describing.py) takes longer
to import than a call takes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Declaration:
    """A function that was declared to be a tool."""

    function: Callable[..., Any]
    name: str
    facts: dict[str, Any]  # of the manifest, as they were given


_declared: list[Declaration] = []


@overload
def tool(function: Function, /) -> Function: ...


@overload
def tool(
    *,
    name: str | None = None,
    access: str = "none",
    kind: str | None = None,
    timeout_s: float = 30.0,
    parallel_safe: bool = False,
    idempotent: bool = False,
    observes: bool = False,
    output_bytes: int = 65536,
    output: Any = None,
    title: str | None = None,
) -> Callable[[Function], Function]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    access: str = "none",
    kind: str | None = None,
    timeout_s: float = 30.0,
    parallel_safe: bool = False,
    idempotent: bool = False,
    observes: bool = False,
    output_bytes: int = 65536,
    output: Any = None,
    title: str | None = None,
) -> Function | Callable[[Function], Function]:
    """Declares a function to be a tool; gives it back as it is.

    name: the tool's name; default: the function's. It is the file's name, or begins with it and a `_`.
    access: what the body sees of the workspace. "none": files only through the gate; "read": the workspace, read-only;
        "overlay": a private view that it may write, whose changes the result lists.
    kind: what policy judges a call as: "read", "write" (it asks the gate for edits) or "command". Default: "command"
        where access is "overlay", which has no other; else "read".
    timeout_s: seconds of the body's own clock, at most a day; the profile's may be shorter.
    parallel_safe: calls of one turn may overlap.
    idempotent: running it twice is the same as once.
    observes: it may tell the gate what it showed of a file (`Files.showed`), as `read` does.
    output_bytes: cap on the text for the model, at most 1 MiB; the middle is left out.
    output: the type of the value that it returns, written as the types of arguments are; a value that is not so is
        refused. None: it may be any.
    title: one line that says what a call is about to do, {argument} replaced by its text; default: the name and the
        arguments that have to be given.
    """
    facts = {
        "access": access,
        "kind": kind,
        "timeout_s": timeout_s,
        "parallel_safe": parallel_safe,
        "idempotent": idempotent,
        "observes": observes,
        "output_bytes": output_bytes,
        "output": output,
        "card_title": title,
    }

    def declare(each: Function) -> Function:
        _declared.append(Declaration(each, name if name is not None else getattr(each, "__name__", ""), facts))
        return each

    return declare if function is None else declare(function)


def declared() -> list[Declaration]:
    """All that this process has declared, in order."""
    return list(_declared)
