"""How a profile names secrets: `[secrets] NAME = {file = "/absolute/path"}`."""

import re
from typing import Final

from stockade_daemon.settings import Unfit, absolute_path

MOST: Final = 16
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
_EXAMPLE: Final = '{file = "/etc/stockade/secrets/token"}'


def secret_name(value: object) -> str:
    """The name of the file below /run/secrets."""
    if not isinstance(value, str) or not _NAME.match(value):
        raise Unfit("is not a secret's name: a letter, digit or _ first, then letters, digits, . _ and -, at most 64")
    return value


def secret_file(value: object) -> str:
    """The host path of `{file = "/…"}`. The secret itself never stands in a profile."""
    if not isinstance(value, dict):
        raise Unfit(f"must be a table that names a file, for example {_EXAMPLE}; a profile holds no secret itself")
    for name in value:
        if name != "file":
            raise Unfit(f"has the unknown key {name!r}; its one key is file", (name,))
    if "file" not in value:
        raise Unfit(f"lacks `file`; write for example {_EXAMPLE}")
    try:
        return absolute_path(value["file"])
    except Unfit as unfit:
        raise Unfit(f"`file` {unfit}", ("file",)) from None
