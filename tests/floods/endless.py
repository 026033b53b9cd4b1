"""Commands that never stop printing come to their limit, and calls of another session do not notice."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Final

from stockade_client import CallResult
from stockade_client.session import Session
from tests.floods.daemon import Place, Report

_HANG_S: Final = 120.0  # a hang detector, for one call
_MB: Final = 1 << 20


async def endless(place: Place, report: Report, *, limit_mb: int, seconds: float, calls: int) -> None:
    """`seconds`: how long the one that is not ended for its output may run."""
    async with (
        place.daemon.session(place.workspace, "truncate") as truncating,
        place.daemon.session(place.workspace, "stop") as stopping,
        place.daemon.session(place.workspace, "whole") as other,
    ):
        alone = [await _answered(other, number, report) for number in range(calls)]
        stopped = asyncio.create_task(_endless(stopping, seconds))
        beside = await _answered_while(stopped, other, report)
        _judge_stopped(await stopped, limit_mb, report)
        truncated = asyncio.create_task(_endless(truncating, seconds))
        beside += await _answered_while(truncated, other, report)
        _judge_truncated(await truncated, limit_mb, report)
    if not beside:
        report.faults.append("no call was answered beside an endless command")
        return
    report.say(
        f"a call of another session: p50 {_p50(alone)} ms alone ({len(alone)} calls), {_p50(beside)} ms beside an "
        f"endless `yes` ({len(beside)} calls)"
    )


async def _endless(session: Session, seconds: float) -> CallResult:
    async with asyncio.timeout(_HANG_S):
        return await session.call("shell", command="echo begun; yes", timeout_s=seconds)


async def _answered_while(running: "asyncio.Task[CallResult]", other: Session, report: Report) -> list[float]:
    took: list[float] = []
    while not running.done():
        took.append(await _answered(other, len(took), report))
    return took


async def _answered(session: Session, number: int, report: Report) -> float:
    """Seconds that a call took whose result is known."""
    began = time.perf_counter()
    async with asyncio.timeout(_HANG_S):
        result = await session.call("shell", command=f"echo {number}; echo err {number} >&2; exit {number % 7}")
    took = time.perf_counter() - began
    wanted = (f"{number}\n", f"err {number}\n", number % 7)
    if not result.ok or tuple(map(result.field, ("stdout", "stderr", "exit_code"))) != wanted:
        report.faults.append(f"a call beside an endless one came to {result.error or result.value}, not {wanted}")
    return took


def _judge_stopped(result: CallResult, limit_mb: int, report: Report) -> None:
    said = str(result.error)
    report.say(f"stop: {said}")
    if result.error is None or result.error.code != "OUTPUT_LIMIT" or f"more than {limit_mb} MiB" not in said:
        report.faults.append(f"an endless command that is to stop at its limit came to {said}")
    _judge_kept(result, limit_mb, report)


def _judge_truncated(result: CallResult, limit_mb: int, report: Report) -> None:
    report.say(f"truncate: {result.field('stdout_bytes')} bytes were printed, {result.field('stdout_kept')} kept")
    if result.error is None or result.error.code != "TOOL_TIMEOUT":
        report.faults.append(f"an endless command that is to be cut came to {result.error}")
    _judge_kept(result, limit_mb, report)


def _judge_kept(result: CallResult, limit_mb: int, report: Report) -> None:
    kept, total, text = (result.field(name) for name in ("stdout_kept", "stdout_bytes", "stdout"))
    if kept != limit_mb * _MB or not isinstance(total, int) or total <= kept or result.field("truncated") is not True:
        report.faults.append(f"{kept} of {total} bytes were kept, truncated {result.field('truncated')}")
    for each in (text, *result.content[-1:]):
        if not isinstance(each, str) or "bytes left out: stdout has" not in each or not each.endswith("y\n"):
            report.faults.append(f"nothing tells of what was left out: {str(each)[-200:]!r}")
    if not isinstance(text, str) or not text.startswith("begun\ny\n"):
        report.faults.append(f"its beginning was not kept: {str(text)[:100]!r}")


def _p50(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.1f}"
