"""File systems that somebody has mounted in a workspace: commands do not see them, and nothing there is committed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.stockaded import COMMAND_S

SCRIPT = """\
set -e
mount -t tmpfs -o size=1m none mounted
echo inside > mounted/f
exec "$@"
"""


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount something in a directory of the host")


def called(workspace: Path, tool: str, *more: str, **arguments: str) -> "subprocess.CompletedProcess[str]":
    """A call by a private daemon, in a mount namespace that ends with it."""
    (workspace / "mounted").mkdir(exist_ok=True)
    own = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"]
    call = ["call", tool, json.dumps(arguments), "--profile", "ci", "--private", "--json", *more]
    return subprocess.run(
        [*own, sys.executable, "-m", "stockade_client", *call],
        cwd=workspace, capture_output=True, text=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "script",
    ["echo x > made; echo y > mounted/g", "rm a.txt; rmdir mounted", "mv mounted moved", "mv a.txt mounted/a.txt"],
)
def test_changes_of_what_is_mounted_in_the_workspace_are_refused_and_change_nothing(
    workspace: Path, script: str
) -> None:
    done = called(workspace, "shell", command=script)
    assert done.returncode == 1, done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "FS_OUTSIDE_WORKSPACE"
    assert "another file system is mounted there" in error["message"]
    assert sorted(each.name for each in workspace.iterdir()) == ["a.txt", "mounted"]
    assert os.listdir(workspace / "mounted") == []


def test_functions_work_on_what_is_mounted_in_the_workspace(workspace: Path) -> None:
    for tool, arguments in (("read", {}), ("write", {"content": "new\n"})):
        path = "mounted/f" if tool == "read" else "mounted/new"
        done = called(workspace, tool, "--yes", path=path, **arguments)
        assert done.returncode == 0, done.stdout + done.stderr
