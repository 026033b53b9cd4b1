"""Things happen to the disk while changes are committed: no room, no inodes, a limit, a lost right, a lost directory.

    python -m tests.mishaps [--every N] [--from N] [METHOD]...

Each mishap comes at each point of each method of committing (tests/mishaps/points.py), in a real daemon on a small
tmpfs in a mount namespace of this program's own. Afterwards the old bytes stand, or the new ones and fs/committed; no
private file is left; the result has a code and says what to do; and the daemon goes on. --every N takes each Nth case.
With METHOD ledger it is the ledger's disk that fills; the daemon records nothing more until it is started again.

Exit status: 0 all of that holds; 1 it does not; 2 usage; 77 the host lacks what is named; 130 interrupted.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final

from stockade_daemon.removing import remove_tree
from tests.mishaps import disk, ledger
from tests.mishaps.campaign import Counts, campaign, cases
from tests.mishaps.points import STEPS

METHODS: Final = (*STEPS, "ledger")
_SKIPPED: Final = 77


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="mishaps", description="What becomes of a commit when the disk does not play."
    )
    parser.add_argument("method", nargs="*", metavar="METHOD", help=f"{', '.join(METHODS)}; default: all")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="N")
    options = parser.parse_args(arguments)
    if options.every < 1 or options.first < 0 or set(options.method) - set(METHODS):
        parser.error("--every is 1 or more, --from 0 or more, METHOD one of those above")
    methods = options.method or METHODS
    chosen = [case for case in cases() if case.method in methods][options.first :: options.every]
    counts = Counts()
    try:
        disk.own_mounts()
        if chosen:
            _on("disk", disk.DISK_KIB, lambda place: campaign(place, chosen, counts))
        if "ledger" in methods:
            _on("state", ledger.STATE_KIB, lambda place: ledger.campaign(place, counts))
    except disk.Missing as missing:
        print(f"mishaps: not run, for want of {missing}", file=sys.stderr)
        return _SKIPPED
    print(f"mishaps: {len(chosen)} cases, {counts.not_reached} of which their commit did not come to")
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.outcomes.items())))
    for fault in counts.faults:
        print(f"mishaps: {fault}", file=sys.stderr)
    print("mishaps: failed" if counts.faults else "mishaps: the old bytes stand, or the new ones do")
    return 1 if counts.faults else 0


def _on(small: str, kib: int, run: Callable[[Path], Coroutine[None, None, None]]) -> None:
    """Runs in a new directory, in which `small` is a small file system."""
    place = Path(tempfile.mkdtemp(prefix="mishaps-"))
    try:
        disk.mount(place / small, kib=kib)
        try:
            asyncio.run(run(place))
        finally:
            disk.unmount(place / small)
    finally:
        remove_tree(place)


if __name__ == "__main__":
    os.umask(0o022)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
