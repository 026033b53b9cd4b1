"""`stockade ps`: the calls that have no result yet."""

import json
from dataclasses import asdict

import click

import stockade_client as client
from stockade_client.commands import options
from stockade_client.commands.columns import in_columns, moment
from stockade_client.commands.naming import the_session
from stockade_client.commands.running import OK, run, the_running_daemon
from stockade_client.streams import complain


@click.command()
@click.argument("session", metavar="[SESSION]", required=False, callback=options.named)
@options.as_json()
def command(session: str | None, as_json: bool) -> None:
    """List the calls that are under way, of one session or of all: since when, and what each waits for.

    `stockade cancel CALL` takes one back, `stockade stop SESSION` ends a session with all of its calls.
    """

    async def body() -> int:
        async with the_running_daemon("`stockade ps`") as daemon:
            if session is not None:
                await the_session(daemon, session)
            calls = await daemon.calls(session or "")
            if as_json:
                for call in calls:
                    print(json.dumps(asdict(call), ensure_ascii=False))
            else:
                whose = {each.session_id: each.principal for each in await daemon.sessions()}
                in_columns([_row(call, whose.get(call.session_id) or "-") for call in calls])
                _say_what_to_do([call for call in calls if call.waits_for == "approval"], some=bool(calls))
        return OK

    run(body)


def _say_what_to_do(asking: "list[client.CallUnderWay]", *, some: bool) -> None:
    """On stderr: whoever reads the list with a program is not in need of it."""
    if not some:
        complain(
            "no call is under way; `stockade sessions` lists sessions, `stockade ledger SESSION` tells what happened"
        )
    elif asking:
        wait = "call waits" if len(asking) == 1 else "calls wait"
        complain(f"{len(asking)} {wait} for an answer; `stockade approve` shows what is asked, and takes yes or no")


def _row(call: "client.CallUnderWay", whose: str) -> list[str]:
    waits = {
        "turn": f"waits for the calls before it in turn {call.turn_id}",
        "approval": f"waits for an answer to {call.ask_id}",
        "worker": "waits for a worker",
    }.get(call.waits_for, f"job of {call.parent}" if call.parent else "")
    title = call.card.get("title")
    what = title if isinstance(title, str) and title else call.tool
    return [call.session_id, call.call_id, whose, call.tool, call.state, moment(call.since_ms), what, waits]
