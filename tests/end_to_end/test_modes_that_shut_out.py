"""Commands take from files and directories the right to look at them, or find it taken: the tree is that of a direct
run, whoever's daemon it is. Only root may look in spite of that."""

import os
import signal
import stat
from pathlib import Path

import pytest

from stockade_client import connect
from tests.end_to_end.session_s import asked, code, opened, result_of, start_with
from tests.end_to_end.stockaded import Stockaded
from tests.scripts.campaign import copied
from tests.scripts.generator import run
from tests.scripts.snapshot import Snapshot, differences, snapshot

SCRIPTS = [
    "echo more >> a.txt; chmod 000 a.txt",
    "chmod 400 b.txt",
    "echo n > new; chmod 000 new",
    "mkdir d; echo x > d/x; chmod 500 d",
    "mkdir -p e/f; chmod 300 e/f; chmod 300 e",
    "mkdir g; echo x > g/x; chmod 000 g",
    "echo y > s/y; rm s/f; ln -sf elsewhere s/l; chmod 500 s",
    "echo new > n; mv -f n shut",
    "rm -f shut2",
    "chmod 644 shut3; echo over > shut3",
    "mv shut4 s2/moved",
]


@pytest.fixture
def served(stockaded: Stockaded, workspace: Path) -> Stockaded:
    for name in ("s", "s2"):
        (workspace / name).mkdir()
        (workspace / name / "f").write_text("f\n")
    for name in ("b.txt", "shut", "shut2", "shut3", "shut4"):
        (workspace / name).write_text(f"{name}\n")
        if name.startswith("shut"):
            (workspace / name).chmod(0)
    text = '[approval]\nwrites = "allow"\ncommands = "allow"\neffects = "{}"\nwait_s = {}\n'
    profiles = {"keeping": text.format("commit", 0), "asking": text.format("ask", 600)}
    profiles["where-asked"] = text.format("commit", 600)
    profiles["hiding"] = f'{profiles["keeping"]}[filesystem]\nhidden = ["**/.env"]\n'
    profiles["scratching"] = f'{profiles["keeping"]}[filesystem]\nscratch = ["s2/d/e/kept"]\n'
    return start_with(stockaded, profiles)


def directly(workspace: Path, script: str, at: Path) -> Snapshot:
    """What the script leaves of a copy."""
    copied(workspace, at)
    assert run(script, at).returncode == 0, script
    return snapshot(at)


def mode_of(place: Path) -> int:
    return stat.S_IMODE(place.stat().st_mode)


async def test_a_command_may_shut_out_whoever_commits_what_it_did(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "keeping") as (_, session):
        for number, script in enumerate(SCRIPTS):
            wanted = directly(workspace, script, workspace.parent / f"direct-{number}")
            result = await session.call("shell", command=script)
            assert code(result) == "ok", (script, result.error)
            assert differences(wanted, snapshot(workspace)) == [], (script, result)


async def test_attributes_of_what_nobody_may_read_do_not_keep_it_from_being_replaced_or_written_to(
    served: Stockaded, workspace: Path
) -> None:
    (workspace / "k").mkdir()
    for name in ("shut", "k"):
        os.chmod(workspace / name, 0o700)
        os.setxattr(workspace / name, "user.a", b"1")
    os.chmod(workspace / "shut", 0)
    os.chmod(workspace / "k", 0o300)
    async with opened(served, workspace, "keeping") as (_, session):
        for number, script in enumerate(("echo new > n; mv -f n shut; chmod 600 shut", "echo new > k/new")):
            wanted = directly(workspace, script, workspace.parent / f"direct-{number}")
            result = await session.call("shell", command=script)
            assert code(result) == "ok", (script, result.error)
            assert differences(wanted, snapshot(workspace)) == [], (script, result)


async def test_what_nobody_may_read_waits_for_an_answer_across_daemons(served: Stockaded, workspace: Path) -> None:
    script = "; ".join(SCRIPTS[each] for each in (0, 2, 4, 5, 6, 7))
    wanted = directly(workspace, script, workspace.parent / "direct")
    async with opened(served, workspace, "asking") as (daemon, session):
        await session.start("shell", call_id="c", command=script)
        await asked(daemon)
        served.end(signal.SIGKILL)
    served.start()
    async with opened(served, workspace, "asking") as (daemon, session):
        await (await asked(daemon)).decide(True)
        result = await result_of(daemon)
        assert code(result) == "ok", result.error
    assert differences(wanted, snapshot(workspace)) == []


async def test_what_is_looked_at_once_more_because_somebody_has_to_be_asked_is_still_shut(
    served: Stockaded, workspace: Path
) -> None:
    script = "mkdir -p e/f g; echo x > g/x; chmod 300 e/f e; chmod 000 g; ln -s /leads/out link"
    wanted = directly(workspace, script, workspace.parent / "direct")
    before = mode_of(workspace)
    async with opened(served, workspace, "where-asked") as (daemon, session):
        call = await session.start("shell", call_id="c", command=f"{script}; chmod 300 .")
        await (await asked(daemon)).decide(True)
        result = await call.result()
        assert code(result) == "ok", result.error
    assert mode_of(workspace) == 0o300
    os.chmod(workspace, before)
    assert differences(wanted, snapshot(workspace)) == []


@pytest.mark.parametrize("mode", ["000", "300", "600"])
@pytest.mark.parametrize("profile", ["hiding", "scratching"])
async def test_no_command_shuts_its_session_out_of_what_the_profile_hides_or_keeps_apart(
    served: Stockaded, workspace: Path, profile: str, mode: str
) -> None:
    async with connect(served.address) as daemon, daemon.session(workspace, profile) as session:
        assert (await session.call("shell", command="mkdir -p s2/d/e && echo x > s2/d/e/x")).ok
        result = await session.call("shell", command=f"echo new > s2/f; chmod {mode} s2/d")
        if os.geteuid() == 0 or (profile, mode) == ("scratching", "300"):
            assert code(result) == "ok", result.error
        else:
            assert result.error is not None
            assert result.error.code == "FS_PROTECTED"
            assert f"left s2/d with mode {mode}" in result.error.message
            assert "keep u+rx" in result.error.message
            assert (workspace / "s2/f").read_text() == "f\n"
        # Also beside it, where nothing can be hidden or kept apart.
        assert profile == "hiding" or (await session.call("shell", command="mkdir s2/g; chmod 000 s2/g")).ok
        result = await session.call("shell", command="cat s2/f")
        assert code(result) == "ok", result.error


@pytest.mark.parametrize("mode", ["000", "300", "600"])
@pytest.mark.parametrize("profile", ["hiding", "scratching"])
async def test_a_directory_that_shuts_out_the_daemon_does_not_show_what_is_hidden_in_it_and_can_be_opened_again(
    served: Stockaded, workspace: Path, profile: str, mode: str
) -> None:
    place = workspace / "s2/d"
    async with connect(served.address) as daemon, daemon.session(workspace, profile) as session:
        assert (await session.call("shell", command="mkdir -p s2/d/e && echo x > s2/d/e/x")).ok
        for at in (place, place / "e"):
            (at / ".env").write_text("nobody may see this\n")
        os.chmod(place, int(mode, 8))
        result = await session.call("shell", command="chmod 700 s2/d; ls -A s2/d s2/d/e; cat s2/d/.env s2/d/e/.env")
        if result.ok:
            # It may look everywhere, or needs not to.
            assert os.geteuid() == 0 or (profile, mode) == ("scratching", "300")
            assert profile == "scratching" or "nobody" not in str(result.value), result
            return
        assert result.error is not None
        assert result.error.code == "SANDBOX_FAILED"
        assert "the mode of s2/d in the workspace" in result.error.message
        assert "run `chmod u+rx s2/d` there" in result.error.message
        # Where nothing has to be covered commands go on, and one of them may open it again.
        async with daemon.session(workspace, "keeping") as other:
            assert (await other.call("shell", command="chmod u+rx s2/d")).ok
        result = await session.call("shell", command="chmod 700 s2/d; ls -A s2/d s2/d/e; cat s2/d/.env s2/d/e/.env")
        assert code(result) == "ok", result.error
        assert profile == "scratching" or "nobody" not in str(result.value), result
    assert "Traceback" not in served.log.read_text()
