"""What a command sets under the names of an overlay's own attributes does not hide anything from the next command."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.session_s import code, opened, start_with
from tests.end_to_end.stockaded import Stockaded

MARKS = ("user.overlay.whiteout", "user.overlay.opaque", "user.overlay.overlay.whiteout", "user.overlay.redirect")
_PROFILE = '[approval]\nwrites = "allow"\ncommands = "allow"\neffects = "commit"\nwait_s = 0\n'
_SET = "import os, sys; [os.setxattr(path, name, b'{}') for path in sys.argv[1:] for name in {}]"


@pytest.fixture
def served(stockaded: Stockaded, workspace: Path) -> Stockaded:
    (workspace / "d").mkdir()
    (workspace / "d" / "x").write_text("x\n")
    (workspace / "empty").touch()
    try:
        os.setxattr(workspace / "empty", "user.note", b"")
    except OSError as error:
        pytest.skip(f"no extended attributes in this file system: {error}")
    return start_with(stockaded, {"committing": _PROFILE})


def setting(paths: str, names: tuple[str, ...] = MARKS, value: str = "y") -> str:
    return f'python3 -c "{_SET.format(value, names)}" {paths}'


async def test_marks_that_a_command_sets_hide_nothing_from_the_next(served: Stockaded, workspace: Path) -> None:
    made = "touch new; mkdir -p n/m; touch n/m/f; echo more >> a.txt; "
    async with opened(served, workspace, "committing") as (_, session):
        result = await session.call("shell", command=made + setting("new n n/m n/m/f d d/x a.txt empty ."))
        assert code(result) == "ok", result.error
        value: Any = result.value
        if "Operation not supported" in value["stderr"]:
            pytest.skip("this kernel's overlays take no attributes of such names")
        assert (value["exit_code"], value["effects_disposition"]) == (0, "committed"), value
        seen = await session.call("shell", command="find . | sort; cat d/x")
        value = seen.value
    assert value["stdout"].replace("./", "").split("\n")[1:-2] == sorted(
        str(each.relative_to(workspace)) for each in below(workspace)
    )
    assert value["stdout"].endswith("x\n")
    if os.geteuid() != 0:
        assert not any(name in os.listxattr(each) for each in (workspace, *below(workspace)) for name in MARKS)
        for name in ("new", "n/m/f", "empty", "a.txt", "d"):
            assert f"{name}: attributes user.overlay.* are never committed" in str(result.content), result.content


def below(directory: Path) -> list[Path]:
    return list(directory.rglob("*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root's overlays have other marks")
async def test_marks_that_somebody_else_set_stay_or_the_result_says_that_they_do_not(
    served: Stockaded, workspace: Path
) -> None:
    for name in ("a.txt", "d"):
        os.setxattr(workspace / name, "user.overlay.impure", b"n")
    async with opened(served, workspace, "committing") as (_, session):
        result = await session.call("shell", command=f"{setting('d', ('user.note',))}; echo y > d/y; echo z >> a.txt")
        assert code(result) == "ok", result.error
    assert set(os.listxattr(workspace / "d")) == {"user.note", "user.overlay.impure"}
    assert (workspace / "a.txt").read_text().endswith("z\n")
    assert "a.txt: attributes user.overlay.* of the file before are not kept" in str(result.content)
    assert os.listxattr(workspace / "a.txt") == []
