"""The daemon as one piece: which rooms it has, what they are given, in which order they open and close."""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from stockade_daemon import plugins
from stockade_daemon.config import Config, default_state
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.gate.copies import Copies
from stockade_daemon.gate.effects.areas import Areas
from stockade_daemon.ledger.ledger import RESTART, Ledger
from stockade_daemon.pipeline import outside, surroundings
from stockade_daemon.pipeline.context import Services
from stockade_daemon.pipeline.describe import Describing
from stockade_daemon.pipeline.engine import Engine
from stockade_daemon.pipeline.observe import Observer
from stockade_daemon.pipeline.retention import keeping
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.pipeline.sessions import Sessions
from stockade_daemon.pipeline.toolbox import Toolbox
from stockade_daemon.policy import intents
from stockade_daemon.policy.approvals import Approvals
from stockade_daemon.policy.decisions import POST_DECISIONS, PRE_DECISIONS, PostDecision, PreDecision
from stockade_daemon.policy.guards import Guards
from stockade_daemon.policy.intents import IntentPoint
from stockade_daemon.policy.profile_rules import ByProfile, changes_by_profile, effects_by_profile
from stockade_daemon.policy.subjects import Finished, Intended, Judged, Transaction
from stockade_daemon.policy.waterfall import Waterfall
from stockade_daemon.profiles import read as profiles
from stockade_daemon.registry.generations import Generations
from stockade_daemon.registry.registry import Registry
from stockade_daemon.removing import remove_tree
from stockade_daemon.rpc.callers import Callers
from stockade_daemon.rpc.own_socket import socket_of_our_own
from stockade_daemon.rpc.server import serving
from stockade_daemon.rpc.tokens import TokenFiles
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Durability, Outcome

_log = logging.getLogger(__name__)
_GRACE_S = 10.0  # for calls under way when the daemon is told to stop
_PRIVATE_GRACE_S = 0.5  # a private daemon's one client is gone or going
_TOOLS_S = 10.0  # that the start waits for tool files at most


@dataclass(frozen=True, slots=True)
class Start:
    """How the daemon was started."""

    config: Config
    private: Path | None  # the directory of a private daemon, removed at its end
    lifeline: int | None  # a descriptor whose end of file says that the client is gone


async def serve(start: Start) -> None:
    """Runs until SIGTERM, SIGINT or the end of the lifeline. Raises ConfigurationError, SandboxFailure."""
    config = start.config
    is_private = start.private is not None
    identity = replace(config.identity, shared=False, alone=True) if is_private else config.identity
    listening = None if is_private else config.listening
    callers = Callers(identity, TokenFiles(identity.listed), config.socket)
    rules = Rules(
        private=is_private,
        workspaces=config.workspaces,
        profile_directories=(profiles.shipped(), *config.profile_directories),
        own=_own(config),
        policy=_real(*config.profile_directories, *config.tool_directories),
        owner=callers.owner.name,
    )
    grace_s = _PRIVATE_GRACE_S if is_private else _GRACE_S
    _raise_descriptor_limit()
    _warn(rules)
    with _removing(start.private), socket_of_our_own(config.socket, shared=callers.shared):
        outputs = _state_directory(config.state)
        copies = Copies(config.state / "copies")
        async with (
            Ledger.open(
                str(config.state / "ledger.sqlite3"), durability=config.durability, remedy=_when_the_disk_fails(start)
            ) as ledger,
            keeping(ledger, outputs, keep_days=config.keep_days),
            copies.kept(),
            Pool.start(config.state) as pool,
        ):
            services = services_of(ledger, pool, outputs, config.durability, areas=_areas(start))
            observers: list[Observer] = []
            plugins.load(config.plugins, services, observers)
            sessions = Sessions(ledger, pool, rules, copies)
            toolbox = Toolbox(
                services.tools,
                # Not the one of Catalog.CheckTool: whoever has files checked must not keep the admin's waiting.
                _describing(pool),
                directories=config.tool_directories,
                packages=config.tool_packages,
                announce=sessions.announce,
            )
            try:
                async with (
                    sessions.profiles.kept(config.profile_directories, sessions.follow),
                    toolbox.kept(wait_s=_TOOLS_S),
                    Engine.start(services, sessions, observers, grace_s=grace_s, last=is_private) as engine,
                    outside.noticed(ledger, sessions),
                    serving(config.socket, services, engine, rules, callers, listening) as addresses,
                ):
                    _log.info("serving on %s, state in %s", " and ".join(addresses), config.state)
                    with _signalled(start.lifeline) as stopped:
                        # Whoever started us may wait for this line; a closed stdout is no reason to stop.
                        _say(f"ready {' '.join(addresses)}")
                        await stopped.wait()
                    _log.info("stopping")
                    # Before the server stops, so that a client which waits for a result still gets it.
                    await engine.drain(grace_s)
            finally:
                sessions.close()
    _log.info("stopped")


def _when_the_disk_fails(start: Start) -> str:
    """Nobody can restart a private daemon, and its ledger is mostly gone with it."""
    if start.private is None:
        return RESTART
    place = "on its disk"
    if start.config.state.is_relative_to(start.private):
        place = f"in {start.private.parent}, or set TMPDIR to a directory that has more"
    return f"Make room {place}; look at the workspace before running the call again."


def _areas(start: Start) -> Path | None:
    """A private daemon's state is gone with it, and what a kill of it has left in a workspace is for the next one: so
    they note that in one place, where this user has one."""
    if start.private is None:
        return None
    try:
        return default_state() / "private-areas"
    except ConfigurationError:
        return None


def services_of(
    ledger: Ledger, pool: Pool, outputs: Path, durability: Durability = "process", *, areas: Path | None = None
) -> Services:
    """`areas`: where transactions note their private directories; None: beside `outputs`."""
    kept = outputs.parent / "kept"
    kept.mkdir(mode=0o700, exist_ok=True)
    pre_execute: Waterfall[Judged, PreDecision] = Waterfall("tools/pre-execute", PRE_DECISIONS)
    by_profile = ByProfile(surroundings.of_session)
    pre_execute.add(by_profile)
    execute: Waterfall[Judged, Outcome] = Waterfall("tools/execute", (Outcome,), again=True)
    post_execute: Waterfall[Finished, PostDecision] = Waterfall("tools/post-execute", POST_DECISIONS)
    edit_intent: IntentPoint[Intended] = IntentPoint(intents.EDIT)
    write_intent: IntentPoint[Intended] = IntentPoint(intents.WRITE)
    for point in (edit_intent, write_intent):
        point.add(changes_by_profile)
    effects_intent: IntentPoint[Transaction] = IntentPoint(intents.EFFECTS)
    effects_intent.add(effects_by_profile)
    return Services(
        ledger=ledger,
        pool=pool,
        approvals=Approvals(ledger),
        tools=Generations(Registry.load()),
        describing=_describing(pool),
        outputs=outputs,
        kept=kept,
        areas=Areas(areas or outputs.parent / "areas"),
        durability=durability,
        pre_execute=pre_execute,
        by_profile=by_profile,
        guards=Guards(),
        execute=execute,
        edit_intent=edit_intent,
        write_intent=write_intent,
        effects_intent=effects_intent,
        transaction_guards=Guards("transaction guard"),
        post_execute=post_execute,
    )


def _describing(pool: Pool) -> Describing:
    return Describing(pool, profiles.load("strict", directories=[profiles.shipped()]))


def _warn(rules: Rules) -> None:
    """Says at the start what would otherwise be met by the first who needs it."""
    if os.geteuid() == 0 and not rules.private and not rules.workspaces:
        _log.warning(
            "no session can be opened: a shared daemon of root opens what is listed as workspaces below [daemon] in "
            "its configuration (--config PATH), and nothing is listed"
        )
    for directory in rules.profile_directories:
        if not directory.is_dir():
            _log.warning("%s of [profiles] paths is no directory", directory)
    for mistake in profiles.misnamed(rules.profile_directories):
        _log.warning("no profile: %s", mistake)


def _raise_descriptor_limit() -> None:
    """A worker takes five descriptors, a session one; the usual soft limit is 1024 (getrlimit(2))."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _own(config: Config) -> tuple[Path, ...]:
    return _real(config.state, config.socket.parent)


def _real(*paths: Path) -> tuple[Path, ...]:
    return tuple(Path(os.path.realpath(each)) for each in paths)


def _state_directory(state: Path) -> Path:
    """Makes the state directory (0700) and gives the one for outputs. Raises ConfigurationError."""
    outputs = state / "outputs"
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = state.stat()
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise ConfigurationError(
                f"{state}: the state directory must belong to uid {os.geteuid()} alone; use another one with --state, "
                f"or: chown {os.geteuid()} {state} && chmod 0700 {state}"
            )
        outputs.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{state}: cannot keep state here: {error.strerror}; choose another --state"
        ) from error
    return outputs


@contextmanager
def _signalled(lifeline: int | None) -> Iterator[asyncio.Event]:
    """An event that a request to stop sets: a signal, or the end of the lifeline. A second signal, also after
    the block, ends it at once; the workers die with it."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def asked() -> None:
        if stopped.is_set():
            os._exit(1)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
    if lifeline is not None:
        loop.add_reader(lifeline, stopped.set)
    try:
        yield stopped
    finally:
        if lifeline is not None:
            loop.remove_reader(lifeline)


@contextmanager
def _removing(private: Path | None) -> Iterator[None]:
    """Removes a private daemon's directory at its end."""
    try:
        yield
    finally:
        if private is not None:
            with contextlib.suppress(OSError):  # what is left, the next private daemon's client sweeps
                remove_tree(private)


def _say(line: str) -> None:
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except OSError:
        _log.debug("nobody reads our standard output")
