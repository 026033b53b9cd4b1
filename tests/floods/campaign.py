"""All floods against one daemon."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.floods.daemon import Report, flooded
from tests.floods.endless import endless
from tests.floods.reading import cut, slow
from tests.floods.survivors import survivors


@dataclass(frozen=True, slots=True)
class Sizes:
    flood_mb: int = 200  # read over connections that are cut
    slow_mb: int = 64  # printed beside readers that stall
    readers: int = 4  # that stall
    limit_mb: int = 8  # of an endless command
    endless_s: float = 10.0  # for one that is not ended at its limit
    calls: int = 100  # alone, beside which those beside an endless command are seen
    survivors: int = 200


FLOODS: Final = ("cut", "slow", "endless", "survivors")


async def campaign(sizes: Sizes, seed: int, told: Callable[[str], None] = print, only: tuple[str, ...] = ()) -> Report:
    """`only`: those of FLOODS; empty: all."""
    report = Report(told=told)
    async with flooded(whole_mb=max(sizes.flood_mb, sizes.slow_mb) + 1, limit_mb=sizes.limit_mb) as place:
        for each in only or FLOODS:
            match each:
                case "cut":
                    await cut(place, report, size_mb=sizes.flood_mb, seed=seed)
                case "slow":
                    await slow(place, report, size_mb=sizes.slow_mb, readers=sizes.readers, seed=seed)
                case "endless":
                    await endless(place, report, limit_mb=sizes.limit_mb, seconds=sizes.endless_s, calls=sizes.calls)
                case "survivors":
                    await survivors(place, report, calls=sizes.survivors, seed=seed)
                case _:
                    raise ValueError(f"no flood {each}")
    return report
