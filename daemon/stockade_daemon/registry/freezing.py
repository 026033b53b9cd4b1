"""Deeply frozen JSON: read-only mappings and tuples, the same for every stage that looks."""

from types import MappingProxyType

from stockade_daemon.values import Json


def freeze(value: Json) -> Json:
    """A copy that nothing can change. Recurses, so only for values whose depth json_text has checked."""
    if isinstance(value, dict | MappingProxyType):
        return MappingProxyType({key: freeze(child) for key, child in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(child) for child in value)
    return value


def thaw(value: Json) -> Json:
    """The same value in dicts and lists, for a library that knows only those."""
    if isinstance(value, dict | MappingProxyType):
        return {key: thaw(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(child) for child in value]
    return value
