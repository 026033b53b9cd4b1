"""A daemon of the runner's own, started as carelessly as can be: what it inherits, no body may see."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stockade_daemon.profiles import read as profiles
from tests.conformance.calling import WITH_TERMINAL, terminal
from tests.conformance.planting import CPU_S, WALL_S, Plant, groups
from tests.everybodys_python import everybodys_python

PROFILE: Final = "probes"  # the name that the profile under test has for the daemon
END_S: Final = 30


@dataclass(frozen=True, slots=True)
class Running:
    address: str
    pid: int
    log: Path
    output_mb: int


@contextlib.contextmanager
def daemon(
    plant: Plant, profile: str, *, module: str = "stockade_daemon", lacking: Sequence[str] = (), more: str = ""
) -> Iterator[Running]:
    """Runs `module` as the daemon until the block ends. Its working directory is the canary's, its umask 0, a signal is
    ignored, it has a terminal, foreign descriptors, a foreign group and a secret in its environment. `lacking`: what
    the host lacks for it (lesser_host.py); without user namespaces the profile requires only what there is then.
    `more`: of the profile, at its end.

    Raises RuntimeError with its log where it does not start.
    """
    place = plant.base / "daemon"
    place.mkdir(mode=0o700)
    own = place / "profiles"
    own.mkdir()
    in_place = "user_namespaces" in lacking
    text = profile_text(profile, plant.shared, in_place=in_place) + more
    (own / f"{PROFILE}.toml").write_text(text)
    output_mb = profiles.load(PROFILE, directories=(profiles.shipped(), own)).limits.output_mb
    configuration = place / "stockade.toml"
    configuration.write_text(f'[daemon]\nworkspaces = ["{plant.base}"]\n[profiles]\npaths = ["{own}"]\n')
    socket, log = place / "run" / "d.sock", place / "log"
    python, variables = everybodys_python() if in_place else (sys.executable, {})
    around = [sys.executable, "-m", "tests.end_to_end.lesser_host", *lacking, "--"] if lacking else []
    with terminal() as end, log.open("wb") as errors:
        process = subprocess.Popen(
            [*around, python, "-c", WITH_TERMINAL, python, "-m", module, "serve",
             "--socket", str(socket), "--state", str(place / "state"), "--config", str(configuration)],
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**environment(plant), **variables},
            cwd=plant.canary,
            umask=0,
            pass_fds=plant.inherited,
            extra_groups=groups(),
        )  # fmt: skip
        assert process.stdout is not None
        with process.stdout:
            try:
                if process.stdout.readline() != f"ready unix:{socket}\n".encode():
                    raise RuntimeError(f"the daemon did not start: {log.read_text()}")
                yield Running(f"unix:{socket}", process.pid, log, output_mb)
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(END_S)
                finally:
                    process.kill()
                    process.wait()


def environment(plant: Plant) -> dict[str, str]:
    """The plant's, and where Python finds the runner's own modules."""
    root = str(Path(__file__).parents[2])
    return {**plant.environment, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}


def profile_text(shipped: str, shared: Path, *, in_place: bool) -> str:
    """A profile that extends the shipped one by one more read-only directory and short limits; nothing else differs,
    but that reads and commands go ahead without a question, and that it requires what there can be `in_place`."""
    more = ', "layers.required"' if in_place else ""
    layers = '[layers]\nrequired = ["no_new_privs", "landlock", "seccomp", "rlimits"]\n' if in_place else ""
    return (
        f'extends = "{shipped}"\n'
        'widen = ["filesystem.mounts", "limits.wall_s", "limits.cpu_s", "approval.reads", "approval.commands"'
        f"{more}]\n"
        f'[[filesystem.mounts]]\npath = "{shared}"\nmode = "ro"\n'
        '[approval]\nreads = "allow"\ncommands = "allow"\n'
        f"[limits]\nwall_s = {WALL_S}\ncpu_s = {CPU_S}\n{layers}"
    )
