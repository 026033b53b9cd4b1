"""Two sessions and an outside writer at one workspace; then the workspace is built again from what is recorded.

    python -m tests.rivals [--seconds 300] [--seed N]            make rivals ARGS="--seconds 300"

Both sessions work through one real daemon; the outsider (tests/rivals/outsider.py) is a process of its own. Afterwards
the last version of every file must follow from the ledger and the outsider's log, no version may have been overwritten
by somebody who had not seen it, and every refusal must name a version that had been displaced (tests/rivals/replay.py).

Exit status: 0 all of that holds; 1 it does not; 2 usage; 130 interrupted.
"""

import argparse
import asyncio
import os
import random
import sys

from tests.rivals.campaign import campaign


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="rivals", description="Whether anything of anybody is lost.")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    if options.seconds <= 0:
        parser.error("--seconds must be more than 0")
    print(f"rivals: {options.seconds:g} s, --seed {options.seed}", flush=True)
    report, told = asyncio.run(campaign(options.seconds, options.seed))
    print(", ".join(f"{count} {what}" for what, count in sorted(told.items())))
    print(
        f"{report.commits} commits and {report.saves} saves of the outsider, {report.unknown} of which displaced what "
        f"they cannot name; {report.taken_back} commits ended at the last moment"
    )
    print("refused: " + (", ".join(f"{count} {code}" for code, count in sorted(report.refusals.items())) or "nothing"))
    for fault in report.faults:
        print(f"rivals: {fault}", file=sys.stderr)
    print("rivals: failed" if report.faults else "rivals: the tree follows from what is recorded, nothing was lost")
    return 1 if report.faults else 0


if __name__ == "__main__":
    os.umask(0o022)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
