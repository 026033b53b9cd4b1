"""stockade.v1.Profiles."""

from pathlib import Path
from typing import Any

from stockade.v1 import profiles_pb2, profiles_pb2_grpc
from stockade_daemon.errors import ConfigurationError, Mistake, RequestError, SandboxFailure
from stockade_daemon.pipeline.probe import probe
from stockade_daemon.pipeline.sessions import Rules
from stockade_daemon.profiles import chain
from stockade_daemon.profiles import read as profiles
from stockade_daemon.profiles.explain import explain
from stockade_daemon.rpc import wire
from stockade_daemon.rpc.turns import Turns
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Profile


class ProfilesService(profiles_pb2_grpc.ProfilesServicer):
    def __init__(self, rules: Rules, pool: Pool, place: Path, turns: Turns) -> None:
        """`place`: a private directory for the workspaces of probes, which take `turns`."""
        self._rules = rules
        self._pool = pool
        self._place = place
        self._turns = turns

    @wire.unary
    async def List(self, request: profiles_pb2.ListProfilesRequest, context: Any) -> profiles_pb2.ListProfilesResponse:
        names = profiles.available(self._rules.profile_directories)
        return profiles_pb2.ListProfilesResponse(profiles=[self._summary(name) for name in names])

    @wire.unary
    async def Show(self, request: profiles_pb2.ShowProfileRequest, context: Any) -> profiles_pb2.ShowProfileResponse:
        profile = self._profile(request.profile)
        files = chain.unpack(profile.text, name=profile.name, source=profile.source)
        return profiles_pb2.ShowProfileResponse(
            files=[profiles_pb2.ProfileFile(name=each.name, source=each.source, toml=each.text) for each in files],
            digest=profile.digest,
        )

    @wire.unary
    async def Explain(
        self, request: profiles_pb2.ExplainProfileRequest, context: Any
    ) -> profiles_pb2.ExplainProfileResponse:
        profile = self._profile(request.profile)
        return profiles_pb2.ExplainProfileResponse(
            settings=[
                profiles_pb2.Setting(
                    key=each.key, value=each.value, source=each.source, line=each.line, column=each.column
                )
                for each in explain(profile)
            ],
            digest=profile.digest,
        )

    @wire.unary
    async def Check(self, request: profiles_pb2.CheckProfileRequest, context: Any) -> profiles_pb2.CheckProfileResponse:
        try:
            self._profile(request.profile)
        except ConfigurationError as error:
            if not error.mistakes:
                raise
            return profiles_pb2.CheckProfileResponse(mistakes=[_mistake(each) for each in error.mistakes])
        return profiles_pb2.CheckProfileResponse()

    @wire.unary
    async def Probe(self, request: profiles_pb2.ProbeProfileRequest, context: Any) -> profiles_pb2.ProbeProfileResponse:
        if request.profile.WhichOneof("choice") == "text" and not self._rules.private:
            raise RequestError(
                "PERMISSION_DENIED",
                "this daemon runs profiles by name only; ask its admin to add the file, or use a private daemon "
                "(--private)",
            )
        profile = self._profile(request.profile)
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

    def _profile(self, chosen: profiles_pb2.ProfileChoice) -> Profile:
        """Raises RequestError, ConfigurationError."""
        directories = self._rules.profile_directories
        match chosen.WhichOneof("choice"):
            case "name":
                return profiles.load(chosen.name, directories=directories)
            case "text":
                name = chosen.text.name
                return profiles.parse(chosen.text.toml, name=name, source=name, directories=directories)
            case _:
                raise RequestError("INVALID_ARGUMENT", "no profile is named; give a name such as 'strict', or a text")

    def _summary(self, name: str) -> profiles_pb2.ProfileSummary:
        try:
            profile = profiles.load(name, directories=self._rules.profile_directories)
        except ConfigurationError as error:
            source = error.mistakes[0].source if error.mistakes else ""
            return profiles_pb2.ProfileSummary(name=name, source=source, fault=str(error))
        base = chain.unpack(profile.text, name=profile.name, source=profile.source)[1:]
        return profiles_pb2.ProfileSummary(
            name=name,
            description=profile.description,
            source=profile.source,
            extends=base[0].name if base else "",
            digest=profile.digest,
        )


def _mistake(mistake: Mistake) -> profiles_pb2.ProfileMistake:
    return profiles_pb2.ProfileMistake(
        source=mistake.source, line=mistake.line, column=mistake.column, reason=mistake.reason
    )
