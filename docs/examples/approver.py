"""An approver: answers the asks of a running daemon by rules of the house, and leaves nothing unanswered.

    STOCKADE_ADDRESS=unix:/path/daemon.sock python3 approver.py        (until Ctrl-C)

Small changes of Markdown files are allowed, everything else is refused with a reason, which the agent is told. An
answer is bound to the card that was shown here: should the call change meanwhile, it counts for nothing.
"""

import asyncio
import os
import sys

from stockade_client import Ask, NotFound, NotPossible, connect

MOST_LINES = 20  # that an allowed change adds or takes away


def judgement(ask: Ask) -> str:
    """Why the answer is no; empty for a yes."""
    match ask.card:
        case {"path": str(path), "added": int(added), "removed": int(removed)}:
            if not path.endswith(".md"):
                return "only Markdown files may be changed here; say what you would change elsewhere"
            if added + removed > MOST_LINES:
                return f"more than {MOST_LINES} lines change; make it in smaller steps"
            return ""
    return "only changes whose difference is shown are allowed here"


async def answer(ask: Ask) -> None:
    no = judgement(ask)
    try:
        await ask.decide(not no, reason=no)
    except (NotFound, NotPossible) as error:
        # Withdrawn, answered by somebody else, or changed since it was shown: then it comes again.
        print(f"{ask.card['title']}: no longer asked: {error}", flush=True)
        return
    print(f"{ask.card['title']}: {f'no, {no}' if no else 'yes'}", flush=True)


async def main() -> None:
    # For a daemon that wants to know who answers: connect(address, token=…).
    async with connect(os.environ["STOCKADE_ADDRESS"]) as daemon, daemon.approvals() as asks:
        print("watching", flush=True)
        async for ask in asks:  # those that wait already, then new ones; over restarts of the daemon too
            await answer(ask)


if len(sys.argv) != 1 or "STOCKADE_ADDRESS" not in os.environ:
    print("usage: STOCKADE_ADDRESS=unix:/path/daemon.sock python3 approver.py", file=sys.stderr)
    sys.exit(2)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("stopped")
