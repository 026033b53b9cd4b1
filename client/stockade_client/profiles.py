"""The profile that a session is opened with: a name that the daemon knows, or the text of a file.

The file is the caller's, so it is read here and its text is sent. It is read whole and at once, which is why it must be
a regular file of a profile's size: a FIFO would wait for a writer, and a device may have no end.
"""

import os
import stat
from typing import Final

from stockade.v1 import sessions_pb2
from stockade_client import wire
from stockade_client.errors import InvalidRequest

FILE_BYTES: Final = 64 * 1024  # the longest shipped profile has a tenth of it


def name(request: sessions_pb2.OpenSessionRequest, profile: str) -> None:
    """Puts the profile into the request: the text of a file where it has a "/" or ends in .toml, else a name.

    Raises InvalidRequest for a file that cannot be used.
    """
    wire.said(profile, "the profile")
    if is_name(profile):
        request.profile_name = profile
        return
    request.profile_text.toml = text(profile)
    request.profile_text.name = profile


def is_name(profile: str) -> bool:
    """Whether a profile is given by its name, and not as a file."""
    return "/" not in profile and not profile.endswith(".toml")


def text(path: str) -> bytes:
    """The bytes of a profile file, at most FILE_BYTES. Raises InvalidRequest."""
    try:
        # Not blocking: opening a FIFO waits for whoever writes to it, open(2). The stat comes after the open, so that
        # what is judged is what is read.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidRequest(
            f"cannot read the profile file {path!r}: {error.strerror}; give the path of a readable file, or a "
            "profile's name without '/'"
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidRequest(
                f"the profile file {path!r} is not a regular file; write the profile to one and give its path"
            )
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise InvalidRequest(
            f"cannot read the profile file {path!r}: {error.strerror}; give the path of another one"
        ) from error
    finally:
        os.close(descriptor)
    if len(content) > FILE_BYTES:
        raise InvalidRequest(
            f"the profile file {path!r} has more than {FILE_BYTES // 1024} KiB; a profile is shorter: check the path"
        )
    return content
