"""A transaction that was made and could not be recorded stands, and the next start says so."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from stockade_daemon.gate.effects import undo
from stockade_daemon.gate.effects.areas import Areas
from stockade_daemon.gate.effects.transactions import Witness
from stockade_daemon.gate.effects.values import Made
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json


@pytest.mark.parametrize("recorded", [True, False])
async def test_a_commit_that_the_ledger_could_not_record_is_told_by_its_area(tmp_path: Path, recorded: bool) -> None:
    for name in ("workspace", "upper", "state"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "upper" / "new").write_text("of the command\n")
    areas = Areas(tmp_path / "state" / "areas")
    begun: list[Mapping[str, Json]] = []

    async def begins(body: Mapping[str, Json]) -> None:
        begun.append(body)

    async def allowed() -> None:
        pass

    async def done(_: Mapping[str, Json]) -> None:
        if not recorded:
            raise OSError(28, "No space left on device")

    with Workspace.open(os.fspath(tmp_path / "workspace")) as workspace:
        transactions = Gate(workspace).transactions
        made = Made(os.fspath(tmp_path / "upper"), "trusted.overlay.", 0o700, None, keeps_links=False)
        prospect = await transactions.plan(made, await transactions.begin(), exact=False)
        commit = transactions.commit(prospect, areas, Witness(begins, allowed, done), power=False)
        if recorded:
            await commit
        else:
            with pytest.raises(OSError, match="No space"):
                await commit
        assert (tmp_path / "workspace" / "new").read_text() == "of the command\n"
        assert undo.recover(workspace, begun[0]) == ("none" if recorded else "applied")
    if not recorded:
        for left in (tmp_path / "state" / "areas").iterdir():
            assert left.name == begun[0]["temporary"]
