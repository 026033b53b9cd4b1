"""`stockade resolve`: says what became of a call whose outcome the daemon could not prove."""

import json
from typing import Literal

import click

import stockade_client as client
from stockade_client.commands import options
from stockade_client.commands.running import OK, run, the_running_daemon
from stockade_client.visible import visible


@click.command()
@click.argument("call", metavar="CALL", callback=options.named)
@click.option(
    "--as",
    "outcome",
    type=click.Choice(["done", "not-done"]),
    required=True,
    help="Whether the call did what it was to do.",
)
@click.option("--note", default="", metavar="TEXT", help="How you know; kept in the ledger.")
@click.option(
    "--session", metavar="ID", callback=options.named, help="Where several sessions have a call of this id: which."
)
@options.as_json()
def command(call: str, outcome: Literal["done", "not-done"], note: str, session: str | None, as_json: bool) -> None:
    """Settle what became of a call that ended with TOOL_OUTCOME_UNKNOWN.

    Its result stays as it was recorded; what you say stands beside it, once, as the event call/resolved.
    """

    async def body() -> int:
        async with the_running_daemon("`stockade resolve`") as daemon:
            home = session if session is not None else await _session_of(daemon, call)
            result = await daemon.resolve_unknown(home, call, outcome, note)
        if as_json:
            print(json.dumps(result.as_json(), ensure_ascii=False))
        elif result.resolution is not None:
            said = f": {result.resolution.note}" if result.resolution.note else ""
            print(visible(f"{call} of session {home} is resolved as {result.resolution.outcome}{said}"))
        return OK

    run(body)


async def _session_of(daemon: "client.Daemon", call: str) -> str:
    """The one session that has the call. Raises NotFound, InvalidRequest."""
    found = []
    for each in await daemon.sessions():
        async with daemon.events(each.session_id, call_id=call) as events:
            async for _ in events:
                found.append(each.session_id)
                break
    if not found:
        raise client.NotFound(f"there is no call {call!r}; `stockade sessions` lists the sessions")
    if len(found) > 1:
        raise client.InvalidRequest(f"the sessions {', '.join(found)} have a call {call!r}; name one with --session")
    return found[0]
