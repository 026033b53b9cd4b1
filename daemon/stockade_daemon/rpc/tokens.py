"""Tokens of principals: what is presented is compared with digests, which is all that the daemon has of them."""

import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stockade_daemon import trust
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.principals import Listed

_log = logging.getLogger(__name__)
_DIGEST: Final = re.compile(rb"[0-9a-f]{64}\Z")
_MOST: Final = 4096  # bytes of a file
_LOOK_S: Final = 1.0  # a file that changed counts within this


def digest_of(token: bytes) -> str:
    """SHA-256, lower-case hex. A token is 256 random bits, so that nothing slower is called for."""
    return hashlib.sha256(token).hexdigest()


def make(path: Path) -> str:
    """A new token, whose digest is in the file `path` (0600) from then on, whole at any time. Raises OSError."""
    token = secrets.token_urlsafe(32)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w") as file:
            file.write(f"{digest_of(token.encode())}\n")
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
    return token


@dataclass(slots=True)
class _Kept:
    listed: Listed
    path: str
    digest: str
    seen: tuple[int, ...]  # the file as it was read


class TokenFiles:
    """The digests of all principals that have one; their files are looked at again as they change."""

    def __init__(self, listed: Iterable[Listed]) -> None:
        """Raises ConfigurationError for a file that cannot be used."""
        self._kept = [_kept(each, each.token) for each in listed if each.token is not None]
        self._looked = time.monotonic()

    def __bool__(self) -> bool:
        return bool(self._kept)

    def of(self, token: bytes) -> Listed | None:
        """Whose it is. Compared with every digest, in a time that does not depend on how much of one it has."""
        self._look()
        presented = digest_of(token)
        found = None
        for each in self._kept:
            if hmac.compare_digest(each.digest, presented):
                found = each.listed
        return found

    def _look(self) -> None:
        if time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        for each in self._kept:
            try:
                if _signature(os.stat(each.path)) != each.seen:
                    fresh = _kept(each.listed, each.path)
                    each.digest, each.seen = fresh.digest, fresh.seen
                    _log.info("%s: the token of %s is another one now", each.path, each.listed.name)
            except (OSError, ConfigurationError) as error:
                if each.digest:
                    # Whoever takes a file away, or spoils it, would have its token count no more.
                    each.digest, each.seen = "", ()
                    _log.warning("%s has no token any more: %s", each.listed.name, error)


def _kept(listed: Listed, path: str) -> _Kept:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ConfigurationError(f"{path}: is no file; make one with `stockaded token {path}`")
            stranger = trust.stranger(found)
            if stranger is not None:
                raise ConfigurationError(
                    f"{path}:1:1: "
                    + ("belongs to somebody else" if stranger == "owner" else "can be written by others")
                    + f", who could make a token of their own count; chown {os.geteuid()} and chmod 0600 it"
                )
            content = file.read(_MOST).strip()
    except OSError as error:
        raise ConfigurationError(
            f"{path}:1:1: the token's digest cannot be read: {error.strerror}; make it with `stockaded token {path}`"
        ) from error
    if not _DIGEST.match(content):
        raise ConfigurationError(
            f"{path}:1:1: holds no digest: 64 hexadecimal digits in lower case, the SHA-256 of a token; "
            f"make it with `stockaded token {path}`"
        )
    return _Kept(listed, path, content.decode(), _signature(found))


def _signature(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
