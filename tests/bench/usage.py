"""How right the usage is that results tell: a body that takes one second of processor and 100 MB, and knows it."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench.figures import Row, Table, rounded
from tests.sandbox.limited import limited

# What it asks for, and what the kernel says of it at its end; getrusage(2), without the sandbox's own processes.
BURN: Final = """
import json, resource, time
held = bytearray(100_000_000)
while time.process_time() < 1.0:
    pass
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]))
"""


async def measured(place: Path, tell: Callable[[str], None], *, quick: bool) -> list[Table]:
    """The table "usage"."""
    times = 1 if quick else 5
    rows: list[Row] = []
    for cgroups in (True, False):
        own = place / ("with" if cgroups else "without")
        own.mkdir()
        async with limited(own, cgroups=cgroups, memory_mb=512, cpu_s=60) as engine:
            found: list[tuple[float, float, float, float]] = []
            source = ""
            for number in range(times):
                tell(f"usage: {'with' if cgroups else 'without'} control groups, {number + 1} of {times}")
                result = await engine.call(f"c{number}", "shell", argv=["python3", "-c", BURN])
                true_s, true_bytes = json.loads(result["value"]["stdout"])
                usage = result["usage"]
                source = usage["source"]
                found.append((true_s, usage["cpu_s"], true_bytes, usage["max_rss_bytes"]))
        rows += _rows(cgroups, source, found)
    return [Table("Usage told, against what the body took", tuple(rows))]


def _rows(cgroups: bool, source: str, found: list[tuple[float, float, float, float]]) -> list[Row]:
    asked = "with" if cgroups else "without"
    note = "" if not cgroups or source == "cgroup" else "this host gives this user no control group"
    rows: list[Row] = []
    for what, unit, true, told in (("processor", "s", 0, 1), ("peak memory", "MB", 2, 3)):
        scale = 1.0 if unit == "s" else 1e6
        worst = max((abs(each[told] / each[true] - 1) for each in found), default=0.0)
        rows.append(
            {
                "what": f"{what}, {unit}",
                "control groups": asked,
                "source": source,
                "n": len(found),
                "the body's own count": rounded(statistics.median(each[true] for each in found) / scale),
                "told": rounded(statistics.median(each[told] for each in found) / scale),
                "furthest off, %": rounded(worst * 100),
                "note": note,
            }
        )
    return rows
