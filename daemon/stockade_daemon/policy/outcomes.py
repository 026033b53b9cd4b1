"""How asks end: a code, and what is said. An empty code is a yes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stockade_daemon.errors import Aborted, PolicyRefusal
from stockade_daemon.values import Json


@dataclass(frozen=True, slots=True)
class Outcome:
    code: str
    reason: str
    by: str = ""  # the principal who answered; empty: nobody

    def check(self) -> None:
        """Returns on a yes. Raises PolicyRefusal, or Aborted where the call was taken back."""
        if self.code == "ABORTED_BEFORE_DISPATCH":
            raise Aborted(self.code, self.reason)
        if self.code:
            raise PolicyRefusal(self.code, self.reason)


NEVER: Final = Outcome("APPROVAL_REJECTED", "this session's policy is never to ask, so what would be asked is rejected")
NOT_ASKED: Final = Outcome(
    "ABORTED_BEFORE_DISPATCH", "the call was cancelled before anybody was asked; nothing was run"
)
WITHDRAWN: Final = Outcome(
    "ABORTED_BEFORE_DISPATCH", "the call was cancelled while it waited for an approval; nothing was changed"
)
UNAVAILABLE: Final = Outcome(
    "APPROVAL_UNAVAILABLE",
    "nobody is there to approve; attach an approver, or set [approval] wait_s in the profile",
)


def allowed(by: str) -> Outcome:
    return Outcome("", "", by)


def rejected(said: str, by: str) -> Outcome:
    words = f": {said}" if said else ""
    return Outcome(
        "APPROVAL_REJECTED", f"the approver said no{words}. Nothing was changed; ask what they would accept.", by
    )


def expired(wait_s: float) -> Outcome:
    return Outcome(
        "APPROVAL_EXPIRED", f"nobody answered within {wait_s:g} seconds; nothing was changed. Ask again later."
    )


def changed(reason: str) -> Outcome:
    """`reason`: one clause that says what is no longer as it was shown."""
    return Outcome(
        "APPROVAL_MISMATCH",
        f"{reason}, so what was shown is no longer what would be done; nothing was run. Repeat the call with a new id.",
    )


def recorded(body: Mapping[str, Json]) -> Outcome:
    """Of an approval/decided event."""
    code = str(body["outcome"])
    return Outcome("" if code == "allowed" else code, str(body["reason"]))
