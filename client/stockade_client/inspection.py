"""Looking at a daemon's profiles: what they say, what is wrong with one, what it really refuses.

A profile is a name that the daemon knows, or a file of the caller's (with "/" or ending in .toml), whose text is sent.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stockade.v1 import profiles_pb2, sessions_pb2
from stockade_client import places, profiles, wire
from stockade_client.link import Link
from stockade_client.results import Json, Layer

PROBE_S: Final = 120.0  # several workers, one after the other


@dataclass(frozen=True, slots=True)
class ProfileInfo:
    """A profile in the daemon's list."""

    name: str
    description: str
    source: str  # its file on the daemon's host
    extends: str  # empty: nothing
    digest: str  # of the version in force; empty: there is none
    fault: (
        str  # empty, or why the file as it is now cannot be used; with a digest, the last good version stays in force
    )


@dataclass(frozen=True, slots=True)
class ProfileFile:
    name: str
    source: str
    toml: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A profile's text."""

    files: tuple[ProfileFile, ...]  # the profile's own, then those that it extends, nearest first
    fault: str  # empty, or why the file as it is now cannot be used: this is the last good version


@dataclass(frozen=True, slots=True)
class Setting:
    """A value in force."""

    key: str
    value: Json  # of a secret the file that it is read from
    toml: str  # the same as a profile would write it
    source: str  # the file that set it; empty: it is the default
    line: int  # from 1; 0 for a default
    column: int


@dataclass(frozen=True, slots=True)
class Explained:
    """Every setting that is in force under a profile."""

    settings: tuple[Setting, ...]
    fault: str  # as in Shown


@dataclass(frozen=True, slots=True)
class Mistake:
    source: str
    line: int
    column: int
    reason: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """Something that was tried in a worker."""

    layer: str
    what: str
    verdict: str  # held | open | absent | untried
    detail: str
    by: str  # who refused it, where that was not the layer


@dataclass(frozen=True, slots=True)
class Probed:
    attempts: tuple[Attempt, ...]
    layers: tuple[Layer, ...]

    @property
    def ok(self) -> bool:
        """Whether everything that the profile forbids was tried and refused."""
        return all(attempt.verdict in ("held", "absent") for attempt in self.attempts)

    @property
    def open(self) -> bool:
        """Whether something was done that the profile forbids."""
        return any(attempt.verdict == "open" for attempt in self.attempts)


@dataclass(frozen=True, slots=True)
class JudgedCommand:
    """What a profile's rules say about one simple command, or about a text that cannot be told."""

    text: str
    rule: str  # what allows it; empty: nothing does
    reason: str  # why nothing does
    program: str  # the file on the daemon's host that runs; empty: a builtin of bash, or nothing


@dataclass(frozen=True, slots=True)
class JudgedText:
    """What a profile says about a command."""

    decision: str  # allow | ask | deny
    reason: str
    commands: tuple[JudgedCommand, ...]


class Inspection:
    """Made by `Daemon.profiles`. Each method raises NotFound for a name that nobody has, InvalidRequest for a faulty
    profile, except `check`, which is there to say what is wrong."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(self) -> list[ProfileInfo]:
        """All profiles by name, those that cannot be used included."""
        request = profiles_pb2.ListProfilesRequest()
        response = await self._link.ask(self._link.profiles.List, request, "list its profiles")
        return [
            ProfileInfo(each.name, each.description, each.source, each.extends, each.digest, each.fault)
            for each in response.profiles
        ]

    async def show(self, profile: str | os.PathLike[str]) -> Shown:
        """The text of the profile that is in force, and those that it extends."""
        request = profiles_pb2.ShowProfileRequest(profile=_chosen(profile))
        response = await self._link.ask(self._link.profiles.Show, request, "show a profile")
        files = (ProfileFile(each.name, each.source, each.toml.decode("utf-8", "replace")) for each in response.files)
        return Shown(tuple(files), response.fault)

    async def explain(self, profile: str | os.PathLike[str]) -> Explained:
        """Every setting that is in force, with the place that set it."""
        request = profiles_pb2.ExplainProfileRequest(profile=_chosen(profile))
        response = await self._link.ask(self._link.profiles.Explain, request, "explain a profile")
        settings = (
            Setting(each.key, json.loads(each.json), each.value, each.source, each.line, each.column)
            for each in response.settings
        )
        return Explained(tuple(settings), response.fault)

    async def check(self, profile: str | os.PathLike[str]) -> tuple[Mistake, ...]:
        """Every mistake of the file as it is now, in its order; none: it can be used."""
        request = profiles_pb2.CheckProfileRequest(profile=_chosen(profile))
        response = await self._link.ask(self._link.profiles.Check, request, "check a profile")
        return tuple(Mistake(each.source, each.line, each.column, each.reason) for each in response.mistakes)

    async def probe(self, profile: str | os.PathLike[str]) -> Probed:
        """Tries what the profile forbids, in workers of the daemon's. A file is taken by a private daemon only."""
        request = profiles_pb2.ProbeProfileRequest(profile=_chosen(profile))
        response = await self._link.ask(self._link.profiles.Probe, request, "probe a profile", wait_s=PROBE_S)
        return Probed(
            tuple(Attempt(each.layer, each.what, each.verdict, each.detail, each.by) for each in response.attempts),
            tuple(wire.layer_of(each) for each in response.layers),
        )

    async def judge(
        self,
        profile: str | os.PathLike[str],
        workspace: str | os.PathLike[str],
        command: str | Sequence[str],
    ) -> JudgedText:
        """What the profile says about a command of `shell`, a text or an argument vector. Nothing is run, and hooks,
        plugins and guards are not asked. A file is taken by a private daemon only."""
        request = profiles_pb2.JudgeCommandRequest(profile=_chosen(profile), workspace=places.workspace(workspace))
        if isinstance(command, str):
            request.command = wire.said(command, "the command")
        else:
            request.argv.extend(wire.said(each, "a word of the command") for each in command)
        response = await self._link.ask(self._link.profiles.JudgeCommand, request, "judge a command")
        return JudgedText(
            response.decision,
            response.reason,
            tuple(JudgedCommand(each.text, each.rule, each.reason, each.program) for each in response.commands),
        )


def _chosen(profile: str | os.PathLike[str]) -> profiles_pb2.ProfileChoice:
    spelled = wire.said(os.fspath(profile), "the profile")
    if profiles.is_name(spelled):
        return profiles_pb2.ProfileChoice(name=spelled)
    return profiles_pb2.ProfileChoice(text=sessions_pb2.ProfileText(name=spelled, toml=profiles.text(spelled)))
