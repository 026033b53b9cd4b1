"""After a crash: a transaction that was begun and not recorded as done is finished where all of its steps were made,
and taken back where not.
"""

import logging
from collections.abc import Mapping
from typing import Literal, TypeAlias

from stockade_daemon.errors import Refusal
from stockade_daemon.gate.effects.area import Area
from stockade_daemon.gate.effects.commit import take_back
from stockade_daemon.gate.effects.steps import Stage, touched
from stockade_daemon.gate.effects.tree import Tree
from stockade_daemon.gate.effects.values import Step
from stockade_daemon.gate.names import encoded
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json

Proof: TypeAlias = Literal["none", "applied", "unknown"]

METHOD = "transaction"

_log = logging.getLogger(__name__)


def recover(workspace: Workspace, begun: Mapping[str, Json]) -> Proof:
    """What became of it. Its area stays until the call has its result (areas.py), so that the next start would say the
    same; `unknown` where another program's work was in the way, and then the area gets a name that people see.

    `begun`: the body of its fs/begun. Raises ValueError.
    """
    area = Area.find(workspace.descriptor, encoded(str(begun.get("temporary", ""))))
    if area is None:
        return "none"
    with Tree(workspace.descriptor) as tree:
        try:
            steps = area.steps()
            if steps is None:
                return "none"
            stage = Stage(tree, area, touched(steps))
            if _all_are_made(stage, steps):
                for step in steps:
                    stage.finish(step)
                return "applied"
            left = take_back(stage, steps)
            if left:
                _log.error(
                    "a transaction of an earlier daemon could not be taken back whole (%s): %s", left, area.keep()
                )
                return "unknown"
            return "none"
        except (OSError, Refusal):
            _log.exception("a transaction of an earlier daemon cannot be looked at")
            return "unknown"
        finally:
            area.close()


def _all_are_made(stage: Stage, steps: list[Step]) -> bool:
    """Whether every name has changed hands: what was taken may have gone on to another name since. Modes are set again
    in any case, which does nothing where they are set."""
    gone_on = {step.held for step in steps if step.do == "put" and stage.is_done(step)}
    return all(step.do == "meta" or step.held in gone_on or stage.is_done(step) for step in steps)
