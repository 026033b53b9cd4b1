"""A session belongs to whoever opened it; for others it is not there."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import grpc
import pytest

from stockade.v1 import approvals_pb2, calls_pb2, catalog_pb2, events_pb2, sessions_pb2
from stockade_client import AlreadyExists, CallUnderWay, Daemon, NotPermitted, SessionInfo
from stockade_daemon.rpc.access import ROLES
from stockade_daemon.rpc.server import FILES
from tests.identity.people import People

_ID = "its-session"
# Everything that takes a session's id, but Sessions.Open.
_REQUESTS: Final[Mapping[str, Any]] = {
    "Sessions.Get": sessions_pb2.GetSessionRequest,
    "Sessions.Close": sessions_pb2.CloseSessionRequest,
    "Calls.Start": calls_pb2.StartCallRequest,
    "Calls.StartTurn": calls_pb2.StartTurnRequest,
    "Calls.CancelTurn": calls_pb2.CancelTurnRequest,
    "Calls.List": calls_pb2.ListCallsRequest,
    "Calls.Wait": calls_pb2.WaitCallRequest,
    "Calls.Cancel": calls_pb2.CancelCallRequest,
    "Calls.Signal": calls_pb2.SignalCallRequest,
    "Calls.ResolveUnknown": calls_pb2.ResolveUnknownRequest,
    "Calls.ReadOutput": calls_pb2.ReadOutputRequest,
    "Events.Read": events_pb2.ReadEventsRequest,
    "Approvals.Watch": approvals_pb2.WatchAsksRequest,
    "Catalog.ListTools": catalog_pb2.ListToolsRequest,
}
_FIT: Final[Mapping[str, Mapping[str, Any]]] = {
    "Calls.Start": {"call_id": "c", "tool": "read", "arguments": b'{"path": "a.txt"}'},
    "Calls.StartTurn": {"turn_id": "t", "calls": [{"call_id": "c", "tool": "read", "arguments": b"{}"}]},
    "Calls.CancelTurn": {"turn_id": "t"},
    "Calls.Wait": {"call_id": "c"},
    "Calls.Cancel": {"call_id": "c"},
    "Calls.Signal": {"call_id": "c", "signal": "SIGINT"},
    "Calls.ResolveUnknown": {"call_id": "c", "outcome": calls_pb2.OUTCOME_DONE},
    "Calls.ReadOutput": {"call_id": "c", "part": calls_pb2.OUTPUT_PART_VALUE},
}


async def _answer(daemon: Daemon, method: str, session_id: str) -> tuple[str, str]:
    """Status and text of a request."""
    service, _, name = method.partition(".")
    link = daemon._link
    call = getattr(getattr(link, service.lower()), name)(
        _REQUESTS[method](session_id=session_id, **_FIT.get(method, {})), metadata=link.metadata
    )
    try:
        if hasattr(call, "read"):
            await call.read()
            call.cancel()
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return error.code().name, (error.details() or "").replace(session_id, "ID")
    return "OK", ""


def test_every_method_that_takes_a_session_is_asked_about_here() -> None:
    taking = {
        f"{service.name}.{method.name}"
        for module in FILES
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if "session_id" in method.input_type.fields_by_name
    }
    assert taking - {"Sessions.Open"} == set(_REQUESTS)


def test_every_method_says_which_role_it_takes() -> None:
    methods = {
        f"{service.name}.{method.name}"
        for module in FILES
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert methods == set(ROLES)


async def test_somebody_elses_session_answers_as_one_that_there_is_not(four: dict[str, Daemon], people: People) -> None:
    async with four["ann"].session(people.workspace("ann"), "dev", id=_ID) as session:
        assert (await session.call("read", path="a.txt")).ok
        for method in _REQUESTS:
            foreign = await _answer(four["ben"], method, _ID)
            absent = await _answer(four["ben"], method, "there-is-none")
            assert foreign == absent, method
            assert foreign[0] == "NOT_FOUND", method
        assert (await session.call("read", path="a.txt")).ok
        with pytest.raises(AlreadyExists, match="is taken; choose another id"):
            async with four["ben"].session(people.workspace("ben"), "dev", id=_ID):
                pass


_ABOUT_AN_ASK: Final[Mapping[str, Any]] = {
    "Approvals.Decide": lambda ask_id, shown: approvals_pb2.DecideRequest(
        ask_id=ask_id, shown_hash=shown, allow=True, decision_id="d"
    ),
    "Approvals.Claim": lambda ask_id, _: approvals_pb2.ClaimRequest(ask_id=ask_id, claim_id="c", lease_s=30),
}


def test_every_method_that_takes_an_ask_is_asked_about_here() -> None:
    taking = {
        f"{service.name}.{method.name}"
        for module in FILES
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if "ask_id" in method.input_type.fields_by_name
    }
    assert taking == set(_ABOUT_AN_ASK)


async def test_somebody_elses_ask_answers_as_one_that_there_is_not(four: dict[str, Daemon], people: People) -> None:
    async def said(method: str, ask_id: str, shown: str) -> tuple[str, str]:
        link = four["ben"]._link
        request = _ABOUT_AN_ASK[method](ask_id, shown)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await getattr(link.approvals, method.partition(".")[2])(request, metadata=link.metadata)
        return refused.value.code().name, (refused.value.details() or "").replace(ask_id, "ID")

    async with (
        four["ann"].session(people.workspace("ann"), "dev", id=_ID) as session,
        four["cleo"].approvals() as asks,
    ):
        assert (await session.call("read", path="a.txt")).ok
        call = await session.start("write", path="a.txt", content="two")
        ask = await anext(asks)
        for when in ("while it waits", "when it has its answer"):
            for method in _ABOUT_AN_ASK:
                foreign = await said(method, ask.ask_id, ask.shown_hash)
                assert foreign == await said(method, "0" * 32, ask.shown_hash), (method, when)
                assert foreign[0] == "NOT_FOUND", (method, when)
            if when == "while it waits":
                await ask.decide(True)
                assert (await call.result()).ok


async def test_lists_have_what_a_caller_may_see_and_no_more(four: dict[str, Daemon], people: People) -> None:
    async with (
        four["ann"].session(people.workspace("ann"), "ci", id="anns") as anns,
        four["ben"].session(people.workspace("ben"), "ci", id="bens") as bens,
    ):
        running = [await each.start("shell", command="sleep 60") for each in (anns, bens)]
        assert await _seen(four, lambda daemon: daemon.sessions()) == _EXPECTED
        assert await _seen(four, lambda daemon: daemon.calls()) == _EXPECTED
        for call in running:
            await call.cancel()
    assert (await four["cleo"].get_session("anns")).principal == "ann"


_EXPECTED = {"ann": ["anns"], "ben": ["bens"], "cleo": ["anns", "bens"], "dan": ["anns", "bens"]}


async def _seen(
    four: dict[str, Daemon], listed: Callable[[Daemon], Awaitable[list[SessionInfo] | list[CallUnderWay]]]
) -> dict[str, list[str]]:
    return {name: sorted(each.session_id for each in await listed(daemon)) for name, daemon in four.items()}


async def test_an_approver_looks_at_sessions_and_changes_none(four: dict[str, Daemon], people: People) -> None:
    async with four["ann"].session(people.workspace("ann"), "dev", id=_ID) as session:
        await session.call("read", path="a.txt")
        async with four["cleo"].events(_ID) as events:
            assert {event.principal async for event in events} == {"ann"}
        for method in ("Calls.Start", "Calls.Cancel", "Sessions.Close"):
            assert (await _answer(four["cleo"], method, _ID))[0] == "PERMISSION_DENIED"
        with pytest.raises(NotPermitted, match=r"takes the role admin or agent; have the admin give it"):
            async with four["cleo"].session(people.workspace("ann"), "dev"):
                pass
        # The admin may do anything with it, and the record says who did.
        ended = await four["dan"].close_session(_ID)
        assert ended.state == "closed"
    async with four["ann"].events(_ID) as events:
        by_type = {event.type: event.principal async for event in events}
    assert (by_type["session/opened"], by_type["session/closed"]) == ("ann", "dan")


async def test_nobody_but_an_admin_examines_the_host(four: dict[str, Daemon]) -> None:
    for name in ("ann", "cleo"):
        with pytest.raises(NotPermitted, match=rf"{name} may not call Daemon.Doctor: that takes the role admin"):
            await four[name].doctor()
    assert (await four["dan"].doctor()).profiles


async def test_who_takes_a_call_back_is_named_in_its_result(four: dict[str, Daemon], people: People) -> None:
    async with four["ann"].session(people.workspace("ann"), "ci", id=_ID) as session:
        call = await session.start("shell", command="sleep 60")
        await four["dan"].call(_ID, call.call_id).cancel()
        result = await call.result()
        assert result.error is not None
        async with session.events(call_id=call.call_id) as events:
            by_type = {event.type: event.principal async for event in events}
        assert (by_type["tool/call"], by_type["tool/result"]) == ("ann", "dan")


async def test_a_workspace_of_somebody_else_is_refused(four: dict[str, Daemon], people: People) -> None:
    said = set()
    for place in (people.workspace("ben"), people.work / "missing", people.work):
        with pytest.raises(NotPermitted, match="is no directory that ann may work on") as refused:
            async with four["ann"].session(place, "dev"):
                pass
        said.add(str(refused.value).replace(str(place), "PLACE"))
    assert len(said) == 1, "the answer tells what there is"
