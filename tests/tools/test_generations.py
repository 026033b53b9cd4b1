"""Files come, change, break and go while the daemon runs; each is a generation, and a bad one leaves the last good."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.tools.shop import open_shop

SAY = '''
from stockade_toolkit import Files, tool

@tool
def say(path: str, files: Files) -> str:
    """Says a word.

    path: A file to open first.
    """
    files.open(path)
    return "WORD"
'''

WAIT = '''
from stockade_toolkit import Files, tool

@tool
def say(path: str, files: Files) -> str:
    """Says a word when it may.

    path: A file; when it holds "go", the wait is over.
    """
    print("here", flush=True)
    while b"go" not in files.open(path).content():
        pass
    return "WORD"
'''


async def test_a_tool_that_is_dropped_in_is_listed_and_called(place: Path) -> None:
    async with open_shop(place, {}) as shop:
        assert "say" not in await shop.names()
        shop.write("say.py", SAY)
        assert (await shop.news("changed"))["added"] == ["say"]
        assert "say" in await shop.names()
        assert (await shop.session.call("say", path="a.txt")).value == "WORD"
        (shop.directory / "say.py").unlink()
        assert (await shop.news("changed"))["removed"] == ["say"]
        gone = await shop.session.call("say", path="a.txt")
    assert gone.error is not None
    assert gone.error.code == "UNKNOWN_TOOL"


async def test_a_broken_edit_is_refused_by_line_and_the_last_good_stays(place: Path) -> None:
    async with open_shop(place, {"say.py": SAY}) as shop:
        path = shop.write("say.py", SAY + "def (:\n")
        refusal = await shop.news("refused")
        line = SAY.count("\n") + 1
        assert refusal == {"reason": f"{path}:{line}: SyntaxError: invalid syntax", "kept": ["say"]}
        assert (await shop.session.call("say", path="a.txt")).value == "WORD"
        (kept,) = (await shop.listed()).refused
        assert list(kept.kept) == ["say"]
        shop.write("say.py", SAY.replace("WORD", "OTHER"))
        assert (await shop.news("changed"))["changed"] == ["say"]
        assert (await shop.session.call("say", path="a.txt")).value == "OTHER"
        assert not (await shop.listed()).refused


async def test_the_catalog_says_what_is_refused_and_what_stays(place: Path) -> None:
    async with open_shop(place, {"say.py": SAY}) as shop:
        path = shop.write("say.py", "import none_such\n")
        await shop.news("refused")
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "stockade_client", "catalog"),
            env={**os.environ, "STOCKADE_ADDRESS": shop.address},
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await done.communicate()
    assert (
        f"refused: {path}:1: ModuleNotFoundError: No module named 'none_such' (its tools of before stay: say)\n"
        in said.decode()
    )


async def test_a_call_of_a_tool_whose_file_is_refused_is_told_why(place: Path) -> None:
    async with open_shop(place, {"say.py": "import none_such\n", "say_more.py": "def (:\n"}) as shop:
        calls = {name: await shop.session.call(name, path="a.txt") for name in ("say", "say_x", "say_more_x", "sayx")}
    messages = {name: call.error.message for name, call in calls.items() if call.error}
    assert {call.error.code for call in calls.values() if call.error} == {"UNKNOWN_TOOL"}
    for name, words in (("say", "say.py:1: Mod"), ("say_x", "say.py:1: Mod"), ("say_more_x", "say_more.py:1: Syn")):
        assert f"The file that may have it is refused: {shop.directory}/{words}" in messages[name]
    assert "refused" not in messages["sayx"]


async def test_a_call_under_way_ends_with_the_generation_that_it_began_with(place: Path) -> None:
    async with open_shop(place, {"say.py": WAIT}) as shop:
        call = await shop.session.start("say", path="a.txt")
        async with call.output() as output:
            assert await anext(aiter(output)) == b"here\n"
        shop.write("say.py", SAY.replace("WORD", "OTHER"))
        await shop.news("changed")
        assert (await shop.session.call("say", path="a.txt")).value == "OTHER"
        (shop.workspace / "a.txt").write_text("go\n")
        assert (await call.result()).value == "WORD"


async def test_a_file_that_is_written_piece_by_piece_is_taken_when_it_is_whole(place: Path) -> None:
    async with open_shop(place, {}) as shop:
        with (shop.directory / "say.py").open("w") as file:
            for line in SAY.splitlines(keepends=True):
                file.write(line)
                file.flush()
                await asyncio.sleep(0)
        assert (await shop.news("changed"))["added"] == ["say"]


@pytest.mark.parametrize("kind", ["directory", "link"])
async def test_a_directory_that_comes_later_or_is_swapped_is_followed(place: Path, kind: str) -> None:
    async with open_shop(place, {}) as shop:
        shop.directory.rmdir()
        made = place / "made"
        made.mkdir()
        (made / "say.py").write_text(SAY)
        if kind == "directory":
            made.rename(shop.directory)
        else:
            shop.directory.symlink_to(made)
        assert (await shop.news("changed"))["added"] == ["say"]
        if kind == "link":
            other = place / "other"
            other.mkdir()
            (other / "say.py").write_text(SAY.replace("WORD", "OTHER"))
            (place / "new").symlink_to(other)
            (place / "new").replace(shop.directory)
            assert (await shop.news("changed"))["changed"] == ["say"]
            assert (await shop.session.call("say", path="a.txt")).value == "OTHER"


async def test_links_within_the_directory_are_followed_when_they_are_swapped(place: Path) -> None:
    """As the volumes of containers have their files: NAME → ..data/NAME, ..data → a directory of one version."""
    async with open_shop(place, {}) as shop:
        for version, word in (("v1", "WORD"), ("v2", "OTHER")):
            (shop.directory / f"..{version}").mkdir()
            (shop.directory / f"..{version}" / "say.py").write_text(SAY.replace("WORD", word))
        (shop.directory / "..data").symlink_to("..v1")
        (shop.directory / "say.py").symlink_to("..data/say.py")
        assert (await shop.news("changed"))["added"] == ["say"]
        (shop.directory / "..new").symlink_to("..v2")
        (shop.directory / "..new").replace(shop.directory / "..data")
        assert (await shop.news("changed"))["changed"] == ["say"]
        assert (await shop.session.call("say", path="a.txt")).value == "OTHER"


async def test_files_that_others_could_have_written_are_refused_until_they_are_put_right(place: Path) -> None:
    async with open_shop(place, {}) as shop:
        outside = place / "say.py"
        outside.write_text(SAY)
        (shop.directory / "say.py").symlink_to(outside)
        assert "is a link that leads out of" in str((await shop.news("refused"))["reason"])
        (shop.directory / "say.py").unlink()
        outside.chmod(0o666)
        outside.rename(shop.directory / "say.py")
        assert f"chmod go-w {shop.directory}/say.py" in str((await shop.news("refused"))["reason"])
        (shop.directory / "say.py").chmod(0o644)
        assert (await shop.news("changed"))["added"] == ["say"]
        shop.directory.chmod(0o777)
        assert f"chmod go-w {shop.directory}" in str((await shop.news("refused", "0777"))["reason"])


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another user needs root")
async def test_a_file_of_another_user_is_refused(place: Path) -> None:
    async with open_shop(place, {}) as shop:
        made = place / "say.py"
        made.write_text(SAY)
        os.chown(made, 12345, 12345)
        made.rename(shop.directory / "say.py")
        reason = str((await shop.news("refused"))["reason"])
        assert "belongs to uid 12345" in reason
        assert "say" not in await shop.names()


async def test_names_that_are_not_a_files_to_give_are_refused(place: Path) -> None:
    async with open_shop(place, {"say.py": SAY}) as shop:
        shop.write("read.py", SAY.replace("def say", "def read"))
        assert "read.py:4: read is a built-in tool" in str((await shop.news("refused"))["reason"])
        shop.write("aaa.py", SAY)
        assert "so 'say' is not its to give" in str((await shop.news("refused", "aaa"))["reason"])
        shop.write("say_more.py", SAY.replace("def say", "def say_more"))
        assert (await shop.news("changed"))["added"] == ["say_more"]
        shop.write("say.py", SAY + SAY.replace("def say", "def say_more"))
        assert "say_more is a tool of" in str((await shop.news("refused", "say.py"))["reason"])
        assert "say_more" in await shop.names()
        shop.write("Bad-Name.py", SAY)
        assert "a tool file's name is of a-z" in str((await shop.news("refused", "Bad"))["reason"])
