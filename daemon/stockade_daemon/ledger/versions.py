"""The version of each type of event, and how a body that an older daemon recorded becomes today's.

An event is stored as it was recorded, for good, with the version that its type had then. Whoever reads gets today's
version: the steps between are taken as it is read. A type whose body changes its shape gets a step here, and a file of
examples in tests/ledger/golden beside those of its earlier versions, which stay.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Body: TypeAlias = dict[str, Any]  # a JSON object


def version_of(type: str) -> int:
    """What an event of this type is recorded as today; 1 where its body never changed its shape."""
    return 1 + len(_STEPS.get(type, ()))


def versions() -> dict[str, int]:
    """The types whose version is not 1."""
    return {type: version_of(type) for type in _STEPS}


def upcast(type: str, version: int, body: Body) -> Body:
    """Today's body of an event that was recorded as `version`."""
    for step in _STEPS.get(type, ())[version - 1 :]:
        body = step(body)
    return body


def _usage_says_where_it_comes_from(body: Body) -> Body:
    """tool/result 1 → 2: usage tells bytes of storage, and who counted. Files of version 1 may have them already."""
    nothing = {
        "wall_s": 0.0,
        "cpu_s": 0.0,
        "max_rss_bytes": 0,
        "read_bytes": 0,
        "written_bytes": 0,
        "source": "",
    }
    return body | {"usage": nothing | body.get("usage", {})}


def _asks_say_how_to_go_on(body: Body) -> Body:
    """approval/asked 1 → 2: whether it is about arguments or a change, and how long it waits. A daemon that recorded
    version 1 had kept nothing to go on with."""
    return {"at": "", "wait_s": 0.0} | body


def _decisions_say_which_answer(body: Body) -> Body:
    """approval/decided 1 → 2: the answer's own id; without one no repetition can be told from another answer."""
    return {"decision_id": "", "said": ""} | body


def _jobs_say_what_they_are(body: Body) -> Body:
    """tool/call 1 → 2: whether a call that another has started is a job in the background. Of version 1 all were."""
    return body | {"background": True} if "parent" in body else body


# By type: the step from version 1 to 2, from 2 to 3, and so on.
_STEPS: Final[Mapping[str, tuple[Callable[[Body], Body], ...]]] = {
    "approval/asked": (_asks_say_how_to_go_on,),
    "approval/decided": (_decisions_say_which_answer,),
    "tool/call": (_jobs_say_what_they_are,),
    "tool/result": (_usage_says_where_it_comes_from,),
}
