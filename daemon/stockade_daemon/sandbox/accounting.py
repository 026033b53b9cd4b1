"""What a worker used and which limits it met: facts of the kernel, put together from where each is to be had.

| fact | with control groups | without |
|---|---|---|
| processor time | of the group | what init has waited for, or the last look at the tree |
| peak memory | of the group | looks at the tree, every 50 ms |
| out of memory | the kernel has killed in the group | unknown; a tree seen over the limit is killed by us |
| too many processes | the kernel has refused one | unknown |
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from stockade_daemon.sandbox.cgroup_files import Figures
from stockade_daemon.sandbox.sampling import Sampled
from stockade_daemon.values import Limits, Usage

Limit = Literal["memory", "memory (sampled)", "cpu", "file size", "processes"]
# Limits that end a body; a process that could not be made is the program's to deal with.
_ENDING: Final[Mapping[Limit, str]] = MappingProxyType(
    {
        "memory": "memory ({memory_mb} MiB for all its processes together; limits.memory_mb): the kernel killed in it",
        "memory (sampled)": "memory (sampled) ({memory_mb} MiB for all its processes together; limits.memory_mb), and "
        "all its processes were killed",
        "cpu": "cpu ({cpu_s} s of processor time for one process; limits.cpu_s)",
        "file size": "file size ({file_mb} MiB for one file; limits.file_mb)",
    }
)
# A program's own peak may fall between two looks: it counts where it is larger by so much than what the looks saw.
_MISSED: Final = 1.25
# The kernel measures time for the limit by clock ticks, and kills that much early where the processor is shared.
_COARSE: Final = 0.7


@dataclass(frozen=True, slots=True)
class Exit:
    """How the body's first process ended; from init, which no body can speak for."""

    exit_code: int | None
    signal: int | None
    cpu_s: float  # of all processes of the worker
    max_rss_bytes: int  # of the largest process
    read_bytes: int  # from storage, of all; 0 where the kernel does not count it
    written_bytes: int


@dataclass(frozen=True, slots=True)
class Account:
    """The facts. `oom` is None where nobody can know."""

    usage: Usage  # without the wall time
    oom: bool | None
    limits_hit: tuple[Limit, ...]

    def reached(self, limits: Limits) -> str | None:
        """A sentence's middle that names the limit which ended the body; None where none did."""
        for name in self.limits_hit:
            if name in _ENDING:
                figures = {"memory_mb": limits.memory_mb, "cpu_s": limits.cpu_s, "file_mb": limits.file_mb}
                return _ENDING[name].format(**figures)
        return None


def account(counted: Figures | None, sampled: Sampled, ended: Exit | None, limits: Limits, *, over: bool) -> Account:
    """The facts of a worker that is gone, or done.

    `counted`: of its group, if it has one. `over`: it was killed because a look saw more memory than it may use.
    """
    figures = counted or Figures()
    waited = ended.cpu_s if ended is not None else 0.0
    cpu_s = figures.cpu_s if figures.cpu_s is not None else max(waited, sampled.last.cpu_s)
    largest = ended.max_rss_bytes if ended is not None else 0
    seen = largest if largest > sampled.peak_bytes * _MISSED else sampled.peak_bytes
    usage = Usage(
        cpu_s=cpu_s,
        max_rss_bytes=figures.peak_bytes if figures.peak_bytes is not None else seen,
        read_bytes=max(ended.read_bytes if ended is not None else 0, sampled.last.read_bytes),
        written_bytes=max(ended.written_bytes if ended is not None else 0, sampled.last.written_bytes),
        source="cgroup" if figures.cpu_s is not None and figures.peak_bytes is not None else "sampled",
    )
    oom = None if figures.oom_kills is None else figures.oom_kills > 0
    hit: list[Limit] = []
    if oom:
        hit.append("memory")
    elif over:
        hit.append("memory (sampled)")
    hit += _by_signal(ended, cpu_s, limits)
    if figures.processes_refused:
        hit.append("processes")
    return Account(usage, oom, tuple(hit))


def _by_signal(ended: Exit | None, cpu_s: float, limits: Limits) -> list[Limit]:
    if ended is None:
        return []
    if ended.signal == signal.SIGXCPU:
        return ["cpu"]
    if ended.signal == signal.SIGXFSZ:
        return ["file size"]
    # A program that ignores SIGXCPU is killed a second later. A shell tells its last command's signal n as status
    # 128 + n, which anybody can give: the kernel's count has to agree.
    last = ended.signal or (ended.exit_code or 0) - 128
    if last in (signal.SIGXCPU, signal.SIGKILL) and cpu_s >= _COARSE * limits.cpu_s:
        return ["cpu"]
    return []
