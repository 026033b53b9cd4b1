"""`stockade policy explain`: what a profile says about a command, and why."""

import json
from dataclasses import asdict

import click

from stockade_client.commands import options
from stockade_client.commands.running import FAILED, OK, a_daemon, run
from stockade_client.visible import visible


@click.group()
def command() -> None:
    """Look at what policy would say."""


@command.command(context_settings={"allow_interspersed_args": False})
@options.profile()
@options.workspace()
@options.as_json()
@options.private()
@click.argument(
    "words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND | -- ARGV…", callback=options.each_named
)
def explain(profile: str, workspace: str, as_json: bool, words: tuple[str, ...]) -> None:
    """Say whether a command of `shell` is allowed, asked about or denied, and which rule allows each part of it.

    One word is a text for bash; several are an argument vector. Nothing is run, and hooks and plugins are not asked.

    Exit status: 0 it is allowed, 1 it is asked about or denied.
    """

    async def body() -> int:
        async with a_daemon() as daemon:
            judged = await daemon.profiles.judge(profile, workspace, words[0] if len(words) == 1 else words)
        if as_json:
            print(json.dumps(asdict(judged), ensure_ascii=False))
        else:
            print(visible(f"{judged.decision}: {judged.reason}" if judged.reason else judged.decision))
            for each in judged.commands:
                said = f'rule "{each.rule}"' if each.rule else each.reason
                program = f", {each.program}" if each.program else ""
                print(visible(f"  {each.text}: {said}{program}"))
        return OK if judged.decision == "allow" else FAILED

    run(body)
