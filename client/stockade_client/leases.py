"""Leases: a session that ends some time after the program that has opened it, however that ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from stockade.v1 import sessions_pb2
from stockade_client.errors import Misused, NotPossible, StockadeError
from stockade_client.link import Link

FEATURE: Final = "session-leases"


@asynccontextmanager
async def renewed(link: Link, request: sessions_pb2.OpenSessionRequest) -> AsyncIterator[None]:
    """Renews the lease of the session that `request` has opened for as long as the block runs, if it has one."""
    if not request.lease_s:
        yield
        return
    again = sessions_pb2.OpenSessionRequest()
    again.CopyFrom(request)
    again.renewal = True  # a session that is gone, with all that was done in it, is not to be there again, and empty
    renewing = asyncio.ensure_future(_renew(link, again))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])


async def _renew(link: Link, request: sessions_pb2.OpenSessionRequest) -> None:
    while True:
        await asyncio.sleep(request.lease_s / 3)
        try:
            await link.ask(link.sessions.Open, request, f"renew the lease of session {request.session_id}")
        except (NotPossible, Misused):
            return  # it has ended, which whoever asks something of it is told by the daemon
        except StockadeError:
            pass  # the daemon is away, and may be back in time
