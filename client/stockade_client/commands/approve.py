"""`stockade approve`: answering asks at a terminal, on a screen or as plain lines."""

import asyncio
import getpass
import importlib.util
import os
import sys

import click

from stockade_client.approving import queue as queues
from stockade_client.commands import options
from stockade_client.commands.naming import the_session
from stockade_client.commands.running import INFRASTRUCTURE, OK, run, the_running_daemon
from stockade_client.streams import complain


@click.command()
@click.option("--session", "session_id", metavar="NAME", callback=options.named, help="Only what this session asks.")
@click.option("--plain", is_flag=True, help="Plain lines, for pipes and screen readers; also without a terminal.")
def command(session_id: str | None, plain: bool) -> None:
    """Answer what calls ask: see exactly what would be done, and say yes or no.

    At a terminal this is a screen: y says yes, n no with a reason, j and k choose, arrows scroll, q quits. A terminal
    that cannot be drawn on (TERM=dumb) gets plain lines, as --plain does: each ask is printed, and a line answers it:
    "y", "n", "n REASON", "s" to leave it for later, "q" to quit. After y and n may stand the card's eight digits; then
    the answer counts for that card only.

    Whoever leaves leaves the asks as they are. Those of a profile with `wait_s = 0` end when the last approver is gone.

    Exit status: 0 left with q or at the end of input, 2 usage, 3 daemon or infrastructure, 130 interrupted by Ctrl-C.
    """
    at_a_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not plain and not at_a_terminal:
        raise click.UsageError(
            "there is no terminal to draw on; run it at one, or add --plain to print asks and read answers as lines"
        )
    plain = plain or os.environ.get("TERM", "") in ("", "dumb")
    if not plain and importlib.util.find_spec("textual") is None:
        complain("the screen needs the package textual: pip install 'stockade[screen]', or use --plain")
        sys.exit(INFRASTRUCTURE)

    async def body() -> int:
        told: list[queues.Queue] = []  # the one that there is once the daemon is connected
        async with the_running_daemon(
            "`stockade approve`",
            on_away=lambda: told[0].is_away() if told else None,
            on_back=lambda: told[0].is_back() if told else None,
        ) as daemon:
            if session_id is not None:
                await the_session(daemon, session_id)
            async with queues.opened(daemon, session_id or "", name=_own_name()) as queue:
                told.append(queue)
                return await (_lines(queue) if plain else _screen(queue))

    run(body)


async def _lines(queue: queues.Queue) -> int:
    from stockade_client.approving.plain import Lines

    await Lines(queue, sys.stdin, sys.stdout).run()
    return OK


async def _screen(queue: queues.Queue) -> int:
    from stockade_client.approving.screen import ApproveScreen  # takes textual along

    # Without the mouse, which selects and copies text as in the rest of the terminal.
    screen = ApproveScreen(queue)
    status = await screen.run_async(mouse=False)
    if status is None and not screen.return_code:
        raise asyncio.CancelledError  # which textual keeps to itself; by a signal, or by what went wrong with the queue
    return INFRASTRUCTURE if status is None else status


def _own_name() -> str:
    """How other approvers see this one: user and terminal, which tells two of one user apart."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid {os.getuid()}"
    try:
        where = os.ttyname(0).removeprefix("/dev/")
    except OSError:
        where = f"process {os.getpid()}"
    return f"{user} at {where}"[:80]
