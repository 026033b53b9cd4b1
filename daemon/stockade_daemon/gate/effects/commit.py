"""A transaction on the disk: everything waits in its area, then all of the steps are made, or none.

Every refusal and every failure on the way takes back what was made. What cannot be taken back, because another program
has put something of its own there, stays in the area, and the refusal says where.
"""

import errno
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from stockade_daemon.errors import GateRefusal, InfrastructureFailure, Refusal
from stockade_daemon.gate.effects.area import Area
from stockade_daemon.gate.effects.steps import Stage, touched
from stockade_daemon.gate.effects.survey import Survey
from stockade_daemon.gate.effects.tree import Tree
from stockade_daemon.gate.effects.upper import Found
from stockade_daemon.gate.effects.values import Made, Plan, Step
from stockade_daemon.gate.names import shown
from stockade_daemon.gate.refusals import refuse_os_error

_log = logging.getLogger(__name__)

# Called with the name of each point that a commit passes: tests end the daemon there.
passing: Callable[[str], None] = lambda point: None  # noqa: E731


@dataclass(frozen=True, slots=True)
class Ready:
    """A transaction that waits for its turn."""

    area: Area
    plan: Plan
    survey: Survey
    workspace: int

    def close(self) -> None:
        """Removes what is left of it on the disk, but for an area that stays."""
        if self.area.stays:
            self.area.close()
            return
        try:
            self.area.remove()
        except OSError:
            _log.warning("what is left of a transaction cannot be removed; the next start will try", exc_info=True)


def prepare(workspace: int, name: bytes, found: list[Found], plan: Plan, survey: Survey, made: Made) -> Ready:
    """Brings everything into an area called `name`; the workspace is as it was. Raises GateRefusal FS_IO_ERROR and
    others by what the file system says."""
    try:
        area = Area.make(workspace, name)
    except OSError as error:
        raise refuse_os_error(error, "make a private directory in", b"the workspace") from error
    passing("area")
    try:
        area.adopt(found, plan, made)
        passing("adopted")
        return Ready(area, plan, survey, workspace)
    except OSError as error:
        Ready(area, plan, survey, workspace).close()
        raise refuse_os_error(error, "bring the command's changes to", b"the workspace") from error
    except BaseException:
        Ready(area, plan, survey, workspace).close()
        raise


def perform(ready: Ready, *, power: bool) -> None:
    """Makes all steps. Raises GateRefusal, and then the workspace is as it was, but for what the refusal names;
    InfrastructureFailure TOOL_OUTCOME_UNKNOWN, and then everything is made, and its area stays for the next start."""
    with Tree(ready.workspace) as workspace:
        try:
            ready.survey.again()
            steps = ready.area.ready(ready.plan.steps, power=power)
            stage = Stage(workspace, ready.area, touched(steps), power)
        except OSError as error:
            raise refuse_os_error(error, "prepare the change of", b"the workspace") from error
        passing("journal")
        made: list[Step] = []
        marked = False
        try:
            for number, step in enumerate(steps):
                made.append(step)
                stage.make(step)
                passing(f"step {number}")
            _look_back(stage, steps, ready.survey)
            marked = True
            _mark_made(ready.area, power=power)
        except BaseException as error:
            if marked:
                _unmark(ready.area, error, power=power)
            left = take_back(stage, made)
            if left:
                raise _left(ready.area, left) from error
            if isinstance(error, OSError):
                raise _refused(error, made[-1].path or b"the workspace") from error
            raise


def _refused(error: OSError, path: bytes) -> GateRefusal:
    if error.errno not in (errno.EXDEV, errno.EBUSY):
        return refuse_os_error(error, "commit", path)
    return GateRefusal(
        "FS_OUTSIDE_WORKSPACE",
        f"Cannot commit {shown(path)}: another file system is mounted there, which commands do not see. Nothing of "
        "what they changed was committed. Have them leave that directory alone: `read`, `edit` and `write` work there, "
        "and commands in a session that has it as its workspace.",
    )


def _left(area: Area, left: str) -> GateRefusal:
    """Of steps that could not be taken back: what is to be said. The area stays, where it can by a name for people."""
    try:
        kept = area.keep()
    except OSError:
        _log.exception("the directory of a transaction that could not be taken back cannot be renamed")
        area.stays = True
        kept = area.name
    _log.error("a transaction could not be taken back whole (%s); see %s", left, kept)
    return GateRefusal(
        "FS_CONFLICT",
        f"The command's changes were being committed, and {left} could not be taken back: another program changed it "
        "meanwhile, or the file system failed. The rest was; that stays as it is now, and what had been there before "
        f"lies in {kept}, below `old`. Look at both before anything else.",
    )


def _mark_made(area: Area, *, power: bool) -> None:
    if power:
        area.sync_all()  # the steps before the mark
    area.mark_made()
    passing("made")
    if power:
        area.sync()


def _unmark(area: Area, reason: BaseException, *, power: bool) -> None:
    """Before the first step is taken back: who ends here is not to be told that the transaction was made.

    Raises InfrastructureFailure TOOL_OUTCOME_UNKNOWN where the mark cannot be removed, and then everything stays.
    """
    try:
        area.unmark_made()
    except OSError as error:
        _log.exception("the mark of a transaction that failed cannot be removed")
        area.stays = True
        raise InfrastructureFailure(
            "TOOL_OUTCOME_UNKNOWN",
            f"The file system failed ({error.strerror}) when all of the command's changes had been made, and did not "
            "let them be taken back. They are in the workspace, but not recorded as committed, and whether they "
            "survive a power cut is not known. Look at the workspace before anything else.",
        ) from reason
    if power:
        with suppress(OSError):  # what follows is the better half of a file system that fails
            area.sync()
    passing("unmarked")


def _look_back(stage: Stage, steps: list[Step], survey: Survey) -> None:
    """Once more at all that was taken away, before it is given up: whoever had it open may have written to it.

    Raises GateRefusal FS_CONFLICT.
    """
    for step in steps:
        if step.do in ("take", "swap") and step.expected is not None:
            if step.do == "take" and stage.area.tree.status(step.held) is None:
                continue  # it moved on to another name
            stage.displaced(step)
            if step.guarded:
                survey.still(stage.area.tree, step.held, stage.ours)


def take_back(stage: Stage, made: list[Step]) -> str:
    """Undoes steps, the last one first; the names of those that could not be, as text."""
    left = []
    for number, step in reversed(list(enumerate(made))):
        passing(f"back {number}")
        try:
            stage.passes(step)
            if stage.is_done(step) and not stage.take_back(step):
                left.append(shown(step.path))
        except (OSError, Refusal):
            _log.exception("a step of a transaction could not be taken back: %s", step)
            left.append(shown(step.path))
    return ", ".join(left)
