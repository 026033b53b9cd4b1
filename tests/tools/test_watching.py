"""Being told to look: by the kernel, and where it does not tell, once a second."""

import contextlib
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from stockade_daemon import watching
from stockade_daemon.registry import sources


async def test_a_change_in_a_directory_is_told(tmp_path: Path) -> None:
    directory = tmp_path / "tools"
    directory.mkdir()
    async with contextlib.aclosing(watching.changes([directory])) as news:
        (directory / "a").write_text("a")
        await anext(news)


async def test_a_directory_that_is_made_later_is_waited_for(tmp_path: Path) -> None:
    directory = tmp_path / "not" / "yet"
    async with contextlib.aclosing(watching.changes([directory])) as news:
        await anext(news)
        directory.mkdir(parents=True)
        while str(directory) not in [path for path, *_ in watching._places([directory])]:
            await anext(news)
        (directory / "a").write_text("a")
        await anext(news)


async def test_what_cannot_be_watched_is_looked_at_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def exhausted(*_: Any, **__: Any) -> NoReturn:
        raise OSError(28, "the limit on inotify watches is reached")

    monkeypatch.setattr(watching, "awatch", exhausted)
    monkeypatch.setattr(watching, "LOOK_MS", 1)
    with caplog.at_level(logging.WARNING):
        async with contextlib.aclosing(watching.changes([tmp_path])) as news:
            for _ in range(3):
                await anext(news)
    assert len([each for each in caplog.records if "cannot be watched" in each.getMessage()]) == 1


async def test_nothing_to_watch_is_no_watch() -> None:
    assert [each async for each in watching.changes([])] == []


def test_only_what_concerns_a_directory_wakes_us() -> None:
    directories = [Path("/a/b")]
    assert [watching._concerns(directories, path) for path in ("/a/b/c", "/a/b", "/a", "/a/c", "/ab")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_the_daemon_imports_no_tool_file_to_know_its_tools() -> None:
    """The rooms that deal with tool files have nothing in them that could import one."""
    code = (
        "import sys, stockade_daemon.pipeline.toolbox, stockade_daemon.app;"
        "print([name for name in sys.modules if name.startswith(('stockade_toolkit', 'stockade_worker.custom'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_name_that_cannot_be_looked_at_costs_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("")
    (tmp_path / "bad.py").symlink_to("x" * 300)
    (tmp_path / "loop.py").symlink_to("loop.py")
    assert [Path(each.origin).name for each in sources.candidates(tmp_path)] == ["bad.py", "good.py", "loop.py"]
