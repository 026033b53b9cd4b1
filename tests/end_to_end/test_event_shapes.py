"""What a daemon records looks like the examples that are kept of each type's version.

So a body that changes its shape is noticed here: a key that is always there needs another version and a step from the
one before (ledger/versions.py), one that may be there another example.
"""

import os
from pathlib import Path
from typing import Final

from stockade_daemon import meanings
from stockade_daemon.ledger.versions import version_of
from tests.end_to_end.every_event import NOT_HERE, recorded
from tests.end_to_end.stockaded import Stockaded
from tests.ledger.shapes import kept, unlike

# What the daemon notices by itself.
_ITS_OWN: Final = {"session/profile", "profile/refused", "catalog/changed", "catalog/refused", "fs/changed"}


async def test_what_a_daemon_records_looks_like_the_kept_examples(stockaded: Stockaded, workspace: Path) -> None:
    examples = kept()
    events = await recorded(stockaded, workspace)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.type for event in events} == set(meanings.OF_EVENTS) - NOT_HERE
    own = f"uid:{os.geteuid()}"
    # The result of the call that was under way when the daemon was killed is the next one's.
    after_death = {event.seq for event in events if event.type == "tool/result" and event.call_id == "cut-off"}
    for event in events:
        assert event.version == version_of(event.type)
        # Nobody else was it than the one user of this daemon, or the daemon itself.
        assert event.principal == ("daemon" if event.type in _ITS_OWN or event.seq in after_death else own), event
        assert unlike(event.type, event.body, [each.read for each in examples[event.type, event.version]]) == []
