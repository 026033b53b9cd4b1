"""What a profile calls scratch, through the wire: kept for the session, beside the workspace, and gone with it."""

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stockade_client import CallResult, NotPossible, connect
from stockade_client.session import Session
from tests.end_to_end.session_s import code, opened, start_with
from tests.end_to_end.stockaded import Stockaded

PROFILE = """
extends = "ci"
widen = ["filesystem.scratch"]
[filesystem]
scratch = ["node_modules", ".venv", "web/node_modules"]
"""
PATHS = ["node_modules", "node_modules/kept", "node_modules/missing", "web/node_modules", "way/kept"]


@pytest.fixture
def served(stockaded: Stockaded, workspace: Path) -> Iterator[Stockaded]:
    """A running daemon with the profile `scratch`, which commits what commands change elsewhere."""
    (workspace / "web").mkdir()
    (workspace / "way").symlink_to("node_modules")
    yield start_with(stockaded, {"scratch": PROFILE})
    assert not mounted(stockaded)


def mounted(daemon: Stockaded) -> list[str]:
    """What of the daemon's is mounted in the host's view."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(daemon.directory) in line]


def kept(daemon: Stockaded) -> list[Path]:
    """What is in the directories that sessions keep."""
    return list((daemon.state / "session-scratch").glob("s-*/*/*"))


def value(result: CallResult) -> Any:
    assert result.ok, result
    return result.value


async def said(session: Session, command: str, **more: Any) -> str:
    """What a command prints, which changes nothing in the workspace."""
    found = value(await session.call("shell", command=command, **more))
    assert (found["effects"], found["exit_code"]) == ([], 0), found
    return str(found["stdout"])


async def test_what_a_command_leaves_in_scratch_is_for_the_next_one_and_not_for_the_workspace(
    served: Stockaded, workspace: Path
) -> None:
    before = sorted(os.listdir(workspace))
    async with opened(served, workspace, "scratch") as (daemon, session):
        assert await said(session, "ls -A node_modules web/node_modules; echo one > node_modules/kept; pwd") == (
            f"node_modules:\n\nweb/node_modules:\n{workspace}\n"
        )
        assert await said(session, "echo two >> node_modules/kept; cat node_modules/kept way/kept; id -u") == (
            "one\ntwo\none\ntwo\n1000\n"
        )
        assert await said(session, "stat -c '%U %a' node_modules ../node_modules/kept", cwd="web") == (
            "agent 755\nagent 644\n"
        )
        async with daemon.session(workspace, "scratch") as other:
            assert await said(other, "ls -A node_modules") == ""
    assert sorted(os.listdir(workspace)) == before
    assert os.listdir(workspace / "web") == []


@pytest.mark.parametrize("on_disk", [False, True])
async def test_functions_find_nothing_at_a_scratch_path_and_write_nothing_there(
    served: Stockaded, workspace: Path, on_disk: bool
) -> None:
    if on_disk:
        (workspace / "node_modules").mkdir()
        (workspace / "node_modules" / "kept").write_text("of the disk: needle\n")
    async with opened(served, workspace, "scratch") as (_, session):
        await said(session, "echo needle > node_modules/kept; echo needle > web/node_modules/kept")
        for path in PATHS:
            assert code(await session.call("read", path=path)) == "FS_PERMISSION_DENIED", path
            refused = await session.call("write", path=path, content="x")
            assert code(refused) == "FS_PROTECTED", path
            assert refused.error is not None
            assert "scratch" in refused.error.message
        edit = await session.call("edit", path="node_modules/kept", old_string="needle", new_string="x")
        assert code(edit) == "FS_PROTECTED"
        assert code(await session.call("list", path="node_modules")) == "FS_PERMISSION_DENIED"
        assert code(await session.call("glob", pattern="node_modules/*")) == "FS_PERMISSION_DENIED"
        listed = value(await session.call("list", path="."))
        assert "node_modules" not in [each["name"] for each in listed["entries"]]
        assert value(await session.call("glob", pattern="**/kept"))["total"] == 0
        assert value(await session.call("grep", pattern="needle"))["matches"] == []
        (workspace / "seen").write_text("needle\n")
        assert len(value(await session.call("grep", pattern="needle"))["matches"]) == 1


async def test_the_workspaces_own_directory_of_that_name_is_not_there_for_commands_and_stays_as_it_is(
    served: Stockaded, workspace: Path
) -> None:
    (workspace / "node_modules").mkdir()
    (workspace / "node_modules" / "own").write_text("own\n")
    (workspace / ".venv").write_text("a file\n")
    async with opened(served, workspace, "scratch") as (_, session):
        assert await said(session, "ls -A node_modules .venv; rm -rf node_modules/* .venv/*; touch .venv/x") == (
            ".venv:\n\nnode_modules:\n"
        )
        # A mount point can be emptied, and neither removed nor moved.
        tried = value(await session.call("shell", command="rmdir node_modules; mv .venv other; rm -rf web; ls -A"))
        assert tried["stderr"].count("busy") >= 2, tried
        assert (tried["effects"], "web" in tried["stdout"].split()) == ([], True)
    assert (workspace / "node_modules" / "own").read_text() == "own\n"
    assert (workspace / ".venv").read_text() == "a file\n"


async def test_a_scratch_path_is_there_once_its_directory_is(served: Stockaded, workspace: Path) -> None:
    (workspace / "web").rmdir()
    async with opened(served, workspace, "scratch") as (_, session):
        both = await session.call("shell", command="mkdir -p web/node_modules; echo x > web/node_modules/x")
        assert code(both) == "FS_PROTECTED"
        assert both.error is not None
        assert "web/node_modules is scratch and never committed" in both.error.message
        assert not (workspace / "web").exists()
        assert value(await session.call("shell", command="mkdir web"))["effects_disposition"] == "committed"
        await said(session, "echo x > web/node_modules/x")
        assert (await session.call("write", path="web/a.txt", content="a")).ok
        assert await said(session, "cat web/node_modules/x") == "x\n"
        changed = value(await session.call("shell", command="echo more >> web/a.txt; chmod 700 web; ls web"))
        assert ([each["path"] for each in changed["effects"]], changed["stdout"]) == (
            ["web", "web/a.txt"],
            "a.txt\nnode_modules\n",
        )
        (workspace / "web" / "node_modules").mkdir()
        if os.geteuid() == 0:  # an overlay of an ordinary user's daemon renames no directory: docs/effects.md
            await said(session, "true")  # the next command begins later than what was just made, by any clock
            assert code(await session.call("shell", command="mv -T web moved")) == "FS_PROTECTED"
    assert sorted(os.listdir(workspace / "web")) == ["a.txt", "node_modules"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_scratch_outlives_the_daemon_and_not_the_session(
    served: Stockaded, workspace: Path, number: signal.Signals
) -> None:
    async with opened(served, workspace, "scratch") as (daemon, session):
        await said(session, "mkdir node_modules/d; echo kept > node_modules/d/kept; chmod 0 node_modules/d")
        async with daemon.session(workspace, "scratch", id="other") as other:
            await said(other, "echo x > node_modules/x")
            assert {each.name for each in kept(served)} == {"d", "x"}
            await other.close()
        assert {each.name for each in kept(served)} == {"d"}
        served.end(number)
    assert not mounted(served)
    served.start()
    async with opened(served, workspace, "scratch") as (_, session):
        assert await said(session, "chmod 700 node_modules/d; cat node_modules/d/kept; ls node_modules") == "kept\nd\n"
        await said(session, "chmod 0 node_modules/d; chmod 0 node_modules")
        await session.close()
    assert kept(served) == []
    assert served.end() == 0
    assert os.listdir(served.state / "session-scratch") == []


async def test_what_an_ended_session_kept_goes_with_the_next_start(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "scratch") as (_, session):
        await said(session, "mkdir -p node_modules/a/b; echo x > node_modules/a/b/x")
        served.end(signal.SIGKILL)
    place = served.state / "session-scratch"
    (place / "s-s").rename(place / "s-unknown")
    (place / ".gone-1-1").mkdir()
    served.start()
    assert served.end() == 0
    assert os.listdir(place) == []


async def test_links_and_modes_in_scratch_lead_nowhere(served: Stockaded, workspace: Path, directory: Path) -> None:
    canary = directory / "canary"
    canary.mkdir()
    (canary / "file").write_text("untouched\n")
    (canary / "file").chmod(0o640)
    async with opened(served, workspace, "scratch") as (_, session):
        told = await said(
            session,
            f"cd node_modules; ln -s {canary} out; ln -s {served.state} state; ln -s /proc/1/root root; mkfifo fifo; "
            "ln -s ../../../../../../../../../.. up; cp /bin/true suid; chmod 6755 suid; mkdir -p deep/er; "
            "ls out/ state/ 2>&1 | grep -c 'No such file'; mknod device c 1 3 2>&1 | grep -c permitted",
        )
        assert told == "2\n1\n"
        await said(session, "ln -sfn ../.. web/node_modules/over; ls web/node_modules/over/a.txt")
        assert code(await session.call("read", path="node_modules/out/file")) == "FS_PERMISSION_DENIED"
        (suid,) = (each for each in kept(served) if each.name == "suid")
        # Nobody can reach it where it lies, and it would be nobody's.
        assert stat.S_IMODE((served.state / "session-scratch").stat().st_mode) == 0o700
        assert (suid.stat().st_uid == os.geteuid()) == (os.geteuid() != 0)
        await session.close()
    assert served.end() == 0
    assert kept(served) == []
    assert (canary / "file").read_text() == "untouched\n"
    assert stat.S_IMODE((canary / "file").stat().st_mode) == 0o640


async def test_a_job_sees_scratch_beside_a_workspace_that_it_cannot_change(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "scratch") as (_, session):
        await said(session, "echo of-a-command > node_modules/x")
        started = value(
            await session.call(
                "shell",
                command="cat node_modules/x; echo of-a-job > node_modules/y; echo z > z 2>&1 || echo refused",
                background=True,
            )
        )
        result = await session.job(started["job"]).result()
        assert value(result)["stdout"].splitlines()[0] == "of-a-command"
        assert "refused" in value(result)["stdout"]
        assert await said(session, "cat node_modules/y") == "of-a-job\n"
        # What is prepared for functions afterwards has none of it.
        assert value(await session.call("grep", pattern="of-a"))["matches"] == []
    assert not (workspace / "z").exists()


async def test_a_virtual_environment_in_scratch_serves_the_commands_that_follow(
    served: Stockaded, workspace: Path
) -> None:
    (workspace / "main.py").write_text("import sys, mine\nprint(sys.prefix, mine.__file__)\n")
    async with opened(served, workspace, "scratch") as (_, session):
        await said(
            session, "python3 -m venv --without-pip .venv && .venv/bin/python -c 'import sys; print(sys.prefix)'"
        )
        await said(session, "d=$(echo .venv/lib/python3*/site-packages); echo > $d/mine.py")
        told = await said(session, ". .venv/bin/activate && python main.py")
        assert told.startswith(f"{workspace}/.venv {workspace}/.venv/lib")
        await said(session, "python3 -m venv --clear --without-pip .venv")
        assert await said(session, "ls .venv/lib/python3*/site-packages") == ""
    assert not (workspace / ".venv").exists()


def git(at: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=at, check=True)


async def test_git_inside_lets_alone_what_is_scratch(served: Stockaded, workspace: Path) -> None:
    git(workspace, "init", "--quiet")
    add = "git add --all; git -c user.name=A -c user.email=a@example.org commit -qm one; git ls-files"
    async with opened(served, workspace, "scratch") as (_, session):
        await said(session, "echo x > .venv/x; echo x > node_modules/x; echo x > web/node_modules/x")
        told = value(await session.call("shell", command=add))
        assert (told["stdout"], told["effects_disposition"]) == ("a.txt\nway\n", "committed")
        assert await said(session, "git status --porcelain") == ""


async def test_no_session_calls_scratch_what_git_tracks(served: Stockaded, workspace: Path) -> None:
    for name in (".venvs", "node_modules/deep/kept", "node_modules/other"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("tracked\n")
    git(workspace, "init", "--quiet")
    git(workspace, "add", "--all")
    async with connect(served.address) as daemon:
        with pytest.raises(NotPossible, match=r"git tracks node_modules/deep/kept in .* calls node_modules scratch"):
            async with daemon.session(workspace, "scratch"):
                pass
        git(workspace, "rm", "-rq", "--cached", "node_modules")
        async with daemon.session(workspace, "scratch") as session:
            await said(session, "true")


async def test_a_call_under_a_profile_without_scratch_has_the_workspace(served: Stockaded, workspace: Path) -> None:
    async with connect(served.address) as daemon, daemon.session(workspace, "ci") as session:
        await session.call("shell", command="mkdir node_modules; echo x > node_modules/x")
    assert (workspace / "node_modules" / "x").read_text() == "x\n"
    assert os.listdir(served.state / "session-scratch") == []
