"""`edit`: replaces an exact piece of text; only the matched bytes change."""

from collections.abc import Mapping
from typing import Any

from stockade_toolkit import Answer, Files, ToolError
from stockade_worker.tools.changing import answer, change
from stockade_worker.tools.replacing import Replacement


def run(arguments: Mapping[str, Any], files: Files) -> Answer:
    wanted = Replacement(arguments["old_string"], arguments["new_string"], arguments.get("replace_all", False))
    if wanted.old == wanted.new:
        raise ToolError("INVALID_ARGS", "old_string and new_string are the same; nothing would change")
    done, count = change(files, arguments["path"], arguments.get("encoding"), lambda text: text.replace(wanted))
    return answer(done, count, "")
