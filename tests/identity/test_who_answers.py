"""Who answers an ask: somebody with the right to, and not whoever asks."""

import asyncio
from pathlib import Path

import pytest

from stockade_client import Ask, AskAlreadyDecided, Daemon, NotFound, NotPermitted, connect
from tests.end_to_end.stockaded import Stockaded
from tests.identity.conftest import As
from tests.identity.people import People

HANG_S = 30.0


@pytest.fixture
def asking(stockaded: Stockaded, directory: Path) -> str:
    """The name of a profile whose asks wait for somebody to come."""
    profiles = directory / "profiles"
    profiles.mkdir(mode=0o755)
    (profiles / "asking.toml").write_text('extends = "dev"\nwiden = ["approval.wait_s"]\n[approval]\nwait_s = 600\n')
    text = stockaded.configuration.read_text()
    stockaded.configuration.write_text(f'{text}[profiles]\npaths = ["{profiles}"]\n')
    return "asking"


async def _next(daemon: Daemon) -> Ask:
    async with asyncio.timeout(HANG_S), daemon.approvals() as asks:
        return await anext(asks)


async def test_an_agents_answer_to_its_own_ask_is_refused_and_an_approvers_counts(
    asking: str, four: dict[str, Daemon], people: People
) -> None:
    async with four["ann"].session(people.workspace("ann"), asking, id="s") as session:
        call = await session.start("write", path="b.txt", content="new\n")
        ask = await _next(four["cleo"])
        assert ask.asked_by == "ann"
        own = "ann may not answer what is asked about its own sessions; have somebody else with the role approver"
        ask._link = four["ann"]._link
        with pytest.raises(NotPermitted, match=own):
            await ask.decide(True)
        with pytest.raises(NotPermitted, match=own):
            await _watched(four["ann"], "s")
        with pytest.raises(NotPermitted, match="ann may answer nobody's asks"):
            await _watched(four["ann"], "")
        # Of another agent's session there is nothing to answer.
        ask._link = four["ben"]._link
        with pytest.raises(NotFound, match=f"there is no ask {ask.ask_id}"):
            await ask.decide(True)
        with pytest.raises(NotFound):
            await _watched(four["ben"], "s")
        ask._link = four["cleo"]._link
        await ask.decide(True)
        assert (await call.result()).ok
        async with session.events(call_id=call.call_id) as events:
            by_type = {event.type: event.principal async for event in events}
    assert by_type["approval/asked"] == "ann"
    assert by_type["approval/decided"] == "cleo"
    assert by_type["fs/committed"] == by_type["tool/result"] == "ann"


async def test_two_approvers_are_shown_each_other_and_neither_ends_the_others_claim(
    asking: str, four: dict[str, Daemon], people: People
) -> None:
    cleo, dan = four["cleo"], four["dan"]
    async with (
        asyncio.timeout(HANG_S),
        four["ann"].session(people.workspace("ann"), asking, id="s") as session,
        cleo.approvals(changes=True) as cleos,
        dan.approvals(changes=True) as dans,
    ):
        call = await session.start("write", path="b.txt", content="new\n")
        hers, his = await anext(cleos), await anext(dans)
        his.claim_id = hers.claim_id  # as somebody may who is shown it
        both = [("cleo", "at her desk"), ("dan", "elsewhere")]
        async with hers.claim("at her desk"):
            while not his.claims:
                await anext(dans)
            async with his.claim("elsewhere"):
                while len(hers.claims) < 2 or len(his.claims) < 2:
                    await (anext(cleos) if len(hers.claims) < 2 else anext(dans))
                assert [(each.by, each.name) for each in hers.claims] == both
                assert hers.claims == his.claims
            while len(hers.claims) > 1:
                await anext(cleos)
            assert [(each.by, each.name) for each in hers.claims] == both[:1]
            # An agent looks at nobody's asks, its own among them.
            hers._link = four["ann"]._link
            with pytest.raises(NotPermitted):
                await hers._claim("ann", 30.0)
            hers._link = cleo._link
        await hers.decide(True)
        assert (await call.result()).ok


async def test_an_answer_with_somebody_elses_id_is_not_his(
    asking: str, four: dict[str, Daemon], people: People
) -> None:
    async with four["ann"].session(people.workspace("ann"), asking, id="s") as session:
        call = await session.start("write", path="b.txt", content="new\n")
        hers, his = await _next(four["cleo"]), await _next(four["dan"])
        his._decision_id = hers._decision_id
        await hers.decide(True)
        with pytest.raises(AskAlreadyDecided):
            await his.decide(True)
        assert (await hers.decide(True)).allow  # once more, it is hers
        assert (await call.result()).ok


async def _watched(daemon: Daemon, session_id: str) -> None:
    async with daemon.approvals(session_id):
        pass


async def test_a_watcher_who_may_not_answer_does_not_count_as_an_approver(connected: As, people: People) -> None:
    """Profile dev does not wait: where nobody is there who may answer, that is the result at once."""
    async with (
        connected("ann") as ann,
        connected("cleo") as cleo,
        ann.session(people.workspace("ann"), "dev") as session,
    ):
        result = await session.call("write", path="b.txt", content="new\n")
        assert result.error is not None
        assert result.error.code == "APPROVAL_UNAVAILABLE"
        async with cleo.approvals() as asks:
            call = await session.start("write", path="b.txt", content="new\n")
            await (await anext(asks)).decide(False, "not now")
            result = await call.result()
        assert result.error is not None
        assert result.error.code == "APPROVAL_REJECTED"


@pytest.mark.parametrize("where", ["identity", "principal"])
async def test_own_asks_are_answered_where_the_configuration_says_so(
    where: str, stockaded: Stockaded, people: People
) -> None:
    place = people.workspace("ann")
    place.mkdir(parents=True)
    line = "answer_own_asks = true"
    text = f"{stockaded.configuration.read_text()}{people.toml({'ann': line} if where == 'principal' else None)}"
    stockaded.configuration.write_text(f"{text}[identity]\n{line}\n" if where == "identity" else text)
    stockaded.start()

    async def yes(ask: Ask) -> bool:
        return True

    async with connect(stockaded.address, people.tokens["ann"]) as ann:
        assert ann.info.caller.answers_own_asks
        async with ann.session(place, "dev", approve=yes) as session:
            assert (await session.call("write", path="b.txt", content="new\n")).ok
        async with ann.session(place, "dev", id="s") as session, ann.approvals() as asks:
            call = await session.start("write", path="c.txt", content="new\n")
            await (await anext(asks)).decide(True)
            assert (await call.result()).ok


async def test_an_approver_of_some_hears_nothing_of_others(asking: str, stockaded: Stockaded, people: People) -> None:
    for name in ("ann", "ben"):
        people.workspace(name).mkdir(parents=True)
    text = stockaded.configuration.read_text()
    theirs = people.toml({"cleo": 'approves = ["ben"]'})
    stockaded.configuration.write_text(f"{text}{theirs}")
    stockaded.start()
    async with (
        connect(stockaded.address, people.tokens["ann"]) as ann,
        connect(stockaded.address, people.tokens["ben"]) as ben,
        connect(stockaded.address, people.tokens["cleo"]) as cleo,
        ann.session(people.workspace("ann"), asking) as anns,
        ben.session(people.workspace("ben"), asking) as bens,
    ):
        await anns.start("write", path="b.txt", content="new\n")
        await bens.start("write", path="b.txt", content="new\n")
        ask = await _next(cleo)
        assert ask.asked_by == "ben"
        assert [each.session_id for each in await cleo.sessions()] == [bens.session_id]
        with pytest.raises(NotFound):
            await cleo.get_session(anns.session_id)
