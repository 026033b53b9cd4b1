"""The bench measures what is there: `make bench` runs rarely, and what it wraps moves."""

import subprocess
import sys
from pathlib import Path

from tests.bench import effects, stages

ROOT = Path(__file__).parents[2]


def test_every_function_whose_time_the_bench_notes_is_there() -> None:
    # In a process of its own, because it replaces them.
    wrapped = "from tests.bench import staged_daemon; staged_daemon.replace()"
    run = subprocess.run([sys.executable, "-c", wrapped], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_every_stage_that_a_table_shows_is_noted() -> None:
    noting = (ROOT / "tests" / "bench" / "staged_daemon.py").read_text()
    shown = [*(stage for stage, _ in stages.STAGES), *effects.PARTS]
    assert [stage for stage in shown if f'"{stage}")' not in noting] == []
