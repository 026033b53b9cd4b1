"""Arguments that pre-execute has put in the place of a call's own.

They are checked like a client's, recorded beside the originals, and from here on the call is judged, shown and run with
them. What the client sent stays in `tool/call`, and its digest stays the call's: repeating the call is still safe.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from stockade_daemon import json_text
from stockade_daemon.errors import ArgumentsRefusal, ExtensionFailed
from stockade_daemon.pipeline import cards
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.values import Json

STAGE: Final = "tools/pre-execute"
# Of their text: it is a part of an event, and escaped again it may be six times as long.
_MOST_BYTES: Final = 256 * 1024


def same(wanted: Mapping[str, Json], present: Mapping[str, Json]) -> bool:
    """Whether the texts are the same, which tells 1 from 1.0 and true."""
    try:
        return json_text.dump(wanted) == json_text.dump(present)
    except (ValueError, TypeError):
        return False  # rewrite says why


def rewrite(services: Services, judged: Judged, under_way: CallUnderWay, wanted: Mapping[str, Json]) -> Judged:
    """The call with these arguments, recorded.

    Raises ExtensionFailed where the tool would not take them: whoever wrote them is at fault, and not the agent.
    """
    try:
        json_text.check(wanted)
        text = json_text.dump(wanted)
        if len(text) > _MOST_BYTES:
            raise ValueError(f"{len(text)} bytes of arguments are more than the {_MOST_BYTES} that may be rewritten")
        arguments = under_way.tools.parse(judged.manifest, text)
    except (ArgumentsRefusal, ValueError, TypeError) as error:
        raise ExtensionFailed("", STAGE, f"the arguments that it wrote are refused: {error}") from error
    call = replace(judged.call, arguments=arguments, arguments_text=text)
    rewritten = replace(judged, call=call)
    under_way.call = call
    under_way.card = cards.pending(rewritten)
    services.ledger.note(
        judged.session.session_id,
        "call/arguments",
        call.call_id,
        {
            "arguments": text.decode(),
            "digest": hashlib.sha256(text).hexdigest(),
            "card": under_way.card,
        },
    )
    return rewritten
