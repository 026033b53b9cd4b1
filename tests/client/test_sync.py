"""The synchronous face against a real daemon: every method, for a program without asyncio."""

import inspect
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, assert_type

import pytest

import stockade_client
from stockade_client import (
    CallResult,
    CallUnderWay,
    Event,
    Misused,
    NoDaemon,
    NotFound,
    NotPossible,
    SessionInfo,
    Tool,
    approvals,
    calls,
    connection,
    inspection,
    session,
    sync,
)

LOOP = "while :; do :; done"
TOOL = b'description = "Says the date."\n[program]\nargv = ["date"]\n'


@pytest.fixture
def daemon(address: str) -> Iterator[sync.Daemon]:
    with sync.connect(address) as daemon:
        yield daemon


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("stockade")]


def code(result: CallResult) -> str:
    return result.error.code if result.error else ""


def test_a_private_daemon_lives_as_long_as_its_block_and_leaves_no_thread(workspace: Path) -> None:
    with sync.local_daemon() as address, sync.connect(address) as daemon:
        assert_type(address, str)
        assert_type(daemon, sync.Daemon)
        assert daemon.address == address
        assert daemon.info.private
        assert len(threads()) == 2
        with daemon.session(workspace=workspace, profile="dev") as session:
            assert session.call("read", path="a.txt").ok
    assert threads() == []
    with pytest.raises(NoDaemon), sync.connect(address):
        pass
    assert threads() == []


def test_calls_have_the_results_that_they_have_asynchronously(daemon: sync.Daemon, workspace: Path) -> None:
    with daemon.session(workspace, "dev") as session:
        result = session.call("shell", command="printf out; exit 3")
        assert_type(result, CallResult)
        assert (result.ok, result.field("stdout"), result.field("exit_code")) == (True, "out", 3)
        assert code(session.call_json("read", b'{"path": 7}')) == "INVALID_ARGS"
        many = session.call_many([("read", {"path": "a.txt"}), ("read", b'{"path": "b.txt"}')])
        assert_type(many, list[CallResult])
        assert ["one" in many[0].text, "bee" in many[1].text] == [True, True]
        (again,) = session.turn_json([("read", b'{"path": "b.txt"}', many[1].call_id)])
        assert again == many[1]
        assert session.context([many[0].call_id]) == []
        assert_type(session.tools(), list[Tool])
        assert {"read", "shell"} <= {tool.name for tool in session.tools()}
        assert_type(session.info, SessionInfo)
        assert session.session_id in repr(session)
        session.close()
        assert session.info.state == "closed"
        with pytest.raises(NotPossible):
            session.call("read", path="a.txt")


def test_a_call_that_was_started_is_read_cancelled_and_has_its_result(daemon: sync.Daemon, workspace: Path) -> None:
    with daemon.session(workspace, "dev") as session:
        call = session.start("shell", command=f"echo begun; {LOOP}")
        assert_type(call, sync.Call)
        with call.output() as output:
            assert_type(output, sync.Stream[bytes])
            assert next(output) == b"begun\n"
        assert "settled" not in repr(call)
        (found,) = daemon.calls(session.session_id)
        assert_type(found, CallUnderWay)
        assert (found.call_id, found.card) == (call.call_id, call.card)
        same = daemon.call(session.session_id, call.call_id, call.tool)
        call.cancel()
        assert code(call.result()) == "ABORTED"
        assert same.result() == call.settled
        other = session.start_json("shell", json.dumps({"command": LOOP}).encode(), call_id="other")
        withdrawn = other.withdraw()
        assert withdrawn is not None
        assert code(withdrawn).startswith("ABORTED")
        assert (other.call_id, other.tool) == ("other", "shell")
        with pytest.raises(NotPossible):
            other.resolve_unknown("done")
        with pytest.raises(NotPossible):
            daemon.resolve_unknown(session.session_id, "other", "done")


def test_events_are_read_and_followed_to_the_sessions_end(daemon: sync.Daemon, workspace: Path) -> None:
    with daemon.session(workspace, "dev", id="sync-followed") as session:
        session.call("read", path="a.txt")
        recorded = list(session.events())
        assert_type(recorded, list[Event])
        assert [event.seq for event in recorded] == list(range(1, len(recorded) + 1))
        assert list(daemon.events("sync-followed", after=1)) == recorded[1:]
        with session.events(after=recorded[-1].seq, follow=True) as events:
            daemon.close_session("sync-followed")
            assert [event.type for event in events] == ["session/closed"]
            assert next(events, None) is None
    assert daemon.get_session("sync-followed").state == "closed"
    assert "sync-followed" in {each.session_id for each in daemon.sessions()}
    with pytest.raises(NotFound):
        next(daemon.events("never-opened"))


def test_what_a_daemon_and_its_profiles_say_is_asked(daemon: sync.Daemon, workspace: Path) -> None:
    assert {"read", "shell"} <= {tool.name for tool in daemon.tools()}
    assert daemon.catalog().errors
    assert [each.name for each in daemon.check_tool("today.toml", TOOL).tools] == ["today"]
    assert daemon.doctor().findings
    profiles = daemon.profiles
    assert "strict" in {each.name for each in profiles.list()}
    assert profiles.show("dev").files
    assert profiles.explain("dev").settings
    assert profiles.check("dev") == ()
    assert profiles.probe("strict").attempts


def test_a_session_with_an_id_is_resumed(daemon: sync.Daemon, workspace: Path) -> None:
    with daemon.session(workspace, "dev", id="sync-resumed") as session:
        session.call("read", path="a.txt")
    with daemon.session(id="sync-resumed") as session:
        assert session.info.last_seq > 1
        session.close()


def test_an_approver_iterates_over_asks_and_decides(daemon: sync.Daemon, workspace: Path) -> None:
    with daemon.session(workspace, "dev") as session, daemon.approvals(session.session_id) as asks:
        assert_type(asks, sync.Stream[sync.Ask])
        session.call("read", path="a.txt")
        call = session.start("edit", path="a.txt", old_string="two", new_string="2")
        ask = next(asks)
        assert (ask.call, ask.tool, ask.session_id) == (call.call_id, "edit", session.session_id)
        assert "-two\n" in str(ask.card["difference"])
        answer = ask.decide(True, reason="fine")
        assert answer.allow
        assert ask.answer == answer
        assert call.result().ok
        with pytest.raises(stockade_client.AskAlreadyDecided):
            daemon_ask_again(ask)
    assert (workspace / "a.txt").read_text() == "one\n2\nthree\n"


def test_an_ask_comes_again_as_the_same_object_when_it_is_claimed_and_when_it_ends(
    daemon: sync.Daemon, workspace: Path
) -> None:
    with daemon.session(workspace, "dev") as session, daemon.approvals(session.session_id, changes=True) as asks:
        session.call("read", path="a.txt")
        session.start("edit", path="a.txt", old_string="two", new_string="2")
        ask = next(asks)
        with ask.claim("somebody"):
            assert next(asks) is ask
            assert (ask.claimed_name, ask.claimed_ms > 0, ask.ended) == ("somebody", True, "")
        assert next(asks) is ask
        assert ask.claimed_ms == 0
        ask.decide(False, "no")
        assert next(asks) is ask
        assert (ask.ended, ask.ended_ms > 0) == ("rejected", True)
        assert "the approver said no: no" in ask.ended_reason


def daemon_ask_again(ask: sync.Ask) -> None:
    """Another answer than the one that stands."""
    ask.decide(False)


def test_a_session_asks_in_the_thread_that_waits_for_it(daemon: sync.Daemon, workspace: Path) -> None:
    answered_in = []

    def approve(ask: sync.Ask) -> bool | None:
        answered_in.append(threading.current_thread())
        if ask.tool == "write":
            ask.decide(True, reason="by itself")
            return None
        return ask.card["profile"] == "dev"

    with daemon.session(workspace, "dev", approve=approve) as session:
        session.call("read", path="a.txt")
        assert session.call("edit", path="a.txt", old_string="two", new_string="2").ok
        assert session.call("write", path="new.txt", content="new\n").ok
        call = session.start("edit", path="a.txt", old_string="2", new_string="two")
        with session.events(follow=True) as events:  # iterating is waiting too
            assert next(event for event in events if (event.type, event.call_id) == ("tool/result", call.call_id))
    assert answered_in == [threading.current_thread()] * 3
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("said", "reason"),
    [(None, "gave no answer"), ("no", "neither True nor False"), (RuntimeError("out of tea"), "out of tea")],
)
def test_an_approver_that_gives_no_yes_has_refused(
    daemon: sync.Daemon, workspace: Path, said: object, reason: str
) -> None:
    def approve(ask: sync.Ask) -> bool | None:
        if isinstance(said, Exception):
            raise said
        return said  # type: ignore[return-value]  # the mistake of a program without types

    with daemon.session(workspace, "dev", approve=approve) as session:
        session.call("read", path="a.txt")
        result = session.call("edit", path="a.txt", old_string="two", new_string="2")
    assert code(result) == "APPROVAL_REJECTED"
    assert reason in str(result.error)


def test_a_question_that_is_interrupted_is_a_no_and_ends_the_call(daemon: sync.Daemon, workspace: Path) -> None:
    def approve(ask: sync.Ask) -> bool:
        raise KeyboardInterrupt

    with daemon.session(workspace, "dev", approve=approve) as session:
        session.call("read", path="a.txt")
        with pytest.raises(KeyboardInterrupt):
            session.call("edit", path="a.txt", old_string="two", new_string="2")
        (result,) = (event for event in session.events() if event.type == "tool/result" and not event.body["ok"])
    assert result.body["ok"] is False
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_many_threads_share_a_session(daemon: sync.Daemon, workspace: Path) -> None:
    with daemon.session(workspace, "dev") as session, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: session.call("shell", command=f"echo {number}"), range(24)))
    assert [result.field("stdout") for result in results] == [f"{number}\n" for number in range(24)]


def test_a_deadline_takes_back_the_call_that_is_waited_for(daemon: sync.Daemon, workspace: Path) -> None:
    with daemon.session(workspace, "dev") as session:
        with sync.deadline(60), sync.deadline(0.3), sync.deadline(60), pytest.raises(TimeoutError):
            session.call("shell", command=LOOP)
        types = [event.type for event in session.events()]
        assert types.count("tool/result") == types.count("tool/call") <= 1
        call = session.start("shell", command=LOOP)
        with sync.deadline(0.1), pytest.raises(TimeoutError):
            call.result()
        assert daemon.calls(session.session_id)  # waiting was given up, and not the call


def test_a_stream_that_another_thread_closes_ends(daemon: sync.Daemon, workspace: Path) -> None:
    with daemon.session(workspace, "dev") as session, session.events(follow=True) as events:
        assert next(events).type == "session/opened"
        read: list[Event] = []
        reading = threading.Thread(target=lambda: read.extend(events))
        reading.start()
        call = session.call("read", path="a.txt")
        while not any(event.type == "tool/result" for event in list(read)):
            assert reading.is_alive()
        with pytest.raises(Misused, match="another thread is iterating"):
            next(events)
        events.close()
        reading.join()
        events.close()
        assert next(events, None) is None
    assert {event.call_id for event in read} == {call.call_id}


async def test_a_thread_with_a_running_event_loop_is_told_to_await(address: str) -> None:
    with pytest.raises(Misused, match=r"await stockade_client\.connect"), sync.connect(address):
        pass


def test_what_is_used_after_its_block_says_so(address: str, workspace: Path) -> None:
    with sync.connect(address) as daemon:
        kept = daemon
    with pytest.raises(Misused, match="block that this belongs to is over"):
        kept.sessions()
    with pytest.raises(Misused), kept.session(workspace, "dev"):
        pass


def test_a_connection_that_is_closed_frees_the_threads_that_wait(address: str, workspace: Path) -> None:
    failed: list[BaseException] = []
    with sync.connect(address) as other, other.session(workspace, "dev", id="sync-waited") as session:
        with sync.connect(address) as daemon:
            call = session.start("shell", command=LOOP)
            begun = threading.Event()

            def wait() -> None:
                try:
                    with daemon.events("sync-waited", follow=True) as events:
                        for _ in events:
                            begun.set()
                except Misused as error:
                    failed.append(error)

            waiting = threading.Thread(target=wait)
            waiting.start()
            assert begun.wait(60)
        waiting.join()
        call.cancel()
        session.close()
    assert [type(each) for each in failed] == [Misused]


def test_an_error_of_a_block_goes_on_and_what_it_held_is_closed(daemon: sync.Daemon, workspace: Path) -> None:
    for error in (ZeroDivisionError("of the block"), StopIteration(), SystemExit(3), KeyboardInterrupt()):
        opened: list[str] = []
        with pytest.raises(type(error)) as raised:
            fail_in_a_session(daemon, workspace, opened, error)
        assert raised.value is error
        assert daemon.get_session(opened[0]).state == "closed"


def fail_in_a_session(daemon: sync.Daemon, workspace: Path, opened: list[str], error: BaseException) -> None:
    with daemon.session(workspace, "dev", approve=lambda ask: True) as session:
        opened.append(session.session_id)
        raise error


@pytest.mark.parametrize(
    ("face", "inner"),
    [
        (sync.Daemon, connection.Daemon),
        (sync.Session, session.Session),
        (sync.Call, calls.Call),
        (sync.Ask, approvals.Ask),
        (sync.Inspection, inspection.Inspection),
    ],
)
def test_the_face_has_every_method_with_the_same_parameters(face: type, inner: type) -> None:
    """But for what the client's own parts call: `begin` and `take` of a call, `update` of an ask."""
    public = {name for name in vars(inner) if not name.startswith("_")} - {"begin", "take", "update"}
    assert public <= set(vars(face))
    for name in public:
        if inspect.isfunction(of_inner := vars(inner)[name]):
            assert parameters(vars(face)[name]) == parameters(of_inner), name


def test_the_face_has_every_value_of_its_counterpart() -> None:
    for face, inner in ((sync.Call, calls.Call), (sync.Ask, approvals.Ask), (sync.Session, session.Session)):
        values = set(re.findall(r"self\.([a-z]\w*)(?:: [^=\n]+)? = ", inspect.getsource(inner)))
        assert values
        assert values <= {name for name, each in vars(face).items() if isinstance(each, property)}


def parameters(function: object) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults; that of `self` apart."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    return [(each.name, each.kind, each.default) for each in signature.parameters.values()][1:]
