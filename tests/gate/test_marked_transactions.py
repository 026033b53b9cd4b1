"""A transaction says itself whether it was made: at every moment, also when it fails after the last step."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from stockade_daemon.errors import GateRefusal, InfrastructureFailure
from stockade_daemon.gate.effects import commit, undo
from stockade_daemon.gate.effects.area import Area
from stockade_daemon.gate.effects.areas import Areas
from stockade_daemon.gate.effects.mark import committed
from stockade_daemon.gate.effects.transactions import Prospect
from stockade_daemon.gate.effects.values import Made
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.workspace import Workspace

NAME = b".stockade-marked"
OLD = {"changed": "old\n", "gone": "old\n", "kept": "old\n"}


class Ended(BaseException):
    """The daemon is gone."""


class Points:
    """Passed by a commit; the file system fails at one, the daemon ends at another, after `first` was done there."""

    def __init__(self, fails_at: str = "", ends_at: str = "", first: Callable[[], object] = lambda: None) -> None:
        self.passed: list[str] = []
        self._fails_at = fails_at
        self._ends_at = ends_at
        self._first = first

    def __call__(self, point: str) -> None:
        self.passed.append(point)
        if point in (self._fails_at, self._ends_at):
            self._first()
        if point == self._fails_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if point == self._ends_at:
            raise Ended


def workspace_in(place: Path) -> Path:
    workspace = place / "workspace"
    workspace.mkdir(parents=True)
    for name, text in OLD.items():
        (workspace / name).write_text(text)
    return workspace


def files(workspace: Path) -> dict[str, str]:
    return {
        str(path.relative_to(workspace)): path.read_text()
        for path in workspace.rglob("*")
        if path.is_file() and not path.relative_to(workspace).parts[0].startswith(".stockade")
    }


async def planned(upper: Path, gate: Gate) -> Prospect:
    """What a command did that changed a file, removed one and made a directory."""
    committed()  # so that the command begins later than the file system's clock has it of what was just planted
    since = await gate.transactions.begin()
    (upper / "made").mkdir(parents=True)
    (upper / "changed").write_text("new\n")
    (upper / "made" / "one").write_text("new\n")
    os.mknod(upper / "gone", stat.S_IFCHR | 0o600, 0)  # a whiteout
    marks = "trusted." if os.geteuid() == 0 else "user."
    return await gate.transactions.plan(
        Made(os.fspath(upper), marks, 0o755, None, keeps_links=False), since, exact=False
    )


def performed(opened: Workspace, prospect: Prospect, *, power: bool) -> None:
    ready = commit.prepare(opened.descriptor, NAME, prospect.found, prospect.plan, prospect.survey, prospect.made)
    try:
        commit.perform(ready, power=power)
    except Ended:
        ready.area.close()
        raise
    except BaseException:
        ready.close()
        raise


@pytest.mark.parametrize("power", [False, True])
async def test_a_commit_that_fails_after_its_mark_is_no_longer_marked_when_it_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, power: bool
) -> None:
    workspace, points = workspace_in(tmp_path), Points(fails_at="made")
    monkeypatch.setattr(commit, "passing", points)
    with Workspace.open(os.fspath(workspace)) as opened:
        prospect = await planned(tmp_path / "upper", Gate(opened))
        with pytest.raises(GateRefusal) as refused:
            performed(opened, prospect, power=power)
        assert refused.value.code == "FS_IO_ERROR"
        assert files(workspace) == OLD
        after = points.passed[points.passed.index("made") + 1 :]
        assert after == ["unmarked", "back 2", "back 1", "back 0"]
        assert undo.recover(opened, {"temporary": NAME.decode()}) == "none"


async def test_a_daemon_that_ends_on_the_way_back_is_told_by_what_the_next_one_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each point of the way back, and again at each point of the next daemon's way."""
    steps = 3  # swap, take, put
    ways = [[first, *second] for first in ("unmarked", "back 2", "back 1", "back 0") for second in ([], ["back 1"])]
    for number, ends in enumerate(ways):
        workspace, points = workspace_in(tmp_path / str(number)), Points(fails_at="made", ends_at=ends[0])
        monkeypatch.setattr(commit, "passing", points)
        with Workspace.open(os.fspath(workspace)) as opened:
            prospect = await planned(workspace.with_name("upper"), Gate(opened))
            with pytest.raises(Ended):
                performed(opened, prospect, power=False)
            assert "journal" in points.passed
            assert f"step {steps - 1}" in points.passed
            for end in ends[1:]:
                monkeypatch.setattr(commit, "passing", Points(ends_at=end))
                with pytest.raises(Ended):
                    undo.recover(opened, {"temporary": NAME.decode()})
            monkeypatch.setattr(commit, "passing", Points())
            assert undo.recover(opened, {"temporary": NAME.decode()}) == "none", ends
        assert files(workspace) == OLD, ends


def test_what_could_not_be_taken_back_is_unknown_to_each_daemon_that_comes(tmp_path: Path) -> None:
    """Also where the first of them ended between giving it a name that people see and recording that."""
    with Workspace.open(os.fspath(workspace_in(tmp_path))) as opened:
        kept = Area.make(opened.descriptor, NAME).keep()
        assert kept == "stockade-kept-marked"
        assert undo.recover(opened, {"temporary": NAME.decode()}) == "unknown"
        assert undo.recover(opened, {"temporary": ".stockade-another"}) == "none"


async def test_a_commit_that_fails_before_its_mark_is_taken_back_without_a_look_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that has become read-only refuses to remove a name that is not there, too."""
    workspace, points = workspace_in(tmp_path), Points(fails_at="step 1")
    monkeypatch.setattr(commit, "passing", points)
    with Workspace.open(os.fspath(workspace)) as opened:
        prospect = await planned(tmp_path / "upper", Gate(opened))
        with pytest.raises(GateRefusal):
            performed(opened, prospect, power=False)
        assert points.passed[points.passed.index("step 1") + 1 :] == ["back 1", "back 0"]
    assert files(workspace) == OLD


async def test_a_commit_whose_mark_cannot_be_removed_stays_and_the_next_start_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_: Area) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    workspace = workspace_in(tmp_path)
    monkeypatch.setattr(commit, "passing", Points(fails_at="made"))
    monkeypatch.setattr(Area, "unmark_made", refuses)
    with Workspace.open(os.fspath(workspace)) as opened:
        prospect = await planned(tmp_path / "upper", Gate(opened))
        with pytest.raises(InfrastructureFailure) as failed:
            performed(opened, prospect, power=False)
        assert failed.value.code == "TOOL_OUTCOME_UNKNOWN"
        assert "They are in the workspace" in failed.value.message
        assert undo.recover(opened, {"temporary": NAME.decode()}) == "applied"
    assert files(workspace) == {"changed": "new\n", "kept": "old\n", "made/one": "new\n"}


@pytest.mark.parametrize("ends", [False, True])
async def test_old_bytes_that_could_not_be_put_back_are_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """By the daemon whose commit fails, or by the next one; also where the name for people is taken."""
    workspace = workspace_in(tmp_path)
    areas = Areas(tmp_path / "state" / "areas")

    def comes_between() -> None:
        (workspace / "gone").write_text("of another program\n")
        (workspace / "stockade-kept-marked").mkdir(exist_ok=True)
        (workspace / "stockade-kept-marked" / "x").touch()

    with Workspace.open(os.fspath(workspace)) as opened:
        prospect = await planned(tmp_path / "upper", Gate(opened))
        last = len(prospect.plan.steps) - 1
        points = Points(fails_at=f"step {last}", ends_at=f"back {last}" if ends else "", first=comes_between)
        monkeypatch.setattr(commit, "passing", points)
        areas.note(NAME, opened)
        with pytest.raises(Ended if ends else GateRefusal) as came:
            performed(opened, prospect, power=False)
        assert ends or NAME.decode() in str(came.value)
        areas.leave(NAME)
        monkeypatch.setattr(commit, "passing", Points())
        old = {"changed": "old\n", "gone": "of another program\n", "kept": "old\n", "stockade-kept-marked/x": ""}
        for _ in range(2):
            Areas(tmp_path / "state" / "areas").sweep()
            assert files(workspace) == old
            assert "old\n" in [each.read_text() for each in (workspace / NAME.decode() / "old").iterdir()]
        (workspace / "stockade-kept-marked").rename(workspace / "out-of-the-way")
        Areas(tmp_path / "state" / "areas").sweep()
        kept = workspace / "stockade-kept-marked" / "old"
        assert "old\n" in [each.read_text() for each in kept.iterdir()]
        assert not (workspace / NAME.decode()).exists()
        assert not (tmp_path / "state" / "areas").exists() or not list((tmp_path / "state" / "areas").iterdir())
