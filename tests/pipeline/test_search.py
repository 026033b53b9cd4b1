"""`grep` and `glob` through a daemon: what they find, what they say of the rest, and what they refuse."""

import base64
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from stockade_client.results import CallResult
from stockade_client.session import Session


def value(result: CallResult) -> dict[str, Any]:
    assert result.error is None, result.error
    assert isinstance(result.value, dict)
    return result.value


def code(result: CallResult) -> str:
    assert result.error is not None, result.value
    return result.error.code


async def paths(session: Session, pattern: str, path: str = ".") -> list[str]:
    return [each["path"] for each in value(await session.call("glob", pattern=pattern, path=path))["files"]]


async def lines(session: Session, pattern: str, **more: Any) -> list[tuple[str, int, str]]:
    found = value(await session.call("grep", pattern=pattern, **more))["matches"]
    return [(each["path"], each["line"], each["text"]) for each in found]


def plant(workspace: Path, *names: str, content: bytes = b"hit\n") -> None:
    for name in names:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_bytes(content)


def files_of(workspace: Path) -> list[Path]:
    return [path.relative_to(workspace) for path in workspace.rglob("*") if path.is_file()]


async def test_lines_are_found_with_their_places_in_the_order_of_names(session: Session, workspace: Path) -> None:
    plant(workspace, "d/b.txt", "d/a.txt", "d.txt", "Z", content=b"no\na hit\nno\nhit hit\n")
    result = await session.call("grep", pattern="h[i]t")
    found = value(result)
    assert [(each["path"], each["line"], each["column"]) for each in found["matches"]] == [
        (name, line, column) for name in ("Z", "d/a.txt", "d/b.txt", "d.txt") for line, column in ((2, 3), (4, 1))
    ]
    assert (found["total"], found["truncated"]) == (8, False)
    assert result.text.startswith("Z\n  2: a hit\n  4: hit hit\n\nd/a.txt\n")
    assert (await session.call("grep", pattern="h[i]t")).text == result.text


async def test_lines_around_a_match_are_told_from_matches(session: Session, workspace: Path) -> None:
    plant(workspace, "f", content=b"1\n2\nhit\n4\n5\n6\n7\nhit\n")
    result = await session.call("grep", pattern="hit", context=1)
    found = value(result)
    assert [each["line"] for each in found["matches"]] == [3, 8]
    assert [each["line"] for each in found["context"]] == [2, 4, 7]
    assert "f\n  2- 2\n  3: hit\n  4- 4\n  …\n  7- 7\n  8: hit\n" in result.text


async def test_case_and_names_narrow_a_search(session: Session, workspace: Path) -> None:
    plant(workspace, "s/a.py", "s/a.js", content=b"HIT\n")
    assert await lines(session, "hit") == []
    assert [path for path, _, _ in await lines(session, "hit", ignore_case=True)] == ["s/a.js", "s/a.py"]
    assert [path for path, _, _ in await lines(session, "HIT", include="*.py")] == ["s/a.py"]
    assert [path for path, _, _ in await lines(session, "HIT", include="s/*.{py,ts}")] == ["s/a.py"]
    assert await lines(session, "HIT", include="s/*.py", path="s") == []


@pytest.mark.parametrize(
    ("pattern", "place"),
    [("nee(dle", 4), ("needle)", 7), ("a[b", 2), ("a{3", 2), ("é\\p{nothing}", 2), ("a(?=b)", 2), ("end\\", 4)],
)
async def test_a_pattern_that_is_none_is_refused_with_the_place(session: Session, pattern: str, place: int) -> None:
    result = await session.call("grep", pattern=pattern)
    assert code(result) == "SEARCH_INVALID_PATTERN"
    assert result.error is not None
    assert f"at character {place}:" in result.error.message


@pytest.mark.parametrize("pattern", ["a\nb", "a\\nb", "((a{100}){100}){100}"])
async def test_a_pattern_that_cannot_be_searched_for_is_refused(session: Session, pattern: str) -> None:
    assert code(await session.call("grep", pattern=pattern)) == "SEARCH_INVALID_PATTERN"


@pytest.mark.parametrize("pattern", ["a[b", "{a,b", "x\\", "[z-a]", "{a,b}" * 8, "a*/../b"])
async def test_a_glob_that_is_none_is_refused(session: Session, pattern: str) -> None:
    assert code(await session.call("glob", pattern=pattern)) == "SEARCH_INVALID_PATTERN"
    if "/" not in pattern:
        assert code(await session.call("grep", pattern="x", include=pattern)) == "SEARCH_INVALID_PATTERN"


async def test_patterns_that_make_others_run_back_and_forth_are_answered(session: Session, workspace: Path) -> None:
    plant(workspace, "e", "a" * 200, content=b"a" * 60 + b"!\n")
    for pattern in ("(a+)+$", "(a|aa)+$", "(.*)*b", "(a*)*c"):
        assert await lines(session, pattern, path="e") == []
    assert await paths(session, "*a" * 40 + "b") == []
    assert await paths(session, "**/" * 20 + "*a*a*a*a*b") == []


async def test_patterns_and_names_are_never_options(session: Session, workspace: Path) -> None:
    plant(workspace, "-n", "--help", "-e", "--pre=sh", content=b"--files needle\n")
    for name in ("-n", "--help", "-e", "--pre=sh"):
        assert await lines(session, "needle", path=name) == [(name, 1, "--files needle")]
    assert len(await lines(session, "--files")) == 4
    assert await lines(session, "--version") == []
    assert await paths(session, "-*") == ["--help", "--pre=sh", "-e", "-n"]


async def test_what_is_not_in_the_workspace_is_refused(session: Session, workspace: Path) -> None:
    plant(workspace, "d/a")
    (workspace / "out").symlink_to("/etc")
    outside = "FS_OUTSIDE_WORKSPACE"
    for path in ("..", "/etc", "d/../..", "~", "out", "out/passwd"):
        assert code(await session.call("grep", pattern="root", path=path)) == outside
        assert code(await session.call("glob", pattern="*", path=path)) == outside
    for pattern in ("../**", "d/../../*", "/etc/*", "/*", "*/../../x", "out/*", "~/*", "~/**/a"):
        assert code(await session.call("glob", pattern=pattern)) == outside
    assert await paths(session, "**/passwd") == []
    assert await paths(session, f"{workspace}/d/*") == ["d/a"]
    plant(workspace, "d/~/a", "~/b")
    assert await paths(session, "~/*", path="d") == ["d/~/a"]
    assert await paths(session, "./~/*") == ["~/b"]


async def test_a_name_that_is_not_there_is_refused_with_near_ones(session: Session, workspace: Path) -> None:
    plant(workspace, "source/a.py")
    for tool in ("grep", "glob"):
        result = await session.call(tool, pattern="x", path="sourc")
        assert code(result) == "FS_NOT_FOUND"
        assert result.error is not None
        assert "source" in result.error.message
    result = await session.call("glob", pattern="sourc/*.py")
    assert value(result)["total"] == 0
    assert "source" in result.text
    assert code(await session.call("glob", pattern="x", path="a.txt")) == "FS_NOT_DIRECTORY"
    os.mkfifo(workspace / "pipe")
    assert code(await session.call("grep", pattern="x", path="pipe")) == "FS_NOT_REGULAR_FILE"
    assert await paths(session, "pipe") == []


async def test_hidden_files_are_found_and_those_of_git_only_where_it_is_named(
    session: Session, workspace: Path
) -> None:
    plant(workspace, ".github/w.yml", ".git/config", "sub/.git/config")
    assert await paths(session, "**/*.yml") == [".github/w.yml"]
    assert await paths(session, ".github/*.yml") == [".github/w.yml"]
    assert await paths(session, "**/config") == []
    assert await paths(session, ".git/*") == [".git/config"]
    assert await paths(session, "*", "sub/.git") == ["sub/.git/config"]
    assert [path for path, _, _ in await lines(session, "hit")] == [".github/w.yml"]
    assert [path for path, _, _ in await lines(session, "hit", path=".git")] == [".git/config"]


async def test_what_is_ignored_is_counted_and_found_where_it_is_named(session: Session, workspace: Path) -> None:
    plant(workspace, ".gitignore", content=b"dist/\n*.log\n")
    plant(workspace, "dist/a.js", "logs/x.log", "b.js", "deep/.gitignore", "deep/c.js")
    (workspace / "deep/.gitignore").write_text("c.js\n")
    result = await session.call("glob", pattern="**/*.js")
    assert [each["path"] for each in value(result)["files"]] == ["b.js"]
    assert value(result)["skipped"]["ignored"] == 2
    assert "2 more files ignored by rule" in result.text
    for pattern, found in (("dist/a.js", "dist/a.js"), ("logs/*.log", "logs/x.log"), ("deep/*.js", "deep/c.js")):
        assert await paths(session, pattern) == [found]
    assert value(await session.call("glob", pattern="*", path="logs"))["only_ignored"]
    assert value(await session.call("grep", pattern="hit"))["skipped"] == {
        "ignored": 3, "too_large": 0, "unreadable": 0,
    }  # fmt: skip
    assert [path for path, _, _ in await lines(session, "hit", path="logs")] == ["logs/x.log"]
    assert [path for path, _, _ in await lines(session, "hit", path="deep/c.js")] == ["deep/c.js"]


async def test_links_are_not_followed(session: Session, workspace: Path) -> None:
    plant(workspace, "d/a")
    (workspace / "d/loop").symlink_to("..")
    (workspace / "self").symlink_to(".")
    (workspace / "absolute").symlink_to(workspace / "d")
    assert [path for path, _, _ in await lines(session, "hit")] == ["d/a"]
    assert await paths(session, "**/a") == ["d/a"]
    assert await paths(session, "absolute/*") == ["d/a"]
    assert [path for path, _, _ in await lines(session, "hit", path="self/d")] == ["d/a"]


async def test_names_are_bytes_and_shown_reversibly(session: Session, workspace: Path) -> None:
    strange = [b"caf\xe9.txt", b"a\nrm -rf .txt", b'x: binary file matches (found "\\0" byte around offset 3)\n', b"x"]
    for name in strange:
        plant(workspace, os.fsdecode(name), content=b"\0hit\n" if name == b"x" else b"hit\n")
    listed = await session.call("glob", pattern="*")
    searched = await session.call("grep", pattern="hit")
    for entries in (value(listed)["files"], value(searched)["matches"] + value(searched)["binary_matches"]):
        names = {
            base64.b64decode(each["path_b64"]) if "path_b64" in each else each["path"].encode() for each in entries
        }
        assert names - {b"a.txt"} == set(strange)
        assert len(names) == len(entries)
    assert [each["path"] for each in value(searched)["binary_matches"]] == ["x"]
    for result in (listed, searched):
        assert "\nrm -rf" not in result.text
        json.dumps(result.value).encode()


async def test_bytes_that_are_no_text_are_escaped_or_named(session: Session, workspace: Path) -> None:
    plant(workspace, "latin", content=b"ok \xb2\xff\n")
    plant(workspace, "binary", content=b"\0\1ok\n")
    plant(workspace, "utf16", content="ok ü\n".encode("utf-16"))
    plant(workspace, "crlf", content=b"ok\r\n")
    result = await session.call("grep", pattern="ok")
    found = {each["path"]: each for each in value(result)["matches"]}
    assert {path: each["text"] for path, each in found.items()} == {
        "latin": "ok \\xb2\\xff", "utf16": "ok ü", "crlf": "ok",
    }  # fmt: skip
    assert found["latin"]["escaped"]
    assert "1 binary file matching, not shown: binary" in result.text
    assert await lines(session, "ok$", path="crlf") == [("crlf", 1, "ok")]


async def test_long_lines_are_cut_around_the_match(session: Session, workspace: Path) -> None:
    plant(workspace, "f", content=("中" * 40_000 + "needle" + "é" * 40_000 + "\n").encode())
    plant(workspace, "g", content=b"n" * 501 + b"\n" + b"n" * 500 + b"\r\n" + b"n" * 500)
    (match,) = value(await session.call("grep", pattern="needle"))["matches"]
    assert match["cut"]
    assert match["column"] == 120_001
    assert match["text"].strip("中é") == "…" + match["text"].strip("…") + "…"
    assert "中needleé" in match["text"]
    assert len(match["text"].encode()) <= 510
    found = value(await session.call("grep", pattern="n+", path="g"))["matches"]
    assert [each.get("cut", False) for each in found] == [True, False, False]


async def test_a_limit_is_said_with_how_to_go_on(session: Session, workspace: Path) -> None:
    plant(workspace, *(f"f{number:03}" for number in range(200)), content=b"no\nhit\nno\n")
    result = await session.call("grep", pattern="hit", limit=150, context=1)
    found = value(result)
    assert [each["path"] for each in found["matches"]] == [f"f{number:03}" for number in range(150)]
    assert (found["total"], found["truncated"]) == (151, True)
    assert len(found["context"]) == 300
    assert "narrow pattern, path or include" in result.text
    wide = ("中" * 1000 + "\n").encode() * 20_000
    plant(workspace, "wide", content=wide)
    found = value(result := await session.call("grep", pattern="中", limit=2000))
    assert found["truncated"]
    assert len(result.text.encode()) < 65_536


async def test_more_names_than_are_listed_are_counted(session: Session, workspace: Path) -> None:
    (workspace / "many").mkdir()
    for number in range(1200):
        (workspace / f"many/{number:04}").touch()
    result = await session.call("glob", pattern="many/*")
    found = value(result)
    assert [each["path"] for each in found["files"]] == [f"many/{number:04}" for number in range(1000)]
    assert (found["total"], found["truncated"]) == (1200, True)
    assert "narrow the pattern" in result.text


async def test_large_files_are_searched_where_they_are_named(session: Session, workspace: Path) -> None:
    with (workspace / "log").open("wb") as file:
        file.write(b"no\nhit\n")
        file.write((b"n" * 1023 + b"\n") * (65 * 1024))
        file.write(b"hit\n")
    with (workspace / "sparse").open("wb") as file:
        file.truncate(4 << 30)
    found = value(await session.call("grep", pattern="hit"))
    assert found["matches"] == []
    assert found["skipped"]["too_large"] == 2
    assert [line for _, line, _ in await lines(session, "hit", path="log")] == [2, 65 * 1024 + 3]
    assert code(await session.call("grep", pattern="x", path="sparse")) == "FS_NOT_TEXT"


async def test_what_cannot_be_read_is_counted(session: Session, workspace: Path) -> None:
    plant(workspace, "closed", "dir/x")
    (workspace / "closed").chmod(0)
    (workspace / "dir").chmod(0)
    try:
        found = value(await session.call("grep", pattern="hit"))
        listed = value(await session.call("glob", pattern="**"))
    finally:
        (workspace / "dir").chmod(0o755)
    assert found["skipped"]["unreadable"] == 2
    assert found["matches"] == []
    assert listed["skipped"]["unreadable"] == 1


async def test_searching_observes_nothing(session: Session, workspace: Path) -> None:
    assert await lines(session, "one") == [("a.txt", 1, "one")]
    assert await paths(session, "*") == ["a.txt"]
    result = await session.call("edit", path="a.txt", old_string="one", new_string="1")
    assert code(result) == "FS_NOT_OBSERVED"
    assert [event.type async for event in session.events() if event.type.startswith("fs/")] == []


async def test_searches_of_one_turn_run_together_and_leave_nothing(session: Session, workspace: Path) -> None:
    calls: list[Any] = [("grep", {"pattern": "one"}), ("glob", {"pattern": "*"})] * 5
    for result in await session.call_many(calls):
        assert value(result)["total"] == 1


async def test_what_a_search_says_has_a_card(session: Session) -> None:
    value(await session.call("grep", pattern="o"))
    cards = [event.body["card"] async for event in session.events() if event.type == "tool/result"]
    (card,) = cards
    assert isinstance(card, dict)
    assert (card["view"], card["total"], card["truncated"]) == ("search", 2, False)


async def test_two_walks_agree_with_the_tree_whatever_it_looks_like(session: Session, workspace: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    (workspace / "a.txt").unlink()
    names = ["a", "b.x", "a.b", "-", "A", "é", "a b", "zz"]
    for _ in range(150):
        place = workspace.joinpath(*(f"{chance.choice(names)}_d" for _ in range(chance.randrange(4))))
        place.mkdir(parents=True, exist_ok=True)
        (place / chance.choice(names)).write_text("hit\n")
    (workspace / ".gitignore").write_text("b.x\nA_d/\n")
    every = files_of(workspace)
    kept = [path for path in every if path.name != "b.x" and "A_d" not in path.parts]
    wanted = [str(path) for path in sorted(kept, key=lambda path: [os.fsencode(part) for part in path.parts])]
    result = value(await session.call("glob", pattern="**"))
    assert [each["path"] for each in result["files"]] == wanted
    assert result["skipped"]["ignored"] == len(every) - len(kept)
    found = value(await session.call("grep", pattern="hit"))
    assert [each["path"] for each in found["matches"]] == [each for each in wanted if each != ".gitignore"]
