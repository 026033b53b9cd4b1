"""What a tool's value has to be: the schema that its manifest states, and what is wrong with a value that is not so."""

import functools
from collections.abc import Mapping

from stockade_daemon.errors import ConfigurationError
from stockade_daemon.registry import manifests
from stockade_daemon.registry.fitting import Fitting, without_absent
from stockade_daemon.registry.freezing import freeze, thaw
from stockade_daemon.values import Json, Manifest

_EFFECTS = ("effects", "effects_total", "effects_disposition")


class Output:
    """The value of one tool; its schema is compiled once."""

    def __init__(self, manifest: Manifest) -> None:
        """Raises ConfigurationError where the schema cannot be compiled."""
        self._tool = manifest.name
        self._schema = manifest.output_schema
        try:
            self._fitting = Fitting(manifest.output_schema, "member") if manifest.output_schema is not None else None
        except ValueError as error:
            raise ConfigurationError(
                f"{manifest.name}: the output_schema of this tool is unusable: {error}; correct its manifest"
            ) from error

    def check(self, value: Json) -> None:
        """Raises ValueError, which lists every fault with its place. The value's depth has been checked."""
        if self._fitting is None:
            return
        if faults := self._fitting.faults(without_absent(thaw(value), self._schema)):
            raise ValueError(
                f"the value does not fit the output_schema of the tool {self._tool!r}: {'; '.join(faults)}"
            )


@functools.cache
def of_command() -> Mapping[str, Json]:
    """What every command's value is: that of `shell`. Raises ConfigurationError where its manifest is not to be had."""
    schema = manifests.read(manifests.built_in() / "shell.json").output_schema
    if schema is None:
        raise ConfigurationError("shell: its manifest has no output_schema; install the whole distribution again")
    return schema


def with_effects(result: Mapping[str, Json]) -> Mapping[str, Json]:
    """What the value of a function with a private view is: what it returned, and what it changed there."""
    command = of_command()["properties"]
    assert isinstance(command, Mapping)
    told = {"description": "What the tool returned.", **result}
    schema = freeze(
        {
            "type": "object",
            "properties": {"result": told, **{name: command[name] for name in _EFFECTS}},
            "required": ["result", *_EFFECTS],
            "additionalProperties": False,
        }
    )
    assert isinstance(schema, Mapping)
    return schema
