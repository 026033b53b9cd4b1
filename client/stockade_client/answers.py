"""A recording's answers to asks: the person who was there, shown again."""

from rich.console import Console
from rich.text import Text

from stockade_client.approvals import Approve, Ask
from stockade_client.card import card
from stockade_client.recording import Recording
from stockade_client.shown_text import text


class Answers:
    """Answers each ask as the recording did; `otherwise` gets those that it knows no answer to."""

    def __init__(self, recording: Recording, shown_on: Console, *, otherwise: Approve) -> None:
        self._calls = recording.calls
        self._console = shown_on
        self._otherwise = otherwise
        self.given: list[str] = []  # ids of the calls that were asked about and answered from the recording

    async def asked(self, ask: Ask) -> bool | None:
        """An approver, for `Daemon.session(approve=…)`."""
        recorded = self._calls.get(ask.call)
        if recorded is None or recorded.answer is None:
            return await self._otherwise(ask)
        answer = recorded.answer
        self._console.print(card(ask, width=self._console.width))
        line = Text().append("you (recorded): ", style="bold yellow").append("yes" if answer.allow else "no")
        if answer.says:
            line.append(", ").append_text(text(answer.says))
        self._console.print(line)
        self.given.append(ask.call)
        await ask.decide(answer.allow, "" if answer.allow else answer.says or "the person said no")
        return None
