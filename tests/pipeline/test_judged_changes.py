"""What a body wants to change: judged by the profile and all listeners, then looked at by guards, then committed."""

import asyncio
import hashlib
import json
from contextlib import aclosing
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from stockade_daemon.errors import PolicyRefusal, RequestError
from stockade_daemon.gate.locks import held
from stockade_daemon.policy.decisions import Accept, Allow, Ask, Deny, PreDecision
from stockade_daemon.policy.intents import IntentListener
from stockade_daemon.policy.subjects import Change, Intended, Transaction
from tests.pipeline.conftest import HANG_S, Staged

INTENT, GUARDS = "fs/edit-intent", "policy/transaction"


def answering(answer: Any, heard: list[str] | None = None, name: str = "") -> IntentListener:
    async def listen(intended: Intended) -> PreDecision:
        if heard is not None:
            heard.append(name)
        decision: PreDecision = answer
        return decision

    return listen


def raising(error: Exception) -> IntentListener:
    async def listen(intended: Intended) -> PreDecision:
        raise error

    return listen


async def edit(staged: Staged, **arguments: Any) -> Any:
    """The result of an edit of a.txt, as call c."""
    await staged.call("r", "read", path="a.txt")
    return await staged.call("c", "edit", **{"path": "a.txt", "old_string": "one", "new_string": "two", **arguments})


def code(result: Any) -> str:
    return "ok" if result["ok"] else str(result["error"]["code"])


async def refused(staged: Staged, result: Any, expected: str, words: str) -> None:
    """Nothing was changed; the call goes on at post-execute, as after any body that was refused something."""
    assert (code(result), words in result["error"]["message"]) == (expected, True), result
    assert (staged.workspace / "a.txt").read_text() == "one\n"
    types = await staged.types("c")
    assert not {"fs/begun", "fs/committed"} & set(types)
    assert types[-2:] == ["policy/post-execute", "tool/result"]


# Guards of transactions.


async def test_a_transaction_is_shown_frozen_and_exactly_as_it_is_committed(staged: Staged) -> None:
    seen: list[Transaction] = []
    staged.services.transaction_guards.add(seen.append)
    assert code(await edit(staged)) == "ok"
    (transaction,) = seen
    assert (transaction.judged.call.call_id, transaction.judged.call.tool) == ("c", "edit")
    (change,) = transaction.changes
    assert change == Change(
        path="a.txt",
        name=b"a.txt",
        operation="update",
        before=hashlib.sha256(b"one\n").hexdigest(),
        after=hashlib.sha256(b"two\n").hexdigest(),
        size=4,
        added=1,
        removed=1,
        difference="--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-one\n+two\n",
        complete=True,
        note="",
    )
    with pytest.raises(FrozenInstanceError):
        change.after = ""  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        transaction.changes = ()  # type: ignore[misc]
    committed = await staged.body("c", "fs/committed")
    assert (committed["before"], committed["after"]) == (change.before, change.after)
    assert await staged.body("c", GUARDS) == {"decision": "abstain", "guards": 1, "changes": 1}


@pytest.mark.parametrize("turned", [False, True])
async def test_a_guard_that_denies_a_transaction_leaves_everything_as_it_is(staged: Staged, turned: bool) -> None:
    guards: list[Any] = [lambda _: None, lambda _: "the archive is closed"]
    for each in reversed(guards) if turned else guards:
        staged.services.transaction_guards.add(each)
    await refused(staged, await edit(staged), "DENIED", "the archive is closed")
    body = await staged.body("c", GUARDS)
    assert body == {"decision": "deny", "guards": 2, "changes": 1, "reason": "the archive is closed"}


async def test_a_guard_is_asked_after_the_person_and_can_still_deny(staged: Staged) -> None:
    order: list[str] = []
    staged.services.edit_intent.add(answering(Ask("sure?"), order, "listener"))

    def guard(transaction: Transaction) -> str:
        order.append("guard")
        return "no all the same"

    staged.services.transaction_guards.add(guard)
    await staged.call("r", "read", path="a.txt")
    arguments = b'{"path": "a.txt", "old_string": "one", "new_string": "two"}'
    with staged.services.approvals.watching("s") as watcher:
        await staged.engine.begin("s", "c", "edit", arguments)
        async for ask in watcher.asks():
            order.append("person")
            await staged.services.approvals.decide(ask.ask_id, ask.shown_hash, allow=True, reason="", decision_id="d")
            break
        record, _ = await staged.engine.wait("s", "c", HANG_S)
    await refused(staged, record.result, "DENIED", "no all the same")
    assert order == ["listener", "person", "guard"]
    types = await staged.types("c")
    assert types[types.index(INTENT) :][:4] == [INTENT, "approval/asked", "approval/decided", GUARDS]
    assert (await staged.body("c", "approval/asked"))["card"]["reason"] == "sure?"


async def test_a_change_that_was_refused_before_is_shown_to_no_guard(staged: Staged) -> None:
    seen: list[Transaction] = []
    staged.services.transaction_guards.add(seen.append)
    staged.services.edit_intent.add(answering(Deny("not this one")))
    await refused(staged, await edit(staged), "DENIED", "not this one")
    assert seen == []
    assert GUARDS not in await staged.types("c")


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("broken"), "mine failed at transaction guard: ValueError: broken. The change was not made"),
        (Hostile(), "an error that cannot say what it is"),
        (RequestError("NOT_FOUND", "what a call cannot end with"), "what a call cannot end with"),
        (PolicyRefusal("DENIED", "\ud800"), "no text that JSON can carry"),
    ],
    ids=["plain", "hostile", "of a request", "no text"],
)
async def test_a_transaction_guard_that_breaks_refuses(staged: Staged, error: Exception, words: str) -> None:
    def guard(transaction: Transaction) -> None:
        raise error

    staged.services.transaction_guards.add(guard, owner="mine")
    await refused(staged, await edit(staged), "HOOK_FAILED", words)
    body = await staged.body("c", GUARDS)
    assert body["decision"] == "deny"
    assert words in body["reason"]


@pytest.mark.parametrize("answer", [True, 0, b"no", "\udfff"])
async def test_what_is_no_answer_of_a_transaction_guard_is_no_abstention(staged: Staged, answer: Any) -> None:
    staged.services.transaction_guards.add(lambda _: answer, owner="mine")
    await refused(staged, await edit(staged), "HOOK_FAILED", "neither a text")


async def test_a_refusal_that_a_transaction_guard_raises_keeps_its_code(staged: Staged) -> None:
    def guard(transaction: Transaction) -> None:
        raise PolicyRefusal("FS_PROTECTED", "not this file")

    staged.services.transaction_guards.add(guard, owner="mine")
    await refused(staged, await edit(staged), "FS_PROTECTED", "not this file")


# Listeners of intents.


@pytest.mark.parametrize(
    ("answers", "expected", "words"),
    [
        ([Allow(), Allow(), Allow()], "ok", ""),
        ([Deny("first"), Allow(), Deny("last")], "DENIED", "first"),
        ([Allow(), Allow(), Deny("last", "FS_PROTECTED")], "FS_PROTECTED", "last"),
        ([Ask("sure?"), Deny("no"), Allow()], "DENIED", "no"),
        ([Allow(), Ask("sure?"), Allow()], "APPROVAL_UNAVAILABLE", "nobody is there"),
    ],
    ids=["allow", "deny first", "deny last", "deny over ask", "ask"],
)
async def test_every_listener_of_an_intent_is_asked_and_the_strictest_answer_counts(
    staged: Staged, answers: list[PreDecision], expected: str, words: str
) -> None:
    heard: list[str] = []
    for number, answer in enumerate(answers):
        staged.services.edit_intent.add(answering(answer, heard, str(number)))
    result = await edit(staged)
    assert heard == ["0", "1", "2"]
    body = await staged.body("c", INTENT)
    if expected == "ok":
        assert (code(result), body["decision"], "reason" in body) == ("ok", "allow", False)
    else:
        await refused(staged, result, expected, words)
        assert body["decision"] == ("ask" if expected.startswith("APPROVAL") else "deny")
        assert body["reason"] in ("sure?", words)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        "allow",
        Accept(),
        Deny("no", "NO_SUCH_CODE"),
        Deny("\ud800"),
        Allow(arguments={}),
        Ask("sure?", tightening=b"limits.open_files = 9"),
    ],
)
async def test_what_is_no_decision_about_a_change_is_never_an_allow(staged: Staged, answer: Any) -> None:
    staged.services.edit_intent.add(answering(answer), owner="mine")
    await refused(staged, await edit(staged), "HOOK_FAILED", "mine failed at fs/edit-intent: it")
    body = await staged.body("c", INTENT)
    assert (body["decision"], body["path"]) == ("deny", "a.txt")
    assert "mine failed" in body["reason"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ValueError("broken"), "HOOK_FAILED"), (PolicyRefusal("APPROVAL_REJECTED", "broken"), "APPROVAL_REJECTED")],
    ids=["error", "refusal"],
)
async def test_a_listener_of_an_intent_that_raises_refuses(staged: Staged, error: Exception, expected: str) -> None:
    staged.services.edit_intent.add(raising(error), owner="mine")
    await refused(staged, await edit(staged), expected, "broken")


async def test_a_change_that_the_gate_refuses_is_shown_to_no_listener(staged: Staged) -> None:
    heard: list[str] = []
    staged.services.edit_intent.add(answering(Allow(), heard, "asked"))
    result = await staged.call("c", "edit", path="a.txt", old_string="one", new_string="two")
    await refused(staged, result, "FS_NOT_OBSERVED", "read")
    assert heard == []


async def test_listeners_of_writes_and_of_edits_are_asked_about_their_own(staged: Staged) -> None:
    heard: list[str] = []
    staged.services.edit_intent.add(answering(Allow(), heard, "edit"))
    staged.services.write_intent.add(answering(Deny("no new files"), heard, "write"))

    written = await staged.call("c", "write", path="b.txt", content="new\n")
    assert (code(written), written["error"]["message"]) == ("DENIED", "no new files")
    assert heard == ["write"]
    await staged.call("r", "read", path="a.txt")
    edited = await staged.call("e", "edit", path="a.txt", old_string="one", new_string="two")
    assert (code(edited), heard) == ("ok", ["write", "edit"])
    assert not (staged.workspace / "b.txt").exists()
    body = await staged.body("c", "fs/write-intent")
    assert (body["decision"], body["operation"], body["reason"]) == ("deny", "create", "no new files")


async def test_a_listener_that_never_answers_does_not_keep_a_call_from_being_taken_back(staged: Staged) -> None:
    asked = asyncio.Event()

    async def listen(intended: Intended) -> PreDecision:
        asked.set()
        await asyncio.Event().wait()
        return Allow()

    staged.services.edit_intent.add(listen, owner="mine")
    await staged.call("r", "read", path="a.txt")
    await staged.engine.begin("s", "c", "edit", b'{"path": "a.txt", "old_string": "one", "new_string": "two"}')
    async with asyncio.timeout(HANG_S):
        await asked.wait()
        await staged.engine.cancel("s", "c")
    record, _ = await staged.engine.wait("s", "c", HANG_S)
    await refused(staged, record.result, "ABORTED", "nothing was changed")


async def test_what_comes_while_a_change_waits_for_its_file_still_counts(staged: Staged) -> None:
    """Another commit holds the file; meanwhile a guard comes, and one call is taken back."""
    await staged.call("r", "read", path="a.txt")
    arguments = json.dumps({"path": "a.txt", "old_string": "one", "new_string": "1"}).encode()
    async with held(("path", str(staged.workspace / "a.txt"))):
        for call_id in ("taken-back", "guarded"):
            await staged.engine.begin("s", call_id, "edit", arguments)
        for call_id in ("taken-back", "guarded"):
            async with aclosing(staged.ledger.follow("s", call_id=call_id)) as events:
                async for event in events:
                    if event.type == "fs/edit-intent":
                        break
        staged.engine._under_way["s", "taken-back"].stop.request("cancelled")
        staged.services.transaction_guards.add(lambda _: "the archive is closed")
    for call_id, expected in (("taken-back", "ABORTED"), ("guarded", "DENIED")):
        record, _ = await staged.engine.wait("s", call_id, HANG_S)
        assert record.result is not None
        assert code(record.result) == expected
        assert "fs/begun" not in await staged.types(call_id)
    assert (staged.workspace / "a.txt").read_text() == "one\n"
