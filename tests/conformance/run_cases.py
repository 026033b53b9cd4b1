"""Runs conformance cases against a daemon that it starts, through the public client.

    python tests/conformance/run_cases.py FILE.jsonl… [--area AREA] [--id GLOB] [--jobs N] [--verbose]

A line for each case: `PASS id`, `FAIL id: why`, `SKIP id: what is missing`; then totals. Exit status: 0 nothing failed,
1 something did, 2 a file or an option cannot be used. docs/conformance.md describes the format.
"""

import argparse
import asyncio
import os
import sys
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

# Processes are started by exec; gRPC's handlers around fork would only complain.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.conformance.cases import reading, running
from tests.conformance.cases.reading import Case
from tests.conformance.cases.verdicts import Verdict

_FAILED: Final = 1
_UNUSABLE: Final = 2


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    try:
        cases = chosen(reading.load(options.files), options.area, options.id)
    except (reading.Malformed, OSError) as error:
        print(f"run_cases: {error}", file=sys.stderr)
        return _UNUSABLE
    if not cases:
        print("run_cases: no case is left; look at --area and --id", file=sys.stderr)
        return _UNUSABLE

    def tell(verdict: Verdict) -> None:
        took = f"  ({verdict.seconds:.2f} s)" if options.verbose else ""
        print(f"{verdict}{took}", flush=True)
        if options.verbose and verdict.trace:
            print(verdict.trace, flush=True)

    verdicts = asyncio.run(running.run(cases, jobs=options.jobs, told=tell))
    print(totals(verdicts))
    return _FAILED if any(verdict.word == "FAIL" for verdict in verdicts) else 0


def chosen(cases: Sequence[Case], areas: Sequence[str], ids: Sequence[str]) -> list[Case]:
    """Those of the areas, and with an id that one of the globs matches; nothing given: all."""
    return [
        case
        for case in cases
        if (not areas or case.area in areas) and (not ids or any(fnmatchcase(case.id, each) for each in ids))
    ]


def totals(verdicts: Sequence[Verdict]) -> str:
    """By area where something is not PASS, then all together."""
    words = Counter(verdict.word for verdict in verdicts)
    lines = []
    for area in dict.fromkeys(verdict.area for verdict in verdicts):
        of_area = Counter(verdict.word for verdict in verdicts if verdict.area == area)
        if of_area["PASS"] < of_area.total():
            lines.append(f"  {area}: " + ", ".join(f"{of_area[word]} {word}" for word in sorted(of_area)))
    return "\n".join([*lines, f"{words['PASS']} PASS, {words['FAIL']} FAIL, {words['SKIP']} SKIP"])


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run_cases.py",
        description="Runs conformance cases against a daemon that it starts, through the public client.",
        epilog="Exit status: 0 nothing failed, 1 something did, 2 a file or an option cannot be used.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl", help="cases, one JSON object a line")
    parser.add_argument("--area", action="append", default=[], help="only cases of this area; may be repeated")
    parser.add_argument("--id", action="append", default=[], metavar="GLOB", help="only these ids; may be repeated")
    parser.add_argument("--jobs", type=_positive, default=4, metavar="N", help="cases at one time (default: 4)")
    parser.add_argument("--verbose", action="store_true", help="seconds, and the trace of a fault of the runner's own")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cases: write 1 or more")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
