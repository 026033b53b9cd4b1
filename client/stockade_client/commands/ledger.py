"""`stockade ledger`: the recorded events of a session, or of one call."""

import json
from dataclasses import asdict
from datetime import UTC, datetime

import click

import stockade_client as client
from stockade_client.commands import options
from stockade_client.commands.naming import perhaps
from stockade_client.commands.running import OK, run, the_running_daemon
from stockade_client.events_text import summary
from stockade_client.visible import visible


@click.command()
@click.argument("name", metavar="SESSION|CALL", callback=options.named)
@options.as_json()
@click.option("--follow", "-f", is_flag=True, help="Go on with new events until the session closes.")
def command(name: str, as_json: bool, follow: bool) -> None:
    """Show what happened in a session, or in one call.

    A call that several sessions have under the same id is shown for each of them.
    """

    async def body() -> int:
        async with the_running_daemon("`stockade ledger`") as daemon:
            try:
                await daemon.get_session(name)
            except client.NotFound:
                await _show_call(daemon, name, as_json, follow)
                return OK
            async with daemon.events(name, follow=follow) as events:
                async for event in events:
                    _show(event, as_json)
        return OK

    run(body)


async def _show_call(daemon: "client.Daemon", call_id: str, as_json: bool, follow: bool) -> None:
    found = False
    sessions = await daemon.sessions()
    for session in sessions:
        async with daemon.events(session.session_id, call_id=call_id) as events:
            last = 0
            async for event in events:
                found, last = True, event.seq
                _show(event, as_json)
        if last and follow:
            async with daemon.events(session.session_id, after=last, call_id=call_id, follow=True) as events:
                async for event in events:
                    _show(event, as_json)
    if not found:
        near = [session.session_id for session in sessions] + [call.call_id for call in await daemon.calls()]
        raise client.NotFound(
            f"there is neither a session nor a call {call_id!r}{perhaps(call_id, near)}; `stockade sessions` lists the "
            "sessions, `stockade ledger SESSION` the calls of one"
        )


def _show(event: "client.Event", as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(event), ensure_ascii=False), flush=True)
        return
    time = datetime.fromtimestamp(event.time_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    line = f"{event.seq:>6}  {time}  {event.type:<20} {event.call_id:<24} {summary(event)}"
    print(visible(line.rstrip()), flush=True)
