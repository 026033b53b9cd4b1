"""Kills daemon, zygote, mounter or worker at named points of calls, and judges what ledger and disk say afterwards.

    python -m tests.faults [--runs 56] [--seed N]

Four clients edit, read and run commands without end; in each run somebody is killed with SIGKILL when a call passes a
point (tests/faults/points.py), and the daemon is started again. Twenty-eight runs are a story on one state; then every
call must have one tool/call and one tool/result, no effect may be on the disk twice or be there without its events, and
every TOOL_OUTCOME_UNKNOWN must be what its events and the disk say.

Exit status: 0 all of that holds; 1 it does not; 130 interrupted.
"""

import argparse
import asyncio
import random
import sys
import time

from tests.faults.campaign import Counts, campaign
from tests.faults.points import POINTS, VICTIMS


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="faults", description="Kills in the middle of calls.")
    parser.add_argument("--runs", type=int, default=56, help="how many kills; 56 is each pair of point and victim once")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs must be 1 or more")
    print(f"faults: {options.runs} runs, --seed {options.seed}", flush=True)
    counts = Counts()
    began = time.monotonic()
    asyncio.run(campaign(options.runs, options.seed, counts))
    print(f"{'point':<20}" + "".join(f"{victim:>9}" for victim in VICTIMS))
    for point in POINTS:
        print(f"{point:<20}" + "".join(f"{counts.kills[point, victim]:>9}" for victim in VICTIMS))
    print(f"{counts.calls.total()} calls, {counts.events} events, {time.monotonic() - began:.0f} s")
    print(", ".join(f"{count} {code}" for code, count in sorted(counts.calls.items())))
    for fault in counts.faults:
        print(f"faults: {fault}", file=sys.stderr)
    print("faults: failed" if counts.faults else "faults: all that is recorded is true")
    return 1 if counts.faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
