"""The budget of a session: how many calls, seconds and bytes its profile gives it in all.

A guard, and the last one. It belongs to the profile, like the limits of one call: so whoever opens a session may give
it less (a tightening), and an edit holds from the next call on. What is spent is known from the recorded events alone,
so a restart forgets nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stockade_daemon.values import Budget, Json

_MB = 1024 * 1024


@dataclass(slots=True)
class Spent:
    """What a session has used."""

    calls: int = 0  # that all guards have let pass; a job and the call that starts it are one
    seconds: float = 0.0  # of bodies
    output_bytes: int = 0  # of results: values as JSON text, texts and images for the model

    def learn(self, type: str, body: Mapping[str, Json]) -> None:
        """Counts a recorded event of the session; each once."""
        match type:
            case "policy/guards" if body.get("decision") == "abstain" and body.get("background") is not True:
                self.calls += 1
            case "tool/result":
                result: dict[str, Any] = dict(body)
                self.seconds += result.get("usage", {}).get("wall_s", 0.0)
                texts = sum(len(text.encode()) for text in result.get("content", ()))
                images = sum(len(each["data"]) * 3 // 4 for each in result.get("images", ()))  # of base64
                self.output_bytes += result.get("value_size", 0) + texts + images


def within(budget: Budget, spent: Spent) -> str | None:
    """Why the budget has no other call, or None. A call under way is not ended by it."""
    for name, used, most, unit in (
        ("calls", spent.calls, budget.calls, "calls"),
        ("seconds", spent.seconds, budget.seconds, "seconds of running"),
        ("output_mb", spent.output_bytes / _MB, budget.output_mb, "MiB of results"),
    ):
        if used >= most:
            return (
                f"this session has used up its budget of {most} {unit} (budget.{name}); nothing was run. Tell whoever "
                "gave it; another session has a budget of its own"
            )
    return None
