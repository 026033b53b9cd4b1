"""Files of calls are read strictly, patterns say where something differs, and reports are what others can read."""

import json
from pathlib import Path
from xml.etree import ElementTree

import junitparser
import pytest

from stockade_client.errors import InvalidRequest
from stockade_client.results import CallResult, Failure, Json, Layer, Usage
from stockade_client.runs import junit, patterns, reading
from stockade_client.runs.entries import Entry, Fault
from stockade_client.runs.located import Misread, parse
from stockade_client.runs.outcomes import Outcome
from stockade_client.runs.scheduling import units
from stockade_client.runs.searching import Searcher
from stockade_client.runs.telling import last_words, line_of

FAULTS = [
    ('{"tool": "read"', 16, "a comma or }"),
    ('{"tool": "read",}', 17, "a key in double quotes"),
    ('{"tool": "read"} {}', 18, "something follows"),
    ('{"tool": "read", "tool": "glob"}', 18, "'tool' stands twice"),
    ('{"tool": "read", "args": {"limit": NaN}}', 36, "NaN is not JSON"),
    ('{"tool": "re\tad"}', 13, "this is not JSON"),
    ('{"tool": "read", "expct": {}}', 18, "'expct' is no key here; did you mean 'expect'?"),
    ('{"tool": "read", "expect": {"exitcode": 1}}', 29, "did you mean 'exit_code'?"),
    ('{"tool": "read", "expect": {"stdout": {"$contians": "x"}}}', 40, "did you mean '$contains'?"),
    ('{"tool": "read", "expect": {"stdout": {"$regex": "("}}}', 40, "no regular expression"),
    ('{"tool": "read", "expect": {"stdout": {"$regex": "a{99999999999}"}}}', 40, "no regular expression"),
    ('{"tool": "read", "expect": {"stdout": {"$any": 1}}}', 40, "$any takes true"),
    ('{"tool": "read", "expect": {"ok": true, "error": "X"}}', 41, "a call that is ok has no error"),
    ('{"tool": "read", "expect": {"exit_code": "none"}}', 29, "an integer"),
    ('{"args": {}}', 1, 'either "tool" or "calls"'),
    ('{"tool": "a", "calls": []}', 1, 'either "tool" or "calls"'),
    ('{"calls": []}', 2, "at least one"),
    ('{"calls": [{"tool": "a"}], "args": {}}', 28, "belongs into a call"),
    ('{"calls": [{"tool": "a"}, {"args": {}}]}', 27, 'a call has a "tool"'),
    ('{"tool": ""}', 2, "not empty"),
    ('{"tool": "a", "args": {}, "raw": "{}"}', 27, '"raw"'),
    ('{"tool": "a", "answer": {"says": "x"}}', 15, '"answer" is true, false'),
    ('{"tool": "a", "files": {"b": 1}}', 25, "a file is expected"),
    ('{"tool": "a", "files": {"b": {"$sha256": "12"}}}', 31, "64 digits"),
    ('{"tool": "a", "expect": {"stdout": {"$contains": []}}}', 37, "at least one"),
    ('{"tool": "a", "files": {"b": {"$lacks": []}}}', 31, "at least one"),
    ('{"tool": "a", "timeout_s": 0}', 15, "above 0"),
    ('{"isolation": "none"}', 2, '"entry" or "run"'),
    ("[1]", 1, "must be an object"),
    ('{"tool": "a", "args": "ls"}', 15, '"args" is an object'),
    ('{"calls": [{"tool": "a", "args": null}]}', 26, '"args" is an object'),
    ("[" * 102 + "]" * 102, 102, "nested deeper"),
]


@pytest.mark.parametrize(("line", "column", "reason"), FAULTS)
def test_a_line_that_is_wrong_is_named_with_its_column(tmp_path: Path, line: str, column: int, reason: str) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(f'\n{line}\n{{"tool": "glob", "args": {{"pattern": "*"}}}}\n')
    found = reading.read(str(path))
    assert [(each.line, each.column) for each in found.faults] == [(2, column)]
    assert reason in found.faults[0].reason
    assert [each.line for each in found.entries] == [3]


def test_what_is_no_text_two_entries_of_one_name_and_an_empty_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b'{"name": "a", "tool": "x"}\n{"tool": "\xc3\xa4\xff"}\n{"name": "a", "tool": "y"}\n')
    assert [str(each) for each in reading.read(str(path)).faults] == [
        f"{path}:2:12: this is not UTF-8",
        f"{path}:3:2: line 1 has the same name; give each entry one of its own",
    ]
    path.write_bytes(b"\n")
    assert "no entry" in str(reading.read(str(path)).faults[0])
    with pytest.raises(InvalidRequest, match="cannot read the file of calls"):
        reading.read(str(tmp_path / "missing.jsonl"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidRequest, match=r"no \*.jsonl"):
        reading.files_of([str(tmp_path / "empty")])


def test_a_directory_is_its_files_in_order_and_each_once(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a/c.jsonl", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    one, other = f"{tmp_path}/a/c.jsonl", f"{tmp_path}/b.jsonl"
    assert reading.files_of([str(tmp_path), other]) == [one, other]


def test_integers_of_any_size_and_raw_texts_are_sent_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"tool": "a", "args": {"n": 9007199254740993}}\n{"tool": "a", "raw": "{not json"}\n')
    assert [each.calls[0].arguments for each in reading.read(str(path)).entries] == [
        b'{"n":9007199254740993}',
        b"{not json",
    ]


def test_unknown_tools_and_codes_are_named_but_where_they_are_expected(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(
        '{"tool": "raed"}\n'
        '{"tool": "nothing", "expect": {"error": "UNKNOWN_TOOL"}}\n'
        '{"tool": "read", "expect": {"error": "FS_NOT_FUOND"}}\n'
    )
    told = [
        str(each) for each in reading.unknown([reading.read(str(path))], ["read"], ["UNKNOWN_TOOL", "FS_NOT_FOUND"])
    ]
    assert told == [
        f"{path}:1:2: no tool is called 'raed'; did you mean 'read'?",
        f"{path}:3:2: no error has the code 'FS_NOT_FUOND'; did you mean 'FS_NOT_FOUND'?",
    ]


def test_one_look_at_a_file_tells_all_that_is_wrong_in_it(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(
        '{"tool": "read"}\n'
        '{"isolation": "run"}\n'
        '{"tool": "raed", "arg": {}, "nmae": "x", "expect": {"eror": 1, "stdout": {"$regex": "("}}}\n'
        '{"tool": "raed", "calls": []}\n'
    )
    read = reading.read(str(path))
    found = [*read.faults, *reading.unknown([read], ["read"], [])]
    assert [(each.line, each.column) for each in found] == [
        (2, 2), (3, 18), (3, 29), (3, 53), (3, 75), (4, 1), (3, 2)
    ]  # fmt: skip
    assert "first line, alone" in found[0].reason
    assert "did you mean 'read'?" in found[-1].reason
    assert [each.line for each in read.entries] == [1]


HOLDING: list[tuple[Json, Json]] = [
    ("a", "a"),
    (1, 1),
    (None, None),
    ({"a": 1}, {"a": 1, "b": 2}),
    ([1, {"a": 1}], [1, {"a": 1, "b": 2}]),
    ({"$any": True}, {"x": []}),
    ({"$contains": ["a", "b"], "$lacks": "c"}, "b a"),
    ({"$contains": "a"}, ["x", "a"]),
    ({"$regex": "^b$"}, "a\nb\nc"),
    ({"$equals": {"a": 1}}, {"a": 1}),
]
DIFFERING: list[tuple[Json, Json, str]] = [
    ("a", "b", 'v should be "a" and is "b"'),
    (1, True, "v should be 1 and is true"),
    (1, 1.0, "v should be 1 and is 1.0"),
    ({"a": 1}, [], "v should be an object and is []"),
    ({"a": 1}, {"b": 1}, "v lacks 'a'; it has b"),
    ([1], [1, 2], "v should have 1 elements and has 2: [1, 2]"),
    ([1, 3], [1, 2], "v[1] should be 3 and is 2"),
    ({"a": {"b": 1}}, {"a": {"b": 2}}, "v.a.b should be 1 and is 2"),
    ({"$contains": "a"}, "b", 'v should contain "a" and is "b"'),
    ({"$lacks": "b"}, "abc", 'v should not contain "b" and is "abc"'),
    ({"$contains": "a"}, None, 'v should contain "a" and is null'),
    ({"$regex": "^b"}, "ab", 'v should match the regular expression "^b" and is "ab"'),
    ({"$equals": {"a": 1}}, {"a": 1, "b": 2}, 'v should be {"a": 1} and is {"a": 1, "b": 2}'),
    ("a\nb\n", "a\nc\n", "v is not what was expected:\n--- expected\n+++ found\n@@ -1,2 +1,2 @@\n a\n-b\n+c"),
    (
        "k\n" * 5000 + "a\n",
        "k\n" * 5000 + "b\n",
        "v is not what was expected (from line 4998 on):\n--- expected\n+++ found\n@@ -1,4 +1,4 @@\n k\n k\n k\n-a\n+b",
    ),
    ("a\n", "a", 'v should be "a\\n" and is "a"'),
]


@pytest.mark.parametrize(("pattern", "value"), HOLDING)
async def test_a_pattern_that_holds(pattern: Json, value: Json) -> None:
    assert list(patterns.faults(pattern, ())) == []
    async with Searcher() as searcher:
        assert await patterns.difference(pattern, value, "v", searcher.found) is None


@pytest.mark.parametrize(("pattern", "value", "told"), DIFFERING)
async def test_a_pattern_that_does_not_hold_says_where_and_how(pattern: Json, value: Json, told: str) -> None:
    async with Searcher() as searcher:
        assert await patterns.difference(pattern, value, "v", searcher.found) == told


async def test_of_long_texts_only_what_follows_the_first_difference_is_compared() -> None:
    one, other = ("".join(f"{mark}{number}\n" for number in range(2000)) for mark in "ab")
    async with Searcher() as searcher:
        told = await patterns.difference(one, other, "v", searcher.found)
    assert told is not None
    assert "@@ -1,500 +1,500 @@" in told
    assert told.endswith("\n… and perhaps more")


def test_json_is_read_as_the_json_module_reads_it() -> None:
    text = ' {"a": [1, 2.5, -3e2, "\\u00e4\\n", true, null, {}, []], "": {"b": 9007199254740993}} '
    located = parse(text)
    assert located.value == json.loads(text)
    assert located.columns["a", 3] == text.index('"\\u00e4') + 1
    with pytest.raises(Misread):
        parse("")


def entry(name: str, file: str = "calls.jsonl", line: int = 1) -> Entry:
    return Entry(name, file, line, ())


def result(*, error: Failure | None = None, value: Json = None) -> CallResult:
    layers = (Layer("seccomp", True), Layer("overlay", False, "no"))
    return CallResult("1.1", "shell", error is None, value, ("said",), error, Usage(), layers, "d" * 64)


def test_another_library_reads_the_report_and_control_characters_are_visible(tmp_path: Path) -> None:
    denied = result(error=Failure("DENIED", "no", "policy", "never"))
    wild = result(value={"stdout": "a\x00\x1b[31m\x07\ud800]]>&<\ufffe", "stderr": ""})
    outcomes = [
        Outcome(entry("fine \x1b"), "passed", results=(wild,), wall_s=0.25),
        Outcome(entry("bad", line=2), "failed", ("it \x00 differs\nmore",), (result(),), 0.5),
        Outcome(entry("no", line=3), "failed", ("DENIED",), (denied,), error=denied.error),
        Outcome(entry("late", line=4), "timeout", ("late",)),
        Outcome(entry("host", "b.jsonl"), "infrastructure", ("killed",), attempts=2, retried="killed"),
        Outcome(entry("never", "b.jsonl", 2), "not run", attempts=0),
    ]
    path = tmp_path / "out.xml"
    junit.write(str(path), outcomes, [Fault("c.jsonl", 3, 7, "what \x1b is")], {"profile": "ci"}, began=0.0)
    read = junitparser.JUnitXml.fromfile(str(path))
    assert (read.tests, read.failures, read.errors, read.skipped) == (7, 3, 2, 1)
    suites = {suite.name: suite for suite in read}
    assert list(suites) == ["calls.jsonl", "b.jsonl", "lines that cannot be used"]
    suite = ElementTree.parse(path).find("testsuite/properties")
    assert suite is not None
    assert {each.get("name"): each.get("value") for each in suite} == {"profile": "ci", "layers": "seccomp"}
    cases = {case.name: case for suite in read for case in suite}
    assert cases["fine \\x1b"].is_passed
    assert cases["fine \\x1b"].time == 0.25
    assert "a\\x00\\x1b[31m\\x07\\ud800]]>&<\\ufffe" in cases["fine \\x1b"].system_out
    assert [each.type for name in ("bad", "no", "late", "host") for each in cases[name].result] == [
        "failed",
        "refused",
        "timeout",
        "infrastructure",
    ]
    assert cases["bad"].result[0].message == "it \\x00 differs"
    assert cases["never"].is_skipped
    assert cases["c.jsonl:3"].result[0].type == "malformed"
    junit.write(str(path), [], [], {}, began=0.0)
    assert junitparser.JUnitXml.fromfile(str(path)).tests == 0
    assert [each.name for each in tmp_path.iterdir()] == ["out.xml"]


def test_the_last_words_name_the_refused_the_retried_and_the_slowest() -> None:
    denied = result(error=Failure("DENIED", "no", "policy", "never"))
    outcomes = [
        Outcome(entry("slow"), "passed", wall_s=3.0),
        Outcome(entry("forbidden"), "failed", ("x",), (denied,), 1.0, error=denied.error),
        Outcome(entry("shaken"), "infrastructure", ("x",), wall_s=2.0, attempts=2, retried="killed"),
        Outcome(entry("never"), "not run"),
    ]
    assert last_words(outcomes, 1, 4.0) == [
        "4 entries in 4.0 s: 1 passed, 1 failed, 1 infrastructure, 1 not run; 1 line malformed",
        "refused (1):",
        "  forbidden",
        "played twice (1):",
        "  shaken",
        "slowest:",
        "     3.00 s  slow",
        "     2.00 s  shaken",
        "     1.00 s  forbidden",
    ]
    assert line_of(outcomes[1]).startswith("REFUSED  forbidden (1.00 s)  calls.jsonl:1\n         x")
    assert "played again because of the infrastructure: killed" in line_of(outcomes[2])


def test_shards_have_everything_once_and_files_that_share_a_session_stay_whole(tmp_path: Path) -> None:
    for name, header in (("a", ""), ("b", '{"isolation": "run"}\n')):
        lines = "".join(f'{{"name": "{name}{number}", "tool": "t"}}\n' for number in range(5))
        (tmp_path / f"{name}.jsonl").write_text(header + lines)
    files = [reading.read(each) for each in reading.files_of([str(tmp_path)])]
    parts = [units(files, isolation=None, only="", shard=(number, 3)) for number in (1, 2, 3)]
    names = sorted(each.name for part in parts for unit in part for each in unit.entries)
    assert names == sorted(f"{name}{number}" for name in "ab" for number in range(5))
    assert [len(unit.entries) for part in parts for unit in part].count(5) == 1
    assert len(units(files, isolation="entry", only="", shard=(1, 1))) == 10
    assert len(units(files, isolation="run", only="", shard=(1, 1))) == 2
    assert [unit.entries[0].name for unit in units(files, isolation="entry", only="?3", shard=(1, 1))] == ["a3", "b3"]
