"""After a crash: a transaction that was begun and not recorded as done stands where its area says that it was made
whole, and is taken back where not.
"""

import logging
from collections.abc import Mapping
from typing import Literal, TypeAlias

from stockade_daemon.errors import Refusal
from stockade_daemon.gate.effects.area import Area
from stockade_daemon.gate.effects.commit import take_back
from stockade_daemon.gate.effects.steps import Stage, touched
from stockade_daemon.gate.effects.tree import Tree
from stockade_daemon.gate.names import encoded
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json

Proof: TypeAlias = Literal["none", "applied", "unknown"]

METHOD = "transaction"

_log = logging.getLogger(__name__)


def recover(workspace: Workspace, begun: Mapping[str, Json]) -> Proof:
    """What became of it. Its area stays until the call has its result (areas.py), so that the next start would say the
    same; `unknown` where another program's work was in the way, and then the area gets a name that people see, or where
    the file system failed, and then the next start tries again.

    `begun`: the body of its fs/begun. Raises ValueError.
    """
    name = encoded(str(begun.get("temporary", "")))
    area = Area.find(workspace.descriptor, name)
    if area is None:
        return "unknown" if Area.was_kept(workspace.descriptor, name) else "none"
    with Tree(workspace.descriptor) as tree:
        try:
            steps = area.steps()
            if steps is None:
                return "none"
            if area.is_made():
                return "applied"
            stage = Stage(tree, area, touched(steps))
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
