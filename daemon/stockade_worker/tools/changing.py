"""A file opened to be changed in places, and the change made: what `edit` and `multi_edit` have in common."""

from collections.abc import Callable
from typing import Any, TypeVar

from stockade_toolkit import Answer, Committed, Files, ToolError
from stockade_worker.tools import names, text
from stockade_worker.tools.replacing import Text

_TRIES = 50  # as many calls of a session may change one file at a time, each of them losing to all others

T = TypeVar("T", int, list[int])


def change(files: Files, path: str, encoding: str | None, replace: Callable[[Text], T]) -> tuple[Committed, T]:
    """Has `replace` make its replacements and commits them; what it returns is returned.

    Where another call of the session has changed the file meanwhile, the text is looked for again in what that made of
    it: the session knows those bytes. Whoever else has changed it is told of by the next opening. Raises ToolError.
    """
    tries = 0
    while True:
        changing, commit = _opened(files, path, encoding)
        result = replace(changing)
        try:
            return commit(result), result
        except ToolError as error:
            tries += 1
            if error.code != "FS_STALE_VERSION" or tries == _TRIES:
                raise


def answer(done: Committed, replacements: int | list[int], means: str) -> Answer:
    """What a committed change comes to. `replacements`: in how many places, of several edits for each; `means`: by
    what, for the text."""
    value: dict[str, Any] = {
        **names.entry(done.name),
        "replacements": replacements,
        "digest": done.digest,
        "difference": done.difference,
    }
    if done.note:
        value["note"] = done.note
    count = replacements if isinstance(replacements, int) else sum(replacements)
    places = "1 place" if count == 1 else f"{count} places"
    note = f" ({done.note})" if done.note else ""
    return Answer(value, f"Changed {names.shown(done.name)}{means} in {places}{note}.\n{done.difference}")


def _opened(files: Files, path: str, encoding: str | None) -> tuple[Text, Callable[[int | list[int]], Committed]]:
    try:
        file = files.open(path, for_edit=True)
    except ToolError as error:
        if error.code == "FS_NOT_OBSERVED":
            # To be told to read it first would not help where reading is what cannot be done.
            shown = files.open(path)
            text.decode(text.content(shown), names.shown(shown.name), encoding)
        raise
    data = text.content(file)
    shown_path = names.shown(file.name)
    changing = Text(data, text.decode(data, shown_path, encoding), shown_path)
    return changing, lambda places: files.edit(file, changing.spans(), places=places)
