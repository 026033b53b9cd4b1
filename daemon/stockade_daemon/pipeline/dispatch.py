"""Dispatch: a worker is given the job. Reads what it sends, trusts none of it, and always ends it."""

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from stockade_daemon.errors import Refusal
from stockade_daemon.pipeline import outcomes
from stockade_daemon.pipeline.command import run_command
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.function import run_function
from stockade_daemon.pipeline.jobs import is_start
from stockade_daemon.pipeline.stop import Stopped
from stockade_daemon.pipeline.stopped import before_dispatch
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Access, Body, Outcome


async def dispatch(services: Services, judged: Judged, under_way: CallUnderWay) -> Outcome:
    """Runs the body in a worker of its own.

    Raises Aborted(ABORTED_BEFORE_DISPATCH) where a stop came first, SandboxFailure where there is no worker,
    PolicyRefusal (APPROVAL_MISMATCH, DENIED) where the call was approved and what was shown is no longer so.
    """
    if is_start(judged):
        return await under_way.jobs.start(judged, under_way)
    session_id, call_id = judged.session.session_id, judged.call.call_id
    async with AsyncExitStack() as stack:
        try:
            under_way.stop.check()
            # Raced: a host that is slow to make a worker must not keep a call from being stopped.
            live, access = under_way.live, _access(judged)
            bare = judged.call.background or access is not judged.manifest.access
            giving = services.pool.worker(
                session_id,
                access,
                profile=live.session.profile,
                hidden=live.hidden_names,
                follow=judged.call.background,
                job=bare and judged.manifest.body is Body.COMMAND,
            )
            making = stack.enter_async_context(giving)
            under_way.waits_for_worker = True
            worker = await under_way.stop.race(making)
        except Stopped as stopped:
            raise before_dispatch(stopped) from None
        finally:
            under_way.waits_for_worker = False
        if under_way.bound is not None:
            under_way.bound = await under_way.bound.launch()
        # Durable before the worker hears: after a crash this is what tells "not started" from "outcome unknown".
        await services.ledger.dispatched(
            session_id,
            call_id,
            {"access": str(access), "layers": outcomes.layers_body(worker.layers)},
        )
        under_way.dispatched = True
        under_way.begun.set()
        run = run_command if judged.manifest.body is Body.COMMAND else run_function
        try:
            with under_way.clock.running(), _at_hand(judged, under_way, worker):
                return await run(services, judged, under_way, worker)
        except Refusal as refusal:
            return outcomes.refused(refusal, layers=worker.layers)


def _access(judged: Judged) -> Access:
    """What the body sees of the workspace: what its tool is made for, or less where the profile gives less."""
    wanted = judged.manifest.access
    if wanted is Access.OVERLAY and judged.session.profile.workspace == "read":
        return Access.READ
    return wanted


@contextmanager
def _at_hand(judged: Judged, under_way: CallUnderWay, worker: Worker) -> Iterator[None]:
    """A command's worker can be signalled while it runs."""
    if judged.manifest.body is Body.COMMAND:
        under_way.worker = worker
    try:
        yield
    finally:
        under_way.worker = None
