"""A command changes the workspace's directories by what it did to them, not by what an overlay showed of them: their
extended attributes, ACLs and modes stay, also of the workspace itself and of directories that lead to what is hidden.
"""

import os
import signal
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stockade_client import CallResult
from stockade_client.session import Session
from tests.end_to_end.session_s import asked, code, opened, result_of, start_with
from tests.end_to_end.stockaded import Stockaded

ATTRIBUTE = "user.note"
ACL = "system.posix_acl_access"
_PROFILE = '[approval]\nwrites = "allow"\ncommands = "allow"\neffects = "commit"\nwait_s = 0\n'
_ACL_ENTRY = struct.Struct("<HHI")
_NOBODY_SPECIAL = 0xFFFFFFFF


def acl(*people: tuple[int, int], mask: int = 7) -> bytes:
    """One that also names these users: uid and permissions (linux/posix_acl_xattr.h)."""
    named = [(0x02, permissions, uid) for uid, permissions in people]
    entries = [(0x01, 7, _NOBODY_SPECIAL), *named, (0x04, 5, _NOBODY_SPECIAL), (0x10, mask, _NOBODY_SPECIAL)]
    entries.append((0x20, 5, _NOBODY_SPECIAL))
    return struct.pack("<I", 2) + b"".join(_ACL_ENTRY.pack(*entry) for entry in entries)


def attribute(path: Path, name: str = ATTRIBUTE) -> bytes | None:
    return os.getxattr(path, name) if name in os.listxattr(path) else None


def mark(path: Path, value: bytes, name: str = ATTRIBUTE) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"no {name} in this file system: {error}")


@pytest.fixture
def served(stockaded: Stockaded, workspace: Path) -> Stockaded:
    """A running daemon: `plain` shows all, `covering` hides web/.env and has web/node_modules as scratch."""
    (workspace / "web" / "node_modules").mkdir(parents=True)
    (workspace / "web" / ".env").write_text("secret\n")
    for each in (workspace, workspace / "web"):
        mark(each, b"kept")
    covering = f'{_PROFILE}[filesystem]\nhidden = ["web/.env"]\nscratch = ["web/node_modules"]\n'
    asking = covering.replace('effects = "commit"\nwait_s = 0', 'effects = "ask"\nwait_s = 600')
    return start_with(stockaded, {"plain": _PROFILE, "covering": covering, "asking": asking})


def removing(path: str) -> str:
    return f'python3 -c \'import os; os.removexattr("{path}", "{ATTRIBUTE}")\''


def showing(path: str) -> str:
    return f'python3 -c \'import os; print(os.getxattr("{path}", "{ATTRIBUTE}").decode())\''


@pytest.mark.parametrize("profile", ["plain", "covering"])
async def test_attributes_that_no_command_touched_stay(served: Stockaded, workspace: Path, profile: str) -> None:
    async with opened(served, workspace, profile) as (_, session):
        result = await session.call("shell", command=f"{showing('.')}; {showing('web')}; echo b > web/b; echo c > c")
        assert code(result) == "ok", result.error
        value: Any = result.value
        assert value["stdout"] == "kept\nkept\n"
        assert {(each["path"], each["change"]) for each in value["effects"]} == {("c", "created"), ("web/b", "created")}
    assert (workspace / "web" / "b").read_text() == "b\n"
    assert [attribute(each) for each in (workspace, workspace / "web")] == [b"kept", b"kept"]


@pytest.mark.parametrize("profile", ["plain", "covering"])
async def test_attributes_that_a_command_removes_go(served: Stockaded, workspace: Path, profile: str) -> None:
    async with opened(served, workspace, profile) as (_, session):
        for path in (".", "web"):
            result = await session.call("shell", command=removing(path))
            assert code(result) == "ok", result.error
            assert attribute(workspace / path) is None, path
            assert attribute(workspace / "web") == (b"kept" if path == "." else None)


async def meanwhile(session: Session, workspace: Path, do: Callable[[], None], command: str) -> CallResult:
    """What a command comes to, before which somebody does something else: when the command's view has been made."""
    call = await session.start("shell", command=f"echo there; until ls | grep -qx go; do sleep 0.01; done; {command}")
    async with call.output() as output:
        assert await anext(output) == b"there\n"
    do()
    (workspace / "go").touch()
    return await call.result()


async def test_what_others_set_meanwhile_stays(served: Stockaded, workspace: Path) -> None:
    web = workspace / "web"

    def do() -> None:
        mark(workspace, b"later")
        mark(web, b"later")
        web.chmod(0o750)

    async with opened(served, workspace, "covering") as (_, session):
        result = await meanwhile(session, workspace, do, "echo b > web/b; echo c > c")
        assert code(result) == "ok", result.error
    assert (web / "b").read_text() == "b\n"
    assert [attribute(each) for each in (workspace, web)] == [b"later", b"later"]
    assert stat.S_IMODE(web.stat().st_mode) == 0o750


async def test_what_a_command_was_not_shown_it_cannot_replace(served: Stockaded, workspace: Path) -> None:
    """What it set of its own is then left out, and the result says so."""
    web = workspace / "web"

    def do() -> None:
        mark(workspace, b"later", "user.other")
        mark(web, b"later", "user.other")

    async with opened(served, workspace, "covering") as (_, session):
        result = await meanwhile(session, workspace, do, f"{removing('.')}; {removing('web')}; echo c > c")
        assert code(result) == "ok", result.error
        value: Any = result.value
        assert [(each["path"], each["change"]) for each in value["effects"]] == [("c", "created")]
        assert "its extended attributes stay" in str(value) + str(result.content)
    for each in (workspace, web):
        assert (attribute(each), attribute(each, "user.other")) == (b"kept", b"later")


async def test_attributes_stay_where_changes_were_asked_about_and_the_daemon_started_again(
    served: Stockaded, workspace: Path
) -> None:
    async with opened(served, workspace) as (daemon, session):
        await session.start("shell", call_id="c", command="echo b > web/b; echo c > c")
        await asked(daemon)
        served.end(signal.SIGKILL)
    served.start()
    async with opened(served, workspace) as (daemon, _):
        await (await asked(daemon)).decide(True)
        assert code(await result_of(daemon)) == "ok"
    assert (workspace / "web" / "b").read_text() == "b\n"
    assert [attribute(each) for each in (workspace, workspace / "web")] == [b"kept", b"kept"]


async def test_a_mode_that_a_command_gives_is_kept(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "covering") as (_, session):
        result = await session.call("shell", command="chmod 711 . web; echo b > web/b")
        assert code(result) == "ok", result.error
    assert [stat.S_IMODE(each.stat().st_mode) for each in (workspace, workspace / "web")] == [0o711, 0o711]
    assert [attribute(each) for each in (workspace, workspace / "web")] == [b"kept", b"kept"]


async def test_access_lists_hold_in_directories_that_a_cover_repeats(served: Stockaded, workspace: Path) -> None:
    wanted = acl((12, 7))
    for each in (workspace, workspace / "web"):
        mark(each, wanted, ACL)
    async with opened(served, workspace, "covering") as (_, session):
        listing = "import os, sys; print(*os.listxattr(sys.argv[1]))"
        script = f"for each in . web; do python3 -c '{listing}' $each; done; echo b > web/b"
        result = await session.call("shell", command=script)
        assert code(result) == "ok", result.error
        value: Any = result.value
        assert [ACL in line.split() for line in str(value["stdout"]).splitlines()] == [True, True]
    assert [attribute(each, ACL) for each in (workspace, workspace / "web")] == [wanted, wanted]


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has no directories of others")
async def test_an_access_list_that_names_the_workspaces_owner_is_for_workers(
    served: Stockaded, workspace: Path
) -> None:
    """Workers are the owner of the workspace, whatever number they have on the host."""
    web = workspace / "web"
    wanted = acl((0, 7))
    os.chown(web, 12, 12)
    mark(web, wanted, ACL)
    async with opened(served, workspace, "covering") as (_, session):
        result = await session.call("shell", command="echo b > web/b")
        assert code(result) == "ok", result.error
        value: Any = result.value
        assert value["exit_code"] == 0, value
    assert (web / "b").read_text() == "b\n"
    assert attribute(web, ACL) == wanted
