"""Generated scripts leave the same tree through Stockade as run directly.

    python -m tests.scripts [--count 300] [--seed N] [--no-links] [--without KIND]            make scripts

Each script changes a small tree of its own in ten steps; one daemon runs all of them with the profile ci, every other
one with scratch beside it. Every fifth one runs while somebody outside changes a file that it changes too: it must end
with FS_CONFLICT and the workspace be as the outsider left it. As an ordinary user files with several names are left
out, of which the kernel's overlay makes two, and so are moves of directories that `mv` cannot copy and remove.

Exit status: 0 all of that holds; 1 it does not; 2 usage; 130 interrupted.
"""

import argparse
import asyncio
import os
import random
import sys

from tests.scripts.campaign import campaign


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts", description="Whether commands do what they do elsewhere.")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--no-links", action="store_true", help="no files with several names, as for an ordinary user")
    parser.add_argument("--without", action="append", default=[], metavar="KIND", help="of steps, left out: touch, …")
    options = parser.parse_args(arguments)
    if options.count < 1:
        parser.error("--count must be 1 or more")
    print(f"scripts: {options.count} scripts, --seed {options.seed}", flush=True)
    links = os.geteuid() == 0 and not options.no_links
    without = frozenset(options.without)
    report = asyncio.run(campaign(options.count, options.seed, links=links, without=without))
    print(", ".join(f"{count} {change}" for change, count in sorted(report.changes.items())))
    for fault in report.faults:
        print(f"scripts: {fault}", file=sys.stderr)
    same = report.scripts - report.conflicts
    if report.faults:
        print(f"scripts: failed, {len(report.faults)} of {report.scripts}")
        return 1
    print(f"scripts: {same} left the same tree, {report.conflicts} met an outsider and changed nothing")
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
