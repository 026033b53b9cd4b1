"""What a command changed, while somebody is asked about it, as bytes: so that another daemon can commit it.

The new bytes themselves lie in a directory of the daemon's; this says which, and what the call had come to.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from stockade_daemon import json_text
from stockade_daemon.gate.effects.mark import Mark
from stockade_daemon.gate.effects.values import Made
from stockade_daemon.values import Json, Layer, Outcome, Usage

_KIND: Final = b"effects\n"  # how it is told from a staged change of one file, which begins with a length


@dataclass(frozen=True, slots=True)
class StagedEffects:
    """Changes that somebody is asked about."""

    made: Made
    since: Mark
    digest: str  # of the plan that was shown
    whose: str  # what made them, for people
    done: Outcome  # what the call has come to but for them


def pack(staged: StagedEffects) -> bytes:
    done = staged.done
    body: dict[str, Json] = {
        "made": asdict(staged.made),
        "since": asdict(staged.since),
        "digest": staged.digest,
        "whose": staged.whose,
        "value": done.value,
        "content": list(done.content),
        "context": list(done.context),
        "layers": [asdict(each) for each in done.layers],
        "usage": asdict(done.usage),
    }
    return _KIND + json_text.dump(body)


def unpack(data: bytes) -> StagedEffects | None:
    """None for the bytes of something else. Raises ValueError, KeyError or TypeError for bytes that are no `pack`'s."""
    if not data.startswith(_KIND):
        return None
    body: Any = json_text.parse(data[len(_KIND) :], max_bytes=len(data))
    if not isinstance(body, Mapping):
        raise ValueError("what was staged has no description")
    return StagedEffects(
        Made(**body["made"]),
        Mark(**body["since"]),
        str(body["digest"]),
        str(body["whose"]),
        Outcome(
            value=body["value"],
            has_value=True,
            content=tuple(body["content"]),
            context=tuple(body["context"]),
            layers=tuple(Layer(**each) for each in body["layers"]),
            usage=Usage(**body["usage"]),
        ),
    )
