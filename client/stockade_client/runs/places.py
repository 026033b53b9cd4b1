"""Places in the texts of a file of calls: what stands there instead is known only when the calls are played.

${workspace}    the absolute path of the workspace
${job N}        the name of the N-th job that calls of this session have started in the background, from 1

`$${workspace}` and `$${job 1}` are those texts themselves. A shell has no use for `${job 1}`, so nobody means another.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from stockade_client.results import CallResult, Json
from stockade_client.runs.entries import EntryCall
from stockade_client.runs.located import Path

WORKSPACE: Final = "${workspace}"
_LIKE: Final = re.compile(r"(\$?\$\{(?:workspace\}|job [^}]*\}?))")  # a place, its text itself, or nearly one
_JOB: Final = re.compile(r"\$\{job ([1-9][0-9]{0,3})\}")
_SPECIAL: Final = re.compile(r"[.*+?^${}()|\[\]\\]")  # in a regular expression


class Unplaced(Exception):
    """A place for which there is nothing; the text says why."""


@dataclass(slots=True)
class Places:
    """What stands in the places of one session's texts."""

    workspace: str
    jobs: list[str] = field(default_factory=list)

    def came(self, result: CallResult) -> None:
        """Takes note of a job that the call has started."""
        job = started(result)
        if job is not None:
            self.jobs.append(job)

    def call(self, call: EntryCall) -> EntryCall:
        """The call as it is made here. Raises Unplaced."""
        text = call.arguments.decode("utf-8", "surrogatepass")
        arguments = _LIKE.sub(self._in_json, text)
        expected = call.expected
        parts = tuple((name, self.pattern(pattern)) for name, pattern in expected.parts)
        data = arguments.encode("utf-8", "surrogatepass")
        return replace(call, arguments=data, expected=replace(expected, parts=parts))

    def pattern(self, pattern: Json, *, quoted: bool = False) -> Json:
        """A pattern as it is meant here; `quoted`: of a regular expression. Raises Unplaced."""
        if isinstance(pattern, list):
            return [self.pattern(each) for each in pattern]
        if isinstance(pattern, dict):
            return {key: self.pattern(each, quoted=key == "$regex") for key, each in pattern.items()}
        if not isinstance(pattern, str):
            return pattern
        return _LIKE.sub(lambda found: self._there(found, quoted=quoted), pattern)

    def _in_json(self, found: re.Match[str]) -> str:
        """What a path may need in JSON text is an escape; what stands there already has its own."""
        there = self._there(found)
        return there if found[0].startswith("$$") else json.dumps(there, ensure_ascii=False)[1:-1]

    def _there(self, found: re.Match[str], *, quoted: bool = False) -> str:
        place = found[0]
        if place.startswith("$$"):
            return place[1:]
        text = self.workspace if place == WORKSPACE else self._job(place)
        return re.escape(text) if quoted else text

    def _job(self, place: str) -> str:
        job = _JOB.fullmatch(place)
        if job is None:
            raise Unplaced(_none(place))
        if int(job[1]) > len(self.jobs):
            began = f"{len(self.jobs)} so far" if self.jobs else "none so far"
            raise Unplaced(f"{place} stands for a job that no call of this session has started: {began}")
        return self.jobs[int(job[1]) - 1]


def started(result: CallResult) -> str | None:
    """The name of the job that a call has started in the background; None where it has not."""
    value = result.value
    job = value.get("job") if isinstance(value, dict) and "exit_code" in value else None
    return job if isinstance(job, str) and result.error is None else None


def faults(value: Json, path: Path) -> Iterator[tuple[Path, str]]:
    """What in a value's texts looks like a place and is none, and where."""
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from faults(each, (*path, number))
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from faults(each, (*path, key))
    elif isinstance(value, str):
        for found in _LIKE.finditer(value):
            if found[0] != WORKSPACE and not found[0].startswith("$$") and _JOB.fullmatch(found[0]) is None:
                yield path, _none(found[0])


def _none(place: str) -> str:
    return (
        f"{place[:40]!r} is no place: ${{job 1}} is the first job that a call of the session has started, ${{job 2}} "
        "the second; $${job 1} is that text itself"
    )


def put_in(text: str, workspace: str, jobs: Iterable[str]) -> str:
    """The text with places for the workspace's path and for the names of jobs, in the order in which they began."""
    text = _LIKE.sub(lambda found: f"${found[0]}", text)
    if len(workspace) > 1:
        text = re.sub(rf"{re.escape(workspace)}(?![\w.-])", lambda _: WORKSPACE, text)
    for number, job in enumerate(jobs, 1):
        text = re.sub(rf"\b{re.escape(job)}\b", f"${{job {number}}}", text)
    return text


def as_expression(text: str) -> str:
    """A regular expression of a text with places, which stay places. Legible: spaces and line ends stay, too."""
    parts = _LIKE.split(text)
    for number, part in enumerate(parts):
        if number % 2 == 0 or part.startswith("$$"):
            parts[number] = _SPECIAL.sub(r"\\\g<0>", part if number % 2 == 0 else part[1:])
    return "".join(parts)
