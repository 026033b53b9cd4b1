"""Runs the isolation probes and says what holds.

    python tests/conformance/run_probes.py [options]                  the product, every profile and door asked for
    python tests/conformance/run_probes.py --prefix 'bwrap … --'      any other prefix, with {WS} {RO} {BASE} filled

Doors: bare (the control, always run), exec (`stockade exec`), function-none, function-read (a function's own process),
function-in-place (the same on a host that refuses user namespaces), broker (the daemon's interface).
Exit status: 0 the gate holds, 1 it does not; the faults stand at the end.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

# Processes are started by exec; gRPC's handlers around fork would only complain.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.conformance import gate, judging, probes
from tests.conformance.broker import broker_door
from tests.conformance.calling import Door, Process, ProcessDoor, carelessly
from tests.conformance.daemon import PROFILE, daemon, environment
from tests.conformance.function_door import IN_PLACE, TOOLS, function_door, lacking_in_place
from tests.conformance.planting import GROUP, Plant, planted
from tests.conformance.running import BESIDE, Result, run, words
from tests.conformance.warm import warm
from tests.end_to_end.lesser_host import LACKS

DOORS: Final = ("exec", *TOOLS, "broker")
PROFILES: Final = ("strict", "offline", "dev", "ci", "hook", "network")
ANOTHER_UID: Final = 1000
_NO_CAP: Final = 4 << 20  # bytes, for doors that have no limit of their own: what a launcher should cut at


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    profile: str
    door: str
    identity: str
    seconds: float
    results: list[Result]


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    runs: list[Run] = []
    faults: list[str] = []
    identity = "root" if os.getuid() == 0 else "user"
    exceptions = gate.listed()
    corpus = probes.load(options.probes or probes.CORPUS)
    for profile in options.profile:
        # Planted anew for each way in: without a sandbox, a probe changes what it finds.
        with planted(options.base) as plant:
            control = _control(plant, corpus, profile, options)
        runs.append(control)
        held = words(control.results)
        fault = gate.control_fault(held)
        if fault:
            faults.append(f"{profile}/bare/{identity}: {fault}")
        for door in ["prefix"] if options.prefix else options.door:
            with planted(options.base) as plant:
                done = _through(door, plant, corpus, profile, options, held)
            runs.append(done)
            if door != "prefix":
                faults += gate.faults(
                    done.results, profile=profile, door=door, identity=identity, exceptions=exceptions
                )
    if options.json:
        options.json.write_text(json.dumps({"runs": [_as_json(each) for each in runs]}, indent=1) + "\n")
    status = 0
    if options.also_uid is not None:
        status = _again_as(options.also_uid, arguments)
    for fault in faults:
        print(f"FAULT {fault}")
    return 1 if faults or status else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run_probes.py", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--profile", action="append", choices=PROFILES, help="default: all")
    parser.add_argument("--door", action="append", choices=DOORS, help="default: all")
    parser.add_argument(
        "--lacking", action="append", choices=sorted(LACKS), default=[], help="on a host that lacks this"
    )
    parser.add_argument("--prefix", type=shlex.split, help="a command prefix in place of the doors")
    parser.add_argument("--probes", type=Path, action="append", help="files of probes; default: the corpus")
    parser.add_argument("--only", default="", help="a regular expression that ids match")
    parser.add_argument("--base", type=Path, default=Path("/var/tmp"), help="where to plant; not below /tmp")
    parser.add_argument("--beside", type=int, default=BESIDE, help="probes at a time")
    parser.add_argument("--json", type=Path, help="write every verdict here")
    parser.add_argument("--also-uid", type=int, nargs="?", const=ANOTHER_UID, help="as root: afterwards as this uid")
    parser.add_argument("--warm", action="store_true", help="import the command line once, fork for each call")
    parser.add_argument("--quiet", action="store_true", help="print no line for a probe that holds")
    options = parser.parse_args(arguments)
    options.profile = options.profile or list(PROFILES)
    if not options.door:
        why = "Landlock" if {"landlock", "landlock_off"} & set(options.lacking) else lacking_in_place()
        options.door = [door for door in DOORS if door != IN_PLACE or not why]
        if why:
            print(f"{IN_PLACE} is left out: it needs {why}")
    return options


def _control(plant: Plant, corpus: Sequence[probes.Probe], profile: str, options: argparse.Namespace) -> Run:
    door = ProcessDoor("bare", plant, [], carelessly(plant, plant.environment), output_cap=_NO_CAP)
    return _run(door, plant, corpus, profile, options, {})


def _through(
    name: str,
    plant: Plant,
    corpus: Sequence[probes.Probe],
    profile: str,
    options: argparse.Namespace,
    control: Any,
) -> Run:
    if name == "broker":
        asked = probes.chosen(corpus, profile=profile, door=name, only=options.only)
        begun = time.monotonic()
        with broker_door(plant, profile) as door:
            results = run(asked, door.ask, beside=options.beside)
        return _told(Run(profile, name, _identity(), time.monotonic() - begun, results), options)
    with _door(name, plant, profile, options) as way:
        return _run(way, plant, corpus, profile, options, control)


@contextlib.contextmanager
def _door(name: str, plant: Plant, profile: str, options: argparse.Namespace) -> Iterator[Door]:
    if name == "prefix":
        filled = {"{WS}": str(plant.workspace), "{RO}": str(plant.shared), "{BASE}": str(plant.base)}
        prefix = options.prefix
        for mark, place in filled.items():
            prefix = [word.replace(mark, place) for word in prefix]
        yield ProcessDoor(name, plant, prefix, carelessly(plant, plant.environment), output_cap=_NO_CAP)
    elif name == "exec":
        with daemon(plant, profile, lacking=options.lacking) as running:
            prefix = ["exec", "--profile", PROFILE, "--workspace", str(plant.workspace), "--"]
            cap = running.output_mb << 20
            own = {**environment(plant), "STOCKADE_ADDRESS": running.address}
            if options.warm:
                with warm(plant.base / "warm.sock", own) as command_line:

                    def start(argv: list[str], descriptors: tuple[int, int, int], with_terminal: bool) -> Process:
                        return command_line.start(
                            argv, descriptors, directory=str(plant.canary), terminal=with_terminal
                        )

                    yield ProcessDoor(name, plant, prefix, start, output_cap=cap)
            else:
                command = [sys.executable, "-m", "stockade_client", *prefix]
                yield ProcessDoor(name, plant, command, carelessly(plant, own), output_cap=cap)
    else:
        with function_door(name, plant, profile, lacking=options.lacking) as way:
            yield way


def _run(
    door: Door,
    plant: Plant,
    corpus: Sequence[probes.Probe],
    profile: str,
    options: argparse.Namespace,
    control: Any,
) -> Run:
    by_id = {probe.id: probe for probe in probes.chosen(corpus, profile=profile, door=door.name, only=options.only)}

    def ask(probe: probes.Probe) -> judging.Verdict:
        return judging.with_control(judging.judged(probe, plant, door), probe, control)

    begun = time.monotonic()
    results = run(list(by_id.values()), ask, beside=options.beside)
    return _told(Run(profile, door.name, _identity(), time.monotonic() - begun, results), options)


def _told(done: Run, options: argparse.Namespace) -> Run:
    """Prints a run: a line for each probe, and the count of each verdict."""
    for result in done.results:
        if not options.quiet or (result.word in ("BROKEN", "ERROR") and done.door != "bare"):
            why = "".join(letter if letter.isprintable() else "?" for letter in result.why)[:110]
            print(f"{result.word:7} {result.probe.severity:8} {result.probe.id:30} {result.probe.boundary:18} {why}")
    counts = Counter(result.word for result in done.results)
    shown = " ".join(f"{word} {count}" for word, count in sorted(counts.items()))
    print(f"== {done.profile}/{done.door}/{done.identity}: {shown}; {done.seconds:.0f} s\n", flush=True)
    return done


def _identity() -> str:
    return "root" if os.getuid() == 0 else "user"


def _as_json(done: Run) -> dict[str, object]:
    return {
        "profile": done.profile,
        "door": done.door,
        "identity": done.identity,
        "seconds": round(done.seconds, 1),
        "results": [
            {
                "id": result.probe.id,
                "boundary": result.probe.boundary,
                "severity": result.probe.severity,
                "verdict": result.word,
                "detail": result.why[:160],
            }
            for result in done.results
        ],
    }


def _again_as(uid: int, arguments: Sequence[str]) -> int:
    """The same once more as an ordinary user, who keeps a strange group, as a user's login may have one."""
    own = [word for word in arguments if not word.startswith("--also-uid") and word != str(uid)]
    command = [sys.executable, "-m", "tests.conformance.run_probes", *own]
    try:
        done = subprocess.run(
            command, cwd=gate.ROOT, user=uid, group=uid, extra_groups=[GROUP], check=False, env=_clean(os.environ)
        )
    except PermissionError as error:
        print(
            f"FAULT uid {uid} cannot use this checkout and its Python ({error}): clone it where everybody may "
            "read, and make its environment with a Python that everybody may run (make install PYTHON=…)"
        )
        return 1
    return done.returncode


def _clean(environ: Any) -> dict[str, str]:
    """An ordinary user's environment: root's home and runtime directory are not its own."""
    return {name: text for name, text in environ.items() if name not in ("HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
