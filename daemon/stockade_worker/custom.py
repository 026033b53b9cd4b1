"""Tools that are not ours: their sources come with the job and are imported here, in the sealed worker of one call.

Nothing of such a tool is ever imported in the daemon or in a template, which lives in front of the filters: importing a
file is running it. What was read once is what runs: names of the host's files play no part.
"""

import importlib.machinery
import json
import sys
import types
from collections.abc import Callable
from typing import Any

from stockade_toolkit import declaring
from stockade_toolkit.contract import Answer, ToolError
from stockade_worker.broker import Broker
from stockade_worker.frames import Channel, Frame


class Sources:
    """Imports modules from the job's text: a finder and loader of the import system (PEP 451)."""

    def __init__(self, header: dict[str, Any], blob: bytes) -> None:
        """`header["modules"]`: [name, whether it is a package, length] each, the texts in the blob."""
        self._texts: dict[str, tuple[bool, bytes]] = {}
        at = 0
        for name, is_package, length in header["modules"]:
            self._texts[name] = (is_package, blob[at : at + length])
            at += length
        self.entry: str = header["entry"]
        self.size = at  # bytes of the blob that are theirs

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self._texts:
            return None
        is_package, _ = self._texts[name]
        return importlib.machinery.ModuleSpec(name, self, origin=self.file(name), is_package=is_package)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__file__ = self.file(module.__name__)
        exec(compile(self._texts[module.__name__][1], module.__file__, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 (the point)

    def file(self, name: str) -> str:
        """What tracebacks call it."""
        return f"<{name}>"

    def load(self) -> list[declaring.Declaration]:
        """Imports the entry; returns what has been declared. Raises whatever the import raises."""
        sys.meta_path.insert(0, self)
        __import__(self.entry)
        return declaring.declared()

    def line_of(self, error: BaseException) -> int:
        """The line of the entry's text that an error came from, the innermost; 1 where there is none."""
        name = self.file(self.entry)
        if isinstance(error, SyntaxError) and error.filename == name:
            return error.lineno or 1
        line = 1
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == name:
                line = trace.tb_lineno
            trace = trace.tb_next
        return line


def describe(channel: Channel, frame: Frame) -> None:
    """Imports the sources and sends the manifests of what they declare, or where and why they cannot be used."""
    sources = Sources(frame.header, frame.blob)
    try:
        declarations = sources.load()
    except BaseException as error:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        message = f"{type(error).__name__}: {text}" if text else type(error).__name__
        channel.send({"type": "faulty", "line": sources.line_of(error), "message": message[:1000]})
        return
    # Late, because only describing needs it and it takes long to import.
    from stockade_toolkit.describing import Faulty, describe

    tools: list[dict[str, Any]] = []
    for declaration in declarations:
        try:
            found = describe(declaration)
        except Faulty as fault:
            channel.send({"type": "faulty", "line": fault.line, "message": str(fault)[:1000]})
            return
        place = {"line": found.line, "files": found.files, "index": len(tools)}
        tools.append({**place, "manifest": found.manifest})
    try:
        text = json.dumps(tools, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        channel.send({"type": "faulty", "line": 1, "message": f"a default or a keyword is not JSON: {error}"})
        return
    channel.send({"type": "manifests"}, text.encode("utf-8", "surrogatepass"))


def body(header: dict[str, Any], blob: bytes) -> tuple[Callable[..., Any], bytes]:
    """Imports the job's sources; returns the tool as built-in ones are called, and the rest of the blob."""
    sources = Sources(header, blob)
    declarations = sources.load()
    index = header["index"]
    if index >= len(declarations):
        raise ToolError("TOOL_FAILED", "the tool's file declares less than it did when its manifest was taken")
    function, files = declarations[index].function, header["files"]

    def run(arguments: dict[str, Any], broker: Broker) -> Answer:
        given = {**arguments, files: broker} if files is not None else arguments
        try:
            return _answer(function(**given))
        except ToolError:
            raise
        except Exception as error:
            where = f"{header['origin']}:{sources.line_of(error)}"
            text = f"the tool failed at {where}: {type(error).__name__}: {error}"
            raise ToolError("TOOL_FAILED", text[:2000]) from error

    return run, blob[sources.size :]


def _answer(value: Any) -> Answer:
    """What a function returned, with a text for the model where it gave none."""
    if isinstance(value, Answer):
        return value
    if isinstance(value, str):
        return Answer(value, value)
    return Answer(value, "done" if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False))
