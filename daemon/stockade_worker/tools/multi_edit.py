"""`multi_edit`: several replacements in one file, all of them or none."""

from collections.abc import Mapping
from typing import Any

from stockade_toolkit import Answer, Files, ToolError
from stockade_worker.tools.changing import answer, change
from stockade_worker.tools.replacing import Replacement, Text


def run(arguments: Mapping[str, Any], files: Files) -> Answer:
    wanted = [
        Replacement(each["old_string"], each["new_string"], each.get("replace_all") or False)
        for each in arguments["edits"]
    ]
    for number, each in enumerate(wanted, start=1):
        if each.old == each.new:
            raise ToolError(
                "INVALID_ARGS", f"edit {number}: old_string and new_string are the same; leave it out, or correct it"
            )
    done, counts = change(
        files, arguments["path"], arguments.get("encoding"), lambda changing: _replaced(changing, wanted)
    )
    edits = "1 edit" if len(counts) == 1 else f"{len(counts)} edits"
    return answer(done, counts, f" by {edits}")


def _replaced(changing: Text, wanted: list[Replacement]) -> list[int]:
    """In how many places each was made."""
    counts = []
    for number, each in enumerate(wanted, start=1):
        try:
            counts.append(changing.replace(each))
        except ToolError as error:
            raise ToolError(error.code, f"edit {number} of {len(wanted)}: {_looked_in(number, error)}") from None
    return counts


def _looked_in(number: int, error: ToolError) -> str:
    """The message, with what a model may not think of: the text is not the file's any more after the first edit."""
    before = "the edit before it" if number == 2 else "the edits before it"
    what = f" (each edit is looked for in the result of {before})" if number > 1 else ""
    return f"{error}{what}. No edit was made"
