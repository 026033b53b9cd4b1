"""`stockade agent`: the model loop with a recorded model."""

from pathlib import Path

import click

import stockade_client as client
from stockade_client.answers import Answers
from stockade_client.commands import options
from stockade_client.commands.running import FAILED, OK, a_daemon, allowed, run
from stockade_client.recording import parse
from stockade_client.streams import complain
from stockade_client.terminal import approver, console
from stockade_client.transcript import NotAsRecorded, Transcript


@click.command()
@click.option(
    "--script",
    metavar="FILE",
    required=True,
    type=click.Path(exists=True, dir_okay=False, readable=True),
    help="Recorded conversation, JSON; see below.",
)
@options.profile(required=False)
@options.workspace()
@options.yes()
@options.private()
def command(script: str, profile: str | None, workspace: str, yes: bool) -> None:
    """Play a recorded conversation: the model's words, its calls run for real, and what came of them.

    Asks that the recording has an answer to get that answer; others come to the terminal.

    FILE is one JSON object; all but task, turns, text and tool may be left out, and "raw": text may stand instead of
    the arguments:

    \b
    {"title": text, "task": text, "profile": name, "turns": [
      {"text": text, "calls": [
        {"tool": name, "arguments": {…},
         "answer": {"allow": true|false, "says": text},
         "expect": {"ok": true|false, "code": text, "exit_code": number,
                    "contains": [text, …]}}]}]}

    Exit status: 0 all went as recorded, 1 something did not.
    """

    text = Path(script).read_bytes()

    async def body() -> int:
        recording = parse(text, source=script)
        rules = profile or recording.profile
        if not rules:
            raise client.InvalidRequest(f"{script} names no profile; give --profile NAME|FILE")
        shown_on = console()
        answers = Answers(recording, shown_on, otherwise=approver(yes=yes))
        async with (
            a_daemon() as daemon,
            daemon.session(workspace, rules, approve=allowed(daemon, answers.asked)) as session,
        ):
            transcript = Transcript(shown_on, recording)
            transcript.begins()
            try:
                await client.run_agent(
                    session,
                    client.ScriptedModel(recording),
                    recording.task,
                    tools=await session.tools(),
                    audience=transcript,
                )
            except NotAsRecorded as error:
                complain(str(error))
                return FAILED
        return OK

    run(body)
