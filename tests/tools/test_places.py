"""Where tools and profiles of one's own may lie."""

from pathlib import Path

import pytest

from stockade_client import connect, local_daemon
from stockade_client.errors import RequestRefused


@pytest.mark.parametrize("section", ["tools", "profiles"])
async def test_a_workspace_that_holds_policy_cannot_be_opened(place: Path, section: str) -> None:
    workspace = place / "workspace"
    (workspace / "inner" / "own" / "below").mkdir(parents=True)
    (place / "other").mkdir()
    (place / "linked").symlink_to(workspace / "inner" / "own")
    config = place / "stockade.toml"
    config.write_text(f'[{section}]\npaths = ["{place}/linked"]\n')
    async with local_daemon(config=config) as address, connect(address) as daemon:
        for refused in (
            workspace,
            workspace / "inner",
            workspace / "inner" / "own",
            workspace / "inner" / "own" / "below",
        ):
            with pytest.raises(RequestRefused, match=r"which a session on .* could change"):
                async with daemon.session(workspace=refused, profile="dev"):
                    pass
        async with daemon.session(workspace=place / "other", profile="dev") as session:
            assert (await session.call("shell", command="true")).ok
