"""Reads files of calls, strictly: a misspelt expectation would expect nothing."""

import difflib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import Final, NoReturn

from stockade_client import regular_file
from stockade_client.errors import InvalidRequest
from stockade_client.results import Json
from stockade_client.runs import patterns, places
from stockade_client.runs.entries import Answer, CallsFile, Entry, EntryCall, Expected, Fault, Isolation
from stockade_client.runs.located import Located, Misread, Path, parse

MOST_BYTES: Final = 256 * 1024 * 1024
_HEADER: Final = ("isolation",)
_ONE: Final = ("tool", "args", "raw", "answer", "expect")
_ENTRY: Final = ("name", "calls", *_ONE, "files", "timeout_s")
_TEXTS: Final = ("stdout", "stderr", "text", "value")
_EXPECT: Final = ("ok", "error", "exit_code", *_TEXTS)
_ERROR: Final = ("code", "domain", "message")


def files_of(places: Iterable[str]) -> list[str]:
    """The files named, and of each directory all *.jsonl in it and below, in the order of their names.

    Raises InvalidRequest where there is none.
    """
    found: list[str] = []
    for place in places:
        if os.path.isdir(place):
            below = sorted(str(each) for each in FilePath(place).rglob("*.jsonl") if each.is_file())
            if not below:
                raise InvalidRequest(f"there is no *.jsonl in {place!r} or below; `stockade record` writes one")
            found += below
        else:
            found.append(place)
    return list(dict.fromkeys(found))


def read(path: str) -> CallsFile:
    """Raises InvalidRequest where the file cannot be read at all."""
    data = regular_file.read(path, what="file of calls", most=MOST_BYTES)
    isolation: Isolation | None = None
    entries: list[Entry] = []
    unusable: list[Entry] = []
    faults: list[Fault] = []
    names: dict[str, int] = {}
    begun = False
    for number, line in enumerate(data.split(b"\n"), 1):
        reader: _Line | None = None
        try:
            text = line.decode("utf-8")
            if not text.strip():
                continue
            reader = _Line(path, number, parse(text))
            if not begun and reader.is_header():
                isolation, begun = reader.header(), True
                continue
            begun = True
            entry = reader.entry()
            if entry.name in names:
                reader.note(("name",), f"line {names[entry.name]} has the same name; give each entry one of its own")
            names.setdefault(entry.name, number)
            (unusable if reader.noted else entries).append(entry)
            faults += [Fault(path, number, each.column, each.reason) for each in reader.noted]
        except UnicodeDecodeError as error:
            column = len(line[: error.start].decode("utf-8", "replace")) + 1
            faults.append(Fault(path, number, column, "this is not UTF-8"))
        except Misread as misread:
            noted = [*reader.noted, misread] if reader is not None else [misread]
            faults += [Fault(path, number, each.column, each.reason) for each in noted]
    if not entries and not faults:
        faults.append(Fault(path, 0, 0, "there is no entry in it; `stockade record` writes some"))
    return CallsFile(path, isolation, tuple(entries), tuple(faults), tuple(unusable))


class _Line:
    """Takes one line apart. Methods raise Misread; what does not keep the rest from being read is in `noted`."""

    def __init__(self, file: str, line: int, located: Located) -> None:
        self._file = file
        self._line = line
        self._located = located
        self.noted: list[Misread] = []

    def fault(self, path: Path, reason: str) -> NoReturn:
        raise self._misread(path, reason)

    def note(self, path: Path, reason: str) -> None:
        self.noted.append(self._misread(path, reason))

    def _misread(self, path: Path, reason: str) -> Misread:
        while path not in self._located.columns:
            path = path[:-1]
        return Misread(self._located.columns[path], reason)

    def is_header(self) -> bool:
        value = self._located.value
        return isinstance(value, dict) and "isolation" in value

    def header(self) -> Isolation:
        header = self._object(self._located.value, (), _HEADER)
        match header["isolation"]:
            case "entry":
                return "entry"
            case "run":
                return "run"
        self.fault(("isolation",), '"isolation" is "entry" or "run"')

    def entry(self) -> Entry:
        if self.is_header():
            self.fault(("isolation",), "this holds for a whole file: it belongs on the first line, alone")
        value = self._object(self._located.value, (), _ENTRY)
        if ("calls" in value) == ("tool" in value):
            self.fault((), 'an entry has either "tool" or "calls", a list of calls that belong together')
        if "calls" in value:
            for key in _ONE:
                if key in value:
                    self.fault((key,), f'{key!r} belongs into a call of the list "calls"')
            listed = value["calls"]
            if not isinstance(listed, list) or not listed:
                self.fault(("calls",), '"calls" is a list of calls, at least one')
            calls = tuple(self._call(each, ("calls", number)) for number, each in enumerate(listed))
        else:
            calls = (self._call({key: value[key] for key in _ONE if key in value}, ()),)
        name = self._text(value.get("name", ""), ("name",)) or f"{calls[0].tool} (line {self._line})"
        files = value.get("files", {})
        if not isinstance(files, dict):
            self.fault(("files",), '"files" is an object: for each path a pattern, or null for no file')
        for path, pattern in files.items():
            if not path:
                self.fault(("files", path), "a path is not empty")
            self._file_pattern(pattern, ("files", path))
        return Entry(name, self._file, self._line, calls, tuple(files.items()), self._seconds(value))

    def _file_pattern(self, pattern: Json, path: Path) -> None:
        if isinstance(pattern, dict) and "$sha256" in pattern:
            if len(pattern) != 1:
                self.fault(path, "of a file, $sha256 stands alone")
            self._pattern(pattern, path)
            return
        if pattern is not None and not isinstance(pattern, str) and not patterns.is_matcher(pattern):
            self.fault(path, "a file is expected to be a text, to match a pattern with $, or (null) not to be there")
        self._pattern(pattern, path)

    def _seconds(self, value: dict[str, Json]) -> float | None:
        seconds = value.get("timeout_s")
        if "timeout_s" not in value:
            return None
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
            self.fault(("timeout_s",), '"timeout_s" is a number of seconds above 0')
        return float(seconds)

    def _call(self, value: Json, path: Path) -> EntryCall:
        call = self._object(value, path, _ONE)
        if "tool" not in call:
            self.fault(path, 'a call has a "tool"')
        tool = self._text(call["tool"], (*path, "tool"))
        if not tool:
            self.fault((*path, "tool"), "a tool's name is not empty")
        if "args" in call and "raw" in call:
            self.fault((*path, "raw"), 'a call has "args", or "raw" (the text of arguments as a model wrote it)')
        if "raw" in call:
            arguments = self._text(call["raw"], (*path, "raw"))
            self._places(arguments, (*path, "raw"))
        else:
            self._places(call.get("args", {}), (*path, "args"))
            if not isinstance(call.get("args", {}), dict):
                self.note((*path, "args"), '"args" is an object; a text of arguments as a model wrote it is "raw"')
            arguments = json.dumps(call.get("args", {}), ensure_ascii=False, separators=(",", ":"))
        answer = self._answer(call["answer"], (*path, "answer")) if "answer" in call else None
        expected = self._expected(call.get("expect", {}), (*path, "expect"))
        column = self._located.columns[*path, "tool"]
        data = arguments.encode("utf-8", "surrogatepass")
        return EntryCall(tool, data, expected, answer, self._line, column)

    def _answer(self, value: Json, path: Path) -> Answer:
        if isinstance(value, bool):
            return Answer(value)
        answer = self._object(value, path, ("allow", "says"))
        allow = answer.get("allow")
        if not isinstance(allow, bool):
            self.fault(path, '"answer" is true, false, or an object with "allow" (true or false) and "says"')
        return Answer(allow, self._text(answer.get("says", ""), (*path, "says")))

    def _expected(self, value: Json, path: Path) -> Expected:
        expect = self._object(value, path, _EXPECT)
        for key in _TEXTS:
            if key in expect:
                self._pattern(expect[key], (*path, key))
        parts: list[tuple[str, Json]] = [(key, expect[key]) for key in _TEXTS if key in expect]
        code = domain = None
        if "error" in expect:
            error = expect["error"]
            if isinstance(error, str):
                code = error
            else:
                fields = self._object(error, (*path, "error"), _ERROR)
                code, domain = (
                    self._text(fields[key], (*path, "error", key)) if key in fields else None
                    for key in ("code", "domain")
                )
                if "message" in fields:
                    self._pattern(fields["message"], (*path, "error", "message"))
                    parts.append(("message", fields["message"]))
        ok = expect.get("ok", "error" not in expect)
        if not isinstance(ok, bool):
            self.fault((*path, "ok"), '"ok" is true or false')
        if ok and "error" in expect:
            self.fault((*path, "error"), "a call that is ok has no error")
        status = expect.get("exit_code", 0)
        if status != "any" and (isinstance(status, bool) or not isinstance(status, int)):
            self.fault((*path, "exit_code"), '"exit_code" is an integer, or "any"')
        return Expected(ok, code, domain, "any" if status == "any" else int(str(status)), tuple(parts))

    def _pattern(self, value: Json, path: Path) -> None:
        for place, reason in (*patterns.faults(value, path), *places.faults(value, path)):
            self.note(place, reason)

    def _places(self, value: Json, path: Path) -> None:
        for place, reason in places.faults(value, path):
            self.note(place, reason)

    def _object(self, value: Json, path: Path, known: tuple[str, ...]) -> dict[str, Json]:
        if not isinstance(value, dict):
            self.fault(path, "this must be an object")
        for key in value:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                known_are = f"did you mean {near[0]!r}?" if near else f"known are {_all(known)}"
                self.note((*path, key), f"{key!r} is no key here; {known_are}")
        return value

    def _text(self, value: Json, path: Path) -> str:
        if not isinstance(value, str):
            self.fault(path, "this must be text")
        return value


def _all(names: Iterable[str]) -> str:
    return ", ".join(names)


def unknown(read: Iterable[CallsFile], tools: Iterable[str], codes: Iterable[str]) -> Iterator[Fault]:
    """The calls of tools that there are not, but where that is what is expected; and error codes that nobody gives."""
    tools, codes = sorted(tools), sorted(codes)
    for file in read:
        for entry in (*file.entries, *file.unusable):
            for call in entry.calls:
                expected = call.expected
                if call.tool not in tools and expected.code != "UNKNOWN_TOOL":
                    near = difflib.get_close_matches(call.tool, tools, n=1)
                    there = f"did you mean {near[0]!r}?" if near else f"there are {_all(tools)}"
                    yield Fault(entry.file, call.line, call.column, f"no tool is called {call.tool!r}; {there}")
                if expected.code is not None and expected.code not in codes:
                    near = difflib.get_close_matches(expected.code, codes, n=1)
                    there = f"did you mean {near[0]!r}?" if near else "docs/catalog/errors.md has those there are"
                    yield Fault(entry.file, call.line, call.column, f"no error has the code {expected.code!r}; {there}")
