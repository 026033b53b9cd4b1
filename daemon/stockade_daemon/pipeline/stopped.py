"""What a stop comes to: an outcome that says whether the body had begun, and what became of its effects."""

from stockade_daemon.errors import Aborted, DeadlineReached, Refusal, ToolFailure
from stockade_daemon.pipeline.stop import Stopped
from stockade_daemon.values import ITSELF, Outcome


def before_dispatch(stopped: Stopped) -> Refusal:
    """What a stop means for a body that was never invoked."""
    why = {
        "cancelled": "the caller cancelled the call",
        "closing": "the session was closed",
        "lease": "the session's lease ended",
        "draining": "the daemon is stopping",
        "deadline": "the tool's time was up",
        "output": "it had printed more than its profile lets it",
    }[stopped.cause]
    return Aborted("ABORTED_BEFORE_DISPATCH", f"{why} before it was started; nothing was run.")


def while_running(stopped: Stopped, *, limit: str, after: str) -> Refusal:
    """What a stop means for a body that ran. `limit` is whose time was up, `after` what became of its
    effects."""
    if stopped.cause == "deadline":
        return DeadlineReached(
            "TOOL_TIMEOUT",
            f"the time was up after {limit} and all processes were killed; {after}. Give it more time or less work.",
        )
    if stopped.cause == "output":
        return ToolFailure("OUTPUT_LIMIT", f"it printed more than its profile lets it and was ended; {after}.")
    why = {
        "cancelled": "the caller cancelled the call",
        "closing": "the session was closed",
        "lease": "the session's lease ended",
    }.get(stopped.cause, "the daemon is stopping")
    return Aborted("ABORTED", f"{why} while it ran; {after}.")


def ended_by(outcome: Outcome, by: str | None) -> str | None:
    """Whom to name as the cause of a result: whoever asked for the end, or the daemon where nobody did. None: whoever
    started the call."""
    stopped = outcome.error is not None and outcome.error.code in ("ABORTED", "ABORTED_BEFORE_DISPATCH")
    return (by or ITSELF.name) if stopped else None
