"""A conversation as it is printed: the model's words, its calls, and what came of them, checked against a recording."""

import json
import shlex
from typing import Final

from rich.console import Console
from rich.text import Text

from stockade_client.completed import facts
from stockade_client.errors import StockadeError
from stockade_client.model import ToolCall, Turn
from stockade_client.recording import Recording
from stockade_client.results import CallResult, Json
from stockade_client.shown_text import difference, text
from stockade_client.visible import one_line

SHOWN_LINES: Final = 12  # of an output; the end of a test run says the most
SHOWN_DIFFERENCE: Final = 60  # lines of one
SHOWN_PATHS: Final = 4
INDENT: Final = "    "


class NotAsRecorded(StockadeError):
    """Something came out differently than it did when the conversation was recorded."""


class Transcript:
    """An audience of the model loop that prints. Raises NotAsRecorded at the first difference."""

    def __init__(self, shown_on: Console, recording: Recording) -> None:
        self._console = shown_on
        self._recording = recording
        self.results: dict[str, CallResult] = {}  # by call id, in order
        self._together = False  # the message has several calls, so that results do not follow their calls at once

    def begins(self) -> None:
        """What the person wants."""
        if self._recording.title:
            self._console.print(text(self._recording.title, "bold"))
            self._console.print()
        self._speak("person", self._recording.task)

    def said(self, turn: Turn) -> None:
        self._together = len(turn.calls) > 1
        if turn.text:
            self._console.print()
            self._speak("model", turn.text)

    def calling(self, call: ToolCall) -> None:
        self._console.print(Text("  → ", style="bold").append_text(self._head(call)))

    def _head(self, call: ToolCall) -> Text:
        line = Text(f"{call.tool} ", style="bold cyan")
        room = self._console.width - len("  → ") - len(line.plain)
        return Text().append_text(line).append(one_line(_arguments(call), room))

    def called(self, call: ToolCall, result: CallResult) -> None:
        self.results[call.id] = result
        if self._together:
            self._console.print(Text("  ← ", style="bold").append_text(self._head(call)))
        for part in [*_output(result), _verdict(result)]:
            # Wrapped here and not by the console, so that what is wrapped stays indented.
            for line in part.wrap(self._console, self._console.width - len(INDENT)):
                line.rstrip()
                self._console.print(Text(INDENT).append_text(line))
        recorded = self._recording.calls.get(call.id)
        came_differently = recorded.expect.difference(result) if recorded else None
        if came_differently is not None:
            raise NotAsRecorded(
                f"{call.id} ({call.tool}) did not go as recorded: {came_differently}; run it by itself with "
                "`stockade call` to see why"
            )

    def _speak(self, who: str, words: str) -> None:
        self._console.print(Text(f"{who}: ", style="bold magenta").append_text(text(words)))


def _arguments(call: ToolCall) -> str:
    """The arguments on one line, as a person would say them."""
    try:
        arguments: Json = json.loads(call.arguments)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        return call.arguments.decode("utf-8", "replace")
    if isinstance(arguments.get("command"), str):
        return str(arguments["command"])
    argv = arguments.get("argv")
    if isinstance(argv, list):
        return shlex.join(str(part) for part in argv)
    path = arguments.get("path")
    rest = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items() if name != "path"]
    return " ".join(([str(path)] if path is not None else []) + rest)


def _output(result: CallResult) -> list[Text]:
    """The last lines of what it wrote, else of what the model was given."""
    streams = [result.field("stdout"), result.field("stderr")]
    written = "".join(part for part in streams if isinstance(part, str))
    # A failed call's text repeats its error, which the verdict tells.
    if not written and result.error is None:
        written = result.text
    lines = written.rstrip("\n").split("\n") if written.strip() else []
    is_difference = any(line.startswith("@@ ") for line in lines)
    most = SHOWN_DIFFERENCE if is_difference else SHOWN_LINES
    shown = lines if len(lines) <= most else lines[1 - most :]
    body = "\n".join(shown)
    made = [difference(body) if is_difference else text(body, "dim")] if lines else []
    if len(shown) < len(lines):
        made.insert(0, Text(f"… {len(lines) - len(shown)} lines above", style="dim italic"))
    return made


def _verdict(result: CallResult) -> Text:
    line = Text()
    if result.error is not None:
        line.append("✗ ", style="bold red").append(f"{result.error.code}: ", style="red")
        line.append_text(text(result.error.message))
    else:
        code = result.field("exit_code")
        number = result.field("signal")
        if number:
            line.append(f"✗ killed by signal {number}", style="red")
        elif isinstance(code, int) and code:
            line.append(f"✗ exit status {code}", style="red")
        else:
            line.append("✓ ok" if code is None else "✓ exit status 0", style="green")
            if code is None and (said := facts(result.card)):
                line.append_text(text(f"  {said}", "dim"))
    line.append(f"  {result.usage.wall_s * 1000:.0f} ms", style="dim")
    effects = result.field("effects")
    if isinstance(effects, list) and effects:
        became = _BECAME.get(str(result.field("effects_disposition")), "changed in its private view")
        line.append(f"  {became}: {_paths(effects)}", style="dim")
    return line


_BECAME: Final = {
    "committed": "changed",
    "refused": "would have changed, and nothing was committed",
    "discarded": "changed in its private view and discarded",
}


def _paths(effects: list[Json]) -> str:
    paths = [str(effect.get("path")) for effect in effects if isinstance(effect, dict)]
    more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
    return one_line(", ".join(paths[:SHOWN_PATHS]) + more, 200)
