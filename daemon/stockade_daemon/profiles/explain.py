"""Every setting that is in force under a profile, and the place that set it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stockade_daemon.profiles import chain, keys
from stockade_daemon.settings import Key, Settings
from stockade_daemon.toml_text import Way
from stockade_daemon.values import Profile

# Tables whose names the file chooses: told one by one, since each may come from another file.
_TABLES = (keys.SET, keys.SECRETS)


@dataclass(frozen=True, slots=True)
class Setting:
    """One value in force."""

    key: str  # dotted
    value: str  # as TOML writes it
    json: str  # the same as JSON text
    source: str  # the file that set it; empty: it is the default
    line: int = 0  # from 1; 0 for a default
    column: int = 0


def explain(profile: Profile) -> list[Setting]:
    """All settings of a profile, in the order of keys.KEYS. What a secret holds is not among them."""
    files = chain.unpack(profile.text, name=profile.name, source=profile.source)
    read = [chain.document(file) for file in files]
    merged = chain.merge(files)
    found: list[Setting] = []
    for key in keys.KEYS:
        if key in (keys.EXTENDS, keys.WIDEN):
            # What a file says of itself; it is not handed on.
            own = next(at for at, file in zip(read, files, strict=True) if not file.tightens)
            found.append(_setting(key.name, own[key], key.way, [own] if key.name in own.values else []))
        elif key in _TABLES:
            found += _table(key, merged, read)
        else:
            found.append(_setting(key.name, _shown(key, merged[key]), key.way, read))
    return found


def _table(key: Key[Any], merged: Settings, read: list[Settings]) -> Iterator[Setting]:
    values = _shown(key, merged[key])
    for name, value in values.items():
        yield _setting(f"{key.name}.{name}", value, (*key.way, name), read)
    if not values:
        yield _setting(key.name, {}, key.way, read)


def _shown(key: Key[Any], value: Any) -> Any:
    """The value as a file would write it."""
    if key is keys.MOUNTS:
        return [{"path": path, "mode": "ro"} for path in value]
    if key is keys.SECRETS:
        return {name: {"file": file} for name, file in value.items()}
    return value


def _setting(name: str, value: object, way: Way, read: list[Settings]) -> Setting:
    for at in read:
        if way in at.document.places:
            return Setting(name, _toml(value), _json(value), at.document.source, *at.document.place(way))
    return Setting(name, _toml(value), _json(value), "")


def _json(value: object) -> str:
    """A whole number as such, also where the setting may be a fraction: so TOML shows it, too."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
