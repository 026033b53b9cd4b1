"""What package managers install into scratch is what they install outside, and the workspace has none of it."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.both_ways import Both, both_ways
from tests.end_to_end.session_s import start_with
from tests.end_to_end.stockaded import Stockaded
from tests.end_to_end.test_real_work import programs
from tests.end_to_end.test_tools_both_ways import PIP, npm_project, wheels
from tests.scripts.snapshot import differences

# Names, kinds, modes, targets and bytes of everything; compiled modules hold the time of their source.
TREE: Final = (
    "cd {} && find . -printf '%P %y %m %l\\n' | LC_ALL=C sort; "
    "find . -type f ! -name '*.pyc' -exec sha256sum {{}} + | LC_ALL=C sort"
)


@pytest.fixture(scope="module")
def served(scratch: Path) -> Iterator[Stockaded]:
    """A running daemon with the profile `keeping`: `ci` with scratch, and the environment of these tests by a mount."""
    daemon = Stockaded(Path(tempfile.mkdtemp(dir=scratch)), workspaces=scratch)
    text = f"""
extends = "ci"
widen = ["filesystem.mounts", "filesystem.scratch"]
[filesystem]
mounts = [{{path = "{sys.prefix}", mode = "ro"}}]
scratch = ["application/node_modules", "site", ".venv"]
"""
    try:
        start_with(daemon, {"keeping": text})
        yield daemon
        assert daemon.end() == 0, daemon.log.read_text()
    finally:
        if daemon.process is not None:
            daemon.end(signal.SIGKILL)


def assert_same(both: Both, kept: str) -> None:
    """But for what is kept, which is in neither the workspace nor the effects; the commands tell of it."""
    assert both.through.printed == both.outside.printed
    assert set(both.through.statuses) == {0}, both.through.printed
    outside, through = (
        {name: entry for name, entry in each.left.items() if not f"{os.fsdecode(name)}/".startswith(f"{kept}/")}
        for each in (both.outside, both.through)
    )
    assert len(both.outside.left) - len(outside) > 5
    assert differences(outside, both.through.left) == differences(outside, through) == []
    assert [each for each in both.through.effects if each["path"].startswith(kept)] == []


@programs("node", "npm")
def test_npm_installs_into_scratch_as_outside(served: Stockaded, workspace: Path) -> None:
    packing, *commands = npm_project(workspace)
    kept = "application/node_modules"
    both = both_ways(served, "keeping", workspace, [packing, *commands, TREE.format(kept)])
    assert_same(both, kept)
    assert "tool/made.txt f 644" in both.through.printed[-1]
    assert "application/package-lock.json" in {each["path"] for each in both.through.effects}
    assert not (workspace / kept).exists()


def test_pip_installs_into_scratch_as_outside(served: Stockaded, workspace: Path) -> None:
    wheels(workspace)
    install = f"{PIP} install --quiet --no-index --find-links wheels"
    commands = [
        f"{install} -t site greet==1.0; PYTHONPATH=site site/bin/greet; {TREE.format('site')}",
        f"{install} -t site --upgrade greet; PYTHONPATH=site site/bin/greet; {TREE.format('site')}",
    ]
    both = both_ways(served, "keeping", workspace, commands)
    assert_same(both, "site")
    assert both.through.effects == ()
    assert not (workspace / "site").exists()


def test_pip_installs_into_a_virtual_environment_in_scratch(served: Stockaded, workspace: Path) -> None:
    wheels(workspace)
    install = f"{PIP} --python .venv/bin/python install --quiet --no-index --find-links wheels"
    commands = [
        "python3 -m venv --without-pip .venv && .venv/bin/python -c 'import sys; print(sys.prefix)'",
        f"{install} greet==1.0; .venv/bin/greet",
        ". .venv/bin/activate && greet && head -1 .venv/bin/greet && deactivate",
        f"{install} --upgrade greet; sh .venv/bin/greet.sh",
        "python3 -m venv --clear --without-pip .venv; ls .venv/lib/python3*/site-packages .venv/bin/greet; true",
    ]
    both = both_ways(served, "keeping", workspace, commands)
    assert_same(both, ".venv")
    assert both.through.effects == ()
    assert both.through.printed[2] == f"hello\n#!{workspace}/.venv/bin/python\n"
