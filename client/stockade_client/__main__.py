"""The command line, `stockade`.

A command's module is imported when the command is run, not before: `stockade --help` needs neither grpc nor rich.
"""

from stockade_client import interruption

interruption.end_at_once()  # what is imported from here on takes long enough to be interrupted

# ruff: noqa: E402
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import click

from stockade_client import streams

# Before anything imports grpc: its own lines on stderr are not the command's, and nothing here forks without exec.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# Name, and the line that `stockade --help` shows; the command is `command` in commands/NAME.py.
_COMMANDS: Final = {
    "exec": "Run a program in a sandbox: its own output and exit status.",
    "call": "Run one tool and print its result.",
    "run": "Play recorded calls in isolated workers, and report what came of them.",
    "record": "Write what a session did as a file of calls that `run` plays.",
    "agent": "Play a recorded conversation of a model.",
    "demo": "Watch an agent fix a fault in a real program.",
    "approve": "Answer what calls ask: see each one, say yes or no.",
    "sessions": "List the daemon's sessions.",
    "ps": "List the calls that are under way, and what they wait for.",
    "output": "Print what a call has printed, from any offset on.",
    "cancel": "Take a call back.",
    "stop": "End a session and its calls.",
    "ledger": "Show what happened in a session or a call.",
    "resolve": "Say what became of a call whose outcome is unknown.",
    "profile": "Look at profiles: list, show, check, explain, probe.",
    "policy": "Say whether a command would be asked about, and why.",
    "doctor": "Say what this host can enforce, what not, and what to do.",
    "catalog": "List the tools and what they take; export them for a model.",
    "tool": "Check a tool file of your own.",
}
_INFRASTRUCTURE: Final = 3  # the exit status, as in commands/running.py, which takes grpc along


class _Commands(click.Group):
    """Commands that are loaded by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(f"stockade_client.commands.{cmd_name}").command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table above: asking each command for its own line would import them all."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _version() -> str:
    try:
        return version("stockade")
    except PackageNotFoundError:
        return "not installed"


@click.command("stockade", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="stockade")
def _stockade() -> None:
    """Run the tools that AI agents call, in sandboxes, behind a gate, with a ledger.

    Commands use the daemon at $STOCKADE_ADDRESS, or without that the one at the default socket; where there is none,
    or with --private, they start a private one for their own lifetime.

    Exit status: 0 ok, 1 the call failed, 2 usage, 3 daemon or infrastructure, 130 interrupted; `exec` has the
    program's own.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line, by default the one this process was started with. Raises SystemExit."""
    streams.open_missing()
    try:
        _stockade.main(args=arguments, prog_name="stockade")
    except OSError as error:
        # Of what a command does before its daemon, or of help: `run` has seen to all else.
        sys.exit(streams.fail(error, _INFRASTRUCTURE))


if __name__ == "__main__":
    main()
