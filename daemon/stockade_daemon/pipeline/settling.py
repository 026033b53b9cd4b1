"""The end of a call's way: its one result is recorded, with what it printed beside it."""

from stockade_daemon.ledger.records import CallRecord
from stockade_daemon.pipeline import outcomes, views
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.post_execute import Reviewed
from stockade_daemon.pipeline.stopped import ended_by
from stockade_daemon.policy.subjects import Judged


async def settle(services: Services, under_way: CallUnderWay, judged: Judged | None, final: Reviewed) -> None:
    """Records it; `under_way.record` is set. judged: None where there is no such tool.

    Raises InfrastructureFailure or RequestError where the ledger cannot record it.
    """
    session_id, call = under_way.live.session.session_id, under_way.call
    result = outcomes.body(final.outcome, under_way.live.digest)
    if judged is not None and under_way.card is not None:
        result["card"] = views.completed(judged.manifest, under_way.card, result)
    if services.durability == "power":
        # What lies beside the ledger survives what the ledger does.
        await under_way.printed.sync()
    outputs = under_way.printed.small()
    by = ended_by(final.outcome, under_way.stop.by or under_way.place.refused_by)
    settled = await services.ledger.settle(session_id, call.call_id, result, outputs, by=by)
    under_way.live.spent.learn(settled.type, settled.body)
    under_way.outcome = final.outcome
    under_way.record = CallRecord(session_id, call.call_id, call.tool, call.digest, "settled", settled.body)
    if under_way.place.turn_id:
        under_way.place.context = final.context  # told when the turn has all its results
        return
    for text in final.context:
        # Waited for: who has the result can read what it comes with.
        await services.ledger.append(session_id, "context/message", call.call_id, {"text": text})
