"""What both versions of control groups share: settings as data, figures as data, and the two shapes of their files."""

from dataclasses import dataclass
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
    oom_kills: int | None = None
    processes_refused: int | None = None


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
