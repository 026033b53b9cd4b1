"""The gate: which verdicts are faults. What does not hold must be listed, with its reason, in docs/security.md."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.conformance.function_door import IN_PLACE
from tests.conformance.running import Result

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "security.md"
HEADING: Final = "Probes that are not held"
LEAST_BROKEN: Final = 0.6  # of a control run; with less the probes have rotted, or the runner is inside a sandbox
_ANY: Final = "any"


@dataclass(frozen=True, slots=True)
class Listed:
    """A row of the table: where this probe may be BROKEN."""

    probe: str
    profiles: frozenset[str]
    doors: frozenset[str]
    identities: frozenset[str]  # root, user
    reason: str

    def covers(self, probe: str, *, profile: str, door: str, identity: str) -> bool:
        return probe == self.probe and all(
            _ANY in allowed or word in allowed
            for allowed, word in ((self.profiles, profile), (self.doors, door), (self.identities, identity))
        )


def listed(page: Path = PAGE) -> list[Listed]:
    """The table's rows. Raises ValueError where it is missing or a row is malformed."""
    _, found, beneath = page.read_text().partition(f"## {HEADING}\n")
    if not found:
        raise ValueError(f"{page}: there is no section {HEADING!r}")
    rows = [line for line in beneath.split("\n## ", 1)[0].splitlines() if line.startswith("| `")]
    return [_row(line) for line in rows]


def _row(line: str) -> Listed:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if len(cells) != 5 or not all(cells):
        raise ValueError(f"a row needs probe, profiles, doors, daemon and reason: {line}")
    probe, profiles, doors, identities, reason = cells
    return Listed(
        probe.strip("`"), frozenset(profiles.split()), frozenset(doors.split()), frozenset(identities.split()), reason
    )


def faults(
    results: Sequence[Result], *, profile: str, door: str, identity: str, exceptions: Sequence[Listed]
) -> Iterator[str]:
    """What is wrong with a run, a line each. Without namespaces less works, which is then listed as well."""
    for result in results:
        where = f"{profile}/{door}/{identity}: {result.probe.id}"
        is_listed = any(
            each.covers(result.probe.id, profile=profile, door=door, identity=identity) for each in exceptions
        )
        if result.word == "ERROR":
            yield f"{where} ended without a verdict: {result.why}"
        elif result.probe.must_work and result.word == "BROKEN" and not (door == IN_PLACE and is_listed):
            yield f"{where} must work and does not: {result.why}"
        elif result.word == "BROKEN" and not is_listed:
            yield f"{where} is BROKEN ({result.probe.severity}) and not listed: {result.why}"


def control_fault(results: Mapping[str, str]) -> str:
    """Why a control run is no control; empty when it is one."""
    asked = [word for name, word in results.items() if word in ("HELD", "BROKEN") and not name.startswith("works-")]
    broken = asked.count("BROKEN")
    if broken >= LEAST_BROKEN * len(asked):
        return ""
    return f"only {broken} of {len(asked)} probes are BROKEN without a sandbox: this run proves nothing"
