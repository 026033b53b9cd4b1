"""`stockade profile`: what profiles say, what is wrong with one, what one really refuses."""

import json
import sys
from dataclasses import asdict
from typing import Any, Final

import click

from stockade_client.commands import options
from stockade_client.commands.running import FAILED, OK, a_daemon, run
from stockade_client.visible import visible

_WORDS: Final = {"held": "HELD", "open": "OPEN", "absent": "absent", "untried": "not tried"}
_UNTRIED: Final = 4  # nothing is open, but not everything was shown
_PROFILE: Final = click.argument("profile", metavar="NAME|FILE", callback=options.named)


@click.group()
def command() -> None:
    """Look at profiles: which there are, what they say, what is wrong, what holds.

    NAME is a profile that the daemon knows; FILE has "/" in it or ends in .toml.
    """


@command.command("list")
@options.as_json()
@options.private()
def list_(as_json: bool) -> None:
    """List all profiles; those that cannot be used with the reason."""

    async def body() -> int:
        async with a_daemon() as daemon:
            for each in await daemon.profiles.list():
                base = f" (extends {each.extends})" if each.extends else ""
                stays = " (the last good version stays in force)" if each.digest else ""
                said = f"cannot be used: {each.fault}{stays}" if each.fault else each.description + base
                _print(each, as_json, f"{visible(each.name):<16} {visible(said)}")
        return OK

    run(body)


@command.command()
@_PROFILE
@options.as_json()
@options.private()
def show(profile: str, as_json: bool) -> None:
    """Print a profile's text, and the texts of those that it extends."""

    async def body() -> int:
        async with a_daemon() as daemon:
            shown = await daemon.profiles.show(profile)
        several = len(shown.files) > 1
        for each in shown.files:
            head = f"# {visible(each.source)}\n" if several else ""
            _print(each, as_json, head + visible(each.toml).rstrip("\n") + "\n" * several)
        _say_what_stays(shown.fault)
        return OK

    run(body)


@command.command()
@_PROFILE
@options.as_json()
@options.private()
def explain(profile: str, as_json: bool) -> None:
    """Print every setting in force and FILE:LINE that set it, or "default"."""

    async def body() -> int:
        async with a_daemon() as daemon:
            explained = await daemon.profiles.explain(profile)
        width = max((len(each.key) for each in explained.settings), default=0)
        for each in explained.settings:
            place = f"{each.source}:{each.line}" if each.source else "default"
            _print(each, as_json, f"{visible(each.key):<{width}} = {visible(each.toml)}  # {visible(place)}")
        _say_what_stays(explained.fault)
        return OK

    run(body)


@command.command()
@_PROFILE
@options.as_json()
@options.private()
def check(profile: str, as_json: bool) -> None:
    """Print every mistake of a profile, as its file is now, as FILE:LINE:COLUMN: reason.

    Exit status: 0 it can be used, 1 it has mistakes, 2 there is no such profile.
    """

    async def body() -> int:
        async with a_daemon() as daemon:
            mistakes = await daemon.profiles.check(profile)
        for each in mistakes:
            _print(each, as_json, visible(str(each)))
        return FAILED if mistakes else OK

    run(body)


@command.command()
@_PROFILE
@options.as_json()
@options.private()
def probe(profile: str, as_json: bool) -> None:
    """Try what a profile forbids, in workers of its own, and print what held.

    HELD: it was refused; "by" names who refused it, where another layer than the named answers first. OPEN: it was not,
    although the profile forbids it. absent: this host does not give the layer, and the profile does not require it. not
    tried: it could not be tried, for the reason that is given.

    Exit status: 0 everything held, 1 something is open, 2 no such profile or a faulty one, 3 no worker can be made, 4
    nothing is open but something could not be tried.
    """

    async def body() -> int:
        async with a_daemon() as daemon:
            probed = await daemon.profiles.probe(profile)
        for each in probed.attempts:
            line = f"{_WORDS.get(each.verdict, each.verdict):<9} {each.layer:<13} {each.what}"
            said = ", ".join(([f"by {each.by}"] if each.by else []) + ([each.detail] if each.detail else []))
            _print(each, as_json, visible(f"{line}: {said}" if said else line))
        if probed.open:
            return FAILED
        return OK if probed.ok else _UNTRIED

    run(body)


def _say_what_stays(fault: str) -> None:
    if fault:
        print(f"{visible(fault)}\nthis is the last good version, which stays in force", file=sys.stderr)


def _print(value: Any, as_json: bool, line: str) -> None:
    print(json.dumps(asdict(value), ensure_ascii=False) if as_json else line)
