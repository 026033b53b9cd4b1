"""`stockade cancel`: takes a call back, whoever started it."""

import json

import click

import stockade_client as client
from stockade_client.commands import options
from stockade_client.commands.running import OK, run, the_running_daemon
from stockade_client.visible import visible


@click.command()
@click.argument("call_id", metavar="CALL", callback=options.named)
@click.option(
    "--session",
    "session_id",
    metavar="NAME",
    callback=options.named,
    help="Its session; needed where several have a call of this id under way.",
)
@options.as_json()
def command(call_id: str, session_id: str | None, as_json: bool) -> None:
    """Take a call back, and say what it came to: ABORTED, or ABORTED_BEFORE_DISPATCH where nothing had run.

    A call of a turn whose place has not come is taken back too, without the others; this waits until its result is
    recorded. One that ended by itself meanwhile keeps its own result.

    Exit status: 0 the call has its result, 2 no such call is under way, 3 daemon or infrastructure.
    """

    async def body() -> int:
        async with the_running_daemon("`stockade cancel`") as daemon:
            found = await _found(daemon, call_id, session_id)
            call = daemon.call(found.session_id, call_id, found.tool)
            await call.cancel()
            result = await call.result()
        if as_json:
            print(json.dumps({"session_id": found.session_id, **result.as_json()}, ensure_ascii=False))
        else:
            came_to = "it had ended by itself" if result.error is None else str(result.error)
            print(visible(f"{call_id} of session {found.session_id}: {came_to}"))
        return OK

    run(body)


async def _found(daemon: "client.Daemon", call_id: str, session_id: str | None) -> "client.CallUnderWay":
    """Raises NotFound, InvalidRequest, with what to do next."""
    found = [each for each in await daemon.calls(session_id or "") if each.call_id == call_id]
    if not found:
        raise client.NotFound(
            f"no call {call_id!r} is under way{f' in session {session_id}' if session_id else ''}; `stockade ps` lists "
            f"those that are, `stockade ledger {call_id}` tells what became of it"
        )
    if len(found) > 1:
        sessions = ", ".join(each.session_id for each in found)
        raise client.InvalidRequest(
            f"several sessions have a call {call_id!r} under way: {sessions}; add --session NAME"
        )
    return found[0]
