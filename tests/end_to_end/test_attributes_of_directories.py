"""A command changes the workspace's directories by what it did to them, not by what an overlay showed of them: their
extended attributes, ACLs and modes stay, also of the workspace itself and of directories that lead to what is hidden.
"""

import os
import stat
import struct
from pathlib import Path

import pytest

from tests.end_to_end.session_s import code, opened, start_with
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
    return start_with(stockaded, {"plain": _PROFILE, "covering": covering})


def removing(path: str) -> str:
    return f'python3 -c \'import os; os.removexattr("{path}", "{ATTRIBUTE}")\''


def showing(path: str) -> str:
    return f'python3 -c \'import os; print(os.getxattr("{path}", "{ATTRIBUTE}").decode())\''


@pytest.mark.parametrize("profile", ["plain", "covering"])
async def test_attributes_that_no_command_touched_stay(served: Stockaded, workspace: Path, profile: str) -> None:
    async with opened(served, workspace, profile) as (_, session):
        result = await session.call("shell", command=f"{showing('.')}; {showing('web')}; echo b > web/b; echo c > c")
        assert code(result) == "ok", result.error
        value = result.value
        assert isinstance(value, dict)
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


async def test_what_others_set_before_a_call_stays(served: Stockaded, workspace: Path) -> None:
    """The next worker's view was made before they did."""
    web = workspace / "web"
    async with opened(served, workspace, "covering") as (_, session):
        assert code(await session.call("shell", command="true")) == "ok"
        for each in (workspace, web):
            mark(each, b"later")
        web.chmod(0o750)
        result = await session.call("shell", command="echo b > web/b; echo c > c")
        assert code(result) == "ok", result.error
    assert [attribute(each) for each in (workspace, web)] == [b"later", b"later"]
    assert stat.S_IMODE(web.stat().st_mode) == 0o750


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
        assert isinstance(result.value, dict)
        assert [ACL in line.split() for line in str(result.value["stdout"]).splitlines()] == [True, True]
    assert [attribute(each, ACL) for each in (workspace, workspace / "web")] == [wanted, wanted]
