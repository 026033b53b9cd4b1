"""What both versions of control groups share: settings as data, figures as data, and the two shapes of their files."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

PERIOD_US: Final = 100_000
_LEAST_QUOTA_US: Final = 1000  # the kernel refuses less


@dataclass(frozen=True, slots=True)
class Setting:
    """One limit: a file of a controller, and what is written into it."""

    controller: str
    file: str
    text: str
    optional: bool = False  # not every kernel has the file


@dataclass(frozen=True, slots=True)
class Figures:
    """What the kernel counted of a group; None is unknown."""

    cpu_s: float | None = None
    peak_bytes: int | None = None
    used_bytes: int | None = None  # now
    oom_kills: int | None = None
    processes_refused: int | None = None


def since(figures: Figures, before: Figures) -> Figures:
    """What was used after `before`, when the worker stood ready: its own entering is not its body's."""
    cpu_s, peak = figures.cpu_s, figures.peak_bytes
    return replace(
        figures,
        cpu_s=None if cpu_s is None else max(0.0, cpu_s - (before.cpu_s or 0.0)),
        peak_bytes=None if peak is None else max(0, peak - (before.used_bytes or 0)),
    )


def quota_us(cpus: float) -> int:
    """Microseconds of processor time in each period for so many processors."""
    return max(_LEAST_QUOTA_US, round(cpus * PERIOD_US))


def whole(directory: Path | None, file: str) -> int | None:
    """A file that holds one number."""
    try:
        return None if directory is None else int((directory / file).read_text())
    except (OSError, ValueError):
        return None


def flat(directory: Path | None, file: str) -> dict[str, int]:
    """A file of lines "key number"; empty where it cannot be read."""
    try:
        lines = [] if directory is None else (directory / file).read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
