"""Plays the recorded conversation on a prepared workspace, through the daemon, and checks that all goes as recorded.

The client opens no file of the workspace: what it knows of it comes from the daemon.
"""

from importlib.resources import files
from typing import Final

from rich.console import Console
from rich.text import Text

from stockade_client.answers import Answers
from stockade_client.connection import Daemon
from stockade_client.demo.way import drawn
from stockade_client.loop import run_agent
from stockade_client.model import ScriptedModel
from stockade_client.recording import Recording, parse
from stockade_client.session import Session
from stockade_client.shown_text import text
from stockade_client.transcript import NotAsRecorded, Transcript

CONVERSATION: Final = "conversation.json"


def recording() -> Recording:
    """The conversation that ships with the package."""
    source = files("stockade_client.demo").joinpath(CONVERSATION)
    return parse(source.read_bytes(), source=CONVERSATION)


async def play(daemon: Daemon, workspace: str, shown_on: Console) -> None:
    """Prints the conversation and one call's way. Raises NotAsRecorded when anything went otherwise."""
    recorded = recording()
    answers = Answers(recorded, shown_on, otherwise=_nobody_expected)
    transcript = Transcript(shown_on, recorded)
    async with daemon.session(workspace, recorded.profile, approve=answers.asked) as session:
        shown_on.print(_where(daemon, session))
        transcript.begins()
        await run_agent(
            session,
            ScriptedModel(recorded),
            recorded.task,
            tools=await session.tools(),
            audience=transcript,
        )
        expected = [call.id for call in recorded.calls.values() if call.answer is not None]
        if answers.given != expected:
            raise NotAsRecorded(
                f"the person should have been asked about {', '.join(expected)} and was asked about "
                f"{', '.join(answers.given) or 'nothing'}; look at [approval] in the profile {recorded.profile}"
            )
        await _draw(session, expected[0], shown_on)
    layers = sorted({layer.name for result in transcript.results.values() for layer in result.layers if layer.held})
    shown_on.print()
    shown_on.print(text(f"Layers in force: {', '.join(layers) or 'none was reported'}."))
    shown_on.print(
        text(f"{len(transcript.results)} calls, each with one recorded result, all as recorded.", "bold green")
    )


def _where(daemon: Daemon, session: Session) -> Text:
    kind = "a private daemon" if daemon.info.private else f"the daemon at {daemon.address}"
    return text(
        f"session {session.session_id} · profile {session.info.profile} · {kind} · {session.info.workspace}", "dim"
    )


async def _draw(session: Session, call_id: str, shown_on: Console) -> None:
    async with session.events(call_id=call_id) as events:
        way = [event async for event in events]
    shown_on.print()
    shown_on.print(text(f"The way of one call, {call_id}, from its recorded events:", "bold"))
    for line in drawn(way, shown_on.width):
        shown_on.print(line)


async def _nobody_expected(ask: object) -> bool:
    """The recording has an answer to every ask there should be."""
    return False
