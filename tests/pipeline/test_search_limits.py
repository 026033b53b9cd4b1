"""What ends a search early: a missing program, the profile's time, its memory, and calls that are taken back."""

from pathlib import Path

import pytest

from stockade_daemon.sandbox import library
from tests.pipeline.conftest import Staged


def endless(path: Path) -> None:
    """A file that looks like text and takes ripgrep long."""
    with path.open("wb") as file:
        file.write(b"text\n" * 20_000)
        file.truncate(64 << 30)


async def test_without_ripgrep_the_call_says_what_to_install(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_ripgrep", lambda: None)
    for number, tool in enumerate(("grep", "glob")):
        result = await staged.call(f"c{number}", tool, pattern="x")
        assert result["error"]["code"] == "TOOL_FAILED"
        assert "pip install 'ripgrep" in result["error"]["message"]
    read = await staged.call("r", "read", path="a.txt")
    assert read["ok"]


async def test_a_search_is_dispatched_with_a_view_and_observes_nothing(staged: Staged) -> None:
    result = await staged.call("c1", "grep", pattern="one")
    assert result["value"]["total"] == 1
    assert (await staged.body("c1", "call/dispatched"))["access"] == "read"
    assert not [each for each in await staged.types("c1") if each.startswith("fs/")]


class TestLittleTime:
    @pytest.fixture
    def settings(self) -> str:
        return "limits.wall_s = 1\n"

    async def test_a_search_that_takes_too_long_is_ended(self, staged: Staged) -> None:
        endless(staged.workspace / "endless")
        result = await staged.call("c1", "grep", pattern="nothing", path="endless")
        assert result["error"]["code"] == "TOOL_TIMEOUT"
        assert (await staged.call("c2", "grep", pattern="one", path="a.txt"))["value"]["total"] == 1


class TestLittleMemory:
    @pytest.fixture
    def settings(self) -> str:
        return "limits.memory_mb = 64\n"

    async def test_a_line_that_does_not_fit_ends_the_call_with_the_limit(self, staged: Staged) -> None:
        with (staged.workspace / "line").open("wb") as file:
            for _ in range(250):
                file.write(b"n" * 1_000_000)
        result = await staged.call("c1", "grep", pattern="x", path="line")
        if result["usage"]["source"] != "cgroup":
            pytest.skip("no control groups here: nothing bounds a call's memory in time")
        assert result["error"]["code"] == "RESOURCE_LIMIT"
        assert "memory" in result["error"]["message"]
        assert (await staged.call("c2", "grep", pattern="one"))["value"]["skipped"]["too_large"] == 1

    async def test_many_files_and_long_lines_take_no_more_memory(self, staged: Staged) -> None:
        for number in range(3000):
            (staged.workspace / f"{number:04}").write_bytes(b"a line\n" * 10)
        for number in range(4):
            (staged.workspace / f"long{number}").write_bytes(b"a" * 5_000_000 + b"\n")
        found = await staged.call("c1", "grep", pattern="(a|line)$")
        assert found["value"]["truncated"]
        found = await staged.call("c2", "grep", pattern="a$")
        assert [each["path"] for each in found["value"]["matches"]] == [f"long{number}" for number in range(4)]
        listed = await staged.call("c3", "glob", pattern="**")
        assert listed["value"]["total"] == 3005
