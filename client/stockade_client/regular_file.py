"""A file of the caller's that is sent whole: read at once, so it must be a regular file of a reasonable size.

A FIFO would wait for a writer, and a device may have no end.
"""

import os
import stat

from stockade_client.errors import InvalidRequest


def read(path: str, *, what: str, most: int, otherwise: str = "give the path of a readable file") -> bytes:
    """The bytes of the file at `path`, at most `most` of them. `what` is what errors call it. Raises InvalidRequest."""
    try:
        # Not blocking: opening a FIFO waits for whoever writes to it, open(2). The stat comes after the open, so that
        # what is judged is what is read.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidRequest(f"cannot read the {what} {path!r}: {error.strerror}; {otherwise}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidRequest(f"the {what} {path!r} is not a regular file; write it to one and give its path")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise InvalidRequest(
            f"cannot read the {what} {path!r}: {error.strerror}; give the path of another one"
        ) from error
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise InvalidRequest(f"the {what} {path!r} has more than {most // 1024} KiB, which none has: check the path")
    return content
