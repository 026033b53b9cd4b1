"""The corpus: one probe a line of JSON.

A probe is a program that tries one thing and prints `HELD why` or `BROKEN why`. `kind` says how it is called:

inside   one call
pair     two calls, `plant` first: what one call leaves for the next
broker   Python for the runner itself, with an adapter `B` to the daemon (see broker.py)

`@NAME@` in a program is filled in by the runner. Optional fields: `silence` (`held`: an end without a verdict counts,
because a limit is asked for), `pty` (wants a terminal of its launcher's), `host_check` (the host has the last word),
`doors` (only these ways in).

Harmlessness: dangerous calls use arguments that cannot take effect; kernel files are opened and never written; each
probe that uses something up stops at a small cap of its own; no packet leaves the loopback device.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

HERE: Final = Path(__file__).parent
CORPUS: Final = (HERE / "isolation-probes.jsonl", HERE / "own-probes.jsonl")
MUST_WORK: Final = "must-work"

Kind = Literal["inside", "pair", "broker"]

# Probes of one boundary that work on the same files, or whose ends the host tells apart by one name: one after another.
_IN_ORDER: Final = {"protected-paths", "lifecycle", "must-work", "read-only-share", "workspace-output", "overlay"}
# Measure time or use something up: alone, so that neither they nor others are misjudged.
_ALONE: Final = {"resources"}


@dataclass(frozen=True, slots=True)
class Probe:
    id: str
    boundary: str
    severity: str
    kind: Kind
    profiles: tuple[str, ...]
    program: str
    plant: str = ""
    host_check: str = ""
    silence: str = ""
    pty: bool = False
    doors: tuple[str, ...] = ()

    @property
    def must_work(self) -> bool:
        return self.boundary == MUST_WORK

    @property
    def alone(self) -> bool:
        return self.boundary in _ALONE


def load(paths: Iterable[Path] = CORPUS) -> list[Probe]:
    """Every probe of the files, in order. Raises KeyError, ValueError where a line is none."""
    found = [_probe(json.loads(line)) for path in paths for line in path.read_text().splitlines() if line]
    names = [probe.id for probe in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"ids that stand twice: {', '.join(twice)}")
    return found


# Profiles that the corpus does not name are asked what the one is that promises the same.
_ASKED_AS: Final = {"ci": "dev", "hook": "strict"}


def chosen(probes: Iterable[Probe], *, profile: str, door: str, only: str = "") -> list[Probe]:
    """Those that ask something of this profile through this door, and whose id the expression finds."""
    return [
        probe
        for probe in probes
        if _ASKED_AS.get(profile, profile) in probe.profiles
        and (not probe.doors or door in probe.doors)
        and (probe.kind == "broker") == (door == "broker")
        and re.search(only, probe.id)
    ]


def lanes(probes: Sequence[Probe]) -> tuple[list[list[Probe]], list[Probe]]:
    """Lanes that may run beside each other, each in its order; and probes that run alone afterwards."""
    beside: defaultdict[str, list[Probe]] = defaultdict(list)
    alone = []
    for probe in probes:
        if probe.alone:
            alone.append(probe)
        else:
            beside[probe.boundary if probe.boundary in _IN_ORDER else probe.id].append(probe)
    return sorted(beside.values(), key=len, reverse=True), alone


def _probe(line: dict[str, object]) -> Probe:
    kind = line["kind"]
    if kind not in ("inside", "pair", "broker"):
        raise ValueError(f"{line['id']}: no kind is called {kind!r}")
    doors = line.get("doors", "")
    return Probe(
        id=str(line["id"]),
        boundary=str(line["boundary"]),
        severity=str(line["severity"]),
        kind=kind,
        profiles=tuple(str(line["profile"]).split(",")),
        program=str(line["probe"]),
        plant=str(line.get("plant", "")),
        host_check=str(line.get("host_check", "")),
        silence=str(line.get("silence", "")),
        pty=bool(line.get("pty", False)),
        doors=tuple(str(doors).split(",")) if doors else (),
    )
