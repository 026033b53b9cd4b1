"""stockade.v1.Profiles."""

import asyncio
from pathlib import Path
from typing import Any

from stockade.v1 import profiles_pb2, profiles_pb2_grpc
from stockade_daemon.errors import ConfigurationError, Mistake, RequestError, SandboxFailure
from stockade_daemon.pipeline.judging import judge_command
from stockade_daemon.pipeline.named_profiles import NamedProfiles
from stockade_daemon.pipeline.probe import probe
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.profiles import chain
from stockade_daemon.profiles import read as profiles
from stockade_daemon.profiles.explain import explain
from stockade_daemon.profiles.last_good import Standing
from stockade_daemon.rpc import wire
from stockade_daemon.rpc.access import Access
from stockade_daemon.rpc.methods import unary
from stockade_daemon.rpc.turns import Turns
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Json, Principal, Profile


class ProfilesService(profiles_pb2_grpc.ProfilesServicer):
    def __init__(
        self, access: Access, rules: Rules, named: NamedProfiles, pool: Pool, place: Path, turns: Turns
    ) -> None:
        """`place`: a private directory for the workspaces of probes, which take `turns`."""
        self.access = access
        self._rules = rules
        self._named = named
        self._pool = pool
        self._place = place
        self._turns = turns

    @unary
    async def List(
        self, request: profiles_pb2.ListProfilesRequest, context: Any, me: Principal
    ) -> profiles_pb2.ListProfilesResponse:
        found = [await self._named.current(name) for name in await self._named.names()]
        misnamed = await asyncio.to_thread(profiles.misnamed, self._rules.profile_directories)
        return profiles_pb2.ListProfilesResponse(
            profiles=[
                *(_summary(each) for each in found if _is_there(each)),
                *(_without_name(each) for each in misnamed),
            ]
        )

    @unary
    async def Show(
        self, request: profiles_pb2.ShowProfileRequest, context: Any, me: Principal
    ) -> profiles_pb2.ShowProfileResponse:
        profile, fault = await self._in_force(request.profile)
        files = chain.unpack(profile.text, name=profile.name, source=profile.source)
        return profiles_pb2.ShowProfileResponse(
            files=[profiles_pb2.ProfileFile(name=each.name, source=each.source, toml=each.text) for each in files],
            digest=profile.digest,
            fault=fault,
        )

    @unary
    async def Explain(
        self, request: profiles_pb2.ExplainProfileRequest, context: Any, me: Principal
    ) -> profiles_pb2.ExplainProfileResponse:
        profile, fault = await self._in_force(request.profile)
        return profiles_pb2.ExplainProfileResponse(
            settings=[
                profiles_pb2.Setting(
                    key=each.key,
                    value=each.value,
                    source=each.source,
                    line=each.line,
                    column=each.column,
                    json=each.json.encode(),
                )
                for each in await asyncio.to_thread(explain, profile)
            ],
            digest=profile.digest,
            fault=fault,
        )

    @unary
    async def Check(
        self, request: profiles_pb2.CheckProfileRequest, context: Any, me: Principal
    ) -> profiles_pb2.CheckProfileResponse:
        try:
            await self._as_it_is(request.profile)
        except ConfigurationError as error:
            if not error.mistakes:
                raise
            return profiles_pb2.CheckProfileResponse(mistakes=[_mistake(each) for each in error.mistakes])
        return profiles_pb2.CheckProfileResponse()

    @unary
    async def Probe(
        self, request: profiles_pb2.ProbeProfileRequest, context: Any, me: Principal
    ) -> profiles_pb2.ProbeProfileResponse:
        self._check_text(request.profile)
        profile = await self._as_it_is(request.profile)
        try:
            async with self._turns.turn():
                probed = await probe(self._pool, profile, self._place)
        except SandboxFailure as failure:
            raise RequestError("FAILED_PRECONDITION", failure.message, code=failure.code) from failure
        return profiles_pb2.ProbeProfileResponse(
            attempts=[
                profiles_pb2.Attempt(
                    layer=each.layer, what=each.what, verdict=each.verdict, detail=each.detail, by=each.by
                )
                for each in probed.attempts
            ],
            layers=wire.layers(probed.layers),
        )

    @unary
    async def JudgeCommand(
        self, request: profiles_pb2.JudgeCommandRequest, context: Any, me: Principal
    ) -> profiles_pb2.JudgeCommandResponse:
        # A text says where programs are looked for, with the rights of the daemon.
        self._check_text(request.profile)
        if bool(request.command) == bool(request.argv):
            raise RequestError("INVALID_ARGUMENT", "give exactly one of command and argv")
        profile, _ = await self._in_force(request.profile)
        workspace = await asyncio.to_thread(self._rules.open_workspace, request.workspace, me)
        path = workspace.path
        workspace.close()
        arguments: dict[str, Json] = {"argv": tuple(request.argv)} if request.argv else {"command": request.command}
        judged = await asyncio.to_thread(judge_command, profile, path, arguments)
        return profiles_pb2.JudgeCommandResponse(
            decision=judged.decision,
            reason=judged.reason,
            commands=[
                profiles_pb2.JudgedCommand(text=each.text, rule=each.rule, reason=each.reason, program=each.program)
                for each in judged.verdicts
            ],
        )

    def _check_text(self, chosen: profiles_pb2.ProfileChoice) -> None:
        if chosen.WhichOneof("choice") == "text" and not self._rules.private:
            raise RequestError(
                "PERMISSION_DENIED",
                "this daemon runs profiles by name only; ask its admin to add the file, or use a private daemon "
                "(--private)",
            )

    async def _in_force(self, chosen: profiles_pb2.ProfileChoice) -> tuple[Profile, str]:
        """What sessions have, and why its file as it is now cannot be used, if so. Raises RequestError,
        ConfigurationError where there is no good version."""
        if chosen.WhichOneof("choice") != "name":
            return await self._as_it_is(chosen), ""
        standing = await self._named.current(chosen.name)
        return standing.usable(), "" if standing.fault is None else str(standing.fault)

    async def _as_it_is(self, chosen: profiles_pb2.ProfileChoice) -> Profile:
        """Raises RequestError, ConfigurationError also where a last good version stays in use."""
        match chosen.WhichOneof("choice"):
            case "name":
                standing = await self._named.current(chosen.name)
                standing.check()
                return standing.usable()
            case "text":
                name, directories = chosen.text.name, self._rules.profile_directories
                return await asyncio.to_thread(
                    profiles.parse, chosen.text.toml, name=name, source=name, directories=directories
                )
            case _:
                raise RequestError("INVALID_ARGUMENT", "no profile is named; give a name such as 'strict', or a text")


def _is_there(standing: Standing) -> bool:
    """Whether a file has the name, good or not."""
    return not isinstance(standing.fault, RequestError)


def _summary(standing: Standing) -> profiles_pb2.ProfileSummary:
    """With the description and digest of the last good version, where there is one."""
    profile, fault = standing.profile, standing.fault
    base = chain.unpack(profile.text, name=profile.name, source=profile.source)[1:] if profile else ()
    faulty = fault.mistakes[0].source if isinstance(fault, ConfigurationError) and fault.mistakes else ""
    return profiles_pb2.ProfileSummary(
        name=standing.name,
        description=profile.description if profile else "",
        source=profile.source if profile else faulty,
        extends=base[0].name if base else "",
        digest=profile.digest if profile else "",
        fault="" if fault is None else str(fault),
    )


def _without_name(mistake: Mistake) -> profiles_pb2.ProfileSummary:
    """Of a file whose name no profile can have."""
    name = mistake.source.rpartition("/")[2].removesuffix(".toml")
    return profiles_pb2.ProfileSummary(name=name, source=mistake.source, fault=str(mistake))


def _mistake(mistake: Mistake) -> profiles_pb2.ProfileMistake:
    return profiles_pb2.ProfileMistake(
        source=mistake.source, line=mistake.line, column=mistake.column, reason=mistake.reason
    )
