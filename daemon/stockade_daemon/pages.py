"""The pages of docs/catalog, made from what the daemon is made of: tools, profiles, error codes, events.

    python -m stockade_daemon.pages [--check] DIRECTORY

With --check nothing is written: status 1 and the names of the pages that are not what they would be made now.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from stockade_daemon import meanings
from stockade_daemon.errors import CODES, OF_TOOLS
from stockade_daemon.ledger.versions import version_of
from stockade_daemon.profiles import read as profiles
from stockade_daemon.registry import Registry, thaw
from stockade_daemon.values import Manifest, Profile

_MADE: Final = "<!-- Made from the code by `make catalog`; edit the code. -->\n"


def pages() -> dict[str, str]:
    """The text of each page, by file name."""
    return {
        "tools.md": _tools(Registry.load().catalog()),
        "profiles.md": _profiles(),
        "errors.md": _errors(),
        "events.md": _events(),
    }


def _tools(tools: Iterable[Manifest]) -> str:
    blocks = [
        _MADE,
        "# Built-in tools\n",
        "What `stockade catalog` lists for a daemon without tools of its own; `--format openai`, `anthropic` and `mcp` "
        "give\nthe list as a model's interface takes it. [Tools of your own](../tools.md) are listed beside them.\n",
    ]
    for each in tools:
        schema = thaw(each.input_schema)
        assert isinstance(schema, Mapping)
        facts = {
            "access": each.access.value,
            "kind": each.kind.value,
            "time": f"{each.timeout_s:g} s",
            "parallel": _word(each.parallel_safe),
            "idempotent": _word(each.idempotent),
            "text for the model": f"{each.output_bytes} bytes",
        }
        blocks += [
            f"## {each.name}\n",
            f"{each.description}\n",
            _table(["Fact", "Value"], facts.items()),
            _table(["Argument", "Schema", "Meaning"], _members(schema, " Must be given.")),
        ]
        if each.output_schema is not None:
            value = thaw(each.output_schema)
            assert isinstance(value, Mapping)
            blocks.append(_table(["Member of the value", "Schema", "Meaning"], _members(value, " Always there.")))
    return "\n".join(blocks)


def _members(schema: Mapping[str, object], required_words: str) -> Iterable[tuple[str, str, str]]:
    properties, required = schema["properties"], schema.get("required", [])
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    for name, each in properties.items():
        rest = {key: value for key, value in each.items() if key != "description"}
        must = required_words if name in required else ""
        yield f"`{name}`", f"`{json.dumps(rest, ensure_ascii=False)}`", f"{each['description']}{must}"


def _profiles() -> str:
    directory = profiles.shipped()
    found = [profiles.load(name, directories=[directory]) for name in profiles.available([directory])]
    return "\n".join(
        [
            _MADE,
            "# Shipped profiles\n",
            "Each is a commented file in [sandbox_profiles](../../sandbox_profiles); "
            "[profiles](../profiles.md) has every key.\n",
            _table(["Profile", "What it is for"], ((f"`{each.name}`", each.description) for each in found)),
            _table(["Setting", *(each.name for each in found)], _settings(found)),
        ]
    )


def _limit(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _settings(found: list[Profile]) -> Iterable[tuple[str, ...]]:
    yield (
        "approval: reads, writes, commands",
        *(", ".join((each.approval.reads, each.approval.writes, each.approval.commands)) for each in found),
    )
    yield "effects of commands", *(each.approval.effects for each in found)
    yield "workspace of commands", *(each.workspace for each in found)
    yield "network", *(each.network for each in found)
    for name in found[0].limits.__dataclass_fields__:
        yield f"limits: {name}", *(_limit(getattr(each.limits, name)) for each in found)
    for name in found[0].budget.__dataclass_fields__:
        yield f"budget of a session: {name}", *(f"{getattr(each.budget, name)}" for each in found)
    yield "system calls", *(" ".join(each.syscalls) for each in found)


def _errors() -> str:
    rows = (
        (f"`{code}`", domain, retry, _word(code in OF_TOOLS), meanings.OF_CODES[code])
        for code, (domain, retry) in CODES.items()
    )
    return "\n".join(
        [
            _MADE,
            "# Error codes\n",
            "`domain` says whose matter it is: `infrastructure` for a worker that was ended from outside, whatever\n"
            "the code. `retry` says whether doing the same again is *safe* (it cannot do harm),\n"
            "*unsafe* (it might apply something twice) or useless (*never*: it will fail the same way). Where a model\n"
            "can recover, the message ends with the remedy. Codes are stable.\n",
            "`Of tools` are those that a tool of yours may give by `ToolError`. Another one that it gives becomes\n"
            "`INVALID_TOOL_OUTPUT`, with the tool's message, unless it is what the daemon has just answered to it.\n",
            _table(["Code", "Domain", "Retry", "Of tools", "Meaning"], rows),
        ]
    )


def _events() -> str:
    return "\n".join(
        [
            _MADE,
            "# Events\n",
            "Per session numbered 1, 2, 3 … without gaps. Bodies are JSON objects. The version says which shape a body "
            "has;\nwhat an older daemon recorded as an earlier one is read as this.\n",
            _table(
                ["Event", "Version", "Recorded when"],
                ((f"`{type}`", str(version_of(type)), meaning) for type, meaning in meanings.OF_EVENTS.items()),
            ),
        ]
    )


def _table(head: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    names = list(head)
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _word(value: bool) -> str:
    return "yes" if value else "no"


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    (directory,) = (Path(each) for each in arguments if each != "--check")
    made = pages()
    if not check:
        directory.mkdir(exist_ok=True)
        for name, text in made.items():
            (directory / name).write_text(text, encoding="utf-8")
        return 0
    there = {each.name: each.read_text(encoding="utf-8") for each in directory.glob("*.md")}
    stale = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    for name in stale:
        print(f"{directory / name}: is not what the code says; run 'make catalog' and commit it", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
