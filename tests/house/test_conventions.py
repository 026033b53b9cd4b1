"""Habits of the house that a reader should be able to rely on, in code and in tests."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests import conftest

ROOT = Path(__file__).parents[2]
SOURCES = {path: path.read_text() for tree in ("daemon", "client", "tests") for path in (ROOT / tree).rglob("*.py")}
TREES = {path.relative_to(ROOT): ast.parse(text) for path, text in sorted(SOURCES.items())}
TESTS = {path: tree for path, tree in TREES.items() if path.parts[0] == "tests"}
MOST_LINES = 400


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def sleeps(tree: ast.Module) -> Iterator[int]:
    """Lines that call some `sleep`; `sleep(0)` waits for nothing, it lets other tasks run."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "sleep" and [ast.unparse(argument) for argument in node.args] != ["0"]:
            yield node.lineno


def test_every_file_says_what_it_is() -> None:
    assert [str(path) for path, tree in TREES.items() if tree.body and not ast.get_docstring(tree)] == []


def test_a_file_is_one_idea_and_so_not_long() -> None:
    long = {
        str(path.relative_to(ROOT)): count for path, text in SOURCES.items() if (count := text.count("\n")) > MOST_LINES
    }
    assert not long, f"more than {MOST_LINES} lines: find the second idea in each and give it a file of its own"


def test_no_room_is_named_after_nothing() -> None:
    empty = {"utils", "util", "helper", "helpers", "manager", "managers", "misc", "common"}
    assert [str(path) for path in TREES if empty & set(re.split(r"[_/.]", str(path)))] == []


def test_nothing_is_closed_by_the_garbage_collector() -> None:
    found = [str(path) for path, tree in TREES.items() for each in functions(tree) if each.name == "__del__"]
    assert found == []


def test_tests_wait_for_events_and_never_sleep() -> None:
    assert [f"{path}:{line}" for path, tree in TESTS.items() for line in sleeps(tree)] == []


def test_names_of_tests_state_facts() -> None:
    names = [
        f"{path}: {each.name}"
        for path, tree in TESTS.items()
        for each in functions(tree)
        if path.name.startswith("test_") and each.name.startswith("test_") and each.name.count("_") < 3
    ]
    assert not names, "write out what is true"


def test_no_two_files_of_tests_have_one_name() -> None:
    """pytest imports them by their names alone."""
    names = [path.name for path in TESTS if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))


def test_nothing_is_put_off_in_the_code() -> None:
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    assert [str(path.relative_to(ROOT)) for path, text in SOURCES.items() if marks.search(text)] == []


def test_files_that_begin_first_for_their_length_are_there() -> None:
    assert [name for name in conftest.LONG if not (ROOT / "tests" / name).is_file()] == []
