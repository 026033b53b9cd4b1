"""The digest of a tool: what it is that somebody was shown, or said yes to."""

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from stockade_daemon import json_text
from stockade_daemon.values import Manifest


def digest_of(manifest: Manifest) -> str:
    """SHA-256, lower-case hex, over all that a manifest says, the code that runs included."""
    return hashlib.sha256(json_text.dump(_plain(manifest))).hexdigest()


def _plain(value: Any) -> Any:
    """The value as JSON has it; of two that differ the texts differ, whichever process makes them."""
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in sorted(value)}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else value
