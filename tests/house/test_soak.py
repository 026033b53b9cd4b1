"""What `make soak` takes for growth, and what it leaves when it is interrupted."""

import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests import figures
from tests.figures import Figures

ROOT = Path(__file__).parents[2]
BASE = Figures(
    calls=1000, descriptors=37, inner_descriptors=29, processes=6, mounts=22, groups=8, scratch=1, threads=18,
    rss=60 << 20, memory=30 << 20, mounter=7 << 20, state=10 << 20,
)  # fmt: skip


def looks(rates: dict[str, float], *, noise: int = 0) -> list[Figures]:
    """21 looks over 5,000 calls; each figure that is named rises by so much for each call."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    noisy = random.Random(seed)
    return [
        replace(
            BASE,
            calls=1000 + done,
            rss=BASE.rss + noisy.randint(-noise, noise),
            state=BASE.state + 8000 * done,
            **{
                name: getattr(BASE, name) + int(rate * done) + (noisy.randint(0, noise) if name == "memory" else 0)
                for name, rate in {"memory": 0.0, **rates}.items()
            },
        )
        for done in range(0, 5001, 250)
    ]


def test_a_ledger_that_grows_and_memory_that_goes_to_and_fro_are_no_growth() -> None:
    assert figures.grown(looks({}, noise=256 * 1024)) == []


@pytest.mark.parametrize("name", figures.CONSTANT)
def test_one_more_of_what_is_constant_is_growth(name: str) -> None:
    (found,) = figures.grown(looks({name: 1 / 5000}))
    assert found.startswith(f"{name} grew from ")


@pytest.mark.parametrize("name", figures.BOUNDED)
def test_memory_that_each_call_keeps_is_growth_through_the_noise(name: str) -> None:
    assert [each.split()[0] for each in figures.grown(looks({name: 700}, noise=256 * 1024))] == [name]


@pytest.mark.parametrize("name", figures.BOUNDED)
def test_memory_is_not_judged_over_too_few_calls_and_what_is_constant_is(name: str) -> None:
    short = [each for each in looks({name: 5000, "groups": 1 / 1000}) if each.calls - 1000 < figures.SHORTEST]
    assert figures.grown(short) == ["groups grew from 8 to 9"]


def test_a_thread_that_every_hundredth_call_leaves_is_growth() -> None:
    assert figures.grown(looks({"threads": 1 / 100})) == ["threads grew from 18 to 68"]


def test_a_short_run_says_what_it_cannot_judge_and_interrupted_it_removes_its_daemon_and_files(scratch: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--warm-up", "0", "--calls", "1400", "--jobs", "2"]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    before = set(os.listdir(scratch))
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("soak: 1400 calls")
        assert "memory is not judged over fewer than 1500 calls" in process.stdout.readline()
        assert "fewer than 1000 calls of warm-up" in process.stdout.readline()
        assert "calls 0 " in process.stdout.readline()  # the first look: now its clients begin
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    assert set(os.listdir(scratch)) == before
