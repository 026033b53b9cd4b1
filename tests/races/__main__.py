"""Fifty answers race to one ask across two kills of the daemon, and what was shown is changed meanwhile.

    python -m tests.races [--rounds 200] [--seed N]

A round is a call that asks: a command that runs a script of the workspace, an edit, or a new file. Its answers, yes and
no, some of them to another card, are given at once to three daemons one after the other; the first two are killed with
SIGKILL in the middle. After it was shown, in some rounds the script or the file is changed, or the call's id given to
other arguments. Then exactly one answer was taken, by what was told and by what is recorded, and exactly what was shown
was done once, or nothing.

Exit status: 0 all of that holds; 1 it does not; 2 usage; 130 interrupted.
"""

import argparse
import asyncio
import random
import sys
import time

from tests.races.campaign import Counts, campaign


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="races", description="Answers that race, and daemons that are killed.")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    print(f"races: {options.rounds} rounds, --seed {options.seed}", flush=True)
    counts = Counts()
    began = time.monotonic()
    asyncio.run(campaign(options.rounds, options.seed, counts, told=lambda line: print(line, flush=True)))
    print(f"{time.monotonic() - began:.0f} s; asks that a second daemon went on with: {counts.carried}, "
          f"a third: {counts.carried_twice}")  # fmt: skip
    for title, found in (("came to", counts.came_to), ("answers", counts.answers), ("changed", counts.mutated)):
        print(f"{title}: " + ", ".join(f"{count} {what}" for what, count in sorted(found.items())))
    for fault in counts.faults:
        print(f"races: {fault}", file=sys.stderr)
    print("races: failed" if counts.faults else "races: exactly what was shown, once, or nothing")
    return 1 if counts.faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
