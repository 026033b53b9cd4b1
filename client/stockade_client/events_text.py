"""An event's body on one line: what a person looks for first, digests cut to what tells them apart."""

import json
import re
from collections.abc import Mapping
from typing import Final

from stockade_client.results import Json
from stockade_client.values import Event
from stockade_client.visible import one_line

WIDTH: Final = 160
_DIGEST: Final = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")  # SHA-256; eight digits are how cards name theirs


def summary(event: Event, width: int = WIDTH) -> str:
    """The body's scalars as `key value`, nested ones as compact JSON, cut to `width`."""
    parts = [f"{name} {scalar(value)}" for name, value in event.body.items() if value not in (None, "", [], {})]
    return one_line(" · ".join(parts), width)


def scalar(value: Json) -> str:
    """The value as text, with digests shortened."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _DIGEST.sub(r"\1", text)


def picked(body: Mapping[str, Json], names: tuple[str, ...]) -> list[tuple[str, str]]:
    """The named values that are there, as text."""
    return [(name, scalar(body[name])) for name in names if body.get(name) not in (None, "", [], {})]
