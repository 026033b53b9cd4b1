"""A session may narrow its profile, never widen it; what narrows it belongs to the session."""

from pathlib import Path

import pytest

from stockade_client import Daemon
from stockade_client.errors import AlreadyExists, InvalidRequest
from tests.pipeline.test_kept_profiles import Admin, admin

__all__ = ["admin"]
NARROW = '[approval]\nreads = "deny"\n'


async def test_a_tightened_session_is_refused_what_its_profile_allows(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev", tightening=NARROW) as session:
        result = await session.call("read", path="a.txt")
        assert result.error is not None
        assert result.error.code == "DENIED"
        assert result.profile_digest == session.info.profile_digest
    async with daemon.session(workspace, "dev") as other:
        assert (await other.call("read", path="a.txt")).ok
        assert other.info.profile_digest != session.info.profile_digest


async def test_a_hidden_name_may_be_added_for_a_session(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev", tightening='filesystem.hidden = ["a.txt"]') as session:
        result = await session.call("shell", command="cat a.txt")
    assert isinstance(result.value, dict)
    assert "No such file" in str(result.value["stderr"])


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ('[network]\nmode = "host"', 'tightening:2:1: `network.mode` is "host", wider than "loopback"'),
        ('approval.writes = "allow"', 'tightening:1:1: `approval.writes` is "allow", wider than "ask"'),
        ("limits.wall_s = 601", "more than 600"),
        ('extends = "ci"', "`extends` belongs to a profile"),
        ("limits.wall = 1", "unknown key 'wall'"),
        ("limits = ", "not valid TOML"),
    ],
)
async def test_a_widening_is_refused_with_its_reasons(daemon: Daemon, workspace: Path, wish: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        async with daemon.session(workspace, "dev", tightening=wish):
            pass
    assert reason in str(refused.value)


async def test_a_tightening_outlives_the_daemon_and_is_part_of_what_the_session_is(admin: Admin) -> None:
    admin.install(named='extends = "dev"')
    async with (
        admin.daemon() as daemon,
        daemon.session(admin.workspace, "named", id="s", tightening=NARROW) as session,
    ):
        digest = session.info.profile_digest
    admin.install(named='extends = "dev"\ndescription = "another"')
    async with admin.daemon() as daemon:
        async with daemon.session(id="s") as session:
            assert session.info.profile_digest != digest  # that of the other text, tightened
            assert session.info.tightening == NARROW
            result = await session.call("read", path="a.txt")
            assert result.error is not None
            assert result.error.code == "DENIED"
        for other in ("", NARROW + "# more\n"):
            with pytest.raises(AlreadyExists, match="another tightening"):
                async with daemon.session(admin.workspace, "named", id="s", tightening=other):
                    pass
