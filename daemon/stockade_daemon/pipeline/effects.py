"""What a body changed in its private view of the workspace: listed in the result, and discarded."""

import asyncio
import os

from stockade_daemon.gate.names import visible
from stockade_daemon.pipeline.context import CallUnderWay
from stockade_daemon.sandbox.effects import Difference, Effect, difference
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Json

_NAMED = 20  # for the model; the value has them all


async def effects_of(worker: Worker, under_way: CallUnderWay) -> Difference:
    """What is in the worker's view. Only for a worker that is gone: nothing is left that could still write."""
    if worker.scratch is None:
        return Difference((), 0)
    upper, live = os.fspath(worker.scratch.upper), under_way.live
    return await asyncio.to_thread(difference, upper, live.session.workspace, hides=live.gate.hides)


def listed(found: Difference) -> dict[str, Json]:
    """The members of a value that tell of them."""
    return {
        "effects": [_body(each) for each in found.effects],
        "effects_total": found.total,
        "effects_disposition": "discarded",
    }


def for_model(found: Difference, whose: str) -> tuple[str, ...]:
    """A block of text about them, where there are any."""
    if not found.total:
        return ()
    names = ", ".join(f"{visible(each.path)} ({each.change})" for each in found.effects[:_NAMED])
    more = f" and {found.total - _NAMED} more" if found.total > _NAMED else ""
    return (f"[changes made by this {whose} were discarded: {names}{more}]",)


def _body(effect: Effect) -> dict[str, Json]:
    body: dict[str, Json] = {"path": effect.path, "change": effect.change, "kind": effect.kind, "size": effect.size}
    return body | {"from": effect.source} if effect.source else body
