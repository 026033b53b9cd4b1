"""Stage tools/execute: a waterfall around the dispatch. A listener may delegate, answer itself, or transform.

What a listener answers is its own word: it is checked like a body's, and layers and usage stay those of the worker.
"""

from dataclasses import replace

from stockade_daemon.errors import CODES, Aborted, ExtensionFailed
from stockade_daemon.json_text import is_text
from stockade_daemon.pipeline import outcomes
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.dispatch import dispatch
from stockade_daemon.pipeline.finalize import invalid, lossless
from stockade_daemon.pipeline.learned import unshown
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.registry.freezing import freeze
from stockade_daemon.values import Outcome


async def execute(services: Services, judged: Judged, under_way: CallUnderWay) -> Outcome:
    """The outcome of the body, or of what a listener put in its place; its value is deeply frozen."""
    _limit_time(judged, under_way)
    attempts = _Attempts(services, judged, under_way)
    answered = await services.execute.run(judged, attempts.make)
    if answered is attempts.last:
        return answered
    outcome = _authored(answered, attempts.last, services.execute.name)
    if outcome.ok:
        checked = _checked(outcome, judged, under_way)
        outcome = replace(checked, value=freeze(checked.value))
    body = {"outcome": "answered" if attempts.last is None else "transformed", "ok": outcome.ok}
    services.ledger.note(judged.session.session_id, "policy/execute", judged.call.call_id, body)
    return outcome


class _Attempts:
    """The dispatch as listeners see it: an outcome each time, and never a body that ran twice by mistake."""

    def __init__(self, services: Services, judged: Judged, under_way: CallUnderWay) -> None:
        self._services = services
        self._judged = judged
        self._under_way = under_way
        self._number = 0
        self._error: Exception | None = None  # of the last attempt, where it has no outcome
        self.last: Outcome | None = None

    async def make(self) -> Outcome:
        """One attempt. Where the body has begun in an earlier one, and its manifest does not say that it is idempotent,
        or where the call is to stop, nothing is run: what came of the attempt before comes of this one too."""
        self._number += 1
        if self._number > 1:
            begun = self._under_way.dispatched and not self._judged.manifest.idempotent
            refused = begun or self._under_way.stop.cause is not None
            body = {"number": self._number, "decision": "refused" if refused else "run"}
            self._services.ledger.note(self._judged.session.session_id, "call/attempt", self._judged.call.call_id, body)
            if refused:
                return self._before()
            if self._under_way.dispatched:
                self._under_way.printed.again()
        begun = self._under_way.dispatched
        self._error = None
        try:
            outcome = await dispatch(self._services, self._judged, self._under_way)
        except Aborted as aborted:
            # Where an earlier attempt has run, this is no longer "before dispatch".
            self._error = Aborted("ABORTED", f"an earlier attempt had run; {aborted.message}") if begun else aborted
            raise self._error from aborted
        except Exception as error:
            self._error = error
            raise
        if outcome.has_value:
            outcome = _checked(outcome, self._judged, self._under_way)
        self.last = replace(outcome, value=freeze(outcome.value))
        return self.last

    def _before(self) -> Outcome:
        if self._error is not None:
            raise self._error
        assert self.last is not None
        return self.last


def _authored(answered: Outcome, dispatched: Outcome | None, stage: str) -> Outcome:
    """A listener's outcome, as far as it is a listener's to say.

    Raises ExtensionFailed where it is no outcome: a code that is not ours, text that is no text.
    """
    facts = dispatched or Outcome()
    texts: list[object] = [*answered.content, *answered.context]
    if answered.error is not None:
        texts.append(answered.error.message)
    if not all(map(is_text, texts)):
        raise ExtensionFailed("", stage, "its content, context or message is no text that JSON can carry")
    if answered.error is not None:
        code = answered.error.code
        if code not in CODES:
            raise ExtensionFailed("", stage, f"its error code {str(code)[:40]!r} is unknown")
        made = outcomes.failed(code, answered.error.message, layers=facts.layers, usage=facts.usage)
        # A partial value is the body's alone.
        kept = facts.has_value and answered.value is facts.value
        content = answered.content or made.content
        return replace(
            made, value=facts.value if kept else None, has_value=kept, content=content, context=answered.context
        )
    # A picture is the body's alone, and so is what was shown: nothing is, where the text is another one.
    images = facts.images if answered.images is facts.images else ()
    authored = replace(answered, learned=facts.learned)
    if answered.content != facts.content or answered.value is not facts.value:
        authored = unshown(authored)
    return replace(authored, has_value=True, images=images, layers=facts.layers, usage=facts.usage)


def _checked(outcome: Outcome, judged: Judged, under_way: CallUnderWay) -> Outcome:
    """The outcome, or INVALID_TOOL_OUTPUT where its value is none that the tool may have. Of a failure the value is
    only what there is so far, and that it has failed says more than what its value lacks."""
    try:
        lossless(outcome)
        if outcome.ok:
            under_way.tools.check_output(judged.manifest, outcome.value)
    except ValueError as error:
        return invalid(outcome, str(error))
    return outcome


def _limit_time(judged: Judged, under_way: CallUnderWay) -> None:
    """Stops the call when the body's own clock has run for its time: the shorter of what the call asks for (or else
    the tool allows) and of what the profile allows. The whole process tree is killed; the outcome is TOOL_TIMEOUT."""
    asked = judged.call.arguments.get("timeout_s")
    profile, job = judged.session.profile, judged.call.background
    longest, key = (profile.limits.job_s, "job_s") if job else (profile.limits.wall_s, "wall_s")
    limits: list[tuple[float, str]] = [(longest, f"limits.{key} of profile {profile.name}")]
    if isinstance(asked, int | float):
        limits.append((asked, "the call's timeout_s"))
    elif not job:
        limits.append((judged.manifest.timeout_s, f"the time of {judged.manifest.name}; timeout_s asks for another"))
    # Compared before it becomes a float: an integer may be too large for one.
    seconds, reason = min(limits, key=lambda limit: limit[0])
    under_way.clock.limit(float(seconds), reason)
