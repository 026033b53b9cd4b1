"""An extension point for changes that bodies ask for: all of its listeners are asked, and the strictest answer counts.

So none can keep another from being heard, whichever was registered first.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeAlias, TypeVar

from stockade_daemon.errors import ExtensionFailed
from stockade_daemon.policy.decisions import PRE_DECISIONS, Allow, Ask, Deny, PreDecision, check_said
from stockade_daemon.policy.subjects import Intended, Transaction
from stockade_daemon.policy.waterfall import blaming

Subject = TypeVar("Subject")
IntentListener: TypeAlias = Callable[[Intended], Awaitable[PreDecision]]
EffectsListener: TypeAlias = Callable[[Transaction], Awaitable[PreDecision]]

EDIT: Final = "fs/edit-intent"
WRITE: Final = "fs/write-intent"
EFFECTS: Final = "fs/effects-intent"


class IntentPoint(Generic[Subject]):
    """Listeners of one kind of intent, asked one after another in the order in which they were registered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._listeners: list[tuple[Callable[[Subject], Awaitable[PreDecision]], str]] = []

    def add(self, listener: Callable[[Subject], Awaitable[PreDecision]], *, owner: str = "") -> None:
        """Registers a listener. `owner` is whose it is; empty: the daemon's own."""
        self._listeners.append((listener, owner))

    async def decide(self, intended: Subject) -> PreDecision:
        """The strictest answer: the first denial, else one ask with all reasons to ask, else Allow().

        Raises ExtensionFailed for a listener that raises something that is no refusal, or answers what is no decision
        about a change.
        """
        denials: list[Deny] = []
        reasons: list[str] = []
        for listener, owner in tuple(self._listeners):
            with blaming(owner, self.name):
                answer = await listener(intended)
            match self._checked(answer, owner):
                case Deny() as denial:
                    denials.append(denial)
                case Ask(reason):
                    reasons.append(reason)
        if denials:
            return denials[0]
        return Ask("; ".join(dict.fromkeys(reasons))) if reasons else Allow()

    def _checked(self, answer: object, owner: str) -> PreDecision:
        if not isinstance(answer, PRE_DECISIONS):
            names = ", ".join(each.__name__ for each in PRE_DECISIONS)
            raise ExtensionFailed(owner, self.name, f"it answered a {type(answer).__name__}, which is none of {names}")
        if isinstance(answer, Allow | Ask) and (answer.tightening or answer.arguments is not None):
            raise ExtensionFailed(owner, self.name, "it narrows or rewrites, and the call's body runs already")
        check_said(answer, self.name, owner=owner)
        return answer
