"""Hidden and protected names: a hidden one does not exist, by no name that leads to it."""

import os
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

import pytest

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.intents import EditIntent, WriteIntent
from stockade_daemon.gate.patterns import Patterns
from stockade_daemon.gate.spans import Span
from stockade_daemon.gate.workspace import Workspace

Refused: TypeAlias = Callable[..., AbstractContextManager[None]]
HIDDEN = (".env", "**/*.pem", "private", "deploy/*/key")


@pytest.fixture
def tree(root: Path) -> Path:
    for name in (".env", "a.txt", "deep/er/x.pem", "private/x/y", "deploy/one/key", "deploy/one/two/key", "deep/.env"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"bytes of {name}\n")
    return root


@pytest.fixture
def gate(workspace: Workspace, tree: Path) -> Gate:
    return Gate(workspace, hidden=HIDDEN, protected=("a.txt", "locked/**"))


@pytest.mark.parametrize(
    "path",
    [".env", "./.env", "deep/../.env", "deep/er/x.pem", "private", "private/x/y", "private/none", "deploy/one/key"],
)
@pytest.mark.parametrize("editing", [False, True])
async def test_a_hidden_name_is_answered_as_one_that_is_not_there(
    gate: Gate, tree: Path, refused: Refused, path: str, editing: bool, either_way: str
) -> None:
    with refused("FS_NOT_FOUND", "does not exist"):
        await gate.read(path, editing=editing)
    with refused("FS_NOT_FOUND", "does not exist"):
        await gate.read(str(tree / path), editing=editing)
    with refused("FS_NOT_FOUND"):
        await gate.decide(EditIntent(path, path.encode(), "0" * 64, (Span(0, 1, b""),)))


async def test_the_answer_is_the_same_whether_the_name_is_there_or_not(
    gate: Gate, tree: Path, refused: Refused
) -> None:
    said = []
    for _ in range(2):
        for wanted in (lambda: gate.read(".env"), lambda: gate.decide(WriteIntent(".env", b"x"))):
            try:
                await wanted()
            except Exception as refusal:
                said.append(str(refusal))
        (tree / ".env").unlink(missing_ok=True)
    assert said[:2] == said[2:]
    assert len(said) == 4


@pytest.mark.parametrize("path", [".env", "deep/new.pem", "private/z", "private", "deploy/new/key"])
async def test_a_hidden_name_cannot_be_written_whether_it_exists_or_not(
    gate: Gate, refused: Refused, path: str
) -> None:
    with refused("FS_PROTECTED", "is hidden by the profile"):
        await gate.decide(WriteIntent(path, b"x"))


@pytest.mark.parametrize("path", ["a.txt", "deploy/one/two/key", "deep/.env"])
async def test_names_that_no_pattern_matches_are_read(gate: Gate, path: str) -> None:
    opened = await gate.read(path)
    assert os.pread(opened.descriptor, 100, 0) == f"bytes of {path}\n".encode()
    os.close(opened.descriptor)


async def test_links_to_a_hidden_name_lead_nowhere(gate: Gate, tree: Path, refused: Refused, either_way: str) -> None:
    (tree / "soft").symlink_to(".env")
    (tree / "through").symlink_to("private")
    os.link(tree / ".env", tree / "hard")
    os.link(tree / "private/x/y", tree / "deep/hard")
    (tree / "soft to hard").symlink_to("hard")
    for path in ("soft", "through/x/y", "hard", "deep/hard", "soft to hard"):
        with refused("FS_NOT_FOUND"):
            await gate.read(path)
        with refused("FS_PROTECTED"):
            await gate.decide(WriteIntent(path, b"x"))


async def test_a_hidden_name_is_not_among_those_that_somebody_may_have_meant(gate: Gate, refused: Refused) -> None:
    with pytest.raises(Exception, match="does not exist") as caught:
        await gate.read(".envv")
    assert ".env " not in str(caught.value)
    assert "Near it" not in str(caught.value)


async def test_what_is_hidden_after_it_was_decided_about_is_not_written(
    gate: Gate, tree: Path, refused: Refused
) -> None:
    async def begun(body: object) -> None:
        raise AssertionError("begun")

    (tree / "d").mkdir()
    planned = await gate.decide(WriteIntent("d/new", b"x"))
    (tree / "d").rmdir()
    (tree / "d").symlink_to("private")
    with refused("FS_STALE_VERSION"):  # it leads elsewhere by now
        await gate.commit(planned, begun=begun)
    assert not (tree / "private/new").exists()


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("NAME/", ".env"),
        ("NAME/x", ".env"),
        ("deep/../NAME/", ".env"),
        ("NAME/../a.txt", "private"),
        ("deep/../NAME/x/y/", "private"),
        ("deep/../NAME/none/z", "private"),
        ("NAMEE", "private"),
        ("to NAME/", ".env"),
        ("to NAME/x", "private"),
    ],
)
async def test_no_spelling_tells_a_hidden_name_from_one_that_is_not_there(
    workspace: Workspace, tree: Path, path: str, hidden: str, either_way: str
) -> None:
    """The hidden name is there at first, and then it is not; the answers are the same."""
    path = path.replace("NAME", hidden)
    (tree / f"to {hidden}").symlink_to(hidden)
    (tree / "privatf").touch()
    gate = Gate(workspace, hidden=HIDDEN)
    said: list[list[str]] = []
    for there in (True, False):
        if not there:
            (tree / hidden).rename(tree.parent / "moved away")
        said.append([])
        for ask in (gate.read, gate.locate, lambda path: gate.entries(path, first=1, most=9),
                    lambda path: gate.decide(EditIntent(path, b"", "0" * 64, (Span(0, 1, b""),)))):  # fmt: skip
            with pytest.raises(GateRefusal) as caught:
                await ask(path)
            said[-1].append(str(caught.value))
    assert said[0] == said[1]
    assert all("does not exist" in each for each in said[0])


@pytest.mark.parametrize("path", ["deep/hard/", "deep/hard/x", "deep/../deep/hard/", "deep/harf"])
async def test_another_name_of_a_hidden_file_is_not_told(
    workspace: Workspace, tree: Path, path: str, either_way: str
) -> None:
    os.link(tree / ".env", tree / "deep/hard")
    with pytest.raises(GateRefusal) as caught:
        await Gate(workspace, hidden=HIDDEN).read(path)
    assert caught.value.code == "FS_NOT_FOUND"
    assert "Near it" not in str(caught.value)


async def test_an_absent_and_a_hidden_name_are_seen_alike(gate: Gate) -> None:
    for path in (".env", "none"):
        seen = await gate.absent(path)
        assert seen is not None
        assert seen.digest is None


async def test_protected_names_are_read_and_never_changed(gate: Gate, tree: Path, refused: Refused) -> None:
    opened = await gate.read("a.txt")
    os.close(opened.descriptor)
    os.link(tree / "a.txt", tree / "other name")
    for path in ("a.txt", "other name", "locked/x/y"):
        with refused("FS_PROTECTED"):
            await gate.decide(WriteIntent(path, b"x"))


def test_the_names_to_cover_are_those_that_match_and_other_names_of_their_files(gate: Gate, tree: Path) -> None:
    os.link(tree / "private/x/y", tree / "deep/twin")
    os.link(tree / ".env", tree / "deploy/twin")
    os.link(tree / "a.txt", tree / "no twin")
    (tree / "private/q.pem").write_text("")
    (tree / "deploy/link").symlink_to("one")
    assert gate.hidden_names() == (
        b".env", b"deep/er/x.pem", b"deep/twin", b"deploy/one/key", b"deploy/twin", b"private"
    )  # fmt: skip


def test_nothing_is_looked_for_where_nothing_is_hidden(workspace: Workspace, tree: Path) -> None:
    assert Gate(workspace).hidden_names() == ()


def test_names_longer_than_a_path_can_be_are_not_passed_over(workspace: Workspace, root: Path) -> None:
    held = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=held)
        deeper = os.open("d" * 200, os.O_RDONLY | os.O_DIRECTORY, dir_fd=held)
        os.close(held)
        held = deeper
    os.close(held)
    with pytest.raises(OSError, match="too long"):
        Gate(workspace, hidden=("**/x",)).hidden_names()


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (".env", [".env", ".env/x"], [".envx", "x/.env", "xenv"]),
        ("a/*.c", ["a/b.c", "a/.c", "a/b.c/d"], ["a/b/c.c", "a/b.cc", "a"]),
        ("**/x", ["x", "a/x", "a/b/x", "x/y"], ["xx", "a/xx"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a/c"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["z", "b/z"]),
        ("[a]?.x", ["[a]?.x"], ["ab.x", "a.x"]),
        ("*", ["a", "a/b"], []),
        ("a\\b", ["a\\b"], ["ab"]),
    ],
)
def test_a_pattern_matches_exactly(pattern: str, matching: list[str], other: list[str]) -> None:
    patterns = Patterns((pattern,))
    assert [name for name in matching if patterns.match(name.encode()) != pattern] == []
    assert [name for name in other if patterns.match(name.encode()) is not None] == []


@pytest.mark.parametrize(
    ("pattern", "wanted", "other"),
    [
        (".env", [""], [".env", "a"]),
        ("a/*.c", ["", "a"], ["b", "a/b", "a/b.c"]),
        ("**/x", ["", "a", "a/b"], ["x", "a/x"]),
        ("a/**", ["", "a"], ["b", "a/b"]),
        ("a/**/z", ["", "a", "a/b", "a/b/c"], ["b", "a/z"]),
    ],
)
def test_directories_that_have_to_be_looked_into_are_those_below_which_something_may_match(
    pattern: str, wanted: list[str], other: list[str]
) -> None:
    patterns = Patterns((pattern,))
    assert [name for name in wanted if not patterns.look_into(name.encode())] == []
    assert [name for name in other if patterns.look_into(name.encode())] == []


def test_the_names_that_are_found_are_exactly_those_that_match(workspace: Workspace, root: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    for _ in range(60):
        (root / "/".join(source.choices("abc", k=source.randrange(1, 5)))).mkdir(parents=True, exist_ok=True)
    everything = [str(path.relative_to(root)).encode() for path in root.rglob("*")]
    for _ in range(100):
        pattern = "/".join(source.choices(["a", "b", "*", "**", "c*"], k=source.randrange(1, 5)))
        patterns = Patterns((pattern,))
        matching = {name for name in everything if patterns.match(name)}
        found = patterns.there(workspace)
        above = {name[:at] for name in found for at, each in enumerate(name) if each == ord("/")} | {b""}
        assert [name for name in above if not patterns.look_into(name)] == [], (seed, pattern)
        assert {name for name in everything if any(name == top or name.startswith(top + b"/") for top in found)} == (
            matching
        ), (seed, pattern)


def test_no_pattern_takes_long_to_compare_whatever_the_names_are(workspace: Workspace, root: Path) -> None:
    """With a comparison that goes back and tries again, none of these would end."""
    deep = root
    for _ in range(12):
        deep = deep / "d"
        deep.mkdir()
    (deep / ("a" * 200)).write_text("")
    for pattern in ("*a" * 60 + "*b", "**/" * 60 + "b", "/".join(["**", "d"] * 20), "**/" + "*a" * 60 + "*b"):
        patterns = Patterns((pattern,))
        assert patterns.match(b"/".join([b"d"] * 100 + [b"a" * 200])) is (pattern if pattern.endswith("d") else None)
        assert patterns.there(workspace) == set()


async def test_what_others_do_to_a_hidden_file_is_not_told(workspace: Workspace, root: Path) -> None:
    (root / ".env").write_bytes(b"SECRET\n")
    os.link(root / ".env", root / "other")
    gate = Gate(workspace, hidden=(".env",))
    for path in (".env", "other"):
        await gate.absent(path)
    (root / ".env").write_bytes(b"ANOTHER\n")
    assert await gate.changed_outside(100) == []
