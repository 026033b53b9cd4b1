"""Values as a case writes them: bytes in base 64 or as a Python expression, paths with {W} and {OUT}.

Expressions are the case file's and are evaluated here, in the runner; nothing of them reaches the product.
"""

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.conformance.cases.verdicts import Missing

_REMARK: Final = re.compile(r" \([^()]*\)$")


@dataclass(frozen=True, slots=True)
class Places:
    """Where a case lives. `given` is how the workspace is named to the daemon, `workspace` where that leads."""

    given: Path
    workspace: Path
    outside: Path

    def fill(self, text: str) -> str:
        """`text` with the names of places replaced."""
        for mark, path in (
            ("{W_as_given}", self.given),
            ("{W_resolved}", self.workspace),
            ("{W}", self.given),
            ("{OUT}", self.outside),
        ):
            text = text.replace(mark, str(path))
        return text.replace("<basename of W>", self.given.name)

    def within(self, path: str) -> bytes:
        """The absolute path of a name that a case gives, relative to the workspace. A remark in brackets is left out:
        `~/x (literal)`. Nothing is normalised but what the kernel would."""
        text = self.fill(_REMARK.sub("", path))
        return os.fsencode(text if text.startswith("/") else f"{self.workspace}/{text}")


def evaluated(expression: Any, what: str) -> Any:
    """Raises Missing for what is prose and no expression."""
    try:
        code = compile(expression, "<case>", "eval")
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise Missing(f"{what} in words: {expression!r:.80}") from None
    try:
        return eval(code, {"__builtins__": __builtins__, "os": os})
    except (Exception, SystemExit) as error:
        raise Missing(f"{what} that cannot be evaluated ({error}): {expression!r:.80}") from None


def bytes_of(item: Mapping[str, Any], what: str) -> bytes:
    """The bytes of a file in a case. Raises Missing where they are told in words."""
    if "b64" in item:
        return base64.b64decode(item["b64"], validate=True)
    value = evaluated(item["py"], what) if "py" in item else b""
    if not isinstance(value, bytes):
        raise Missing(f"{what} that is no bytes: {str(item['py'])[:80]!r}")
    return value


def filled(value: Any, places: Places) -> Any:
    """A JSON value with its places filled in and each `NAME_py` replaced by NAME and what the expression gives."""
    if isinstance(value, str):
        return places.fill(value)
    if isinstance(value, list):
        return [filled(each, places) for each in value]
    if isinstance(value, Mapping):
        return {
            (name.removesuffix("_py")): (
                evaluated(each, f"the argument {name}") if name.endswith("_py") else filled(each, places)
            )
            for name, each in value.items()
        }
    return value
