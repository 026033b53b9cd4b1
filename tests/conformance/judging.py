"""From what a probe said and what the host saw to a verdict.

HELD      the boundary held this one way; not proof that it always does
BROKEN    it did not
ERROR     the probe ended without saying anything
SKIP      what the probe needs is not there; says what
VACUOUS   HELD, but without any sandbox as well: no evidence on this kernel
"""

import os
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tests.conformance.calling import Door, Ended
from tests.conformance.planting import Plant, fingerprint
from tests.conformance.probes import Probe
from tests.conformance.processes import end_those_with, those_with, until

Word = Literal["HELD", "BROKEN", "ERROR", "SKIP", "VACUOUS"]

_VERDICT: Final = re.compile(r"(HELD|BROKEN)\b ?(.*)")
_SHELL_SIGSYS: Final = 128 + signal.SIGSYS
_GIVEN_UP: Final = 124  # from here on an exit status of `stockade exec` says that the daemon ended the program
_EOF_MOST_S: Final = 3.0
_ONLY_ROOT: Final = {"priv-setuid-binary", "priv-supplementary-groups"}  # only root can plant what they look for
_WANT_WORKSPACE: Final = {"works-workspace", "works-sqlite"}


@dataclass(frozen=True, slots=True)
class Verdict:
    word: Word
    why: str


def skipped(probe: Probe, plant: Plant, door: str) -> str:
    """Why a probe cannot ask anything here; empty when it can."""
    if door.startswith("function"):
        if probe.host_check.startswith("hostuid"):
            return "a body's process is found by its script's name, and a function has none"
        if probe.id in _WANT_WORKSPACE:
            return "a function has no workspace to write to: it asks the gate"
    if probe.id in _ONLY_ROOT and os.getuid() != 0:
        return "the runner is not root"
    if probe.id == "net-loopback-tcp6" and plant.words["TCP6"] == "0":
        return "no IPv6 loopback"
    return ""


def judged(probe: Probe, plant: Plant, door: Door) -> Verdict:
    """Calls a probe, once or twice, and judges it."""
    reason = skipped(probe, plant, door.name)
    if reason:
        return Verdict("SKIP", reason)
    before = fingerprint(plant.workspace) if probe.host_check == "workspace" else {}
    if probe.kind == "pair":
        door.call(plant.filled(probe.plant), probe)
    ended = door.call(plant.filled(probe.program), probe)
    verdict = said(probe, ended, door.output_cap)
    check = _CHECKS.get(probe.host_check)
    if verdict.word == "HELD" and check is not None:
        verdict = check(verdict, ended, plant)
    if verdict.word == "HELD" and probe.host_check == "workspace":
        verdict = _workspace_unchanged(verdict, before, plant)
    if probe.host_check == "orphan":
        end_those_with(plant.orphan())
    return verdict


def said(probe: Probe, ended: Ended, output_cap: int) -> Verdict:
    """The verdict of the probe itself, or what its silence means."""
    if probe.host_check == "outcap":
        text = f"received {ended.received} bytes (cap {output_cap})"
        return Verdict("BROKEN" if ended.received > output_cap else "HELD", text)
    spoken = [found for line in ended.out.replace("\0", "").splitlines() if (found := _VERDICT.match(line))]
    if spoken:
        return Verdict("HELD" if spoken[-1][1] == "HELD" else "BROKEN", spoken[-1][2])
    if ended.code in (-signal.SIGSYS, _SHELL_SIGSYS):
        return Verdict("HELD", "killed by SIGSYS")
    if ended.err.startswith("INVALID_TOOL_OUTPUT"):
        # A function wrote on its channel what is no frame. Whether its own verdict comes out before is a race.
        return Verdict("HELD", "what it sent ended its call")
    if probe.silence == "held":
        if ended.late:
            return Verdict("BROKEN", f"the runner had to end it after {ended.seconds:.0f} s")
        if ended.code is None or ended.code < 0 or ended.code >= _GIVEN_UP:
            return Verdict("HELD", f"killed, status {ended.code}, after {ended.seconds:.1f} s")
    last = (ended.err.strip().splitlines() or [""])[-1]
    return Verdict("ERROR", f"status {ended.code} {last[:110]}")


def with_control(verdict: Verdict, probe: Probe, control: Mapping[str, str]) -> Verdict:
    """A HELD that the control run has as well says nothing, unless the probe asks for something that must work."""
    if verdict.word == "HELD" and not probe.must_work and control.get(probe.id) == "HELD":
        return Verdict("VACUOUS", verdict.why)
    return verdict


def _tree_is_gone(verdict: Verdict, ended: Ended, plant: Plant) -> Verdict:
    if until(lambda: not those_with(plant.orphan()), 0.7):
        return Verdict("HELD", "the tree is gone")
    return Verdict("BROKEN", "a daemonised child is alive on the host")


def _output_ended(verdict: Verdict, ended: Ended, plant: Plant) -> Verdict:
    end_those_with(plant.orphan())
    if ended.eof_s > _EOF_MOST_S:
        return Verdict("BROKEN", f"stdout open {ended.eof_s:.1f} s after the exit")
    return Verdict("HELD", f"end of output after {ended.eof_s:.1f} s")


def _owner(verdict: Verdict, ended: Ended, plant: Plant) -> Verdict:
    path = plant.workspace / "owned.txt"
    try:
        found = path.lstat()
    except FileNotFoundError:
        return Verdict("HELD", "nothing reached the workspace")
    path.unlink()
    if found.st_uid == 0:
        return Verdict("BROKEN", "root owns it on the host")
    return Verdict("HELD", f"owner on the host {found.st_uid}, mode {found.st_mode & 0o7777:o}")


def _host_uid_is_not(uid: int) -> Callable[[Verdict, Ended, Plant], Verdict]:
    def check(verdict: Verdict, ended: Ended, plant: Plant) -> Verdict:
        if not ended.uids:
            return Verdict("ERROR", "the process was not found from the host")
        return Verdict("BROKEN" if uid in ended.uids else "HELD", f"uid on the host {ended.uids[0]}")

    return check


def _no_datagram(verdict: Verdict, ended: Ended, plant: Plant) -> Verdict:
    if until((plant.canary / "udp.log").exists, 0.3):
        return Verdict("BROKEN", "a datagram reached the host")
    return verdict


def _fifo_unread(verdict: Verdict, ended: Ended, plant: Plant) -> Verdict:
    log = plant.canary / "fifo.log"
    if until(log.exists, 0.3):
        log.unlink()
        return Verdict("BROKEN", "bytes reached a host process through a FIFO of the workspace")
    return verdict


def _canary_unchanged(verdict: Verdict, ended: Ended, plant: Plant) -> Verdict:
    if "touched" in plant.secret.read_text():
        plant.reset_secret()
        return Verdict("BROKEN", "the canary's file was changed")
    return verdict


def _workspace_unchanged(verdict: Verdict, before: dict[str, tuple[object, ...]], plant: Plant) -> Verdict:
    """Asked for a second: a process that outlived its call may be the one that changes something."""

    def changed() -> bool:
        return fingerprint(plant.workspace) != before

    if not until(changed, 1.0):
        return verdict
    after = fingerprint(plant.workspace)
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return Verdict("BROKEN", f"changed in the workspace: {', '.join(names)[:100]}")


_CHECKS: Final[Mapping[str, Callable[[Verdict, Ended, Plant], Verdict]]] = {
    "orphan": _tree_is_gone,
    "eof3": _output_ended,
    "owner": _owner,
    "hostuid0": _host_uid_is_not(0),
    "hostuid_daemon": _host_uid_is_not(os.getuid()),
    "udp": _no_datagram,
    "fifo": _fifo_unread,
    "canary_unchanged": _canary_unchanged,
}
