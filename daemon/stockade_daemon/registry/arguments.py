"""Arguments as a model wrote them → the frozen mapping that every stage sees, or a refusal that lists every fault."""

from collections.abc import Mapping
from typing import Final

from stockade_daemon import json_text
from stockade_daemon.errors import ArgumentsRefusal, ConfigurationError
from stockade_daemon.registry.fitting import Fitting, shown, without_absent
from stockade_daemon.registry.freezing import freeze
from stockade_daemon.values import Json, Manifest

# Arguments of built-in tools that say something only beside another that is true: (one, the other). Our schemas have no
# word for that.
_ONLY_WITH: Final[Mapping[str, tuple[str, str]]] = {"shell": ("workspace", "background")}


class Arguments:
    """The arguments of one tool; its schema is compiled once."""

    def __init__(self, manifest: Manifest) -> None:
        """Raises ConfigurationError where the schema cannot be compiled, for example a pattern that is none."""
        self._tool = manifest.name
        self._schema = manifest.input_schema
        self._only_with = _ONLY_WITH.get(manifest.name) if manifest.custom is None else None
        try:
            self._fitting = Fitting(manifest.input_schema, "argument")
        except ValueError as error:
            raise ConfigurationError(
                f"{manifest.name}: the input_schema of this tool is unusable: {error}; correct its manifest"
            ) from error

    def parse(self, text: bytes) -> Mapping[str, Json]:
        """The arguments in `text`, deeply frozen; empty text means none.

        Raises ArgumentsRefusal INVALID_ARGS: the text is not lossless JSON, is no object, or does not fit the schema.
        """
        try:
            value = json_text.parse(text) if text else {}
        except json_text.NotLossless as error:
            raise self._refusal(f"the JSON is unusable: {error}") from None
        if not isinstance(value, dict):
            raise self._refusal(f"they are {shown(value)}, not one JSON object")
        given = without_absent(value, self._schema)
        if faults := self._fitting.faults(given):
            raise self._refusal("; ".join(faults))
        frozen = freeze(given)
        assert isinstance(frozen, Mapping)
        if self._only_with is not None:
            one, other = self._only_with
            if one in frozen and frozen.get(other) is not True:
                raise self._refusal(f"{one} is only for a call with {other} true; leave it out, or set {other}")
        return frozen

    def faults(self, value: dict[str, Json]) -> list[str]:
        """Why these arguments do not fit, a bounded number of reasons; none: they do."""
        return self._fitting.faults(without_absent(value, self._schema))

    def _refusal(self, what: str) -> ArgumentsRefusal:
        end = "" if what.endswith("?") else "."
        return ArgumentsRefusal(
            "INVALID_ARGS",
            f"The arguments do not fit the tool {self._tool!r}: {what}{end} Correct them and call it again.",
        )
