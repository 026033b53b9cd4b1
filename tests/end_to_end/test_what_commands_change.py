"""What commands change in their private view, through the wire: committed as one, asked about, refused, dropped."""

import hashlib
import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from stockade_client import CallResult
from stockade_client.approvals import Ask
from tests.end_to_end.session_s import asked, code, opened, result_of, start_with
from tests.end_to_end.stockaded import Stockaded

ALL = (
    "printf more >> a.txt; mkdir -p new/deep; echo n > new/deep/n; mv gone here; "
    "rm old; chmod 700 script; ln -s a.txt l"
)
# An overlay lists a name that is new below it, but does not always open it.
WAIT = "echo there; until ls | grep -qx go; do sleep 0.01; done"
# The overlay of an ordinary user's daemon does not tell which file a copy is of (docs/effects.md).
RENAMED = {"here": "renamed"} if os.geteuid() == 0 else {"here": "created", "gone": "deleted"}
GIT = "git -c user.name=A -c user.email=a@example.org"


@pytest.fixture
def served(stockaded: Stockaded, workspace: Path) -> Stockaded:
    """A running daemon: `keeping` commits what commands change, `asking` asks about it."""
    for name in ("gone", "old", "script"):
        (workspace / name).write_text(f"{name}\n")
    text = '[approval]\nwrites = "allow"\ncommands = "allow"\neffects = "{}"\nwait_s = {}\n'
    return start_with(stockaded, {"keeping": text.format("commit", 0), "asking": text.format("ask", 600)})


def value(result: CallResult) -> Any:
    return result.value


def disposition(result: CallResult) -> Any:
    return value(result)["effects_disposition"]


def card_of(ask: Ask) -> Any:
    return ask.card


def picture(place: Path) -> dict[str, tuple[int, str, int]]:
    """Everything in a directory: mode, what is in it, and when it was changed last."""
    found = {}
    for path in sorted(place.rglob("*")):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        else:
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(place))] = (status.st_mode, content, status.st_mtime_ns)
    return found


def owners(place: Path) -> set[tuple[int, int]]:
    """Who owns what is in a directory."""
    return {(path.lstat().st_uid, path.lstat().st_gid) for path in place.rglob("*")}


def changed(workspace: Path) -> None:
    """ALL was done."""
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\nmore"
    assert (workspace / "new" / "deep" / "n").read_text() == "n\n"
    assert (workspace / "here").read_text() == "gone\n"
    assert not (workspace / "gone").exists()
    assert not (workspace / "old").exists()
    assert stat.S_IMODE((workspace / "script").stat().st_mode) == 0o700
    assert os.readlink(workspace / "l") == "a.txt"


async def test_what_a_command_changed_is_committed_as_one_and_listed(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "keeping") as (_, session):
        result = await session.call("shell", command=ALL)
        assert (code(result), disposition(result)) == ("ok", "committed")
        changed(workspace)
        effects = {each["path"]: each["change"] for each in value(result)["effects"]}
        assert effects == {
            "a.txt": "changed",
            "new": "created",
            "new/deep": "created",
            "new/deep/n": "created",
            **RENAMED,
            "old": "deleted",
            "script": "metadata",
            "l": "created",
        }
        async with session.events() as events:
            types = [event.type async for event in events if event.type.startswith(("fs/", "policy/transaction"))]
        assert types == ["fs/effects-intent", "fs/begun", "policy/transaction", "fs/committed"]
        assert owners(workspace) == {(os.stat(workspace).st_uid, os.stat(workspace).st_gid)}
        assert not [name for name in os.listdir(workspace) if name.startswith(".stockade")]


async def test_a_status_other_than_zero_commits_and_a_command_that_was_ended_leaves_nothing(
    served: Stockaded, workspace: Path
) -> None:
    before = picture(workspace)
    async with opened(served, workspace, "keeping") as (_, session):
        late = await session.call("shell", command="echo x > made; sleep 60", timeout_s=0.5)
        assert (code(late), disposition(late)) == ("TOOL_TIMEOUT", "discarded")
        killed = await session.call("shell", command="echo x > made; kill -KILL $$")
        assert (code(killed), disposition(killed)) == ("ok", "discarded")
        call = await session.start("shell", command="echo x > made; echo there; sleep 60")
        async with call.output() as output:
            assert await anext(output) == b"there\n"
        await call.cancel()
        assert disposition(await call.result()) == "discarded"
        assert picture(workspace) == before
        failed = await session.call("shell", command="echo x > made; exit 3")
        assert (code(failed), disposition(failed)) == ("ok", "committed")
    assert (workspace / "made").read_text() == "x\n"


@pytest.mark.parametrize("outside", ["a.txt", "gone", "old", "new"])
async def test_what_somebody_else_changed_meanwhile_is_a_conflict_and_nothing_is_committed(
    served: Stockaded, workspace: Path, outside: str
) -> None:
    async with opened(served, workspace, "keeping") as (_, session):
        call = await session.start("shell", command=f"{ALL}; {WAIT}")
        async with call.output() as output:
            assert await anext(output) == b"there\n"
        (workspace / outside).write_text("somebody else's\n")
        before = picture(workspace)
        (workspace / "go").touch()
        result = await call.result()
    (workspace / "go").unlink()
    assert (code(result), disposition(result)) == ("FS_CONFLICT", "refused")
    assert result.error is not None
    assert outside in result.error.message
    assert picture(workspace) == before


async def test_two_commands_at_once_do_not_overwrite_each_other(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "keeping") as (_, session):
        script = f"echo {{name}} >> a.txt; echo {{name}} > {{name}}; {WAIT}"
        calls = [await session.start("shell", command=script.format(name=name)) for name in ("first", "second")]
        for call in calls:
            async with call.output() as output:
                assert await anext(output) == b"there\n"
        (workspace / "go").touch()
        results = [await call.result() for call in calls]
    assert sorted(code(result) for result in results) == ["FS_CONFLICT", "ok"]
    winner = "first" if code(results[0]) == "ok" else "second"
    assert (workspace / "a.txt").read_text() == f"one\ntwo\nthree\n{winner}\n"
    assert {"first", "second"} & set(os.listdir(workspace)) == {winner}


async def test_a_person_sees_what_a_command_did_and_a_no_leaves_the_workspace_bit_for_bit(
    served: Stockaded, workspace: Path
) -> None:
    before = picture(workspace)
    async with opened(served, workspace, "asking") as (daemon, session):
        await session.start("shell", call_id="c", command=ALL)
        ask = await asked(daemon)
        card = card_of(ask)
        assert card["counts"]["created"] == 4 + (RENAMED["here"] == "created")
        effects = {each["path"]: each for each in card["effects"]}
        assert "+threemore" not in effects["a.txt"]["difference"]
        assert "+more\n" in effects["a.txt"]["difference"]
        assert effects["here"].get("from") == ("gone" if RENAMED["here"] == "renamed" else None)
        assert effects["script"]["mode"] == "0700"
        assert effects["l"]["target"] == "a.txt"
        assert "+n\n" in effects["new/deep/n"]["difference"]
        assert card["complete"] is True
        assert picture(workspace) == before
        await ask.decide(False, reason="not the script")
        result = await result_of(daemon)
    assert (code(result), disposition(result)) == ("APPROVAL_REJECTED", "refused")
    assert result.error is not None
    assert "not the script" in result.error.message
    assert picture(workspace) == before
    assert list((served.state / "kept").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("answer", [True, False])
async def test_what_a_command_did_waits_for_an_answer_across_daemons(
    served: Stockaded, workspace: Path, number: signal.Signals, answer: bool
) -> None:
    before = picture(workspace)
    async with opened(served, workspace, "asking") as (daemon, session):
        await session.start("shell", call_id="c", command=f"{ALL}; echo printed; exit 4")
        first = await asked(daemon)
        served.end(number)
    served.start()
    async with opened(served, workspace, "asking") as (daemon, session):
        ask = await asked(daemon)
        assert (ask.ask_id, ask.shown_hash, ask.card) == (first.ask_id, first.shown_hash, first.card)
        assert picture(workspace) == before
        await ask.decide(answer)
        result = await result_of(daemon)
        assert (value(result)["stdout"], value(result)["exit_code"]) == ("printed\n", 4)
        if answer:
            assert (code(result), disposition(result)) == ("ok", "committed")
            changed(workspace)
        else:
            assert (code(result), disposition(result)) == ("APPROVAL_REJECTED", "refused")
            assert picture(workspace) == before
    assert list((served.state / "kept").iterdir()) == []


async def test_kept_changes_that_were_tampered_with_are_not_committed(served: Stockaded, workspace: Path) -> None:
    before = picture(workspace)
    async with opened(served, workspace, "asking") as (daemon, session):
        await session.start("shell", call_id="c", command="echo shown > made")
        await asked(daemon)
        served.end(signal.SIGKILL)
    (kept,) = (served.state / "kept").iterdir()
    (kept / "made").write_text("other\n")
    served.start()
    async with opened(served, workspace, "asking") as (daemon, session):
        await (await asked(daemon)).decide(True)
        assert code(await result_of(daemon)) == "APPROVAL_MISMATCH"
    assert picture(workspace) == before


async def test_a_file_that_changes_after_the_yes_was_given_is_a_conflict(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "asking") as (daemon, session):
        await session.start("shell", call_id="c", command=ALL)
        ask = await asked(daemon)
        (workspace / "a.txt").write_text("somebody else's\n")
        before = picture(workspace)
        await ask.decide(True)
        assert code(await result_of(daemon)) == "FS_CONFLICT"
    assert picture(workspace) == before


@pytest.mark.parametrize(
    "command",
    [
        "echo true > .git/hooks/post-commit",
        "git config core.fsmonitor ./evil",
        "mv .git there",
        "rm -rf .git",
        "echo gitdir: elsewhere > sub.git; mkdir sub; mv sub.git sub/.git",
        "ln -s /etc/passwd out",
        "ln -s ../../x out",
        "git init -q inner; echo true > inner/.git/hooks/post-commit; chmod 755 inner/.git/hooks/post-commit",
        "git init -q inner; git -C inner config core.pager ./evil",
        "git init -q --bare inner; git -C inner config core.sshCommand ./evil",
    ],
)
async def test_what_git_obeys_and_links_that_leave_are_refused_whole_where_nobody_can_be_asked(
    served: Stockaded, workspace: Path, command: str
) -> None:
    async with opened(served, workspace, "keeping") as (_, session):
        assert code(await session.call("shell", command=f"git init -q . && {GIT} commit -q --allow-empty -m x")) == "ok"
        before = picture(workspace)
        result = await session.call("shell", command=f"echo with it > beside; {command}")
        assert (code(result), disposition(result)) == ("FS_PROTECTED", "refused"), result.content
        assert picture(workspace) == before


async def test_a_person_may_allow_what_is_protected(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "asking") as (daemon, session):
        await session.start("shell", call_id="c", command="ln -s /etc/hostname out")
        ask = await asked(daemon)
        assert "leaves the workspace" in card_of(ask)["reason"]
        await ask.decide(True)
        assert code(await result_of(daemon)) == "ok"
    assert os.readlink(workspace / "out") == "/etc/hostname"


async def test_git_works_as_it_does_outside(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "keeping") as (_, session):
        for command in (
            "git init -q . && git add a.txt",
            f"{GIT} commit -qm one",
            f"echo four >> a.txt; {GIT} commit -qam two",
            f"git checkout -q -b side HEAD~1; echo s > side; git add side; {GIT} commit -qm three",
            f"{GIT} rebase -q master",
            "git gc -q; git fsck",
        ):
            result = await session.call("shell", command=command)
            assert (code(result), value(result)["exit_code"]) == ("ok", 0), (command, result.content)
        shown = await session.call("shell", command="git log --format=%s; git status --porcelain a.txt side; git diff")
        assert value(shown)["stdout"] == "three\ntwo\none\n"
        assert value(shown)["effects"] == []


async def test_sockets_are_left_out_and_named(served: Stockaded, workspace: Path) -> None:
    bind = "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\""
    async with opened(served, workspace, "ci") as (_, session):
        result = await session.call("shell", command=f"mkdir d; cd d; {bind}; echo rest > r")
        assert code(result) == "ok", result.error
    assert os.listdir(workspace / "d") == ["r"]
    assert "d/s: a socket is never committed" in "\n".join(result.content)


async def test_a_session_has_to_read_again_what_its_command_changed(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "keeping") as (_, session):
        assert (await session.call("read", path="a.txt")).ok
        assert (await session.call("shell", command="echo four >> a.txt")).ok
        stale = await session.call("edit", path="a.txt", old_string="two", new_string="2")
        assert code(stale) == "FS_STALE_VERSION"
        assert (await session.call("read", path="a.txt")).ok
        assert (await session.call("edit", path="a.txt", old_string="two", new_string="2")).ok
    assert (workspace / "a.txt").read_text() == "one\n2\nthree\nfour\n"


async def test_names_of_one_file_stay_its_names(served: Stockaded, workspace: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's overlay keeps the names of a file together")
    (workspace / "b.txt").hardlink_to(workspace / "a.txt")
    (workspace / "d").mkdir()
    (workspace / "d" / "c.txt").hardlink_to(workspace / "a.txt")
    async with opened(served, workspace, "keeping") as (_, session):
        script = "rm -r d; echo four >> b.txt; chmod 600 a.txt; ln a.txt e.txt; mkdir n; mv e.txt n"
        result = await session.call("shell", command=script)
        assert code(result) == "ok", result.error
    inodes = {os.stat(workspace / name).st_ino for name in ("a.txt", "b.txt", "n/e.txt")}
    assert len(inodes) == 1
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\nfour\n"
    assert stat.S_IMODE((workspace / "b.txt").stat().st_mode) == 0o600


async def test_a_file_that_is_also_called_by_a_protected_name_is_refused(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "keeping") as (_, session):
        assert code(await session.call("shell", command="git init -q .")) == "ok"
        (workspace / "x").hardlink_to(workspace / ".git" / "config")
        before = picture(workspace)
        commands = ["echo evil >> x", "chmod 755 x", "ln .git/config y"]
        if os.geteuid() == 0:  # else it is a file of its own by then, and the protected one stays what it is
            commands.append("mv x z; echo evil >> z")
        for command in commands:
            result = await session.call("shell", command=command)
            assert code(result) in ("FS_PROTECTED", "FS_CONFLICT"), command
            assert picture(workspace) == before


async def test_times_and_attributes_that_a_command_sets_are_effects(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "keeping") as (_, session):
        script = 'touch -d 2001-02-03 a.txt; python3 -c \'import os; os.setxattr("gone", "user.a", b"x")\''
        result = await session.call("shell", command=script)
        assert code(result) == "ok", result.error
        assert {(each["path"], each["change"]) for each in value(result)["effects"]} == {
            ("a.txt", "metadata"),
            ("gone", "metadata"),
        }
    assert time.strftime("%F", time.localtime((workspace / "a.txt").stat().st_mtime)) == "2001-02-03"
    assert os.getxattr(workspace / "gone", "user.a") == b"x"
