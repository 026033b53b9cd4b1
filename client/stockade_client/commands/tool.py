"""`stockade tool check`: whether a tool file can be used, and what it declares."""

import json
import os
from dataclasses import asdict

import click

from stockade_client.commands import options
from stockade_client.commands.running import FAILED, OK, a_daemon, run
from stockade_client.regular_file import read
from stockade_client.streams import complain
from stockade_client.visible import visible

FILE_BYTES = 1024 * 1024  # what the daemon takes


@click.group()
def command() -> None:
    """Tools of your own; docs/tools.md tells how to write them."""


@command.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, callback=options.each_named)
@options.as_json()
@options.private()
def check(files: tuple[str, ...], as_json: bool) -> None:
    """Judge tool files (.py, .toml) as a daemon judges those in its directories: name, owner, mode and text.

    A Python file is imported in a sandbox that is made for this alone. Faults are told as FILE:LINE: what is wrong;
    what to do. Exit status: 0 all can be used, 1 one or more cannot.
    """

    async def body() -> int:
        faulty = False
        async with a_daemon() as daemon:
            for path in files:
                text = read(path, what="tool file", most=FILE_BYTES)
                name = os.path.basename(path)
                found = await daemon.check_tool(name, text, _places(path))
                fault = f"{path}{found.fault.removeprefix(name)}" if found.fault else ""
                faulty = faulty or bool(fault)
                if as_json:
                    tools = [asdict(each) for each in found.tools]
                    print(json.dumps({"file": path, "fault": fault, "tools": tools}, ensure_ascii=False))
                elif fault:
                    complain(visible(fault))
                for tool in () if as_json else found.tools:
                    print(visible(f"{path}: {tool.name} ({tool.kind}, access {tool.access}, {tool.timeout_s:g} s)"))
        return FAILED if faulty else OK

    run(body)


def _places(path: str) -> list[str]:
    """The file and its directory, which must be nobody else's; of a link also what it leads to."""
    real = os.path.realpath(path)
    followed = [real, os.path.dirname(real)] if os.path.islink(path) else [path]
    return [*followed, os.path.dirname(path) or "."]
