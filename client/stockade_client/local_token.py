"""A token of this user's at a daemon that several users share: got from the socket beside the daemon's own.

It is got again before it ends, and at once where the daemon, which may be another one by now, knows it no more.
"""

import asyncio
import json
import os
import time
from typing import Final

from stockade_client.errors import NotPermitted

SUFFIX: Final = ".token"
_ANSWER_S: Final = 5.0  # it answers at once; a busy host may take a moment
_LEFT: Final = 1 / 3  # of its life: then a new one is got
_MOST: Final = 4096  # bytes of an answer


class LocalToken:
    """Of the daemon at the socket `path`. Where there is nobody who gives tokens, none is needed."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}{SUFFIX}"
        self._token = ""
        self._renew_at = 0.0  # time.monotonic()
        self._getting = asyncio.Lock()

    async def current(self) -> str:
        """A token that counts for a while; empty where none is given.

        A daemon that is away is none of this module's business: what was got last is given then. Raises NotPermitted
        where the daemon gives this user none.
        """
        async with self._getting:
            if time.monotonic() >= self._renew_at and self._is_there():
                try:
                    async with asyncio.timeout(_ANSWER_S):
                        self._take(await self._answer())
                except (OSError, TimeoutError):
                    if self._token:  # it may still count, and not every request is to wait for this
                        self._renew_at = time.monotonic() + _ANSWER_S
        return self._token

    def forget(self) -> bool:
        """The daemon does not know it any more. False where there was none, and none is to be had."""
        had, self._token, self._renew_at = bool(self._token), "", 0.0
        return had or self._is_there()  # a daemon that was asked without one may have made the socket again

    def _is_there(self) -> bool:
        return os.path.exists(self._path)

    async def _answer(self) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self._path, limit=_MOST)
        try:
            return await reader.read(_MOST)
        finally:
            writer.close()

    def _take(self, answer: bytes) -> None:
        try:
            said = json.loads(answer)
            if "error" in said:
                raise NotPermitted(f"the daemon gives no token: {said['error']}")
            self._token = str(said["token"])
            self._renew_at = time.monotonic() + float(said["seconds"]) * (1 - _LEFT)
        except (ValueError, TypeError, KeyError):
            return  # cut off: it is asked again with the next request
