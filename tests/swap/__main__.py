"""A directory changes places with a link out of the workspace, as fast as a process can, while calls go on in it.

    python -m tests.swap [--writes 10000] [--calls 300] [--seed N] [--walk]            make swap

Reads, writes, edits and creations go through a gate, until --writes of them have been decided about and come to their
commit; half of these, or all with --walk, with paths that the daemon's own walk resolves, as on a kernel without
openat2(2). Then --calls calls of `write` and `edit` go through a private daemon. Nothing outside may be opened, read or
changed (inotify watches), and every call must be done or refused with a code.

Exit status: 0 all of that holds; 1 it does not; 2 usage; 130 interrupted.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from stockade_daemon.removing import remove_tree
from tests.swap.campaign import Counts, campaign, through_a_daemon


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="swap", description="Whether a changing path leads out of the workspace.")
    parser.add_argument("--writes", type=int, default=10_000, help="that come to their commit, through a gate")
    parser.add_argument("--calls", type=int, default=300, help="through a private daemon")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument(
        "--walk", action="store_true", help="the daemon's own walk for all writes, not for half of them"
    )
    options = parser.parse_args(arguments)
    if options.writes < 2 or options.calls < 0:
        parser.error("--writes must be 2 or more, and --calls 0 or more")
    print(f"swap: {options.writes} writes, {options.calls} calls, --seed {options.seed}", flush=True)
    half = 0 if options.walk else options.writes // 2
    faults = []
    campaigns: dict[str, tuple[int, Callable[[Path, int, int], Coroutine[Any, Any, Counts]]]] = {
        "openat2": (half, partial(campaign, walk=False)),
        "walk": (options.writes - half, partial(campaign, walk=True)),
        "daemon": (options.calls, through_a_daemon),
    }
    for name, (many, run) in campaigns.items():
        if not many:
            continue
        place = Path(tempfile.mkdtemp(prefix="swap-"))
        try:
            counts = asyncio.run(run(place, many, options.seed))
        finally:
            remove_tree(place)
        print(
            f"{name}: {counts.outcomes.total()} calls, {counts.swaps} swaps; {counts.writes} writes, "
            f"{counts.committed} of them committed and {counts.writes - counts.committed} refused",
            flush=True,
        )
        print(", ".join(f"{count} {what}" for what, count in sorted(counts.outcomes.items())))
        faults += counts.faults
    for fault in faults:
        print(f"swap: {fault}", file=sys.stderr)
    print("swap: failed" if faults else "swap: nothing outside was touched")
    return 1 if faults else 0


if __name__ == "__main__":
    os.umask(0o022)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
