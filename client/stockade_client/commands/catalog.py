"""`stockade catalog`: the tools, as data."""

import json
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

import click

import stockade_client as client
from stockade_client.commands import exports, options
from stockade_client.commands.running import OK, a_daemon, run
from stockade_client.results import Json
from stockade_client.visible import one_line, visible

WIDTH: Final = 110  # longer lines are hard to read however wide the terminal is
LEAST: Final = 30  # of text in a line of a narrow terminal
COLUMN: Final = 29  # where the descriptions of arguments stand
LONGEST_ESCAPE: Final = 10  # characters that `visible` makes of one


@click.command()
@options.as_json()
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", *exports.FORMATS]),
    help="text (the default): for people. json: everything, with profiles, error codes and events. openai, anthropic, "
    "mcp: the tools as those take them.",
)
@options.private()
def command(as_json: bool, form: str | None) -> None:
    """List the tools and what they take; with --json their schemas, as a model is given them."""
    if as_json and form is not None:
        raise click.UsageError(
            "give --json or --format, not both: --json prints each tool on a line of its own, --format json one object "
            "of everything"
        )

    async def body() -> int:
        async with a_daemon() as daemon:
            catalog = await daemon.catalog()
        if as_json:
            for tool in catalog.tools:
                print(json.dumps(asdict(tool), ensure_ascii=False))
        elif form is None or form == "text":
            print("\n".join([*map(_page, catalog.tools), *_notes(catalog)]))
        else:
            found = asdict(catalog) if form == "json" else exports.FORMATS[form](catalog.tools)
            print(json.dumps(found, ensure_ascii=False, indent=2))
        return OK

    run(body)


def _notes(catalog: "client.Catalog") -> Iterator[str]:
    """Lines below the tools: what cannot be used, and the profiles."""
    for refused in catalog.refused:
        kept = f" (its tools of before stay: {', '.join(refused.kept)})" if refused.kept else ""
        yield visible(f"refused: {refused.reason}{kept}")
    for profile in catalog.profiles:
        said = f"cannot be used: {profile.fault}" if profile.fault else profile.description
        yield "\n".join(_wrapped(f"profile {visible(profile.name):<10}", said, indent=" " * 18))


def _page(tool: "client.Tool") -> str:
    """A tool as a person reads about it: whole descriptions, required arguments with a star."""
    schema = tool.input_schema
    lines = [f"{visible(tool.name)}  ({tool.kind}, {tool.timeout_s:g} s)"]
    if tool.origin != "built-in":
        lines.append(visible(f"  {tool.origin}"))
    lines += _wrapped("", tool.description, indent="  ")
    properties, required = schema.get("properties"), _names(schema.get("required"))
    if isinstance(properties, dict):
        for name, each in properties.items():
            star = "*" if name in required else " "
            kind, description = _property(each)
            lines += _wrapped(f"   {star}{visible(name):<14} {kind:<8}", description, indent=" " * (COLUMN - 1))
    lines += [f"  {words}: {', '.join(names)}" for words, names in _choices(schema)]
    if required:
        lines.append("  * must be given")
    return "\n".join(lines) + "\n"


def _wrapped(head: str, text: str, *, indent: str) -> list[str]:
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns)
    return textwrap.wrap(
        one_line(text, len(text) * LONGEST_ESCAPE),
        max(width, COLUMN + LEAST),
        initial_indent=f"{head} " if head else indent,
        subsequent_indent=indent,
    ) or [head.rstrip()]


def _property(schema: Json) -> tuple[str, str]:
    if not isinstance(schema, dict):
        return "", ""
    kind, description = schema.get("type", ""), schema.get("description", "")
    return kind if isinstance(kind, str) else json.dumps(kind), str(description)


def _choices(schema: dict[str, Json]) -> Iterator[tuple[str, list[str]]]:
    """Arguments of which the schema wants one, or some, and what it says about their number."""
    for key, words in (("oneOf", "exactly one of"), ("anyOf", "at least one of")):
        alternatives = schema.get(key)
        if not isinstance(alternatives, list):
            continue
        names = [_names(each.get("required")) if isinstance(each, dict) else [] for each in alternatives]
        if all(names):
            yield words, [visible(" with ".join(together)) for together in names]


def _names(value: Json) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []
