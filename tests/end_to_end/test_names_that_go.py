"""A file is changed by one of its names, and that name goes: its other names have the change, as they do elsewhere."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.session_s import asked, code, opened, result_of, start_with
from tests.end_to_end.stockaded import Stockaded
from tests.scripts.campaign import copied
from tests.scripts.generator import run
from tests.scripts.snapshot import Snapshot, differences, snapshot

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root's overlay keeps the names of a file together")

ATTRIBUTE = 'python3 -c \'import os; os.setxattr("b.txt", "user.a", b"x")\''
CHANGES = {
    "content": "echo four >> b.txt",
    "mode": "chmod 600 b.txt",
    "time": "touch -d 2001-02-03T04:05:06Z b.txt",
    "attribute": ATTRIBUTE,
    "all": f"echo four >> b.txt; {ATTRIBUTE}; chmod 640 b.txt; touch -d 2001-02-03T04:05:06Z b.txt",
}
GOES = {"removed": "rm b.txt", "moved": "mv b.txt d/x; rm d/x", "replaced": "echo new > n; mv n b.txt"}
ALL = [(change, goes) for change in CHANGES for goes in GOES if goes == "removed" or change in ("content", "all")]


@pytest.fixture
def served(stockaded: Stockaded, workspace: Path) -> Stockaded:
    """A running daemon, and a file with three names."""
    (workspace / "d").mkdir()
    for name in ("b.txt", "d/c.txt"):
        (workspace / name).hardlink_to(workspace / "a.txt")
    text = '[approval]\nwrites = "allow"\ncommands = "allow"\neffects = "{}"\nwait_s = {}\n'
    return start_with(stockaded, {"keeping": text.format("commit", 0), "asking": text.format("ask", 600)})


def directly(workspace: Path, script: str, name: str = "direct") -> Snapshot:
    """What the script leaves of a copy."""
    at = workspace.parent / name
    copied(workspace, at)
    assert run(script, at).returncode == 0
    return snapshot(at)


async def test_its_other_names_have_the_change(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "keeping") as (_, session):
        for number, (change, goes) in enumerate(ALL):
            script = f"{CHANGES[change]}; {GOES[goes]}"
            wanted = directly(workspace, script, f"direct-{number}")
            result = await session.call("shell", command=script)
            assert code(result) == "ok", (script, result.error)
            assert differences(wanted, snapshot(workspace)) == [], script
            value: Any = result.value
            # By the name that the command knew it by.
            kind = "changed" if change in ("content", "all") else "metadata"
            assert ("b.txt", kind) in {(each["path"], each["change"]) for each in value["effects"]}, script
            # The same again for the next.
            run("rm -f b.txt; echo one > a.txt; chmod 644 a.txt; ln a.txt b.txt", workspace)
            if "user.a" in os.listxattr(workspace / "a.txt"):
                os.removexattr(workspace / "a.txt", "user.a")


@pytest.mark.parametrize("answer", [True, False])
async def test_the_change_waits_for_an_answer_across_daemons(served: Stockaded, workspace: Path, answer: bool) -> None:
    script = f"{CHANGES['all']}; {GOES['removed']}"
    before, wanted = snapshot(workspace), directly(workspace, script)
    async with opened(served, workspace, "asking") as (daemon, session):
        await session.start("shell", call_id="c", command=script)
        card: Any = (await asked(daemon)).card
        assert "+four\n" in "".join(each.get("difference", "") for each in card["effects"])
        served.end(signal.SIGKILL)
    served.start()
    async with opened(served, workspace, "asking") as (daemon, session):
        ask = await asked(daemon)
        assert ask.card == card
        await ask.decide(answer)
        assert code(await result_of(daemon)) == ("ok" if answer else "APPROVAL_REJECTED")
    assert differences(wanted if answer else before, snapshot(workspace)) == []
    assert list((served.state / "kept").iterdir()) == []


async def test_an_outsiders_change_by_another_name_is_a_conflict(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "asking") as (daemon, session):
        await session.start("shell", call_id="c", command=f"{CHANGES['content']}; {GOES['removed']}")
        ask = await asked(daemon)
        (workspace / "d/c.txt").write_text("somebody else's\n")
        before = snapshot(workspace)
        await ask.decide(True)
        assert code(await result_of(daemon)) == "FS_CONFLICT"
    assert differences(before, snapshot(workspace)) == []
