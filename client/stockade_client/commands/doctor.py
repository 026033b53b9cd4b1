"""`stockade doctor`: what this host can enforce for the daemon, what it cannot and why, and what to do."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

import click

import stockade_client as client
from stockade_client.commands import options
from stockade_client.commands.running import FAILED, INFRASTRUCTURE, OK, a_daemon, run
from stockade_client.values import Examination, Finding, ProfileFinding

_STYLES: Final = {"ok": "green", "degraded": "yellow", "missing": "red"}
# What the daemon says last, on standard error, when it ends before it serves.
_REFUSAL: Final = re.compile(r"^(?:stockaded: |.*\(status \d+\): stockaded: )(.*)$", re.MULTILINE)


@click.command()
@options.as_json()
@options.private()
def command(as_json: bool) -> None:
    """Say what this host can enforce, what it cannot and why, and what to install or set.

    The daemon asks: the one that runs, with its rights, or a private one with yours. A worker is made for each shipped
    profile.

    Exit status: 0 every shipped profile gets all layers that it requires, 1 one does not, 3 no daemon can be asked.
    """

    async def body() -> int:
        try:
            async with a_daemon() as daemon:
                found = await daemon.doctor()
                about = {**asdict(daemon.info), "address": daemon.address}
        except client.DaemonError as error:
            _say(about=None, found=_without_a_daemon(error), as_json=as_json)
            return INFRASTRUCTURE
        _say(about=about, found=found, as_json=as_json)
        return OK if found.able else FAILED

    run(body)


def _without_a_daemon(error: "client.DaemonError") -> Examination:
    """One finding: why there is no daemon, in its own words where it had some."""
    said = str(error)
    refusals = _REFUSAL.findall(said)
    finding = Finding(
        "daemon",
        "missing",
        "\n".join(refusals) or said,
        "No call can run: there is no daemon, and nothing else was asked.",
        "do what the daemon says" if refusals else "",
    )
    return Examination(False, (finding,), ())


def _say(about: dict[str, Any] | None, found: Examination, *, as_json: bool) -> None:
    if as_json:
        daemon = about and {key: about[key] for key in ("address", "version", "uid", "private", "kernel", "machine")}
        print(json.dumps({"daemon": daemon, **asdict(found)}, ensure_ascii=False))
        return
    # Loaded late: it takes 55 ms, which --json need not wait for.
    from rich.table import Table

    from stockade_client.shown_text import text
    from stockade_client.terminal import console

    out = console()
    if about is not None:
        kind = "a private daemon" if about["private"] else f"the daemon at {about['address']}"
        out.print(text(f"Asked: {kind}, version {about['version']}, as uid {about['uid']} on {about['kernel']}\n"))
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, state, lines in _rows(found):
        table.add_row(text(name, "bold"), text(state, _STYLES.get(state, "")), text("\n".join(lines)))
    out.print(table)
    if about is not None:
        out.print(text(f"\n{_verdict(found)}"))


def _rows(found: Examination) -> Iterable[tuple[str, str, list[str]]]:
    for each in found.findings:
        lines = [each.found, each.meaning]
        yield each.name, each.state, [*lines, f"→ {each.remedy}"] if each.remedy else lines
    told: set[str] = set()
    for profile in found.profiles:
        yield f"profile {profile.name}", profile.state, list(_layers(profile, told))


def _layers(profile: ProfileFinding, told: set[str]) -> Iterator[str]:
    """Reasons stand where they come first: what one profile lacks, the others mostly lack as well."""
    if profile.reason:
        yield profile.reason
    if profile.layers:
        yield f"in force: {' '.join(layer.name for layer in profile.layers if layer.held)}"
    for layer in profile.layers:
        if not layer.held:
            reason = f"not {layer.name}: {layer.reason}"
            yield f"not {layer.name}: as above" if reason in told else reason
            told.add(reason)


def _verdict(found: Examination) -> str:
    if found.able:
        return "Every shipped profile gets all layers that it requires."
    unable = [each.name for each in found.profiles if each.state != "ok"]
    return f"Without what they require: {', '.join(unable)}. What is missing above says what to do."
