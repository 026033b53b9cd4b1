"""The conformance cases, through the same runner as on a command line: those of the corpus in one run, a test for each
area. `make cases` asks our variations of them, too."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.conformance.cases import reading, running
from tests.conformance.cases.judging import missing
from tests.conformance.cases.reading import Case, Malformed
from tests.conformance.cases.verdicts import Verdict
from tests.conformance.run_cases import chosen

HERE: Final = Path(__file__).parent
FILES: Final = (HERE / "file-cases.jsonl",)
CASES: Final = reading.load(FILES)
AREAS: Final = tuple(dict.fromkeys(case.area for case in CASES))
ENOUGH_S: Final = 600  # a hang detector

# Areas in which nothing may be skipped but what waits for one of these tools.
WHOLE: Final = {
    "line-endings", "encoding", "final-newline", "metadata", "matching", "multi-edit", "stale-false-positive",
    "stale-false-negative", "read-before-write", "deleted-recreated", "partial-read", "path-escape", "path-semantics",
    "path-false-refusal", "path-limits", "special-files", "large", "binary", "list", "glob-grep", "argument-injection",
    "concurrency", "arguments", "shell-args", "shell-cancel", "shell-env", "shell-exit", "shell-hang", "shell-intent",
    "shell-output", "shell-state", "shell-stdin", "shell-timeout", "shell-zombie",
}  # fmt: skip
AWAITED: Final = {"the tool apply_patch", "the tool run_code"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def verdicts(scratch: Path) -> AsyncIterator[Mapping[str, Sequence[Verdict]]]:
    """By area."""
    found = await running.run(CASES, jobs=4, within=scratch)
    yield {area: [verdict for verdict in found if verdict.area == area] for area in AREAS}


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.asyncio(loop_scope="module")
async def test_every_case_of_the_area_that_can_be_asked_holds(
    verdicts: Mapping[str, Sequence[Verdict]], area: str
) -> None:
    failed = [str(verdict) for verdict in verdicts[area] if verdict.word == "FAIL"]
    assert not failed
    if area in WHOLE:
        skipped = [str(each) for each in verdicts[area] if each.word == "SKIP" and each.why not in AWAITED]
        assert not skipped


def test_a_faulty_file_is_refused_with_its_line(tmp_path: Path) -> None:
    case = a_case()
    for line, words in (
        (b"{", "no JSON"),
        (b"[]", "no object"),
        (b'{"id": 1}', "`id`"),
        (b"[" * 100_000, "no JSON"),
        (json.dumps(case).encode() + b"\n" + json.dumps(case).encode(), "stands at"),
    ):
        file = tmp_path / "faulty.jsonl"
        file.write_bytes(json.dumps({**case, "id": "before"}).encode() + b"\n" + line)
        with pytest.raises(Malformed, match=words) as caught:
            reading.load([file])
        assert str(caught.value).startswith(f"{file}:")


def test_what_cannot_be_judged_is_named() -> None:
    assert missing("X", {"result": "ok"}) == ""
    assert "output_property" in missing("X", {"output_property": "it is fine"})
    assert "colour" in missing("X", {"colour": "red"})
    assert "invariant" in missing("X", {"steps": [{"call": 0, "invariant": "it holds"}]})


def test_the_runner_tells_what_holds_what_fails_and_what_is_missing(tmp_path: Path) -> None:
    """As a program, on a file of every kind of verdict: whatever one case does, the others have theirs."""
    read = {"tool": "read", "args": {"path": "a"}}
    cases = [
        a_case(id="holds", calls=[read], expect={"result": "ok", "files": [{"path": "a", "py": "b'1\\n'"}]}),
        a_case(id="differs", calls=[read], expect={"result": "error", "error_kind": "stale"}),
        a_case(id="bytes", calls=[read], expect={"result": "ok", "files": [{"path": "a", "py": "b'2\\n'"}]}),
        a_case(id="words", calls=[read], expect={"output_property": "it is fine"}),
        a_case(id="tool", calls=[{"tool": "no_such_tool", "args": {}}], expect={"result": "error"}),
        a_case(id="kind", setup=[{"kind": "moon", "path": "a"}], calls=[read], expect={"result": "ok"}),
        a_case(id="play", calls=[{**read, "at_noon": 1}], expect={"result": "ok"}),
        a_case(id="breaks", calls=[{"outside": "raise SystemExit(3)"}, read], expect={"result": "ok"}),
        a_case(id="crash", setup=[{"kind": "file", "py": "b''"}], calls=[read], expect={"result": "ok"}),
        a_case(id="alternatives", calls=[read], expect={"any_of": [{"result": "error"}, {"result": "ok"}]}),
        a_case(id="unclear", calls=[read], expect={"result": "same as before"}),
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases))
    done = run_cases(file)
    heads = [line.split(":")[0].split(" ") for line in done.stdout.splitlines()[: len(cases)]]
    assert {name: word for word, name in heads} == {
        "holds": "PASS", "alternatives": "PASS", "differs": "FAIL", "bytes": "FAIL", "breaks": "FAIL", "crash": "FAIL",
        "words": "SKIP", "tool": "SKIP", "kind": "SKIP", "play": "SKIP", "unclear": "SKIP",
    }, done.stdout  # fmt: skip
    assert "2 PASS, 4 FAIL, 5 SKIP" in done.stdout
    assert "SKIP tool: the tool no_such_tool" in done.stdout
    assert done.returncode == 1
    assert run_cases(file, "--id", "hol*").returncode == 0
    assert run_cases(file, "--area", "nowhere").returncode == 2
    assert run_cases(tmp_path / "none").returncode == 2


READ: Final[dict[str, Any]] = {"tool": "read", "args": {"path": "a"}}
PLANTED: Final = {"kind": "file", "path": "a", "py": "b'1\\n'"}
ODD: Final[Sequence[tuple[str, dict[str, Any], str]]] = (
    # Malformed: a fault of the case.
    ("FAIL", {"area": 7}, "`area` must be text"),
    ("FAIL", {"calls": {}}, "`calls` must be a list"),
    ("FAIL", {"setup": None}, "`setup` must be a list"),
    ("FAIL", {"expect": []}, "`expect` must be an object"),
    ("FAIL", {"calls": ["read"]}, "is no object"),
    ("FAIL", {"calls": [{"tool": 7}]}, "`tool`"),
    ("FAIL", {"calls": [{"tool": "read", "args": ["a"]}]}, "`args`"),
    ("FAIL", {"calls": [{"outside": ["pass"]}]}, "`outside`"),
    ("FAIL", {"calls": [{"parallel": {"tool": "read"}}]}, "`parallel`"),
    ("FAIL", {"calls": [{"parallel": [{"outside": 1}]}]}, "`outside`"),
    ("FAIL", {"calls": [{"repeat": "x", "call": READ}]}, "`repeat`"),
    ("FAIL", {"calls": [{"repeat": True, "call": READ}]}, "`repeat`"),
    ("FAIL", {"calls": [{"repeat": 2}]}, "`repeat` needs a `call`"),
    ("FAIL", {"calls": [{**READ, "cancel_after_s": "soon"}]}, "`cancel_after_s`"),
    ("FAIL", {"setup": ["a"]}, "`kind`"),
    ("FAIL", {"setup": [{"path": "a"}]}, "`kind`"),
    ("FAIL", {"setup": [{"kind": ["file"], "path": "a"}]}, "`kind`"),
    ("FAIL", {"setup": [{"kind": "symlink", "path": "l"}]}, "`target`"),
    ("FAIL", {"setup": [{"kind": "file", "path": "b", "b64": "?"}]}, "the runner met"),
    ("FAIL", {"setup": [{"kind": "file", "path": "b", "py": "b''", "mode": "rw"}]}, "the runner met"),
    ("FAIL", {"setup": [{"kind": "config", "deny": "*"}]}, "`deny`"),
    ("FAIL", {"setup": [{"kind": "config", "allow": "ls"}]}, "`allow`"),
    ("FAIL", {"setup": [{"kind": "config", "approval_timeout_s": "soon"}]}, "the runner met"),
    ("FAIL", {"setup": [{"kind": "config", "umask": "rw"}]}, "the runner met"),
    ("FAIL", {"setup": [{"kind": "daemon_env"}]}, "`vars`"),
    ("FAIL", {"expect": {"steps": 3}}, "`steps`"),
    ("FAIL", {"expect": {"steps": [{"result": "ok"}]}}, "needs a `call`"),
    ("FAIL", {"expect": {"steps": {"first": {"result": "ok"}}}}, "an item of `steps`"),
    ("FAIL", {"expect": {"any_of": ["ok"]}}, "an item of `any_of`"),
    ("FAIL", {"expect": {"files": ["a"]}}, "`files`"),
    ("FAIL", {"expect": {"absent": "a"}}, "`absent`"),
    ("FAIL", {"expect": {"absent": [7]}}, "`absent`"),
    ("FAIL", {"expect": {"max_seconds": "long"}}, "`max_seconds`"),
    ("FAIL", {"expect": {"xattr": {"user.a": "1"}}}, "`xattr`"),
    # Not known here: what is missing is named.
    ("SKIP", {"calls": [{"teleport": 1}]}, "a way to play teleport"),
    ("SKIP", {"calls": [{}]}, "a way to play"),
    ("SKIP", {"calls": [{**READ, "at_noon": 1}]}, "a way to play at_noon"),
    ("SKIP", {"calls": [{"batch_in_order": [{"outside": "pass"}]}]}, "within a turn"),
    ("SKIP", {"calls": [{"tool": "read", "args": {"path_py": 7}}]}, "the argument path_py"),
    ("SKIP", {"calls": [{"tool": "read", "args": {"path_py": "exit(3)"}}]}, "cannot be evaluated"),
    ("SKIP", {"calls": [{"daemon": "fly away"}]}, "a way to have the daemon"),
    ("SKIP", {"calls": [{"outside": "make the file read-only"}]}, "in words"),
    ("SKIP", {"calls": [{"outside": "\0"}]}, "in words"),
    ("SKIP", {"setup": [{"kind": "moon"}]}, "setup of kind 'moon'"),
    ("SKIP", {"setup": [{"kind": "config", "colour": "red"}]}, "colour"),
    ("SKIP", {"setup": [{"kind": "config", "pre_hook": "x"}]}, "hooks"),
    ("SKIP", {"setup": [{"kind": "config", "post_hook": "x"}]}, "hooks"),
    ("SKIP", {"setup": [{"kind": "config", "fault_injection": "ENOSPC"}]}, "'ENOSPC'"),
    ("SKIP", {"setup": [{"kind": "config", "pause": "at noon"}]}, "a way to pause"),
    ("SKIP", {"expect": {"steps": [{"call": 9, "result": "ok"}]}}, "the call 9"),
    ("SKIP", {"expect": {"colour": "red"}}, "a way to judge colour"),
    ("SKIP", {"expect": {"result": "fine"}}, "a meaning of"),
    # What the format allows.
    ("PASS", {"expect": {"steps": {"0": {"result": "ok"}}}}, ""),
    ("PASS", {"setup": [PLANTED, {"kind": "config", "allow": ["ls"]}], "expect": {"result": "ok"}}, ""),
    ("PASS", {"calls": [{**READ, "note": "as a model would"}], "expect": {"result": "ok"}}, ""),
    ("PASS", {"calls": [{"repeat": 0, "call": READ}, READ], "expect": {"result": "ok"}}, ""),
)  # fmt: skip


async def test_an_odd_case_has_a_verdict_of_its_own_and_the_others_are_played(scratch: Path, tmp_path: Path) -> None:
    """The ids are odd, too: alike but for case, not for a file's name, not for a terminal."""
    ids = ["Odd/1", "odd-1", "ODD 1", "", "new\nline", "\ud800", "x" * 300, *map(str, range(len(ODD)))]
    given = [a_case(id=name, **{"calls": [READ], **parts}) for name, (_, parts, _) in zip(ids, ODD, strict=False)]
    file = tmp_path / "odd.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in given))
    lines: list[str] = []
    verdicts = await running.run(
        reading.load([file]), jobs=4, within=scratch, told=lambda verdict: lines.append(str(verdict))
    )
    for (word, parts, why), verdict in zip(ODD, verdicts, strict=True):
        assert (verdict.word, why in verdict.why) == (word, True), (parts, str(verdict))
    assert len(lines) == len(ODD)
    assert all("\n" not in line and line.encode() for line in lines)


def test_cases_are_chosen_by_area_and_id() -> None:
    cases = [Case(name, area, (), (), {}, "") for name, area in (("A-1", "a"), ("A-2", "a"), ("B-1", "b"))]
    assert [case.id for case in chosen(cases, ["a"], [])] == ["A-1", "A-2"]
    assert [case.id for case in chosen(cases, [], ["*-1"])] == ["A-1", "B-1"]
    assert [case.id for case in chosen(cases, ["b"], ["A-*"])] == []


def run_cases(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, HERE / "run_cases.py", *arguments],
        capture_output=True,
        text=True,
        timeout=ENOUGH_S,
        check=False,
    )


def a_case(**parts: Any) -> dict[str, Any]:
    return {
        "id": "one",
        "area": "a",
        "setup": [{"kind": "file", "path": "a", "py": "b'1\\n'"}],
        "calls": [],
        "expect": {},
        **parts,
    }
