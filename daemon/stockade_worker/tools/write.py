"""`write`: makes a file, or replaces all of its content."""

from collections.abc import Mapping
from typing import Any

from stockade_toolkit import Answer, Files, ToolError
from stockade_worker.tools import names, text


def run(arguments: Mapping[str, Any], files: Files) -> Answer:
    content, encoding = arguments["content"], text.known(arguments.get("encoding") or "utf-8")
    try:
        data = content.encode(encoding)
    except UnicodeError as error:
        raise ToolError("INVALID_ARGS", f"content cannot be written as {encoding}: {error}; name another") from None
    done = files.write(arguments["path"], data)
    created = done.operation == "create"
    value: dict[str, Any] = {
        **names.entry(done.name),
        "created": created,
        "size": len(data),
        "digest": done.digest,
        "difference": done.difference,
        "style": done.style,
    }
    if done.note:
        value["note"] = done.note
    note = f" ({done.note})" if done.note else ""
    size = "1 byte" if len(data) == 1 else f"{len(data)} bytes"
    head = f"{'Created' if created else 'Replaced'} {names.shown(done.name)}, {size}{note}."
    # Of a new file the difference would only repeat what was written.
    return Answer(value, head if created or not done.difference else f"{head}\n{done.difference}")
