"""`stockade catalog` in every form, and `stockade tool check`."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stockade_client import Daemon, InvalidRequest
from stockade_daemon import meanings
from stockade_daemon.errors import OF_TOOLS

Stockade = Callable[..., "subprocess.CompletedProcess[bytes]"]
TOOL = '''
from stockade_toolkit import tool

@tool
def greet(name: str) -> str:
    """Greets.

    name: Whom.
    """
    return f"Hello, {name}"
'''
PROGRAM = 'description = "Says the date."\n[program]\nargv = ["date"]\n'


def form(stockade: Stockade, name: str) -> object:
    done = stockade("catalog", "--format", name)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_catalog_is_exported_as_models_take_it(stockade: Stockade) -> None:
    tools = [json.loads(line) for line in stockade("catalog", "--json").stdout.splitlines()]
    shape = [(each["name"], each["description"], each["input_schema"]) for each in tools]
    assert len(shape) > 2
    openai, anthropic, mcp = (form(stockade, name) for name in ("openai", "anthropic", "mcp"))
    assert openai == [
        {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
        for name, description, schema in shape
    ]
    assert anthropic == [
        {"name": name, "description": description, "input_schema": schema} for name, description, schema in shape
    ]
    assert mcp == {
        "tools": [
            {
                "name": name,
                "description": description,
                "inputSchema": schema,
                "annotations": {
                    "readOnlyHint": tool["kind"] == "read",
                    "idempotentHint": tool["idempotent"],
                },
            }
            for (name, description, schema), tool in zip(shape, tools, strict=True)
        ]
    }


@pytest.mark.parametrize("form", ["text", "json", "mcp"])
def test_two_forms_of_the_catalog_at_once_are_a_usage_error(stockade: Stockade, form: str) -> None:
    done = stockade("catalog", "--json", "--format", form)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--json or --format, not both" in done.stderr


def test_the_whole_catalog_has_profiles_codes_and_events(stockade: Stockade) -> None:
    whole = form(stockade, "json")
    assert isinstance(whole, dict)
    assert set(whole) == {"generation", "tools", "refused", "profiles", "errors", "events"}
    assert (whole["generation"], whole["refused"]) == (1, [])
    assert {each["code"]: each["meaning"] for each in whole["errors"]} == meanings.OF_CODES
    assert {each["code"] for each in whole["errors"] if each["of_tools"]} == OF_TOOLS
    assert {each["type"]: each["meaning"] for each in whole["events"]} == meanings.OF_EVENTS
    assert {"strict", "dev"} <= {each["name"] for each in whole["profiles"]}
    assert all(each["description"] and not each["fault"] for each in whole["profiles"])


def test_tool_check_tells_what_a_file_declares(stockade: Stockade, workspace: Path) -> None:
    (workspace / "greet.py").write_text(TOOL)
    (workspace / "today.toml").write_text(PROGRAM)
    done = stockade("tool", "check", "greet.py", f"{workspace}/today.toml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines() == [
        "greet.py: greet (read, access none, 30 s)",
        f"{workspace}/today.toml: today (command, access none, 30 s)",
    ]
    (line,) = stockade("tool", "check", "--json", "greet.py").stdout.splitlines()
    found = json.loads(line)
    assert (found["file"], found["fault"]) == ("greet.py", "")
    assert found["tools"][0]["input_schema"]["required"] == ["name"]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("greet.py", TOOL + "def (:\n", "d/greet.py:11: SyntaxError: invalid syntax"),
        ("greet.py", TOOL + "import os; os._exit(3)\n", "d/greet.py:1: importing it ended its process with status 3"),
        ("greet.py", TOOL + "1 / 0\n", "d/greet.py:11: ZeroDivisionError: division by zero"),
        ("greet.py", TOOL.replace("name: str", "name"), "d/greet.py:4: the argument 'name' of greet has no type"),
        (
            "greet.py",
            TOOL.replace("name: str", "name: dict"),
            "d/greet.py:4: the argument 'name' of greet has the type",
        ),
        ("greet.py", TOOL.replace("    name: Whom.\n", ""), "d/greet.py:4: the argument 'name' of greet has no desc"),
        ("greet.py", TOOL.replace("name: str", "*name: str"), "d/greet.py:4: greet takes *name"),
        ("greet.py", TOOL.replace("name: str", "name: str = None"), "annotate it with `| None`"),
        (
            "greet.py",
            TOOL.replace("name: str", "name: str = 5"),
            "'name' does not fit its type: $.name must be text, not 5; change one",
        ),
        ("greet.py", TOOL.replace("name: str", "name: str | None"), "add `= None`"),
        ("greet.py", TOOL.replace("name: str", "name: str | int"), "is one of several types"),
        ("greet.py", TOOL.replace("def greet", "async def greet"), "d/greet.py:4: 'greet' is no plain function"),
        ("greet.py", TOOL.replace('"""Greets.', '"""'), "has no docstring"),
        ("greet.py", TOOL.replace("@tool", '@tool(access="all")'), "access must be one of none, read, overlay"),
        ("greet.py", TOOL.replace("@tool", '@tool(title="{who}")'), "{who} is no argument; use {name} of name"),
        (
            "greet.py",
            TOOL.replace("@tool", '@tool(title="{who}")').replace("name: str", ""),
            "there is none, so take it",
        ),
        ("greet.py", TOOL.replace("@tool", "@tool(timeout_s=0)"), "timeout_s must be a number above 0"),
        ("greet.py", TOOL.replace("@tool", "@tool(timeout=1)"), "d/greet.py:4: TypeError"),
        ("other.py", TOOL, "d/other.py:4: the tools of this file are named other"),
        ("today.toml", PROGRAM.replace("argv", "args"), "d/today.toml:3"),
    ],
)
def test_tool_check_names_file_and_line(stockade: Stockade, workspace: Path, name: str, text: str, told: str) -> None:
    (workspace / "d").mkdir()
    (workspace / "d" / name).write_text(text)
    done = stockade("tool", "check", f"d/{name}")
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.decode().startswith("stockade: d/")
    assert told in done.stderr.decode()
    (answer,) = stockade("tool", "check", "--json", f"d/{name}").stdout.splitlines()
    assert json.loads(answer)["fault"] == done.stderr.decode().removeprefix("stockade: ").rstrip("\n")


def test_tool_check_refuses_what_is_no_tool_file(stockade: Stockade, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe.py")
    (workspace / "long.py").write_bytes(b"#" * (1024 * 1024 + 1))
    for name, words in (
        ("pipe.py", "not a regular file"),
        ("long.py", "1024 KiB"),
        ("absent.py", "No such file"),
    ):
        done = stockade("tool", "check", name)
        assert done.returncode == 2, name
        assert words in done.stderr.decode()


def test_tool_check_tells_a_wrong_name_among_the_other_findings(stockade: Stockade, workspace: Path) -> None:
    names = ["9-Greet me.py", "greet.py", "greet.TOML", "notes.md", "__.py", f"{'x' * 70}.py"]
    for name in names:
        (workspace / name).write_text(TOOL)
    done = stockade("tool", "check", *names)
    assert done.returncode == 1
    assert done.stdout.decode().splitlines() == ["greet.py: greet (read, access none, 30 s)"]
    told = done.stderr.decode().splitlines()
    assert [line.split(": ")[1] for line in told] == [f"{name}:1" for name in names if name != "greet.py"]
    for line, words in zip(
        told, ("to greet_me.py", "to greet.toml", "ends in .py or .toml", "rename it", f"to {'x' * 64}.py"), strict=True
    ):
        assert line.endswith(words) or (words == "ends in .py or .toml" and words in line)


@pytest.mark.parametrize(
    ("which", "mode", "whom"),
    [
        ("file", 0o664, "its group (mode 0664)"),
        ("file", 0o646, "others (mode 0646)"),
        ("directory", 0o777, "its group and others (mode 0777)"),
    ],
)
def test_tool_check_judges_who_could_write_the_file(
    stockade: Stockade, workspace: Path, which: str, mode: int, whom: str
) -> None:
    place = workspace / "tools"
    place.mkdir()
    (place / "greet.py").write_text(TOOL)
    (place / "greet.py" if which == "file" else place).chmod(mode)
    path = "tools/greet.py" if which == "file" else "tools"
    done = stockade("tool", "check", "tools/greet.py")
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"stockade: tools/greet.py:1: {path} is writable for {whom}, who could put anything there: chmod go-w {path}\n"
    )
    link = workspace / "greet.py"
    link.symlink_to(place / "greet.py")
    assert f"chmod go-w {workspace}/{path}" in stockade("tool", "check", "greet.py").stderr.decode()


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another user needs root")
def test_tool_check_refuses_a_file_of_another_user(stockade: Stockade, workspace: Path) -> None:
    (workspace / "greet.py").write_text(TOOL)
    os.chown(workspace / "greet.py", 12345, 12345)
    done = stockade("tool", "check", "greet.py")
    assert done.returncode == 1
    assert "greet.py belongs to uid 12345" in done.stderr.decode()


async def test_checking_a_file_changes_nothing(daemon: Daemon) -> None:
    found = await daemon.check_tool("greet.py", TOOL.encode())
    assert [each.name for each in found.tools] == ["greet"]
    assert "greet" not in [each.name for each in await daemon.tools()]
    with pytest.raises(InvalidRequest):
        await daemon.check_tool("../greet.py", TOOL.encode())
