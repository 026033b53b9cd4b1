"""`stockade sessions`: what the daemon has open, and what it had."""

import json
from dataclasses import asdict

import click

import stockade_client as client
from stockade_client.commands import options
from stockade_client.commands.columns import in_columns, moment
from stockade_client.commands.running import OK, run, the_running_daemon
from stockade_client.streams import complain


@click.command()
@options.as_json()
def command(as_json: bool) -> None:
    """List the daemon's sessions, newest last."""

    async def body() -> int:
        async with the_running_daemon("`stockade sessions`") as daemon:
            sessions = sorted(await daemon.sessions(), key=lambda each: each.opened_ms)
            if not sessions and not as_json:
                complain("there are no sessions that you may see; `stockade call` and `stockade exec` open one")
            if as_json:
                for session in sessions:
                    print(json.dumps(asdict(session), ensure_ascii=False))
            else:
                in_columns([_row(session) for session in sessions], right=(5,))
        return OK

    run(body)


def _row(session: "client.SessionInfo") -> list[str]:
    events = f"{session.last_seq} events"
    whose = session.principal or "-"
    when = moment(session.opened_ms)
    return [session.session_id, session.state, when, whose, session.profile, events, session.workspace]
