"""Floods of output and processes that do not want to end, at a real daemon.

    python -m tests.floods [--mb 200] [--calls 200] [--seed N] [cut|slow|endless|survivors …]      make floods ARGS="…"

cut: so many MiB of seeded bytes are read over a connection that is cut every 100 ms, while they are printed and again
afterwards: the same SHA-256, and the daemon's resident memory grows by less than 16 MiB. slow: the same beside readers
that stall. endless: `yes` comes to its limit, with limits.output_past "stop" and "truncate", and calls of another
session have the results that they have without it. survivors: calls that leave processes behind by setsid, double
forks, open pipes, deafness to signals, and by being timed out or cancelled: none is there when the call has its result.

Exit status: 0 all of that holds; 1 it does not; 2 usage; 130 interrupted.
"""

import argparse
import asyncio
import os
import random
import sys

from tests.floods.campaign import FLOODS, Sizes, campaign


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="floods", description="Whether floods and survivors disturb anybody.")
    parser.add_argument("--mb", type=int, default=200, help="MiB that are read over connections that are cut")
    parser.add_argument("--calls", type=int, default=200, help="that leave processes behind")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("floods", nargs="*", metavar="flood", help=f"any of {', '.join(FLOODS)}; none: all")
    options = parser.parse_args(arguments)
    if min(options.mb, options.calls) < 1:
        parser.error("--mb and --calls must be 1 or more")
    if unknown := set(options.floods) - set(FLOODS):
        parser.error(f"{', '.join(sorted(unknown))}: none of {', '.join(FLOODS)}")
    print(f"floods: --mb {options.mb} --calls {options.calls} --seed {options.seed}", flush=True)
    sizes = Sizes(flood_mb=options.mb, survivors=options.calls)
    report = asyncio.run(
        campaign(sizes, options.seed, lambda line: print(line, flush=True), only=tuple(options.floods))
    )
    for fault in report.faults:
        print(f"floods: {fault}", file=sys.stderr)
    print("floods: failed" if report.faults else "floods: every byte arrived, and nothing is left")
    return 1 if report.faults else 0


if __name__ == "__main__":
    os.umask(0o022)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
