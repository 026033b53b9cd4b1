"""Where in a call's way somebody is killed, and who."""

import random
from dataclasses import dataclass
from typing import Final

# In the order in which a call meets them.
POINTS: Final = (
    "recorded",
    "decided",
    "asked",
    "worker taken",
    "dispatched",
    "job sent",
    "read opened",
    "intent decided",
    "begun",
    "published",
    "committed recorded",
    "value received",
    "before settle",
    "after settle",
)
VICTIMS: Final = ("daemon", "zygote", "mounter", "worker")


@dataclass(frozen=True, slots=True)
class Fault:
    point: str
    victim: str
    nth: int  # at the how manieth passing of the point

    @property
    def argument(self) -> str:
        return f"{self.point}:{self.victim}:{self.nth}"

    @classmethod
    def of(cls, argument: str) -> "Fault":
        point, victim, nth = argument.split(":")
        return cls(point, victim, int(nth))


def drawn(number: int, chance: random.Random) -> Fault:
    """The fault of a run: all pairs of point and victim in turn, so that a campaign has each of them equally often."""
    point = POINTS[number % len(POINTS)]
    victim = VICTIMS[number // len(POINTS) % len(VICTIMS)]
    return Fault(point, victim, chance.randint(1, 4))
