"""`files` of entries of `stockade run`: what is there, what is not, and what nobody can tell."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from tests.end_to_end.conftest import Stockade

LONG = 70_000  # characters: more than a read shows of a line, and than a value has of an output
NONE = "0" * 64


def told(stockade: Stockade, directory: Path, files: list[tuple[str, Any]]) -> list[str]:
    """What is told about each of these files, each in an entry of its own; "" where it passes."""
    calls = directory / "files.jsonl"
    entries = [
        {"name": str(number), "tool": "shell", "args": {"command": "true"}, "files": {path: pattern}}
        for number, (path, pattern) in enumerate(files)
    ]
    calls.write_text("".join(f"{json.dumps(each)}\n" for each in [{"isolation": "run"}, *entries]))
    done = stockade("run", str(calls), "--profile", "ci", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert "summary" in lines[-1], done.stderr
    by_name = {each["name"]: " ".join(each["reasons"]) for each in lines[:-1]}
    return [by_name[str(number)] for number in range(len(files))]


def test_only_what_a_look_has_found_is_there(stockade: Stockade, directory: Path, workspace: Path) -> None:
    (workspace / "directory").mkdir()
    (workspace / "binary").write_bytes(b"\0\1")
    os.mkfifo(workspace / "fifo")
    (workspace / "out").symlink_to("/etc/passwd")
    files = ["none", "none/below", "a.txt/below", "a.txt", "binary", "fifo", "directory", "directory/"]
    hidden = ["out", "../q", "/etc/passwd", "a.txt/"]
    said = told(stockade, directory, [(path, None) for path in (*files, *hidden)])
    assert said[:8] == [
        "",
        "",
        "",
        "a.txt should not be there and is",
        "binary should not be there and is",
        "fifo should not be there and is",
        "directory should not be there and is a directory",
        "directory/ should not be there and is a directory",
    ]
    for path, each in zip(hidden, said[8:], strict=True):
        code = "FS_NOT_DIRECTORY" if path == "a.txt/" else "FS_OUTSIDE_WORKSPACE"
        assert each.startswith(f"{path} cannot be looked at: {code}: ")


def test_a_digest_is_of_a_file_that_is_there(stockade: Stockade, directory: Path, workspace: Path) -> None:
    (workspace / "directory").mkdir()
    (workspace / "out").symlink_to("/etc/passwd")
    said = told(stockade, directory, [(path, {"$sha256": NONE}) for path in ("none", "out", "directory", "a.txt")])
    digest = hashlib.sha256((workspace / "a.txt").read_bytes()).hexdigest()
    assert said[0] == f"none should have the SHA-256 {NONE} and is not there"
    assert said[1].startswith("out cannot be looked at: FS_OUTSIDE_WORKSPACE: ")
    assert said[2].startswith("directory cannot be looked at: FS_IS_DIRECTORY: ")
    assert said[3] == f"a.txt should have the SHA-256 {NONE} and has {digest}"


def test_a_pattern_of_text_never_holds_of_what_was_not_shown(
    stockade: Stockade, directory: Path, workspace: Path
) -> None:
    (workspace / "long").write_text(f"{'x' * LONG}secret{'x' * LONG}\n")
    (workspace / "many").write_text("".join(f"{'line ' * 20}{number}\n" for number in range(3000)) + "secret\n")
    (workspace / "picture").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    lacks = {"$lacks": "secret"}
    said = told(stockade, directory, [(path, lacks) for path in ("long", "many", "picture", "a.txt")])
    assert said[0] == 'long has lines too long to be shown whole, so nobody can tell: expect {"$sha256": …} of it'
    assert said[1].startswith('many should not contain "secret" and is')
    assert said[2].startswith("picture")
    assert said[3] == ""
