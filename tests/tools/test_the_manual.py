"""docs/tools.md, followed by its reader: files saved and commands typed as they stand, answers as they are printed."""

import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

from stockade_client import connect
from stockade_daemon.pipeline import describe
from stockade_daemon.registry import programs
from stockade_toolkit import describing, tool
from tests.house.test_docs import default_of, rows
from tests.tools.shop import Shop, yes

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
# Language, text, and the file that the words before it give a program.
BLOCKS = [
    (language, text, (re.findall(r"ave this as\s`([^`]+)`", before) or [""])[-1])
    for before, language, text in re.findall(r"(.*?)^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
]
COMMAND_S = 120


def typed(script: str, place: Path) -> str:
    """What it prints, errors among it, typed in `place` with the commands of this environment on the PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    address = f'export STOCKADE_ADDRESS="unix:{place}/run/daemon.sock"\n'
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", address + script],
        cwd=place,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=COMMAND_S,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}"
    return done.stdout


async def test_the_manual_leads_from_nothing_to_working_tools(place: Path) -> None:
    texts = [text for language, text, _ in BLOCKS if language == "sh"]
    assert typed(texts[0], place) == ""
    arguments = [sys.executable, "-m", "stockade_daemon", *texts[1].replace("$PWD", str(place)).split()[1:]]
    process = await asyncio.create_subprocess_exec(
        *(each.strip('"') for each in arguments), stdout=asyncio.subprocess.PIPE, cwd=place
    )
    try:
        assert process.stdout is not None
        assert (await process.stdout.readline()).startswith(b"ready ")
        await followed(place)
    finally:
        process.terminate()
        await process.wait()


async def followed(place: Path) -> None:
    """The rest of the page, beside a session that hears when a saved file has become a tool."""
    answer = ""
    address = f"unix:{place}/run/daemon.sock"
    count = 0
    async with (
        connect(address) as daemon,
        daemon.session(workspace=place / "project", profile="strict", approve=yes) as session,
    ):
        shop = Shop(place / "tools", place / "project", session, address)
        for language, text, name in BLOCKS[2:]:
            if language == "text":
                said = re.sub(rf"^  {re.escape(str(place))}/", "  /…/", answer, flags=re.M)
                assert said.rstrip("\n") == text.rstrip("\n")
                count += 1
            elif language == "sh":
                answer = await asyncio.to_thread(typed, text, place)
            elif name.startswith("tools/"):
                shop.write(name.removeprefix("tools/"), text)
                await shop.news("changed", Path(name).stem)
            else:
                (place / name).write_text(text)
    assert count == 5
    assert len([name for language, _, name in BLOCKS if language in ("python", "toml") and name]) == 5


def test_the_first_tool_of_the_manual_has_twenty_lines_at_most() -> None:
    first = next(text for language, text, _ in BLOCKS if language == "python")
    assert len(first.splitlines()) <= 20


def section(heading: str, head: str) -> list[list[str]]:
    """The rows of a table of the page, found by its head."""
    _, beneath = PAGE.split(f"| {head} |", 1)
    lines = beneath.split("\n\n", 1)[0].splitlines()[2:]
    assert heading in PAGE
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_limits_of_an_import_are_those_that_the_manual_gives() -> None:
    limits = describe.LIMITS
    words = f"{limits.memory_mb} MiB, {limits.cpu_s} s of processor time, {describe.IMPORT_S:g} s in all"
    assert words in " ".join(PAGE.split())


def test_the_table_of_types_is_what_types_become() -> None:
    for row in section("Python tools", "Type | Schema"):
        hint, schema = (cell.strip("`") for cell in row)
        found = eval(hint, {"Annotated": Annotated, "Literal": Literal})
        assert describing._schema(found, 0) == json.loads(schema)


def test_the_table_of_the_decorator_has_its_parameters_and_their_defaults() -> None:
    parameters = list(inspect.signature(tool).parameters.values())[1:]
    written = [(row[0].strip("`"), row[1]) for row in section("Python tools", "`@tool(…)` | Default | Meaning")]
    assert written == [(each.name, repr(each.default)) for each in parameters]


def test_the_table_of_toml_keys_is_what_the_daemon_reads() -> None:
    written = rows("tools.md", "Tools without Python")
    assert written == [[key.name, key.allowed, default_of(key), key.meaning] for key in programs.KEYS]
