"""What this host can enforce: a worker made for each shipped profile, and the findings about the host behind that."""

import asyncio
import importlib.metadata
import re
import sys
from dataclasses import dataclass

from stockade_daemon.errors import ConfigurationError, SandboxFailure
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox import library
from stockade_daemon.sandbox.findings import findings
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.survey import Answer
from stockade_daemon.values import Access, Finding, ProfileFinding


@dataclass(frozen=True, slots=True)
class Examination:
    findings: tuple[Finding, ...]
    profiles: tuple[ProfileFinding, ...]

    @property
    def able(self) -> bool:
        """Whether every shipped profile gets what it requires."""
        return all(each.state == "ok" for each in self.profiles)


async def examine(pool: Pool, rules: Rules) -> Examination:
    """Asks the host anew. Raises InfrastructureFailure where the program that asks the kernel cannot be run."""
    shipped = profiles.available([profiles.shipped()])
    tried = tuple([await _tried(pool, name) for name in shipped])
    layers = next((each.layers for each in tried if each.layers), ())
    survey = await pool.survey(rules.workspaces)
    return Examination((*findings(survey, layers), _python(survey.answers["packages"])), tried)


async def _tried(pool: Pool, name: str) -> ProfileFinding:
    """A function's worker first, then a command's, which needs more."""
    try:
        profile = await asyncio.to_thread(profiles.load, name, directories=[profiles.shipped()])
    except ConfigurationError as error:
        return ProfileFinding(name, "missing", str(error), (), ())
    try:
        layers = await pool.probe(profile)
    except SandboxFailure as failure:
        return ProfileFinding(name, "missing", failure.message, profile.required_layers, ())
    try:
        layers = await pool.probe(profile, Access.OVERLAY)
    except SandboxFailure as failure:
        return ProfileFinding(name, "degraded", failure.message, profile.required_layers, layers)
    return ProfileFinding(name, "ok", "", profile.required_layers, layers)


def _python(readable: Answer) -> Finding:
    """The interpreter, the packages that this distribution says it needs, and whether workers may read their own."""
    versions, lacking = [], []
    for name in _needed():
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lacking.append(name)
    found = f"{sys.version.split()[0]}: {', '.join(versions)}"
    if readable.errno:
        return Finding(
            "python",
            "missing",
            f"{found}; {readable.text}",
            "No call can run: workers have a uid of their own, which cannot read what they run from.",
            library.opened(next(iter(library.packages().values()))),
        )
    if not lacking:
        return Finding("python", "ok", found, "Daemon and workers have the packages that they need.")
    return Finding(
        "python",
        "degraded",
        f"{found}; without {', '.join(lacking)}",
        "Parts of the daemon that need these packages fail.",
        "install stockade[daemon] again",
    )


def _needed() -> list[str]:
    """Names of the requirements for client and daemon (Core metadata, Requires-Dist)."""
    try:
        lines = importlib.metadata.requires("stockade") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    wanted = [line for line in lines if "extra ==" not in line or re.search(r"extra == ['\"]daemon['\"]", line)]
    return [found[0] for line in wanted if (found := re.match(r"[A-Za-z0-9._-]+", line))]
