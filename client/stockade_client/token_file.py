"""The token of a command: in a file of its user's, which `$STOCKADE_TOKEN_FILE` names. Standard library only."""

import os
import stat
from collections.abc import Mapping
from typing import Final

from stockade_client.errors import InvalidRequest

ENVIRONMENT_VARIABLE: Final = "STOCKADE_TOKEN_FILE"
_MOST: Final = 512  # bytes of a token


def token(environment: Mapping[str, str] | None = None) -> str | None:
    """The token to send; None where the variable is not set, or empty.

    Raises InvalidRequest where the file cannot be read, is open to others, or holds no token.
    """
    path = (os.environ if environment is None else environment).get(ENVIRONMENT_VARIABLE, "")
    if not path:
        return None
    try:
        # Not blocking: opening a FIFO waits for whoever writes to it, open(2).
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            content = file.read(_MOST + 2).strip() if stat.S_ISREG(found.st_mode) else b""
    except OSError as error:
        raise InvalidRequest(
            f"the token cannot be read from {path}: {error.strerror}; set {ENVIRONMENT_VARIABLE} to a file that has it"
        ) from error
    if found.st_mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
        raise InvalidRequest(f"others may read or write {path}, which is to hold a secret: chmod 0600 {path}")
    if not content or len(content) > _MOST or not content.isascii() or len(content.split()) != 1:
        raise InvalidRequest(
            f"{path} holds no token: one word of at most {_MOST} bytes, as `stockaded token` prints it"
        )
    return content.decode()
