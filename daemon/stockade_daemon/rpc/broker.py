"""Tokens for the users of this host: grpc cannot tell who is at the other end of a Unix socket, so a plain one can.

Beside the socket that grpc serves lies another, `daemon.sock.token`. Whoever connects sends nothing, and is sent one
line, {"token": …, "seconds": …}, or {"error": …}; then the connection is closed. The kernel says which uid it was that
connected (SO_PEERCRED, socket(7), unix(7)), and the token stands for that uid.

Nobody is waited for, so a peer that hangs holds nothing. A uid gets the same token until half of its life is over, so
one that asks all the time holds no more than two. When many come at once they are taken in small groups, with pauses,
in which everybody else's requests go on.

The socket's name may go while the daemon runs: somebody cleans up a directory, or binds another socket in its place.
That is looked at whenever a request comes that lacks a token which counts. Where nothing has the name, the daemon then
listens there anew; what something else has is left alone, and told of, in the log and to whoever wants a token.
"""

import asyncio
import contextlib
import errno
import hmac
import json
import logging
import os
import secrets
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stockade_daemon.errors import ConfigurationError
from stockade_daemon.sandbox import uids

_log = logging.getLogger(__name__)
PREFIX: Final = "local."
_MOST: Final = 8192  # tokens; two for each of four thousand uids
_BACKLOG: Final = 1024
_AT_ONCE: Final = 16  # connections that are taken one after the other …
_PAUSE_S: Final = 0.005  # … before this pause
_CREDENTIALS: Final = struct.Struct("=iII")  # struct ucred: pid, uid, gid
_OVERFLOW: Final = "/proc/sys/kernel/overflowuid"


@dataclass(frozen=True, slots=True)
class _Given:
    uid: int
    token: str
    ends: float  # by the clock


class LocalTokens:
    """The tokens that were given. They are gone with the daemon, whose next one gives others."""

    def __init__(self, lifetime_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds that never go back."""
        self._clock = clock
        self._lifetime_s = lifetime_s
        self._given: dict[str, _Given] = {}  # by their names, the first to end first
        self._newest: dict[int, _Given] = {}  # by uid

    def give(self, uid: int) -> tuple[str, float]:
        """A token and for how many seconds it counts. Raises OverflowError where there are too many already."""
        now = self._clock()
        while self._given and (first := next(iter(self._given.values()))).ends <= now:
            del self._given[_name(first.token)]
            if self._newest.get(first.uid) is first:
                del self._newest[first.uid]
        given = self._newest.get(uid)
        if given is None or given.ends - now < self._lifetime_s / 2:
            if len(self._given) >= _MOST:
                raise OverflowError
            token = f"{PREFIX}{secrets.token_hex(8)}.{secrets.token_urlsafe(32)}"
            given = _Given(uid, token, now + self._lifetime_s)
            self._given[_name(token)] = self._newest[uid] = given
        return given.token, given.ends - now

    def of(self, token: str) -> int | None:
        """The uid that it stands for; None: it counts no more, or never did."""
        given = self._given.get(_name(token))
        if given is None or not hmac.compare_digest(given.token.encode(), token.encode()):
            return None
        return given.uid if self._clock() < given.ends else None


def _name(token: str) -> str:
    """What a token is found by, which is not what makes it count."""
    return token.removeprefix(PREFIX).partition(".")[0]


class Broker:
    """Gives the tokens."""

    def __init__(self, tokens: LocalTokens, path: Path) -> None:
        self._tokens = tokens
        self._path = path
        self._listening, self._made = _listen(path)
        self._taken = False  # by something else, and said so
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._troubled = False  # and said so
        self._nobody = _overflow_uid()
        self._workers = uids.available(in_place=True)

    @classmethod
    @contextmanager
    def serving(cls, tokens: LocalTokens, path: Path) -> Iterator["Broker"]:
        """Serves on `path`, which anybody may connect to who can reach it. Raises ConfigurationError."""
        try:
            broker = cls(tokens, path)
        except OSError as error:
            raise ConfigurationError(
                f"{path}: cannot listen here: {error.strerror}; choose another path with --socket"
            ) from error
        broker._go_on()
        try:
            yield broker
        finally:
            broker._stop()
            broker._listening.close()

    def fault(self) -> str:
        """Why nobody reaches this broker by its path, and what to do; empty where one does, by now perhaps."""
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            return self._again()
        except OSError as error:
            return f"{self._path} cannot be looked at: {error.strerror}; have its admin see to its directory"
        if (found.st_dev, found.st_ino) == self._made:
            self._taken = False
            return ""
        if not self._taken:
            self._taken = True
            _log.error(
                "nobody gets a token: %s is not this daemon's socket any more; remove what is there by now", self._path
            )
        return f"{self._path} is not this daemon's socket any more; have its admin remove what is there by now"

    def _again(self) -> str:
        try:
            listening, made = _listen(self._path)
        except OSError as error:
            _log.error("nobody gets a token: %s is gone, and cannot be made again: %s", self._path, error.strerror)
            return f"{self._path} is gone and cannot be made again ({error.strerror}); have its admin start it again"
        self._stop()
        self._listening.close()
        self._listening, self._made, self._taken = listening, made, False
        self._go_on()
        _log.warning("%s was gone, and is made again; clean-ups of its directory should leave it alone", self._path)
        return ""

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening, self._come)

    def _stop(self) -> None:
        self._loop.remove_reader(self._listening)
        if self._pause is not None:
            self._pause.cancel()

    def _come(self) -> None:
        """Somebody is there."""
        for _ in range(_AT_ONCE):
            try:
                peer, _ = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if not self._troubled:  # most often no descriptor is left
                    _log.warning("nobody gets a token for now: %s", error.strerror)
                self._troubled = True
                break
            self._troubled = False
            with peer:
                peer.setblocking(False)
                # It has more room than this takes, and whoever has gone needs nothing.
                with contextlib.suppress(OSError):
                    peer.send(self._answer(peer))
        self._loop.remove_reader(self._listening)
        self._pause = self._loop.call_later(_PAUSE_S, self._go_on)

    def _answer(self, peer: socket.socket) -> bytes:
        _, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        said: dict[str, str | float]
        if uid == self._nobody:
            said = {"error": f"uid {uid} stands for every uid that this host does not know; use a user of the host"}
        elif self._workers is not None and 0 <= uid - self._workers.first < self._workers.count:
            said = {"error": "workers have no business here"}
        else:
            try:
                token, seconds = self._tokens.give(uid)
                said = {"token": token, "seconds": round(seconds, 3)}
            except OverflowError:
                said = {"error": "too many users have a token at present; ask again in a minute"}
        return json.dumps(said).encode() + b"\n"


def _listen(path: Path) -> tuple[socket.socket, tuple[int, int]]:
    """A socket that listens at `path`, and device and inode of its name. Raises OSError, with the name free again."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        listening.bind(os.fspath(path))
        try:
            made = _opened(path)
            listening.listen(_BACKLOG)
        except BaseException:
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(path.lstat().st_mode):
                    path.unlink()
            raise
    except BaseException:
        listening.close()
        raise
    return listening, (made.st_dev, made.st_ino)


def _opened(path: Path) -> os.stat_result:
    """Lets anybody connect to the socket at `path`, not by its name: there may be a link by now. Raises OSError."""
    named = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        made = os.fstat(named)
        if not stat.S_ISSOCK(made.st_mode):
            raise OSError(errno.ENOTSOCK, "something else has taken its name", os.fspath(path))
        Path(f"/proc/self/fd/{named}").chmod(0o666)
        return made
    finally:
        os.close(named)


def _overflow_uid() -> int:
    """What the kernel says of a peer whose user namespace has uids that ours has not (user_namespaces(7))."""
    try:
        return int(Path(_OVERFLOW).read_text())
    except (OSError, ValueError):
        return 65534
