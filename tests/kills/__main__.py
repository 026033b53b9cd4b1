"""A daemon is killed at every point of the commit of a command that changes some 200 files.

    python -m tests.kills [--files 120] [--most N] [--seed N]            make kills

Afterwards the workspace is the old one or the new one, the ledger says which, and nothing is left. `--most`: only so
many of the points, chosen by the seed.

Exit status: 0 all of that holds; 1 it does not; 2 usage; 130 interrupted.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from stockade_daemon.removing import remove_tree
from tests.kills.campaign import NEVER, Outcome, chosen, once, wanted


async def campaign(files: int, most: int, seed: int, place: Path) -> list[Outcome]:
    """All outcomes; the first is that of a daemon that lives."""
    before, after = wanted(place, files)
    numbers = [NEVER]
    found: list[Outcome] = []
    for turn, number in enumerate(numbers):
        directory = place / f"r{turn}"
        directory.mkdir(mode=0o700)
        outcome = await once(directory, number, files, before, after)
        found.append(outcome)
        if number == NEVER:
            numbers += chosen(len(outcome.points), most, seed)
            print(f"kills: {len(outcome.points)} points, {len(numbers) - 1} kills", flush=True)
        elif turn % 20 == 0:
            print(f"kills: {turn} of {len(numbers) - 1}", flush=True)
        if outcome.fault:
            print(f"kills: at {outcome.points[-1]}: {outcome.fault}", file=sys.stderr, flush=True)
        remove_tree(directory)
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="kills", description="Whether a commit is all or nothing.")
    parser.add_argument("--files", type=int, default=120, help="in the tree before; the command makes 70 more")
    parser.add_argument("--most", type=int, default=10**6)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    if options.files < 8 or options.most < 3:
        parser.error("--files must be 8 or more, --most 3 or more")
    print(f"kills: {options.files} files, --seed {options.seed}", flush=True)
    place = Path(tempfile.mkdtemp(prefix="stockade-kills-"))
    try:
        found = asyncio.run(campaign(options.files, options.most, options.seed, place))
    finally:
        remove_tree(place)
    faults = [each for each in found if each.fault]
    came = Counter(each.now for each in found[1:])
    print(f"kills: {len(found) - 1} kills: {came['old']} left the old tree, {came['new']} the new one")
    if faults:
        print(f"kills: failed, {len(faults)} of {len(found)}")
        return 1
    print("kills: all or nothing, and the ledger says which")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
