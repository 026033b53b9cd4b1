"""`stockaded` that ends itself, as kill -9 does, when a commit of a command's changes passes its Nth point.

python -m tests.kills.daemon N FILE serve …        N counts from 0; FILE is given the names of the points passed
"""

import os
import signal
import sys
from pathlib import Path

from stockade_daemon.__main__ import main
from stockade_daemon.gate.effects import commit


def install(number: int, file: Path) -> None:
    """Has every point of a commit noted, and the one of this number be the last."""
    passed: list[str] = []

    def passing(point: str) -> None:
        passed.append(point)
        file.write_text("\n".join(passed))
        if len(passed) - 1 == number:
            os.kill(os.getpid(), signal.SIGKILL)

    commit.passing = passing


if __name__ == "__main__":
    install(int(sys.argv.pop(1)), Path(sys.argv.pop(1)))
    main()
