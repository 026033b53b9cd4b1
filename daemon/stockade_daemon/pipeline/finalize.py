"""Stage finalize: the cap on what the model reads, the lossless check, and with them the outcome is frozen."""

from dataclasses import replace

from stockade_daemon import json_text
from stockade_daemon.pipeline import outcomes
from stockade_daemon.pipeline.learned import unshown
from stockade_daemon.values import Manifest, Outcome

MAX_VALUE_BYTES = 16 * 1024 * 1024
_SHARE_OF_HEAD = 0.7


def finalize(outcome: Outcome, manifest: Manifest | None) -> Outcome:
    """The outcome as it is recorded. Anything that JSON cannot carry becomes INVALID_TOOL_OUTPUT. For every call,
    failed and refused ones too, and once."""
    if outcome.has_value:
        try:
            size = lossless(outcome)
        except ValueError as error:
            return invalid(outcome, str(error))
        if size > MAX_VALUE_BYTES:
            return outcomes.failed(
                "OUTPUT_LIMIT",
                f"the tool's value has {size} bytes of JSON, more than the {MAX_VALUE_BYTES} allowed; ask for less",
                layers=outcome.layers,
                usage=outcome.usage,
            )
    try:
        for block in outcome.content:
            json_text.check(block)
    except ValueError as error:
        return invalid(outcome, f"the tool's text is not lossless JSON: {error}")
    cap = manifest.output_bytes if manifest is not None else 65536
    content = _capped(outcome.content, cap)
    if content != outcome.content:
        outcome = unshown(outcome)  # of lines in the middle nobody knows whether they are still there
    return replace(outcome, content=content)


def lossless(outcome: Outcome) -> int:
    """The length of the value's JSON text in bytes. Raises ValueError, naming the place, where JSON cannot carry it."""
    try:
        json_text.check(outcome.value)
        return len(json_text.dump(outcome.value))
    except ValueError as error:
        raise ValueError(f"the tool's value is not lossless JSON: {error}") from error


def invalid(outcome: Outcome, message: str) -> Outcome:
    """What becomes of an outcome that JSON cannot carry. What there is to tell the agent besides stays."""
    failed = outcomes.failed("INVALID_TOOL_OUTPUT", message, layers=outcome.layers, usage=outcome.usage)
    return replace(failed, context=outcome.context)


def _capped(blocks: tuple[str, ...], cap: int) -> tuple[str, ...]:
    """Head and tail of the text within `cap` bytes of UTF-8, with the number of bytes left out between them."""
    text = "\n".join(blocks)
    data = text.encode("utf-8")
    if len(data) <= cap:
        return blocks
    room = cap - 64  # for the sentence in the middle
    head = data[: int(room * _SHARE_OF_HEAD)].decode("utf-8", "ignore")
    tail = data[len(data) - (room - int(room * _SHARE_OF_HEAD)) :].decode("utf-8", "ignore")
    left_out = len(data) - len(head.encode()) - len(tail.encode())
    return (f"{head}\n[{left_out} bytes left out of the middle]\n{tail}",)
