"""The connection to a real daemon is cut at some byte, either way, in some phase of a session; then all is compared.

    python -m tests.cuts [--rounds 200] [--seed N]            make cuts ARGS="--rounds 200"

Phases: connecting, opening a session, attaching an approver, a call alone, starting an edit, its ask, the answer, the
result, output while it is written, a turn, a cancellation, reading events, closing. Whatever was cut, the client must
go on by itself and return the one recorded result of each call, and the edit must have been made once
(tests/cuts/campaign.py).

Exit status: 0 all of that holds; 1 it does not; 2 usage; 130 interrupted.
"""

import argparse
import asyncio
import os
import random
import sys

from tests.cuts.campaign import campaign


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="cuts", description="Whether a cut connection loses or doubles anything.")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    print(f"cuts: {options.rounds} rounds, --seed {options.seed}", flush=True)
    report = asyncio.run(campaign(options.rounds, options.seed))
    print(", ".join(f"{count} {phase}" for phase, count in sorted(report.rounds.items())))
    print(
        f"{report.cuts} connections were cut, {report.to_daemon} of the cuts on the way to the daemon; {report.missed} "
        f"cuts came to nothing, since their phase was over before; {report.calls} calls were compared"
    )
    for fault in report.faults:
        print(f"cuts: {fault}", file=sys.stderr)
    print(
        "cuts: failed" if report.faults else "cuts: each call has its one recorded result, and nothing was done twice"
    )
    return 1 if report.faults else 0


if __name__ == "__main__":
    os.umask(0o022)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
