"""What the tool `job` asks of the session's background jobs, and what it is answered.

Of a job that an earlier daemon has started, the ledger knows the result; it can be asked about by its name.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from stockade_daemon import json_text
from stockade_daemon.errors import ArgumentsRefusal, RequestError
from stockade_daemon.ledger.ledger import VALUE_PART
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.jobs import Jobs, end
from stockade_daemon.pipeline.kept_bytes import file_of
from stockade_daemon.pipeline.wishes import JobWish
from stockade_daemon.values import Json


async def asked(services: Services, jobs: Jobs, session_id: str, wish: JobWish) -> dict[str, Json]:
    """Does it, and tells of the job or of all. Raises ArgumentsRefusal where the session has no such job."""
    if wish.action == "list":
        return {
            "jobs": [
                await _told(services, jobs, session_id, each.job_id, each.title) for each in jobs.known(session_id)
            ]
        }
    title = await _title(services, session_id, wish.job)
    under_way = jobs.under_way(session_id, wish.job)
    if under_way is not None:
        await _done(jobs, session_id, wish, under_way)
    read: dict[str, Json] = {}
    if wish.action == "read":
        read = await _read(services, jobs, session_id, wish)
    return {"jobs": [await _told(services, jobs, session_id, wish.job, title)], **read}


async def _done(jobs: Jobs, session_id: str, wish: JobWish, under_way: CallUnderWay) -> None:
    match wish.action:
        case "wait":
            try:
                async with asyncio.timeout(wish.wait_s):
                    await under_way.settled.wait()
            except TimeoutError:
                pass  # it goes on, and the answer says so
        case "signal":
            try:
                await jobs.signal(session_id, wish.job, wish.signal)
            except RequestError as error:
                raise ArgumentsRefusal("INVALID_ARGS", str(error)) from None
        case "kill":
            under_way.stop.request("cancelled")
            await under_way.settled.wait()


async def _title(services: Services, session_id: str, job_id: str) -> str:
    """What a job of this session runs. Raises ArgumentsRefusal."""
    first = await services.ledger.read(session_id, call_id=job_id, limit=1) if job_id else ()
    if not first or first[0].body.get("background") is not True:
        raise ArgumentsRefusal(
            "INVALID_ARGS", f'this session has no job {job_id[:128]!r}; action "list" tells which there are'
        )
    card = first[0].body.get("card")
    title = card.get("title") if isinstance(card, Mapping) else None
    return title if isinstance(title, str) else job_id


async def _told(services: Services, jobs: Jobs, session_id: str, job_id: str, title: str) -> dict[str, Json]:
    told: dict[str, Json] = {"job": job_id, "title": title}
    under_way = jobs.under_way(session_id, job_id)
    if under_way is not None:
        sizes = {"stdout_bytes": under_way.stdout.total, "stderr_bytes": under_way.stderr.total}
        return {**told, "state": "running", **sizes}
    told["state"] = "ended"
    job = jobs.find(session_id, job_id)
    if job is not None and job.ended is not None:
        return {**told, **job.ended}
    record = await services.ledger.call(session_id, job_id)
    result = record.result if record is not None else None
    if result is None:
        return told
    value, error = result.get("value"), result.get("error")
    if "value_digest" in result:
        kept = await services.ledger.output(session_id, job_id, VALUE_PART)
        # One value, of a job that is asked about by its name.
        value = await asyncio.to_thread(json_text.parse, kept, max_bytes=len(kept)) if kept is not None else None
    return {**told, **end(value, error if isinstance(error, Mapping) else None)}


async def _read(services: Services, jobs: Jobs, session_id: str, wish: JobWish) -> dict[str, Json]:
    """Whole characters from the offset on: what is cut at the end comes with the next read."""
    under_way = jobs.under_way(session_id, wish.job)
    if under_way is not None:
        output = under_way.stdout if wish.stream == "stdout" else under_way.stderr
        over = output.ended
        data = await output.read(wish.offset, wish.limit)
        size = output.size
    else:
        over = True
        kept = await services.ledger.output(session_id, wish.job, wish.stream)
        if kept is None:
            path = file_of(services.outputs, session_id, wish.job, wish.stream)
            data, size = await asyncio.to_thread(_slice, path, wish.offset, wish.limit)
        else:
            data, size = kept[wish.offset : wish.offset + wish.limit], len(kept)
    last = over and wish.offset + len(data) >= size
    if not last:
        data = data[: _whole(data)]
    after = wish.offset + len(data)
    return {"text": data.decode("utf-8", "replace"), "next": after, "end": over and after >= size}


def _whole(data: bytes) -> int:
    """How many bytes of it are whole characters, or no character at all (RFC 3629)."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80 or byte > 0xF4:
            break
        if byte >= 0xC0:
            wants = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if wants > back else len(data)
    return len(data)


def _slice(path: Path, offset: int, size: int) -> tuple[bytes, int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b"", 0
    try:
        return os.pread(descriptor, size, offset), os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
