"""A function whose process is a probe; it sees nothing of the workspace."""

from collections.abc import Mapping
from typing import Any

from stockade_toolkit import Answer, Files


def run(arguments: Mapping[str, Any], files: Files) -> Answer:
    """Executes `program`, which has `FILES`, the way to the gate. A probe ends its own process after its verdict."""
    exec(compile(arguments["program"], "probe", "exec"), {"__name__": "__main__", "FILES": files})
    return Answer(None, "the probe said nothing")
