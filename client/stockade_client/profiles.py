"""The profile that a session is opened with: a name that the daemon knows, or the text of a file.

The file is the caller's, so it is read here and its text is sent.
"""

from typing import Final

from stockade.v1 import sessions_pb2
from stockade_client import regular_file, wire

FILE_BYTES: Final = 64 * 1024  # the longest shipped profile has a tenth of it


def name(request: sessions_pb2.OpenSessionRequest, profile: str) -> None:
    """Puts the profile into the request: the text of a file where it has a "/" or ends in .toml, else a name.

    Raises InvalidRequest for a file that cannot be used.
    """
    wire.said(profile, "the profile")
    if "/" not in profile and not profile.endswith(".toml"):
        request.profile_name = profile
        return
    request.profile_text.toml = text(profile)
    request.profile_text.name = profile


def text(path: str) -> bytes:
    """The bytes of a profile file, at most FILE_BYTES. Raises InvalidRequest."""
    otherwise = "give the path of a readable file, or a profile's name without '/'"
    return regular_file.read(path, what="profile file", most=FILE_BYTES, otherwise=otherwise)
