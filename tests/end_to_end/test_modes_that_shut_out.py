"""Commands take from files and directories the right to look at them, or find it taken: the tree is that of a direct
run, whoever's daemon it is. Only root may look in spite of that."""

import signal
from pathlib import Path

import pytest

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
    return start_with(stockaded, {"keeping": text.format("commit", 0), "asking": text.format("ask", 600)})


def directly(workspace: Path, script: str, at: Path) -> Snapshot:
    """What the script leaves of a copy."""
    copied(workspace, at)
    assert run(script, at).returncode == 0, script
    return snapshot(at)


async def test_a_command_may_shut_out_whoever_commits_what_it_did(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "keeping") as (_, session):
        for number, script in enumerate(SCRIPTS):
            wanted = directly(workspace, script, workspace.parent / f"direct-{number}")
            result = await session.call("shell", command=script)
            assert code(result) == "ok", (script, result.error)
            assert differences(wanted, snapshot(workspace)) == [], (script, result)


async def test_what_nobody_may_read_waits_for_an_answer_across_daemons(served: Stockaded, workspace: Path) -> None:
    script = "; ".join(SCRIPTS[each] for each in (0, 2, 6, 7))
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
