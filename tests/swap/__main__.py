"""A directory changes places with a link out of the workspace, as fast as a process can, while calls go on in it.

    python -m tests.swap [--calls 10000] [--seed N] [--walk]            make swap

Reads, writes, edits and creations go through a gate. Nothing outside may be opened, read or changed (inotify watches),
and every call must be done or refused with a code. Half of the calls, or all with --walk, resolve their paths by the
daemon's own walk, as on a kernel without openat2(2).

Exit status: 0 all of that holds; 1 it does not; 2 usage; 130 interrupted.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
from pathlib import Path

from stockade_daemon.sandbox.scratch import remove_tree
from tests.swap.campaign import campaign


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="swap", description="Whether a changing path leads out of the workspace.")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--walk", action="store_true", help="the daemon's own walk for all calls, not for half of them")
    options = parser.parse_args(arguments)
    if options.calls < 2:
        parser.error("--calls must be 2 or more")
    print(f"swap: {options.calls} calls, --seed {options.seed}", flush=True)
    half = 0 if options.walk else options.calls // 2
    faults = []
    for calls, walk in ((half, False), (options.calls - half, True)):
        if not calls:
            continue
        place = Path(tempfile.mkdtemp(prefix="swap-"))
        try:
            counts = asyncio.run(campaign(place, calls, options.seed, walk=walk))
        finally:
            remove_tree(place)
        print(f"{'walk' if walk else 'openat2'}: {calls} calls, {counts.swaps} swaps", flush=True)
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
