"""The question at the terminal: what counts as an answer, and where the next line begins."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

QUESTION = b"Allow this? [y/N] "
CONTROL_D = b"\x04"
_ASKS = ("exec", "--profile", "./ask.toml", "--", "echo", "it ran")


@dataclass
class Terminal:
    """A command at a terminal, and the end of it that a person has."""

    command: "subprocess.Popen[bytes]"
    person: int
    shown: bytes = b""

    def asked(self, times: int) -> None:
        """Returns when the question was asked for the so-many-th time."""
        while self.shown.count(QUESTION) < times:
            self.shown += os.read(self.person, 4096)

    def type(self, text: bytes) -> None:
        os.write(self.person, text)

    def ended(self) -> int:
        """The exit status; everything that was shown is in `shown`."""
        while True:
            try:
                more = os.read(self.person, 4096)
            except OSError:  # EIO: nobody has the terminal open any more
                break
            self.shown += more
        return self.command.wait(60)

    def after_the_question(self) -> bytes:
        return self.shown.rpartition(QUESTION)[2].replace(b"\r\n", b"\n")


@contextmanager
def at_a_terminal(environment: dict[str, str], workspace: Path, *arguments: str) -> Iterator[Terminal]:
    """With `arguments` another command than one that asks."""
    (workspace / "ask.toml").write_text('[approval]\ncommands = "ask"\n')
    person, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "stockade_client", *(arguments or _ASKS)],
        cwd=workspace,
        env={**environment, "NO_COLOR": "1", "TERM": "xterm"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    ) as command:
        os.close(terminal)
        try:
            yield Terminal(command, person)
        finally:
            command.kill()
            os.close(person)


def test_an_answer_that_is_none_is_asked_again(environment: dict[str, str], workspace: Path) -> None:
    with at_a_terminal(environment, workspace) as terminal:
        terminal.asked(1)
        terminal.type(b"perhaps\n")
        terminal.asked(2)
        terminal.type(b"Yes\n")
        assert terminal.ended() == 0
    assert b"Please answer y or n." in terminal.shown
    assert b"it ran" in terminal.after_the_question()


def test_the_third_answer_that_is_none_is_a_no(environment: dict[str, str], workspace: Path) -> None:
    with at_a_terminal(environment, workspace) as terminal:
        for times in (1, 2, 3):
            terminal.asked(times)
            terminal.type(b"perhaps\n")
        assert terminal.ended() == 126
    assert terminal.shown.count(QUESTION) == 3
    assert b"neither yes nor no" in terminal.shown


@pytest.mark.parametrize("typed", [b"n\n", b"No\n", b"\n"])
def test_no_and_nothing_are_a_no(environment: dict[str, str], workspace: Path, typed: bytes) -> None:
    with at_a_terminal(environment, workspace) as terminal:
        terminal.asked(1)
        terminal.type(typed)
        assert terminal.ended() == 126
    assert terminal.shown.count(QUESTION) == 1


def test_the_end_of_input_is_a_no_and_the_error_has_its_own_line(environment: dict[str, str], workspace: Path) -> None:
    with at_a_terminal(environment, workspace) as terminal:
        terminal.asked(1)
        terminal.type(CONTROL_D)
        assert terminal.ended() == 126
    assert b"\nstockade: APPROVAL_REJECTED" in terminal.after_the_question()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_the_question_ends_its_line(
    environment: dict[str, str], workspace: Path, number: signal.Signals
) -> None:
    with at_a_terminal(environment, workspace) as terminal:
        terminal.asked(1)
        terminal.command.send_signal(number)
        assert terminal.ended() == 128 + number
    assert terminal.after_the_question().startswith(b"\n")
    assert b"it ran" not in terminal.after_the_question()
