"""What is to be expected of a session's calls when they are made again: all but what is not the same twice."""

from collections.abc import Mapping
from typing import Final

from stockade_client.calls import Part
from stockade_client.results import CallResult, Json
from stockade_client.runs import patterns
from stockade_client.runs.places import as_expression, put_in, started
from stockade_client.runs.printed import STREAMS, cut
from stockade_client.runs.volatile import expression_of, pattern_of

_EDGE: Final = 4096  # characters at either end of what is too long to be expected whole
_OVER: Final = ("exit_code", "signal", "error")  # what a job that has ended has come to


class Expecting:
    """Of one session, from its first call to its last."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._jobs: list[str] = []  # in the order in which calls have started them
        self._over: set[str] = set()  # those that a call has waited for, or killed

    def placed(self, text: str) -> str:
        """The text with places for the workspace and for jobs."""
        return put_in(text, self._workspace, self._jobs)

    def with_places(self, value: Json) -> Json:
        """The value with places in its texts."""
        if isinstance(value, list):
            return [self.with_places(each) for each in value]
        if isinstance(value, dict):
            return {key: self.with_places(each) for key, each in value.items()}
        return self.placed(value) if isinstance(value, str) else value

    def of(self, arguments: Json, result: CallResult, whole: Mapping[Part, str]) -> dict[str, Json]:
        """Of the next call. `whole`: what it printed, where its value leaves out the middle."""
        if result.error is not None:
            return {"error": result.error.code}
        value = result.value
        job = started(result)
        if job is not None:
            self._jobs.append(job)
            return {"exit_code": "any", "value": {"job": {"$any": True}}}
        if not isinstance(value, dict):
            return {"text": self._pattern(result.text)} if value is None else {"value": self._pattern(value)}
        jobs = value.get("jobs")
        if result.tool == "job" and isinstance(jobs, list) and isinstance(arguments, dict):
            return {"value": self._of_jobs(arguments, value, jobs)}
        if "exit_code" not in value:
            return {"value": self._pattern(value)}
        expect: dict[str, Json] = {}
        if value["exit_code"] != 0:
            expect["exit_code"] = "any" if value["exit_code"] is None else value["exit_code"]
        for name in STREAMS:
            if name in whole:
                expect[name] = self._long(whole[name])
            elif isinstance(value.get(name), str) and not cut(result, name):
                expect[name] = self._pattern(value[name])
        effects = value.get("effects")
        more: dict[str, Json] = {}
        if isinstance(effects, list):
            more["effects"] = [self._pattern(_told(each)) for each in effects]
        if value.get("signal") is not None:
            more["signal"] = value["signal"]
        return expect | ({"value": more} if more else {})

    def _pattern(self, value: Json) -> Json:
        return pattern_of(self.with_places(value))

    def _long(self, text: str) -> Json:
        """Of a text that is too long for a file of calls: its digest, or, where something in it is not the same twice,
        how it begins and ends."""
        if self.placed(text) == text and expression_of(text) is None:
            return {"$sha256": patterns.sha256(text)}
        edges = text[:_EDGE].rpartition("\n")[0], text[-_EDGE:].partition("\n")[2]  # whole lines
        begins, ends = (expression_of(each) or as_expression(each) for each in map(self.placed, edges))
        return {"$regex": rf"\A{begins}[\s\S]*{ends}\Z"}

    def _of_jobs(self, arguments: Mapping[str, Json], value: Mapping[str, Json], jobs: list[Json]) -> dict[str, Json]:
        """What is told of jobs while they run depends on when they are asked about. Of one that has been waited for,
        or killed, it does not."""
        action = arguments.get("action")
        told: list[Json] = []
        for each in jobs:
            job = each.get("job") if isinstance(each, dict) else None
            if not isinstance(each, dict) or not isinstance(job, str):
                continue
            over = each.get("state") == "ended"
            if over and action in ("wait", "kill"):
                self._over.add(job)
            keys = ("job", "title", *(("state", *_OVER) if over and job in self._over else ()))
            told.append({key: each[key] for key in keys if key in each})
        expect: dict[str, Json] = {"jobs": self._pattern(told)}
        if action == "read" and arguments.get("job") in {self.placed(each) for each in self._over}:
            expect |= {key: self._pattern(value[key]) for key in ("text", "end") if key in value}
        return expect


def _told(effect: Json) -> Json:
    """Path and change; the size may be of what is not the same twice."""
    return (
        {key: each for key, each in effect.items() if key in ("path", "change")} if isinstance(effect, dict) else effect
    )
