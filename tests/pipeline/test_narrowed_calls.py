"""Pre-execute chooses a narrower profile for one call: all of the call is under it, and nothing else is."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stockade_daemon import json_text
from stockade_daemon.app import services_of
from stockade_daemon.gate.copies import Copies
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.pipeline.engine import Engine
from stockade_daemon.pipeline.opening import Opening
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.pipeline.sessions import Sessions
from stockade_daemon.policy.decisions import Allow, Ask, Deny, PreDecision
from stockade_daemon.policy.subjects import Finished, Judged, Settled
from stockade_daemon.policy.waterfall import Next
from stockade_daemon.profiles import chain
from stockade_daemon.profiles import read as profiles
from stockade_daemon.profiles.tighten import tighten
from stockade_daemon.profiles.widening import widenings
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Profile

HANG_S = 30.0
PROFILE = 'extends = "dev"\nwiden = ["approval.writes"]\napproval.writes = "allow"\n{}'


@dataclass(slots=True)
class Choosing:
    """An engine with a real pool, whose pre-execute decides `choice` for the next call and then nothing any more."""

    engine: Engine
    ledger: Ledger
    workspace: Path
    choice: PreDecision | None = None
    seen: list[tuple[str, Profile]] = field(default_factory=list)  # by which stage, under which profile

    async def listen(self, judged: Judged, following: Next[PreDecision]) -> PreDecision:
        choice, self.choice = self.choice, None
        return await following() if choice is None else choice

    def guard(self, judged: Judged) -> str | None:
        self.seen.append(("guard", judged.session.profile))
        return None

    async def review(self, finished: Finished, following: Next[Any]) -> Any:
        self.seen.append(("post-execute", finished.judged.session.profile))
        return await following()

    def observe(self, settled: Settled) -> None:
        self.seen.append(("observer", settled.session.profile))

    async def call(self, call_id: str, tool: str, choice: PreDecision | None = None, **arguments: Any) -> Any:
        self.choice = choice
        await self.engine.begin("s", call_id, tool, json_text.dump(arguments))
        record, _ = await self.engine.wait("s", call_id, HANG_S)
        assert record.result is not None
        return record.result

    async def bodies(self, call_id: str, type: str) -> list[Mapping[str, Any]]:
        return [event.body for event in await self.ledger.read("s", call_id=call_id) if event.type == type]


@pytest.fixture
def text() -> str:
    return PROFILE.format("")


@pytest_asyncio.fixture
async def choosing(tmp_path: Path, text: str) -> AsyncIterator[Choosing]:
    state, workspace = tmp_path / "state", tmp_path / "workspace"
    for place in (state, state / "outputs", workspace):
        place.mkdir(mode=0o700)
    (workspace / "a.txt").write_text("one\n")
    (workspace / ".env").write_text("TOKEN\n")
    rules = Rules(private=True, workspaces=(), profile_directories=(profiles.shipped(),), own=(state,))
    async with Ledger.open(str(state / "ledger")) as ledger, Pool.start(state) as pool:
        services = services_of(ledger, pool, state / "outputs")
        observers: list[Any] = []
        sessions = Sessions(ledger, pool, rules, Copies(state / "copies"))
        async with Engine.start(services, sessions, observers, grace_s=0) as engine:
            choosing = Choosing(engine, ledger, workspace)
            services.pre_execute.add(choosing.listen)
            services.guards.add(choosing.guard)
            services.post_execute.add(choosing.review)
            observers.append(choosing.observe)
            await sessions.open(
                Opening("s", str(workspace), "mine", text.replace("WORKSPACE", str(workspace)).encode(), "ask")
            )
            yield choosing
        sessions.close()


def code(result: Any) -> str:
    return "ok" if result["ok"] else str(result["error"]["code"])


NARROW = b'limits.open_files = 77\nfilesystem.hidden = [".env"]\n'


async def test_the_whole_call_is_under_the_narrower_profile_and_the_next_is_not(choosing: Choosing) -> None:
    command = "ulimit -n; ls -A"
    before = await choosing.call("c0", "shell", command=command)
    narrow = await choosing.call("c1", "shell", Allow(NARROW), command=command)
    after = await choosing.call("c2", "shell", command=command)
    assert narrow["value"]["stdout"] == "77\na.txt\n"
    assert after["value"]["stdout"] == before["value"]["stdout"] == "1024\n.env\na.txt\n"
    (told,) = await choosing.bodies("c1", "call/profile")
    assert told == {
        "digest": narrow["profile_digest"],
        "before": before["profile_digest"],
        "tightening": NARROW.decode(),
    }
    assert narrow["profile_digest"] != before["profile_digest"] == after["profile_digest"]
    (call,) = await choosing.bodies("c1", "tool/call")
    assert call["profile_digest"] == before["profile_digest"]
    stages = {stage: profile.digest for stage, profile in choosing.seen[3:6]}
    assert stages == dict.fromkeys(("guard", "post-execute", "observer"), narrow["profile_digest"])
    assert [event.type for event in await choosing.ledger.read("s", call_id="c1")][:3] == [
        "tool/call",
        "call/profile",
        "policy/pre-execute",
    ]


async def test_reads_and_edits_of_the_call_meet_its_own_patterns(choosing: Choosing) -> None:
    hidden = await choosing.call("c1", "read", Allow(NARROW), path=".env")
    assert (code(hidden), code(await choosing.call("c2", "read", path=".env"))) == ("FS_NOT_FOUND", "ok")
    edit: dict[str, Any] = {"path": ".env", "old_string": "TOKEN", "new_string": "x"}
    protected = await choosing.call("c3", "edit", Allow(b'filesystem.protected = [".env"]'), **edit)
    assert (code(protected), code(await choosing.call("c4", "edit", **edit))) == ("FS_PROTECTED", "ok")


async def test_the_deadline_and_the_output_are_those_of_the_narrower_profile(choosing: Choosing) -> None:
    late = await choosing.call("c1", "shell", Allow(b"limits.wall_s = 0.3"), command="sleep 20")
    assert code(late) == "TOOL_TIMEOUT"
    long = await choosing.call("c2", "shell", Allow(b"limits.output_mb = 1"), command="head -c 2000000 /dev/zero")
    assert code(long) == "ok"
    kept = choosing.engine.output_file("s", "c2", "stdout")
    assert (await asyncio.to_thread(kept.stat)).st_size == 1 << 20


@pytest.mark.parametrize(
    ("decision", "wish", "expected"),
    [
        (Allow, 'approval.commands = "deny"', "DENIED"),
        (Allow, 'approval.commands = "ask"', "APPROVAL_UNAVAILABLE"),
        (Ask, "limits.cpus = 0.5", "APPROVAL_UNAVAILABLE"),
        (Ask, 'approval.commands = "deny"', "DENIED"),
        (Deny, "", "DENIED"),
        (Allow, 'limits.cpus = 0.5\napproval.effects = "discard"', "ok"),
    ],
)
async def test_of_the_choice_and_the_narrower_profiles_rule_the_stricter_counts(
    choosing: Choosing, decision: type[Allow] | type[Ask] | type[Deny], wish: str, expected: str
) -> None:
    tightening = wish.encode()
    choice: PreDecision = Allow(tightening)
    if decision is Ask:
        choice = Ask("a listener asks", tightening)
    elif decision is Deny:
        choice = Deny("a listener denies")
    result = await choosing.call("c1", "shell", choice, command="touch ran; echo ran")
    assert code(result) == expected
    (said,) = await choosing.bodies("c1", "policy/pre-execute")
    assert said["decision"] == {"DENIED": "deny", "ok": "allow"}.get(expected, "ask")
    if expected == "APPROVAL_UNAVAILABLE":
        (asked,) = await choosing.bodies("c1", "approval/asked")
        assert asked["card"]["profile_digest"] == result["profile_digest"]


@pytest.mark.parametrize("text", [PROFILE.format('approval.commands = "ask"\n')])
async def test_what_the_sessions_profile_asks_is_asked_whatever_is_chosen(choosing: Choosing) -> None:
    result = await choosing.call("c1", "shell", Allow(b"limits.cpus = 0.5"), command="true")
    assert code(result) == "APPROVAL_UNAVAILABLE"
    (asked,) = await choosing.bodies("c1", "approval/asked")
    (told,) = await choosing.bodies("c1", "call/profile")
    assert asked["card"]["profile_digest"] == told["digest"] == result["profile_digest"]


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ("limits.wall_s = 601", "tightening:1:1: `limits.wall_s` is 601, more than 600"),
        ('network.mode = "host"', "`network.mode`"),
        ("limits.wall = 1", "unknown key 'wall'"),
        ("limits = ", "not valid TOML"),
        ('extends = "ci"', "`extends` belongs to a profile"),
        ("\xff", "not valid TOML"),
    ],
)
async def test_a_choice_that_cannot_be_used_refuses_the_call_with_the_reason(
    choosing: Choosing, wish: str, reason: str
) -> None:
    result = await choosing.call("c1", "shell", Allow(wish.encode()), command="touch ran")
    assert code(result) == "DENIED"
    assert reason in result["error"]["message"]
    assert await choosing.bodies("c1", "call/profile") == []
    assert await choosing.bodies("c1", "call/dispatched") == []
    assert code(await choosing.call("c2", "shell", command="true")) == "ok"


@pytest.mark.parametrize(
    "text",
    [
        PROFILE.replace('widen = ["', 'widen = ["filesystem.mounts", "').format(
            '[[filesystem.mounts]]\npath = "WORKSPACE"\n'
        )
    ],
)
async def test_nothing_is_hidden_for_a_call_that_sees_the_workspace_twice(choosing: Choosing) -> None:
    """The session shows a tree that holds the workspace; hiding a name of it for one call would hide nothing."""
    result = await choosing.call("c1", "shell", Allow(b'filesystem.hidden = [".env"]'), command="cat .env")
    assert code(result) == "DENIED"
    assert "where they could be seen all the same" in result["error"]["message"]


WISHES = {
    "limits.open_files": ("16", "77", "4096"),
    "limits.wall_s": ("5", "599", "601"),
    "limits.processes": ("16", "100000"),
    "network.mode": ('"none"', '"loopback"', '"host"'),
    "approval.reads": ('"allow"', '"ask"', '"deny"'),
    "approval.writes": ('"allow"', '"ask"', '"deny"'),
    "filesystem.hidden": ('[".env"]', "[]"),
    "filesystem.protected": ('["a.txt"]', "[]"),
    "layers.required": ('["overlay"]', "[]"),
    "environment.set": ('{A = "b"}', '{LANG = "C.UTF-8"}'),
}


async def test_whatever_is_chosen_the_call_is_allowed_nothing_that_its_session_refuses(choosing: Choosing) -> None:
    """Random choices: each call is refused, or ran under a profile that is as narrow as its session's."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    choice = random.Random(seed)
    session = (await choosing.engine.sessions.live("s")).session.profile
    ran = 0
    for number in range(40):
        keys = choice.sample(list(WISHES), choice.randrange(1, 4))
        wish = "".join(f"{key} = {choice.choice(WISHES[key])}\n" for key in keys)
        choosing.seen.clear()
        result = await choosing.call(f"c{number}", "read", Allow(wish.encode()), path="a.txt")
        told = await choosing.bodies(f"c{number}", "call/profile")
        if told:
            ran += 1
            assert choosing.seen, wish
            for stage, profile in choosing.seen:
                assert widenings(profile, session) == (), (stage, wish)
                assert profile.digest == result["profile_digest"]
        else:
            assert code(result) == "DENIED", wish
    assert 0 < ran < 40
    assert (await choosing.engine.sessions.live("s")).session.profile == session


def test_a_choice_on_top_of_a_sessions_tightening_is_kept_as_one_chain() -> None:
    dev = profiles.load("dev", directories=[profiles.shipped()])
    once = tighten(dev, b"limits.wall_s = 30\n")
    twice = tighten(once, b'filesystem.hidden = [".env"]\n')
    files = chain.unpack(twice.text, name=twice.name, source=twice.source)
    assert [each.tightens for each in files] == [True, True, False]
    assert (twice.limits.wall_s, twice.hidden) == (30, (".env",))
