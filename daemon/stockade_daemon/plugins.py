"""Plugins: an admin's Python inside the daemon, around every call. docs/plugins.md is the manual.

A plugin is an entry point of the group `stockade.plugins`: a function that is given `Extensions` once, at the daemon's
start, and registers what it likes. All that its author needs can be imported from here. It runs with the daemon's
rights, so it is loaded only where `[plugins] enabled` of stockade.toml names it.
"""

import inspect
import logging
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, Final

from stockade_daemon.errors import CODES, ConfigurationError, PolicyRefusal, Refusal, ToolFailure
from stockade_daemon.pipeline.context import Services
from stockade_daemon.pipeline.observe import Observer
from stockade_daemon.pipeline.outcomes import failed
from stockade_daemon.policy.decisions import Accept, Allow, Ask, Block, Deny, PostDecision, PreDecision, Replace
from stockade_daemon.policy.guards import Guard, TransactionGuard
from stockade_daemon.policy.intents import EffectsListener, IntentListener
from stockade_daemon.policy.subjects import Change, Finished, Intended, Judged, Settled, Transaction
from stockade_daemon.policy.waterfall import Listener, Next, said
from stockade_daemon.values import Call, Failure, Json, Manifest, Outcome, Profile, Session

__all__ = [
    "CODES",
    "Accept",
    "Allow",
    "Ask",
    "Block",
    "Call",
    "Change",
    "Deny",
    "Extensions",
    "Failure",
    "Finished",
    "Guard",
    "Intended",
    "IntentListener",
    "Json",
    "Judged",
    "Listener",
    "Manifest",
    "Next",
    "Observer",
    "Outcome",
    "PolicyRefusal",
    "PostDecision",
    "PreDecision",
    "Profile",
    "Refusal",
    "Replace",
    "Session",
    "Settled",
    "ToolFailure",
    "Transaction",
    "TransactionGuard",
    "failed",
]

_log = logging.getLogger(__name__)
GROUP: Final = "stockade.plugins"


class Extensions:
    """What one plugin may register. Of several listeners of one point the first registered is the outermost; the
    profile's rule is outside of all of them, so that none can allow what the profile denies."""

    def __init__(self, owner: str, services: Services, observers: list[Observer]) -> None:
        self._owner = owner
        self._services = services
        self._observers = observers

    def pre_execute(self, listener: Listener[Judged, PreDecision]) -> None:
        """`async def listener(judged, following)`: allows, denies, asks, narrows the profile, rewrites arguments."""
        self._services.pre_execute.add(_async(listener), owner=self._owner)

    def execute(self, listener: Listener[Judged, Outcome]) -> None:
        """`async def listener(judged, following)`: around the body. May await `following` again: what runs then is
        docs/plugins.md's."""
        self._services.execute.add(_async(listener), owner=self._owner)

    def edit_intent(self, listener: IntentListener) -> None:
        """`async def listener(intended)`: allows, denies or asks about a change of a file that is there. All listeners
        are asked, the profile's rule among them, and the strictest answer counts."""
        self._services.edit_intent.add(_async(listener, "intended"), owner=self._owner)

    def write_intent(self, listener: IntentListener) -> None:
        """The same, about a file that is to be written whole."""
        self._services.write_intent.add(_async(listener, "intended"), owner=self._owner)

    def effects_intent(self, listener: EffectsListener) -> None:
        """`async def listener(transaction)`: the same about all that a command changed in its private view, before it
        is committed as one."""
        self._services.effects_intent.add(_async(listener, "transaction"), owner=self._owner)

    def transaction_guard(self, guard: TransactionGuard) -> None:
        """`def guard(transaction)`: a reason not to commit what has been decided and allowed, or None."""
        self._services.transaction_guards.add(_plain(guard), owner=self._owner)

    def post_execute(self, listener: Listener[Finished, PostDecision]) -> None:
        """`async def listener(finished, following)`: accepts, replaces, blocks, adds context."""
        self._services.post_execute.add(_async(listener), owner=self._owner)

    def guard(self, guard: Guard) -> None:
        """`def guard(judged)`: a reason to deny, or None."""
        self._services.guards.add(_plain(guard), owner=self._owner)

    def observe(self, observer: Observer) -> None:
        """`def observer(settled)`: sees every call's outcome, and changes nothing."""
        self._observers.append(_plain(observer))


def load(names: Iterable[str], services: Services, observers: list[Observer]) -> None:
    """Has each plugin register what it does, in this order.

    Raises ConfigurationError with the plugin's name: it is not installed, or fails.
    """
    for name in names:
        point = _found(name)
        try:
            point.load()(Extensions(f"plugin {name}", services, observers))
        except (Exception, SystemExit) as error:
            _log.debug("plugin %s failed", name, exc_info=error)
            raise ConfigurationError(
                f"plugin {name!r} ({point.value}) cannot be loaded: {type(error).__name__}: {said(error)}. Mend it, or "
                "take it out of [plugins] enabled; the daemon does not run without what it is told to run"
            ) from error
        _log.info("plugin %s (%s) is loaded and runs inside the daemon", name, point.value)


def _found(name: str) -> metadata.EntryPoint:
    points = list(metadata.entry_points(group=GROUP, name=name))
    if len(points) > 1:
        raise ConfigurationError(f"plugin {name!r}: {len(points)} installed distributions have it; uninstall one")
    if not points:
        known = ", ".join(sorted(each.name for each in metadata.entry_points(group=GROUP))) or "none"
        raise ConfigurationError(
            f"plugin {name!r}: no installed distribution has an entry point of this name in {GROUP}; there are: "
            f"{known}. Install it where the daemon runs, or take it out of [plugins] enabled"
        )
    return points[0]


def _async(listener: Any, takes: str = "subject, following") -> Any:
    if not _is_async(listener):
        raise TypeError(f"{listener!r} is no listener: write `async def listener({takes})`")
    return listener


def _plain(function: Callable[..., Any]) -> Any:
    if not callable(function) or _is_async(function):
        raise TypeError(f"{function!r} is called and not awaited: write `def`, not `async def`")
    return function


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
