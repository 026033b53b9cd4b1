"""The numbered rules of docs/semantics.md: none is missing, and each names tests that exist.

The numbers are those of the edge cases that were written down before any of this was built, and they stay: rule N is
the answer to case N. 1-12 are of arguments and schemas, 13-22 of turns, 23-37 of judging and asking, 38-50 of bodies,
wrappers and cancellation, 51-57 of what becomes of an outcome, 58 of a crash, 63-79 of files, 80 of the list of todos.
Where the answer is another one than the case supposed, the rule says what holds here instead; no case is without a
rule, and a new rule gets a new number.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNT = 80
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \|$", re.M)
CLIENTS = {"daemon", "session", "asking", "served", "stockaded", "connected"}  # fixtures: a client, or a daemon for one
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rules() -> dict[int, tuple[str, str]]:
    """Rule and tests, by number."""
    _, beneath = (ROOT / "docs" / "semantics.md").read_text().split("\n## Rules\n", 1)
    section = beneath.split("\n## ", 1)[0]
    rows = ROW.findall(section)
    assert len({number for number, _, _ in rows}) == len(rows), "a number stands twice"
    return {int(number): (rule, tests) for number, rule, tests in rows}


def names_in(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_no_rule_is_missing() -> None:
    assert sorted(set(range(1, COUNT + 1)) - set(rules())) == [], "write the rule and its test down"
    assert set(rules()) <= set(range(1, COUNT + 1))


def test_each_rule_names_tests_that_exist() -> None:
    for number, (rule, tests) in rules().items():
        named = NAMED.findall(tests)
        assert named, f"rule {number} names no test: {rule}"
        for place, name in named:
            path = ROOT / place
            assert path.is_file(), f"rule {number}: {place}"
            assert name in names_in(path), f"rule {number}: {place} has no {name}"


def test_each_rule_of_asking_has_a_test_through_the_wire() -> None:
    """One that is given a client of a real daemon, or starts one: what asks and answers is another process's."""
    for number in range(23, 38):
        named = NAMED.findall(rules()[number][1])
        assert any(CLIENTS & given(ROOT / place, name) for place, name in named), f"rule {number}: {named}"


def given(path: Path, name: str) -> set[str]:
    """The fixtures of a test."""
    return {
        each.arg
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.AsyncFunctionDef) and node.name == name
        for each in node.args.args
    }


def test_each_rule_is_a_sentence() -> None:
    assert [number for number, (rule, _) in rules().items() if not rule.endswith(".")] == []
