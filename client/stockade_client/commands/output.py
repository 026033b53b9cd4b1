"""`stockade output`: the raw bytes of a call's output, from an offset on, while it runs and afterwards."""

import asyncio
from typing import cast

import click

import stockade_client as client
from stockade_client.calls import Part
from stockade_client.commands import options
from stockade_client.commands.exec import write_all
from stockade_client.commands.running import OK, run, the_running_daemon
from stockade_client.streams import complain


@click.command()
@click.argument("call_id", metavar="CALL", callback=options.named)
@click.option(
    "--session",
    "session_id",
    metavar="NAME",
    callback=options.named,
    help="Its session; needed where several have a call of this id, except that one under way is taken first.",
)
@click.option(
    "--part",
    type=click.Choice(["stdout", "stderr", "both", "value"]),
    default="stdout",
    show_default=True,
    help="Which bytes. `both`: those of stdout on stdout and those of stderr on stderr, in the order in which they "
    "arrived; `value`: the JSON text of a settled call's value.",
)
@click.option(
    "--offset", type=click.IntRange(min=0), default=0, show_default=True, help="Bytes to leave out at the beginning."
)
@click.option("--limit", type=click.IntRange(min=0), metavar="BYTES", help="Print so many at most.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the call is settled.")
def command(call_id: str, session_id: str | None, part: str, offset: int, limit: int | None, follow: bool) -> None:
    """Print what a call has printed, as it was: its result has no more than head and tail of a long output.

    What stands at an offset never changes: who was cut off reads on where he was.

    Exit status: 0 ok, 2 there is no such call, 3 daemon or infrastructure.
    """

    async def body() -> int:
        async with the_running_daemon("`stockade output`") as daemon:
            call = daemon.call(session_id or await _session_of(daemon, call_id), call_id)
            left = limit
            async with call.pieces(offset, cast(Part, part), follow) as pieces:
                async for piece in pieces:
                    data = piece.data if left is None else piece.data[:left]
                    await asyncio.to_thread(write_all, 2 if part == "both" and piece.part == "stderr" else 1, data)
                    if left is not None:
                        left -= len(data)
                        if not left:
                            return OK
            _tell_what_is_cut(await call.wait(0), part)
        return OK

    run(body)


def _tell_what_is_cut(result: "client.CallResult | None", part: str) -> None:
    """Half an output must not look like all of it. result: None while the call runs."""
    for each in ("stdout", "stderr") if part == "both" else (part,):
        if result is None:
            return
        total, kept = result.field(f"{each}_bytes"), result.field(f"{each}_kept")
        if isinstance(total, int) and isinstance(kept, int) and total > kept:
            complain(f"{each} is cut: {kept} of {total} bytes were kept (limits.output_mb of its profile)")


async def _session_of(daemon: "client.Daemon", call_id: str) -> str:
    """Raises NotFound, InvalidRequest, with what to do next."""
    found = [each.session_id for each in await daemon.calls() if each.call_id == call_id]
    if len(found) == 1:
        # Others may have had one of this id before; whoever wants theirs has to be told that this is another.
        complain(f"call {call_id} of session {found[0]}, which is under way; --session NAME has another one's")
    elif not found:
        for session in await daemon.sessions():
            async with daemon.events(session.session_id, call_id=call_id) as events:
                async for _ in events:
                    found.append(session.session_id)
                    break
    if not found:
        raise client.NotFound(f"there is no call {call_id!r}; `stockade ledger SESSION` lists the calls of a session")
    if len(found) > 1:
        raise client.InvalidRequest(f"several sessions have a call {call_id!r}: {', '.join(found)}; add --session NAME")
    return found[0]
