"""A command's life: the daemon it uses, the signals that end it, and errors as messages and exit statuses."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final, NoReturn

import stockade_client as client
from stockade_client import interruption
from stockade_client.addresses import running_daemon
from stockade_client.commands import options
from stockade_client.recording import FaultyRecording
from stockade_client.streams import complain, fail
from stockade_client.tls import of_environment
from stockade_client.token_file import token

OK: Final = 0
FAILED: Final = 1  # the call failed
USAGE: Final = 2
INFRASTRUCTURE: Final = 3

# The request itself cannot be used: whoever typed it can put it right.
_USAGE_ERRORS: Final = (
    client.InvalidRequest,
    client.NotFound,
    client.AlreadyExists,
    client.NotPermitted,
    client.TooLarge,
    FaultyRecording,
)


@asynccontextmanager
async def a_daemon() -> AsyncIterator["client.Daemon"]:
    """The daemon that runs already, else, and always with --private, a private one for as long as the block runs."""
    address = None if options.wants_private() else running_daemon()
    if address is not None:
        async with client.connect(address, token(), tls=of_environment(), on_away=_tell_of_an_absence) as daemon:
            yield daemon
        return
    async with client.local_daemon() as address, client.connect(address) as daemon:
        yield daemon


@asynccontextmanager
async def the_running_daemon(
    why: str, *, on_away: Callable[[], None] | None = None, on_back: Callable[[], None] | None = None
) -> AsyncIterator["client.Daemon"]:
    """The daemon that runs already. Raises NoDaemon where there is none; `why` says what needs it.

    on_away, on_back: as of `connect`; without them a line on stderr tells of an absence.
    """
    address = running_daemon()
    if address is None:
        raise client.NoDaemon(
            f"{why} needs a running daemon, and there is none at the default socket; a private daemon lives for one "
            "command only: start one with `stockaded serve`, or set STOCKADE_ADDRESS"
        )
    async with client.connect(
        address, token(), tls=of_environment(), on_away=on_away or _tell_of_an_absence, on_back=on_back
    ) as daemon:
        yield daemon


def allowed(daemon: "client.Daemon", approve: "client.Approve") -> "client.Approve | None":
    """The approver of a command's own session; None where the daemon has somebody else answer."""
    caller = daemon.info.caller
    # A daemon that names no caller has everybody answer.
    return approve if caller.answers_own_asks or not caller.name else None


def _tell_of_an_absence() -> None:
    complain("the daemon went away; waiting for it to come back")


def run(body: Callable[[], Coroutine[None, None, int]], *, infrastructure: int = INFRASTRUCTURE) -> NoReturn:
    """Runs a command to its end and exits with its status; `infrastructure` is the status for daemon errors.

    Ctrl-C, SIGTERM and SIGHUP cancel the body, which takes back its calls and waits for them; then the status
    is 128 and the signal's number.
    """
    ended_by: list[signal.Signals] = []
    try:
        with interruption.is_raised():
            status = asyncio.run(_cancelled_by_signals(body, ended_by))
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except asyncio.CancelledError:
        status = 128 + (ended_by[0] if ended_by else signal.SIGINT)
    except Exception as error:
        status = _status_of(_leaf(error), infrastructure)
    sys.exit(status)


async def _cancelled_by_signals(body: Callable[[], Coroutine[None, None, int]], ended_by: list[signal.Signals]) -> int:
    """asyncio.run itself cancels on SIGINT; these two end a command the same way and not by killing it."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def end(number: signal.Signals) -> None:
        ended_by.append(number)
        if task is not None:
            task.cancel()

    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # nohup wants it ignored
    ]
    for number in numbers:
        loop.add_signal_handler(number, end, number)
    try:
        return await body()
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _leaf(error: Exception) -> Exception:
    """The first cause in a group of tasks; the others were cancelled because of it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _status_of(error: Exception, infrastructure: int) -> int:
    if isinstance(error, client.StockadeError):
        complain("\n".join([str(error), *getattr(error, "__notes__", ())]))
        return USAGE if isinstance(error, _USAGE_ERRORS) else infrastructure
    if isinstance(error, OSError):
        return fail(error, infrastructure)
    raise error
