"""Cards: what a person is shown of a call. JSON objects, pure functions of frozen values.

Titles, and differences, have nothing in them that a terminal obeys. Arguments are the exact ones, since they are what a
yes is bound to: whoever shows them makes visible what hides in them, and says how long they are (`lengths`).
"""

import re

from stockade_daemon.gate.intents import Planned
from stockade_daemon.gate.names import visible
from stockade_daemon.pipeline import views
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.values import Json

_LONGEST_TITLE = 200
_CUT = "The difference is too long, or no text, to be shown whole; the digests before and after bind the rest."


def title(judged: Judged) -> str:
    """The manifest's template with the arguments' texts; one line."""
    # In one pass, so that braces in an argument are only text.
    text = re.sub(r"\{(\w+)\}", lambda found: _shown(judged.call.arguments.get(found[1])), judged.manifest.card_title)
    text = visible(" ".join(re.sub(r"\s*[\r\n]\s*", " ⏎ ", text.strip()).split()))
    return text if len(text) <= _LONGEST_TITLE else f"{text[: _LONGEST_TITLE - 1]}…"


def pending(judged: Judged) -> dict[str, Json]:
    """The card that goes out with a call: its title, and what its view says before there is a result."""
    return views.pending(judged.manifest, title(judged), judged.call.arguments)


def _shown(value: Json) -> str:
    if isinstance(value, tuple | list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def for_arguments(judged: Judged, reason: str) -> dict[str, Json]:
    """A call judged by its arguments: all of them."""
    profile = judged.session.profile
    return {
        "title": title(judged),
        "tool": judged.call.tool,
        "session": judged.session.session_id,
        "workspace": judged.session.workspace,
        "profile": profile.name,
        "profile_digest": profile.digest,
        "reason": reason,
        "arguments": judged.call.arguments,
        "lengths": {
            name: {"characters": len(text), "lines": text.count("\n") + 1}
            for name, text in judged.call.arguments.items()
            if isinstance(text, str)
        },
    }


def for_difference(judged: Judged, planned: Planned, reason: str) -> dict[str, Json]:
    """A change judged by its effect: the exact difference that will be committed, and digests that bind it."""
    card = for_arguments(judged, reason)
    return card | {
        "path": planned.path,
        "operation": planned.operation,
        "before": planned.before,
        "after": planned.after,
        "difference": planned.text,
        "added": planned.added,
        "removed": planned.removed,
        "note": planned.note if planned.difference.complete else f"{planned.note} {_CUT}".strip(),
    }
