"""Waterfalls, guards and the profile's rules, as functions of frozen values."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from stockade_daemon.policy.decisions import Allow, Ask, Deny, PreDecision
from stockade_daemon.policy.executables import Surroundings
from stockade_daemon.policy.guards import Guards
from stockade_daemon.policy.intents import IntentPoint
from stockade_daemon.policy.profile_rules import ByProfile, changes_by_profile
from stockade_daemon.policy.subjects import Change, Intended, Judged
from stockade_daemon.policy.waterfall import Next, Waterfall
from stockade_daemon.profiles import read as profiles
from stockade_daemon.registry.registry import Registry
from stockade_daemon.values import Call, Session

REGISTRY = Registry.load()
by_profile = ByProfile(lambda session: Surroundings(session.workspace, {"PATH": "/usr/bin:/bin"}, ("/usr", "/bin")))
DEV = profiles.load("dev", directories=[profiles.shipped()])


def judged(tool: str, **approval: str) -> Judged:
    words: dict[str, Any] = dict(approval)
    profile = replace(DEV, approval=replace(DEV.approval, **words))
    session = Session("s", "/w", 1, 2, profile, "ask", 0)
    return Judged(session, Call("s", "c", "token", tool, b"{}", MappingProxyType({}), "digest"), REGISTRY.find(tool))


async def allow() -> PreDecision:
    return Allow()


async def test_the_first_registered_listener_is_the_outermost() -> None:
    order: list[str] = []

    def listener(name: str):  # type: ignore[no-untyped-def]  # a listener for each name
        async def listen(subject: str, following: Next[str]) -> str:
            order.append(f"{name} in")
            result = await following()
            order.append(f"{name} out")
            return f"{name}({result})"

        return listen

    waterfall: Waterfall[str, str] = Waterfall("test")
    waterfall.add(listener("outer"))
    waterfall.add(listener("inner"))

    async def default() -> str:
        return "body"

    assert await waterfall.run("subject", default) == "outer(inner(body))"
    assert order == ["outer in", "inner in", "inner out", "outer out"]


async def test_a_listener_that_does_not_ask_the_next_has_the_last_word() -> None:
    waterfall: Waterfall[str, str] = Waterfall("test")

    async def stop(subject: str, following: Next[str]) -> str:
        return "stopped"

    async def never(subject: str, following: Next[str]) -> str:
        raise AssertionError("asked although the one before decided")

    waterfall.add(stop)
    waterfall.add(never)
    assert await waterfall.run("subject", lambda: never("", never)) == "stopped"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tool", "key"), [("read", "reads"), ("shell", "commands"), ("edit", "writes")], ids=lambda each: str(each)
)
async def test_the_profile_denies_by_kind(tool: str, key: str) -> None:
    assert isinstance(await by_profile(judged(tool, **{key: "allow"}), allow), Allow)
    denied = await by_profile(judged(tool, **{key: "deny"}), allow)
    assert isinstance(denied, Deny)
    assert key in denied.reason


async def test_a_write_is_asked_about_at_its_intent_and_not_before() -> None:
    assert isinstance(await by_profile(judged("edit", writes="ask"), allow), Allow)
    assert isinstance(await by_profile(judged("shell", commands="ask"), allow), Ask)


async def test_an_inner_denial_is_stricter_than_an_ask() -> None:
    async def deny() -> PreDecision:
        return Deny("no")

    assert await by_profile(judged("shell", commands="ask"), deny) == Deny("no")


def test_guards_deny_or_abstain_in_any_order() -> None:
    subject = judged("read")
    for guards in ((lambda _: None, lambda _: "no"), (lambda _: "no", lambda _: None)):
        registered: Guards[Judged] = Guards()
        for guard in guards:
            registered.add(guard)
        assert registered.check(subject) == "no"
    none: Guards[Judged] = Guards()
    assert none.check(subject) is None


CHANGE = Change("a", b"a", "update", "b" * 64, "a" * 64, 1, 1, 1, "", complete=True, note="")


@pytest.mark.parametrize("first", [True, False])
async def test_the_profile_is_one_of_the_listeners_of_a_change_and_a_person_is_told_all_reasons(first: bool) -> None:
    async def listen(intended: Intended) -> PreDecision:
        return Ask("it is large")

    point: IntentPoint[Intended] = IntentPoint("test")
    for each in (listen, changes_by_profile) if first else (changes_by_profile, listen):
        point.add(each)
    asked = await point.decide(Intended(judged("shell", writes="ask"), CHANGE))
    assert isinstance(asked, Ask)
    assert set(asked.reason.split("; ")) == {"it is large", "profile dev asks about writes"}
    assert await point.decide(Intended(judged("edit", writes="allow"), CHANGE)) == Ask("it is large")
    denied = await point.decide(Intended(judged("edit", writes="deny"), CHANGE))
    assert isinstance(denied, Deny)
    assert "denies writes" in denied.reason
