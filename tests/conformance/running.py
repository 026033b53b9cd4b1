"""Running many probes through one door: beside each other where they do not meet, alone where they would."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tests.conformance.judging import Verdict, Word
from tests.conformance.probes import Probe, lanes

BESIDE: Final = 4  # probes at a time


@dataclass(frozen=True, slots=True)
class Result:
    probe: Probe
    word: Word
    why: str


def run(probes: Sequence[Probe], ask: Callable[[Probe], Verdict], *, beside: int = BESIDE) -> list[Result]:
    """Every probe's result, in the order given. A probe that cannot be asked is an ERROR with the reason."""

    def ask_in_order(lane: Sequence[Probe]) -> list[Result]:
        return [_asked(probe, ask) for probe in lane]

    parallel, alone = lanes(probes)
    with ThreadPoolExecutor(beside) as threads:
        results = list(itertools.chain.from_iterable(threads.map(ask_in_order, parallel)))
    results += ask_in_order(alone)
    order = {probe.id: place for place, probe in enumerate(probes)}
    return sorted(results, key=lambda result: order[result.probe.id])


def _asked(probe: Probe, ask: Callable[[Probe], Verdict]) -> Result:
    try:
        verdict = ask(probe)
    except Exception as error:
        verdict = Verdict("ERROR", f"{type(error).__name__}: {error}"[:200])
    return Result(probe, verdict.word, verdict.why)


def words(results: Sequence[Result]) -> Mapping[str, str]:
    """Verdicts by id, as a control for another run."""
    return {result.probe.id: result.word for result in results}
