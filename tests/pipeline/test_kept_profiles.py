"""A session that was opened with a text keeps it, also where that one extends others; a name follows its files."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stockade_client import Daemon, connect, local_daemon
from stockade_client.errors import AlreadyExists, InvalidRequest, NotPermitted
from stockade_client.results import CallResult

BASE = 'extends = "strict"\nwiden = ["environment.set"]\n[environment.set]\nWORD = "before"\n'
MINE = 'extends = "base"\n[limits]\nwall_s = 30\n'


class Admin:
    """A directory of profiles, and daemons that follow one another on the same state."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.profiles = place / "profiles"
        self.profiles.mkdir()
        self.install(base=BASE)
        self.workspace = place / "workspace"
        self.workspace.mkdir()
        self.mine = place / "mine.toml"
        self.mine.write_text(MINE)
        (place / "stockade.toml").write_text(f'[profiles]\npaths = ["{self.profiles}"]\n')

    def install(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.profiles / f"{name}.toml").write_text(text)

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[Daemon]:
        async with (
            local_daemon(config=self.place / "stockade.toml", state=self.place / "state") as address,
            connect(address) as daemon,
        ):
            yield daemon


@pytest.fixture
def admin(scratch: Path) -> Admin:
    return Admin(Path(tempfile.mkdtemp(dir=scratch)))


async def word(daemon: Daemon, admin: Admin, profile: str | Path, id: str) -> tuple[str, str]:
    """What a command sees of the profile, and the digest in its result."""
    async with daemon.session(admin.workspace, profile, id=id) as session:
        result = await session.call("shell", command="echo $WORD")
        assert isinstance(result.value, dict), result
        return str(result.value["stdout"]).strip(), result.profile_digest


async def test_a_text_stays_what_it_was_although_its_base_has_changed_and_a_name_does_not(admin: Admin) -> None:
    admin.install(named=MINE)
    async with admin.daemon() as daemon:
        before = [await word(daemon, admin, profile, id) for profile, id in (("named", "s1"), (admin.mine, "s2"))]
    admin.install(base=BASE.replace("before", "after"))
    async with admin.daemon() as daemon:
        again = [await word(daemon, admin, profile, id) for profile, id in (("named", "s1"), (admin.mine, "s2"))]
        fresh = await word(daemon, admin, admin.mine, "s3")
    assert [said for said, _ in before] == ["before", "before"]
    assert [said for said, _ in again] == ["after", "before"]
    assert before[0][1] == before[1][1] == again[1][1] != again[0][1]
    assert fresh == again[0]


async def test_the_same_text_again_is_the_same_session_and_another_text_is_not(admin: Admin) -> None:
    async with admin.daemon() as daemon:
        admin.install(mine=MINE)
        async with daemon.session(admin.workspace, "mine", id="by-name"):
            pass
        with pytest.raises(AlreadyExists, match="another text of profile"):
            async with daemon.session(admin.workspace, admin.mine, id="by-name"):
                pass
        for _ in range(2):
            async with daemon.session(admin.workspace, admin.mine, id="s"):
                pass
        admin.mine.write_text(MINE + "# more\n")
        with pytest.raises(AlreadyExists, match="another text of profile"):
            async with daemon.session(admin.workspace, admin.mine, id="s"):
                pass


async def test_a_base_that_nobody_has_is_answered_with_the_line_that_names_it(admin: Admin) -> None:
    admin.mine.write_text('# mine\nextends = "bases"\n')
    async with admin.daemon() as daemon:
        with pytest.raises(InvalidRequest, match=r"mine\.toml:2:1: `extends` names 'bases'.*did you mean 'base'"):
            async with daemon.session(admin.workspace, admin.mine):
                pass


async def test_a_mount_that_would_show_the_daemons_own_files_is_refused(admin: Admin) -> None:
    link = admin.place / "link"
    link.symlink_to(admin.place)
    async with admin.daemon() as daemon:
        for path in (admin.place, admin.place / "state", link):
            admin.mine.write_text(
                f'extends = "dev"\nwiden = ["filesystem.mounts"]\n[[filesystem.mounts]]\npath = "{path}"\n'
            )
            with pytest.raises(NotPermitted, match="the daemon keeps its own files in"):
                async with daemon.session(admin.workspace, admin.mine):
                    pass


async def test_a_mount_that_is_gone_ends_the_call_with_path_and_profile(admin: Admin) -> None:
    admin.mine.write_text(
        'extends = "dev"\nwiden = ["filesystem.mounts"]\nfilesystem.mounts = [{path = "/opt/no such toolchain"}]\n'
    )
    async with admin.daemon() as daemon, daemon.session(admin.workspace, admin.mine) as session:
        result: CallResult = await session.call("shell", command="true")
    assert result.error is not None
    assert result.error.code == "SANDBOX_FAILED"
    assert "mounts /opt/no such toolchain, which does not exist on this host" in str(result.error)
    assert "mine.toml" in str(result.error)
