"""Where paths lead: in, out, round in circles. Each with the kernel's resolution and with our own walk."""

import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stockade_daemon.errors import GateRefusal, RequestError
from stockade_daemon.gate import syscalls
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.intents import WriteIntent
from stockade_daemon.gate.paths import resolve
from stockade_daemon.gate.workspace import Workspace

if TYPE_CHECKING:
    from tests.gate.conftest import Actor

Refused = Callable[..., AbstractContextManager[None]]

pytestmark = pytest.mark.usefixtures("either_way")


@pytest.fixture
def tree(root: Path, outside: Path) -> Path:
    """A workspace with every kind of link."""
    (root / "d/e").mkdir(parents=True)
    (root / "d/a").write_bytes(b"1\n")
    (root / "ln").symlink_to("d")
    (root / "up").symlink_to("d/../d/a")
    (root / "absolute").symlink_to(root / "d/a")
    (root / "absolute_directory").symlink_to(root / "d")
    (root / "out").symlink_to(outside)
    (root / "out_relative").symlink_to("../outside")
    (root / "dangling_out").symlink_to(outside / "created.txt")
    (root / "loop").symlink_to("pool")
    (root / "pool").symlink_to("loop")
    (outside / "s.txt").write_bytes(b"secret\n")
    return root


@pytest.mark.parametrize(
    "path", ["d/a", "./d/../d/a", "d//a", "ln/a", "ln/../d/a", "up", "absolute", "absolute_directory/a", "d/e/../a"]
)
async def test_every_spelling_reaches_the_same_file(
    actor: "Actor", workspace: Workspace, tree: Path, path: str
) -> None:
    for spelling in (path, f"{tree}/{path}"):
        with resolve(workspace, spelling) as place:
            assert place.real == b"d/a"
            assert place.status is not None
            assert os.stat(place.name, dir_fd=place.parent).st_ino == (tree / "d/a").stat().st_ino
    await actor.read(path)
    await actor.edit("d/a", b"1", b"2")
    await actor.edit(f"{tree}/{path}", b"2", b"3")
    assert (tree / "d/a").read_bytes() == b"3\n"
    assert (tree / "up").is_symlink()


@pytest.mark.parametrize(
    "path",
    [
        "../outside/s.txt",
        "d/../../outside/s.txt",
        "out/s.txt",
        "out_relative/s.txt",
        "out",
        "out/new/n.txt",
        "dangling_out",
        "ln/../../x",
        "missing/../../etc/passwd",
        "/etc/passwd",
        "/dev/zero",
        "{root}-evil/s.txt",
        "{root}/../outside/s.txt",
        "~",
        "~/x.txt",
        "..",
        "/",
    ],
)
async def test_nothing_leads_out(actor: "Actor", tree: Path, outside: Path, refused: Refused, path: str) -> None:
    evil = tree.with_name(tree.name + "-evil")
    evil.mkdir()
    (evil / "s.txt").write_bytes(b"secret\n")
    path = path.format(root=tree)
    with refused("FS_OUTSIDE_WORKSPACE"):
        await actor.read(path)
    with refused("FS_OUTSIDE_WORKSPACE"):
        await actor.write(path, b"x")
    assert sorted(os.listdir(outside)) == ["s.txt"]
    assert (outside / "s.txt").read_bytes() == b"secret\n"
    assert os.listdir(evil) == ["s.txt"]


async def test_a_loop_of_links_ends(actor: "Actor", tree: Path, refused: Refused) -> None:
    for path in ("loop", "loop/a"):
        with refused("FS_SYMLINK_LOOP"):
            await actor.read(path)


async def test_a_dangling_link_inside_is_written_through(actor: "Actor", root: Path) -> None:
    (root / "link").symlink_to("deep/target")
    await actor.write("link", b"1\n")
    assert (root / "link").is_symlink()
    assert (root / "deep/target").read_bytes() == b"1\n"


@pytest.mark.parametrize("path", ["", "  ", "a\0b"])
async def test_a_path_that_is_none_is_an_argument_error(actor: "Actor", refused: Refused, path: str) -> None:
    with refused("INVALID_ARGS"):
        await actor.read(path)


@pytest.mark.parametrize("name", [" a", "a ", "-n", "~backup", "a~", "ä", "a\u0308", "a\nb", "a*[b]?", "\udcff"])
async def test_names_are_bytes(actor: "Actor", root: Path, name: str) -> None:
    await actor.write(name, b"1\n")
    await actor.edit(name, b"1", b"2")
    await actor.edit(f"./{name}", b"2", b"3")
    assert os.listdir(root) == [name]
    assert (root / name).read_bytes() == b"3\n"


async def test_a_name_of_blanks_or_a_tilde_is_reachable_as_a_path(actor: "Actor", root: Path) -> None:
    await actor.write("./ ", b"1\n")
    await actor.write("./~/x", b"1\n")
    assert sorted(os.listdir(root)) == [" ", "~"]


async def test_a_name_too_long_is_refused_and_the_longest_is_not(actor: "Actor", root: Path, refused: Refused) -> None:
    await actor.write("n" * 255, b"1\n")
    await actor.edit("n" * 255, b"1", b"2")
    for path in ("n" * 256, "d/" * 3000 + "a"):
        with refused("FS_NAME_TOO_LONG"):
            await actor.write(path, b"1\n")
    assert os.listdir(root) == ["n" * 255]


async def test_a_file_is_not_a_directory(actor: "Actor", tree: Path, refused: Refused) -> None:
    for path in ("d/a/b", "d/a/", "up/b"):
        with refused("FS_NOT_DIRECTORY"):
            await actor.read(path)
        with refused("FS_NOT_DIRECTORY"):
            await actor.write(path, b"x")


@pytest.mark.parametrize("path", ["d", "d/", ".", "ln", "d/e/..", "{root}", "{root}/", "new/", "new/."])
async def test_directories_are_not_written(actor: "Actor", tree: Path, refused: Refused, path: str) -> None:
    path = path.format(root=tree)
    with refused("FS_IS_DIRECTORY"):
        await actor.write(path, b"x")
    with refused("FS_NOT_FOUND" if path.startswith("new") else "FS_IS_DIRECTORY"):
        await actor.read(path)


async def test_special_files_are_refused_at_once(actor: "Actor", root: Path, refused: Refused) -> None:
    os.mkfifo(root / "p")
    (root / "to_fifo").symlink_to("p")
    cwd = os.getcwd()
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(root)  # a socket's path is short
        try:
            listener.bind("s")
        finally:
            os.chdir(cwd)
    for path in ("p", "to_fifo", "s"):
        with refused("FS_NOT_REGULAR_FILE"):
            await actor.read(path)
        with refused("FS_NOT_REGULAR_FILE"):
            await actor.write(path, b"x")
        with refused("FS_NOT_REGULAR_FILE"):
            await actor.edit(path, b"a", b"b")


async def test_near_names_are_offered(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "src").mkdir()
    (root / "src/settings.py").touch()
    (root / "src/a\u0308.py").touch()
    with refused("FS_NOT_FOUND", "src/settings.py"):
        await actor.read("src/setings.py")
    with refused("FS_NOT_FOUND", "src/a\u0308.py"):
        await actor.read("src/\xe4.py")
    with refused("FS_NOT_FOUND", "Near it there is src."):
        await actor.read("scr/settings.py")


@pytest.mark.parametrize("path", ["new/", "new/.", "d/new/"])
async def test_a_slash_at_the_end_of_what_is_not_there_is_what_is_refused(
    actor: "Actor", root: Path, refused: Refused, path: str
) -> None:
    with refused("FS_IS_DIRECTORY", "slash at its end", "Leave the slash out"):
        await actor.write(path, b"x")
    assert os.listdir(root) == []


@pytest.mark.parametrize(
    ("there", "asked", "said"),
    [
        (b"caf\xc3\xa9.txt", "cafe\u0301.txt", "caf\xe9.txt (composed of other, canonically equivalent Unicode"),
        (b"cafe\xcc\x81.txt", "caf\xe9.txt", ' characters: "cafe\\u0301.txt"). Check the path.'),
        (b"README.md", "readme.md", "there is README.md (with other upper and lower case)."),
        (b" sp ", "sp", 'there is " sp " (with other white space).'),
        (b"a b.txt", "a  b.txt", '"a  b.txt" does not exist. Near it there is a b.txt (with other white space).'),
        (b"a\xc2\xa0b.txt", "a b.txt", 'there is "a\\xa0b.txt" (with other white space).'),
        (b"name\n.txt", "name.txt", 'there is "name\\n.txt" (with other white space).'),
        (b"one, two", "one two", 'there is "one, two".'),
        (
            b"\xff.txt",
            "\\xff.txt",
            'there is "\\xff.txt" (a name that is not UTF-8; only a command in `shell` reaches it).',
        ),
        (b"\\xff.txt", "\\xfe.txt", 'there is "\\\\xff.txt". Check the path.'),
    ],
)
async def test_a_near_name_is_told_apart_from_the_one_that_was_asked_for(
    actor: "Actor", root: Path, refused: Refused, there: bytes, asked: str, said: str
) -> None:
    os.close(os.open(os.path.join(os.fsencode(root), there), os.O_CREAT | os.O_WRONLY))
    with refused("FS_NOT_FOUND", said):
        await actor.read(asked)


async def test_a_missing_file_sends_nobody_to_a_tool_that_the_profile_may_refuse(actor: "Actor") -> None:
    with pytest.raises(GateRefusal) as refusal:
        await actor.read("nothing/like/it")
    assert refusal.value.message == "nothing/like/it does not exist. Check the path."


async def test_a_name_that_leads_to_another_file_now_is_stale(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "a").write_bytes(b"1\n")
    (root / "b").write_bytes(b"other\n")
    await actor.read("a")
    (root / "a").unlink()
    (root / "a").symlink_to("b")
    with refused("FS_STALE_VERSION"):
        await actor.write("a", b"2\n")
    assert (root / "b").read_bytes() == b"other\n"


async def test_a_link_turned_between_decision_and_commit_is_stale(actor: "Actor", root: Path, refused: Refused) -> None:
    for name in ("a", "b"):
        (root / name).write_bytes(b"1\n")
    (root / "link").symlink_to("a")
    await actor.read("link")
    planned = await actor.plan_write("link", b"2\n")
    (root / "link").unlink()
    (root / "link").symlink_to("b")
    with refused("FS_STALE_VERSION", "leads to b now"):
        await actor.commit(planned)


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git/config",
        "sub/.git/hooks/x/y",
        "hooks/post-merge",
        ".env",
        "deep/er/.env",
        "keys/x",
    ],
)
async def test_protected_files_are_refused_before_they_exist(
    workspace: Workspace, root: Path, refused: Refused, path: str
) -> None:
    (root / ".git").mkdir()
    (root / "hooks").symlink_to(".git/hooks")
    gate = Gate(workspace, protected=("**/.env", "keys/**"))
    with refused("FS_PROTECTED"):
        await gate.decide(WriteIntent(path, b"x"))
    await gate.decide(WriteIntent(".git/description", b"x"))
    await gate.decide(WriteIntent("deep/keys/x", b"x"))


async def test_another_name_of_a_protected_file_is_protected(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / ".git").mkdir()
    (root / ".git/config").write_bytes(b"[core]\n")
    os.link(root / ".git/config", root / "x")
    await actor.read("x")
    with refused("FS_PROTECTED", ".git/config"):
        await actor.write("x", b"y")


async def test_a_workspace_reached_through_a_link_takes_both_spellings(tmp_path: Path, root: Path) -> None:
    given = tmp_path / "given"
    given.symlink_to(root)
    (root / "a").write_bytes(b"1\n")
    with Workspace.open(str(given)) as workspace:
        assert os.path.samefile(workspace.path, root)  # noqa: ASYNC240
        assert workspace.path != str(given)
        gate = Gate(workspace)
        for path in (f"{given}/a", f"{root}/a", f"{root}/../given/a"):
            opened = await gate.read(path)
            os.close(opened.descriptor)
            assert opened.real == b"a"


def test_a_workspace_that_cannot_be_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, status in (
        (str(tmp_path / "missing"), "NOT_FOUND"),
        (str(tmp_path / "file"), "INVALID_ARGUMENT"),
        ("relative", "INVALID_ARGUMENT"),
        ("", "INVALID_ARGUMENT"),
        ("/a\0b", "INVALID_ARGUMENT"),
    ):
        with pytest.raises(RequestError) as caught:
            Workspace.open(path)
        assert caught.value.status == status


def test_the_kernel_here_has_openat2() -> None:
    """Otherwise half of these tests would say nothing."""
    if not syscalls.has_openat2():
        pytest.skip("this kernel, or a filter, does not know openat2")


def test_no_descriptor_is_left_open(workspace: Workspace, tree: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for path in ("d/a", "up", "absolute_directory/a", "x/y/z", "d/e/.."):
        with resolve(workspace, path):
            pass
    assert len(os.listdir("/proc/self/fd")) == len(before)
