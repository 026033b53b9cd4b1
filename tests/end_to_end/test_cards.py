"""Cards as clients get them: pending and completed, the same in an answer, in the event, and after a restart."""

import json
import signal
from pathlib import Path

from stockade_client import connect
from stockade_client.session import Session
from stockade_client.wire import call_card_of
from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import Stockaded

CALLS = {
    "r": ("read", {"path": "a.txt"}),
    "s": ("shell", {"command": "exit 3"}),
    "f": ("read", {"path": "missing"}),
}


async def recorded(session: Session, type: str) -> dict[str, object]:
    """The cards of events of this type, by call."""
    async with session.events() as events:
        return {event.call_id: event.body.get("card") async for event in events if event.type == type}


async def test_the_card_is_the_same_in_the_answer_in_the_event_and_after_a_restart(
    stockaded: Stockaded, workspace: Path
) -> None:
    stockaded.start()
    async with connect(stockaded.address) as daemon, daemon.session(workspace, "dev", id="s") as session:
        live, pending = {}, {}
        for call_id, (tool, arguments) in CALLS.items():
            call = await session.start(tool, call_id=call_id, **arguments)
            pending[call_id] = call.card if call.settled is None else None
            live[call_id] = (await call.result()).card
            assert call.card == live[call_id]
        assert await recorded(session, "tool/result") == live
        shown = await recorded(session, "tool/call")
        assert {key: card for key, card in pending.items() if card is not None}.items() <= shown.items()
        stockaded.end(signal.SIGKILL)
        stockaded.start()
        for call_id, (tool, arguments) in CALLS.items():
            again = await session.start(tool, call_id=call_id, **arguments)
            assert (await again.result()).card == live[call_id]
        assert await recorded(session, "tool/result") == live
    assert live["r"] == {
        "title": "Read a.txt", "view": "read", "path": "a.txt", "ok": True, "first": 1, "last": 3, "total": 3
    }  # fmt: skip
    assert (live["s"]["view"], live["s"]["exit_code"]) == ("terminal", 3)
    assert live["f"] == {"title": "Read missing", "view": "generic", "ok": False}


async def test_a_call_under_way_has_its_pending_card_and_one_that_was_cut_off_a_plain_one(
    stockaded: Stockaded, stockade: Stockade, workspace: Path
) -> None:
    stockaded.start()
    async with connect(stockaded.address) as daemon, daemon.session(workspace, "dev", id="s") as session:
        call = await session.start("shell", call_id="c", command="echo begun; sleep 60")
        async with call.output() as chunks:
            await anext(chunks)
        pending = (await recorded(session, "tool/call"))["c"]
        (listed,) = await daemon.calls("s")
        assert call.card == listed.card == pending
        assert json.loads(stockade("ps", "--json", daemon=stockaded).stdout)["card"] == pending
        assert str(call.card["title"]) in stockade("ps", daemon=stockaded).stdout
        stockaded.end(signal.SIGKILL)
        stockaded.start()
        result = await call.result()
        assert result.card == {"title": listed.card["title"], "view": "generic", "ok": False}
        assert (await recorded(session, "tool/result"))["c"] == result.card


async def test_a_call_that_cannot_be_shown_has_a_generic_card(stockaded: Stockaded, workspace: Path) -> None:
    stockaded.start()
    async with connect(stockaded.address) as daemon, daemon.session(workspace, "dev") as session:
        assert (await session.call("nothing")).card == {"title": "nothing", "view": "generic", "ok": False}
    for text in (b"", b"[1]", b"{", b"\xff"):
        assert call_card_of(text, "read", ok=True) == {"title": "read", "view": "generic", "ok": True}


def test_the_object_of_json_has_no_card(stockaded: Stockaded, stockade: Stockade) -> None:
    stockaded.start()
    done = stockade("call", "read", '{"path": "a.txt"}', "--profile", "dev", "--json", daemon=stockaded)
    keys = {"id", "tool", "ok", "value", "content", "error", "layers", "usage"}
    assert set(json.loads(done.stdout)) == keys
