"""An interpreter that every uid can run: what a worker without namespaces needs, where the daemon is root's."""

import functools
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

NOBODYS: Final = 1_999_999_000  # a uid that no account has
_PROJECT: Final = Path(__file__).parents[1]


@functools.cache
def everybodys_python() -> tuple[str, dict[str, str]]:
    """Its path, and the variables with which it finds what this one finds: this one where it will do, else the
    distribution's of the same version.

    Raises FileNotFoundError where there is none, or where this checkout is closed to others.
    """
    if os.geteuid() != 0:
        return sys.executable, {}
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # Not this one's standard library: its extension modules may want more of an interpreter than another one has.
    standard = sysconfig.get_path("stdlib")
    own = [each for each in sys.path if each not in (standard, os.path.join(standard, "lib-dynload"))]
    places = os.pathsep.join(each for each in own if each.startswith("/") and os.path.isdir(each))
    for path, more in ((sys.executable, {}), (f"/usr/bin/{version}", {"PYTHONPATH": places})):
        if os.path.exists(path) and _runs(os.path.realpath(path)):
            return path, more
    raise FileNotFoundError(f"no {version} that every uid can run, with this checkout open to all")


def _runs(path: str) -> bool:
    program = f"import json, os; os.listdir({str(_PROJECT / 'daemon' / 'stockade_worker')!r})"
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", program], user=NOBODYS, group=NOBODYS, extra_groups=[], check=False
        )
    except OSError:
        return False
    return done.returncode == 0
