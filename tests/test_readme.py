"""The README's commands and program, run as they stand.

`make test` is the one block that is not run, since these tests are what it runs: it is compared with what `.ci/run`
calls. `make demo` is run where the tests were started by make, in the environment that make made.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = [(language, text) for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)]
COMMANDS = [text.strip() for language, text in BLOCKS if language == "sh"]
PROGRAMS = [text for language, text in BLOCKS if language == "python"]
OF_MAKE = Path(sys.prefix) == ROOT / ".venv"
INSTALLED = (Path(sys.executable).parent / "stockade").exists()


def environment() -> dict[str, str]:
    """This one's programs first; nothing of a make that may be running these tests, no daemon of the caller's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "STOCKADE"))}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{kept.get('PATH', '')}", "PYTHON": sys.executable}


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def directory(scratch: Path) -> Path:
    """A directory of somebody's, as the README speaks of it."""
    made = scratch / "readme"
    made.mkdir(exist_ok=True)
    (made / "greeting.txt").write_text("hello\n")
    return made


def test_the_readme_gives_the_two_commands_of_a_newcomer() -> None:
    assert "make demo" in COMMANDS
    assert "make test" in COMMANDS


def test_the_readme_puts_its_programs_on_the_path_before_it_uses_them() -> None:
    """So that what `environment` does for these tests is what the reader does too."""
    first = README.index("\nstockade ")
    assert README.index('export PATH="$PWD/.venv/bin:$PATH"') < first


def test_ci_runs_the_tests_as_the_readme_says() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == "make test"
    assert {"make check", "make proto-check"} <= set(lines)


def test_every_verb_that_the_readme_names_is_one_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)(?:`|$)", README, re.M)) <= targets
    assert {"help", "install", "proto", "proto-check", "check", "test", "demo", "wheel"} <= targets


@pytest.mark.skipif(not OF_MAKE, reason="started without make: its environment would have to be made")
def test_the_demo_of_the_readme_plays_to_its_end() -> None:
    assert run("make", "--no-print-directory", "demo", cwd=ROOT)


@pytest.mark.skipif(not INSTALLED, reason="`stockade` is not installed beside this interpreter")
@pytest.mark.parametrize("command", [each for each in COMMANDS if not each.startswith("make")])
def test_a_command_block_of_the_readme_works_as_it_stands(command: str, directory: Path) -> None:
    run("bash", "-euo", "pipefail", "-c", command, cwd=directory)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_of_the_readme_works_as_it_stands(program: str, directory: Path) -> None:
    said = run(sys.executable, "-c", program, cwd=directory)
    assert "-hello" in said
    assert "+good day" in said
    assert said.endswith("True None good day\n\n")
    assert (directory / "greeting.txt").read_text() == "good day\n"
