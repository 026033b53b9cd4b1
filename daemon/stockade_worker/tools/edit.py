"""`edit`: replaces an exact piece of text; only the matched bytes change."""

from collections.abc import Mapping
from typing import Any

from stockade_toolkit import Answer, Files, ToolError
from stockade_worker.tools import text
from stockade_worker.tools.replacing import Replacement, Text


def run(arguments: Mapping[str, Any], files: Files) -> Answer:
    wanted = Replacement(arguments["old_string"], arguments["new_string"], arguments.get("replace_all", False))
    if wanted.old == wanted.new:
        raise ToolError("INVALID_ARGS", "old_string and new_string are the same; nothing would change")
    file = files.open(arguments["path"], for_edit=True)
    data = text.content(file)
    changing = Text(data, text.decode(data, file.path, arguments.get("encoding")), file.path)
    count = changing.replace(wanted)
    done = files.edit(file, changing.spans())
    value = {
        "path": done.path,
        "replacements": count,
        "digest": done.digest,
        "difference": done.difference,
    }
    if done.note:
        value["note"] = done.note
    times = "1 place" if count == 1 else f"{count} places"
    note = f" ({done.note})" if done.note else ""
    return Answer(value, f"Changed {done.path} in {times}{note}.\n{done.difference}")
