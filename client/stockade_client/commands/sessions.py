"""`stockade sessions`: what the daemon has open, and what it had."""

import json
from dataclasses import asdict
from datetime import UTC, datetime

import click

from stockade_client.commands import options
from stockade_client.commands.running import OK, run, the_running_daemon
from stockade_client.streams import complain
from stockade_client.visible import visible


@click.command()
@options.as_json()
def command(as_json: bool) -> None:
    """List the daemon's sessions, newest last."""

    async def body() -> int:
        async with the_running_daemon("`stockade sessions`") as daemon:
            sessions = sorted(await daemon.sessions(), key=lambda each: each.opened_ms)
            if not sessions and not as_json:
                complain("there are no sessions that you may see; `stockade call` and `stockade exec` open one")
            for session in sessions:
                if as_json:
                    print(json.dumps(asdict(session), ensure_ascii=False))
                    continue
                opened = datetime.fromtimestamp(session.opened_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
                print(
                    f"{session.session_id:<28} {session.state:<6} {opened}  {session.profile:<10} "
                    f"{session.last_seq:>6} events  {visible(session.workspace)}"
                )
        return OK

    run(body)
