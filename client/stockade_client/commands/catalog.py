"""`stockade catalog`: the tools, as data."""

import json
from dataclasses import asdict

import click

import stockade_client as client
from stockade_client.commands import options
from stockade_client.commands.running import OK, a_daemon, run
from stockade_client.results import Json
from stockade_client.visible import one_line, visible


@click.command()
@options.as_json()
def command(as_json: bool) -> None:
    """List the tools and what they take; with --json their schemas, as a model is given them."""

    async def body() -> int:
        async with a_daemon() as daemon:
            for tool in await daemon.tools():
                print(json.dumps(asdict(tool), ensure_ascii=False) if as_json else _page(tool))
        return OK

    run(body)


def _page(tool: "client.Tool") -> str:
    lines = [f"{visible(tool.name)}  ({tool.kind}, {tool.timeout_s:g} s)", f"  {one_line(tool.description, 400)}"]
    properties = tool.input_schema.get("properties")
    required = tool.input_schema.get("required")
    if isinstance(properties, dict):
        for name, schema in properties.items():
            needed = "*" if isinstance(required, list) and name in required else " "
            lines.append(f"   {needed}{visible(name):<14} {_property(schema)}")
    return "\n".join(lines) + "\n"


def _property(schema: Json) -> str:
    if not isinstance(schema, dict):
        return ""
    kind, description = schema.get("type", ""), schema.get("description", "")
    return f"{kind if isinstance(kind, str) else json.dumps(kind):<9} {one_line(str(description), 200)}"
