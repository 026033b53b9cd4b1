"""Background jobs of a session under profile ci, as a client and as a model see them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stockade_client import Call, CallResult, connect
from stockade_client.session import Session
from tests.end_to_end.profile_admin import HANG_S
from tests.end_to_end.stockaded import Stockaded


@asynccontextmanager
async def session_of(daemon: Stockaded, workspace: Path, **more: Any) -> AsyncIterator[Session]:
    async with (
        asyncio.timeout(HANG_S),
        connect(daemon.address) as client,
        client.session(workspace, "ci", **more) as session,
    ):
        yield session


async def begun(session: Session, command: str, **more: Any) -> Call:
    result = await session.call("shell", command=command, background=True, **more)
    assert result.ok, result
    return session.job(value_of(result)["job"])


async def printed(job: Call, text: bytes) -> bytes:
    """What a job has printed, once `text` is there."""
    got = b""
    async with job.output() as pieces:
        async for piece in pieces:
            got += piece
            if text in got:
                break
    return got


def value_of(result: CallResult) -> dict[str, Any]:
    assert isinstance(result.value, dict), result
    return result.value


async def asked(session: Session, action: str, **more: Any) -> dict[str, Any]:
    result = await session.call("job", action=action, **more)
    assert result.ok, result
    return value_of(result)
