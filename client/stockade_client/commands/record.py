"""`stockade record`: a session as a file of calls that `stockade run` plays."""

from contextlib import aclosing

import click

from stockade_client.commands import options
from stockade_client.commands.naming import the_session
from stockade_client.commands.running import OK, run, the_running_daemon
from stockade_client.runs.recorded import HEADER, lines_of
from stockade_client.streams import complain


@click.command()
@click.argument("session_id", metavar="SESSION", callback=options.named)
def command(session_id: str) -> None:
    """Write what a session did as a file of calls, with its results as what is expected.

    \b
    stockade record SESSION > calls.jsonl
    stockade run calls.jsonl --profile NAME

    A call is a line; all share one session and one copy of the workspace, in their order, when they are played. They
    want the workspace as it was when the session began. Times, durations, addresses of memory and names of temporary
    files are matched as such, the workspace's path as the place ${workspace}, names of jobs as ${job 1} and so on; what
    people answered is answered again. Left out, with a line on stderr, are calls without a result, those whose outcome
    nobody can repeat, and outputs of which not all was kept.

    Exit status: 0 ok, 2 there is no such session, 3 daemon or infrastructure.
    """

    async def body() -> int:
        async with the_running_daemon("`stockade record`") as daemon:
            session = await the_session(daemon, session_id)
            print(HEADER, flush=True)
            async with aclosing(lines_of(daemon, session)) as lines:
                async for line in lines:
                    for each in line.left_out:
                        complain(f"left out: {each}")
                    if line.text:
                        print(line.text, flush=True)
        return OK

    run(body)
