"""One generation of tools: their manifests and compiled schemas. A changed set of tools is another Registry."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path

from stockade_daemon.errors import ArgumentsRefusal
from stockade_daemon.registry import manifests
from stockade_daemon.registry.arguments import Arguments
from stockade_daemon.registry.outputs import Output
from stockade_daemon.values import Json, Manifest


class Registry:
    def __init__(self, tools: Mapping[str, Manifest]) -> None:
        """Raises ConfigurationError where a tool's schema cannot be compiled."""
        self._tools = {name: tools[name] for name in sorted(tools)}
        self._arguments = {name: Arguments(manifest) for name, manifest in self._tools.items()}
        self._outputs = {name: Output(manifest) for name, manifest in self._tools.items()}

    @classmethod
    def load(cls, directory: Path | None = None) -> "Registry":
        """The tools whose manifests lie in `directory`; the built-in ones where it is None.

        Raises ConfigurationError naming file, line and key.
        """
        return cls(manifests.load(directory))

    def catalog(self) -> tuple[Manifest, ...]:
        """All tools, in name order."""
        return tuple(self._tools.values())

    def find(self, name: str, only: Collection[str] = ()) -> Manifest:
        """The tool of this name, among those that `only` names where that is not empty: the others do not exist.

        Raises ArgumentsRefusal UNKNOWN_TOOL, with the nearest name and the list.
        """
        offered = [each for each in self._tools if not only or each in only]
        if name not in offered:
            near = get_close_matches(name[:80], offered, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ArgumentsRefusal(
                "UNKNOWN_TOOL",
                f"There is no tool {name[:80]!r}.{hint} Call one of: {', '.join(offered)}.",
            )
        return self._tools[name]

    def parse(self, manifest: Manifest, text: bytes) -> Mapping[str, Json]:
        """The tool's arguments in `text`, deeply frozen; empty text means none.

        Raises ArgumentsRefusal INVALID_ARGS, which lists every fault.
        """
        return self._arguments[manifest.name].parse(text)

    def check_output(self, manifest: Manifest, value: Json) -> None:
        """Raises ValueError, which lists every fault, where the tool's value is not what its manifest says.

        Only for a value that JSON can carry.
        """
        self._outputs[manifest.name].check(value)
