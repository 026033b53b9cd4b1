"""`stockade stop`: ends a session with all of its calls, whoever opened it."""

import json
from dataclasses import asdict

import click

import stockade_client as client
from stockade_client.commands import options
from stockade_client.commands.running import OK, run, the_running_daemon
from stockade_client.visible import visible


@click.command()
@click.argument("session_id", metavar="SESSION", callback=options.named)
@options.as_json()
def command(session_id: str, as_json: bool) -> None:
    """End a session: its calls under way are cancelled and recorded, its workers end, and it cannot be resumed.

    What is recorded of it stays: `stockade ledger SESSION` shows it. Safe to repeat.

    Exit status: 0 the session is closed, 2 there is no such session, 3 daemon or infrastructure.
    """

    async def body() -> int:
        async with the_running_daemon("`stockade stop`") as daemon:
            try:
                before = await daemon.get_session(session_id)
            except client.NotFound as error:
                raise client.NotFound(
                    f"there is no session {session_id!r}; `stockade sessions` lists those there are"
                ) from error
            under_way = len(await daemon.calls(session_id))
            session = await daemon.close_session(session_id)
        if as_json:
            print(json.dumps(asdict(session), ensure_ascii=False))
        elif before.state == "closed":
            print(visible(f"{session_id} was closed before"))
        else:
            print(visible(f"{session_id} closed; calls that were under way: {under_way}"))
        return OK

    run(body)
