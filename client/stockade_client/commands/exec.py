"""`stockade exec`: a recorded `shell` call that behaves like the program itself.

Its stdout and stderr are the program's bytes as they come, its exit status the program's own. Beyond that, as with
timeout(1) and env(1): 124 timed out, 125 the sandbox or the daemon failed or output was cut, 126 refused, 127 not
found, 128 + n killed by signal n.
"""

import asyncio
import os
import select
import signal
from typing import Final

import click

import stockade_client as client
from stockade_client.calls import arguments_text
from stockade_client.commands import options
from stockade_client.commands.running import USAGE, a_daemon, allowed, run
from stockade_client.results import JsonInput
from stockade_client.streams import NotWritten, complain
from stockade_client.terminal import approver

TIMED_OUT: Final = 124
BROKEN: Final = 125
REFUSED: Final = 126
_CALLS_TIME: Final = "the call's timeout_s"  # what the daemon calls it; here it is an option


# The first word that is no option, or `--`, begins the program's own words; one before it that looks like an option and
# is none of ours is a misspelt one.
@click.command("exec", context_settings={"allow_interspersed_args": False})
@options.profile()
@options.workspace()
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End it after this, or after the profile's wall_s, whichever is less.  [default: the profile's wall_s]",
)
@options.yes()
@options.private()
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- ARGV…")
def command(profile: str, workspace: str, timeout: float | None, yes: bool, argv: tuple[str, ...]) -> None:
    """Run a program in a sandbox: its own stdout, stderr and exit status.

    The program sees the workspace through a private view. When it has ended, the profile's approval.effects says what
    becomes of what it changed there: it is committed all or nothing, you are asked, or it is gone. Standard input is
    not passed on: the program's is empty. Of stdout and of stderr as much is kept as the profile's output_mb says;
    what the program prints beyond that is cut, and the exit status is then 125.

    Exit status: the program's own; 124 timed out, 125 sandbox or daemon failed or output was cut, 126 refused,
    127 not found, 128+n killed by signal n, 2 usage.
    """

    async def body() -> int:
        async with a_daemon() as daemon:
            # The tool's own default is made for models, which ask for more; a person who asks for nothing wants all
            # that the profile gives.
            seconds = await _longest(daemon, profile) if timeout is None else timeout
            async with daemon.session(workspace, profile, approve=allowed(daemon, approver(yes=yes))) as session:
                arguments: dict[str, JsonInput] = {"argv": argv, "timeout_s": seconds}
                call = await session.start_json("shell", arguments_text(arguments))
                result, passed = await _passed_through(call)
                return _all_of_it(result, passed) or status_of(result)

    run(body, infrastructure=BROKEN)


async def _longest(daemon: "client.Daemon", profile: str) -> float:
    """The profile's wall_s, in seconds."""
    settings = (await daemon.profiles.explain(profile)).settings
    (seconds,) = [each.toml for each in settings if each.key == "limits.wall_s"]
    return float(seconds)


async def _passed_through(call: "client.Call") -> tuple["client.CallResult", dict[str, int]]:
    """The result, once all output has been passed on, and how many bytes of each stream that was.

    The result is waited for beside the output and not after it: a daemon that stops answers the requests that it has,
    and takes no new ones. Ended early, the call is taken back first.
    """
    try:
        async with asyncio.TaskGroup() as group:
            settling = group.create_task(call.result())
            copying = {
                "stdout": group.create_task(_copy(call.output(part="stdout"), 1)),
                "stderr": group.create_task(_copy(call.output(part="stderr"), 2)),
            }
        return settling.result(), {part: task.result() for part, task in copying.items()}
    except BaseException:
        await call.withdraw()
        raise


async def _copy(output: "client.Stream[bytes]", descriptor: int) -> int:
    """Raw bytes, in a thread: a reader that is slow to take them must not stop the other stream. Their number."""
    passed = 0
    async with output:
        async for data in output:
            await asyncio.to_thread(write_all, descriptor, data)
            passed += len(data)
    return passed


def _all_of_it(result: "client.CallResult", passed: dict[str, int]) -> int:
    """0, or BROKEN where the program printed more than was kept: half an output must not look like all of it."""
    lost = False
    for part, count in passed.items():
        total = result.field(f"{part}_bytes")
        if isinstance(total, int) and total > count:
            complain(
                f"{part} is cut: {count} of {total} bytes were kept; the profile's [limits] output_mb says how many"
            )
            lost = True
    return BROKEN if lost else 0


def write_all(descriptor: int, data: bytes) -> None:
    """Raises BrokenPipeError when the reader has gone, NotWritten for any other reason."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            # Whoever shares the descriptor has made it non-blocking.
            select.select([], [descriptor], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise NotWritten(error) from error


def status_of(result: "client.CallResult") -> int:
    """The exit status for a result; a failure is told on stderr."""
    if result.error is None:
        return _own_status(result)
    complain(str(result.error).replace(_CALLS_TIME, "--timeout"))
    if result.error.code == "RESOURCE_LIMIT":
        # Killed by a limit is killed: by the signal that did it, or by SIGKILL where only the whole is known.
        own = _own_status(result)
        return own if own != BROKEN else 128 + signal.SIGKILL
    if result.error.domain == "deadline":
        return TIMED_OUT
    if result.error.domain == "policy":
        return REFUSED
    if result.error.domain == "arguments":
        return USAGE
    return BROKEN


def _own_status(result: "client.CallResult") -> int:
    number = result.field("signal")
    if isinstance(number, str) and number in signal.Signals.__members__:
        number = int(signal.Signals[number])
    if isinstance(number, int) and number:
        return 128 + number
    code = result.field("exit_code")
    return code if isinstance(code, int) else BROKEN
