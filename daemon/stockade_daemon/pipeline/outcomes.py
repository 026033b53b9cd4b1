"""Making outcomes: successes, refusals and failures in one shape, and the JSON body that records them."""

import base64
from collections.abc import Mapping
from typing import Final, cast

from stockade_daemon.errors import CODES, Refusal
from stockade_daemon.values import Failure, Json, Layer, Outcome, Usage

NO_EFFECTS: Final = "none (proven)"  # no transaction had begun
# The remedy of every RESOURCE_LIMIT.
LESS: Final = "Do with less, or have the profile allow more"


def failed(
    code: str,
    message: str,
    *,
    layers: tuple[Layer, ...] = (),
    usage: Usage | None = None,
    domain: str | None = None,
) -> Outcome:
    """An error outcome: no value, one text block for the model. `domain`: where it is not that of the code."""
    usual, retry = CODES[code]
    domain = domain or usual
    return Outcome(
        content=(f"Error: {message}",),
        error=Failure(code, message, domain, retry),
        layers=layers,
        usage=usage or Usage(),
    )


def refused(refusal: Refusal, *, layers: tuple[Layer, ...] = (), usage: Usage | None = None) -> Outcome:
    return failed(refusal.code, refusal.message, layers=layers, usage=usage, domain=refusal.domain)


def body(outcome: Outcome, profile_digest: str) -> dict[str, Json]:
    """The body of the tool/result event (docs/semantics.md)."""
    result: dict[str, Json] = {"ok": outcome.ok}
    if outcome.has_value:
        result["value"] = outcome.value
    result["content"] = list(outcome.content)
    if outcome.images:
        result["images"] = [
            {"mime": each.mime, "data": base64.b64encode(each.data).decode("ascii")} for each in outcome.images
        ]
    if outcome.error is not None:
        error = outcome.error
        result["error"] = {"code": error.code, "message": error.message, "domain": error.domain, "retry": error.retry}
    result["layers"] = layers_body(outcome.layers)
    usage = outcome.usage
    result["usage"] = {
        "wall_s": round(usage.wall_s, 6),
        "cpu_s": round(usage.cpu_s, 6),
        "max_rss_bytes": usage.max_rss_bytes,
        "read_bytes": usage.read_bytes,
        "written_bytes": usage.written_bytes,
        "source": usage.source,
    }
    result["profile_digest"] = profile_digest
    if outcome.effects:
        result["effects"] = outcome.effects
    return result


def layers_body(layers: tuple[Layer, ...]) -> list[Json]:
    return [
        cast(Mapping[str, Json], {"name": layer.name, "held": layer.held, "reason": layer.reason}) for layer in layers
    ]
