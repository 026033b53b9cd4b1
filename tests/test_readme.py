"""The README, followed by a newcomer: its commands and its program, typed as they stand into one shell.

`make test` is the one block that is not run, since these tests are what it runs: it is compared with what `.ci/run`
calls. The others are run where the tests were started by make, in the environment that make made; the shell knows
nothing of it until the README says so.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stockade_daemon import config
from stockade_daemon.errors import ConfigurationError

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
# Language, text, and the file that the words before it give a program.
BLOCKS = [
    (language, text, (re.findall(r"save this as `([^`]+)`", before) or [""])[-1])
    for before, language, text in re.findall(r"(.*?)^```(\w+)\n(.*?)^```$", README, re.M | re.S)
]
COMMANDS = [text.strip() for language, text, _ in BLOCKS if language == "sh"]
OF_MAKE = Path(sys.prefix) == ROOT / ".venv"
made_by_make = pytest.mark.skipif(not OF_MAKE, reason="started without make: its environment would have to be made")


def newcomers_environment(home: Path) -> dict[str, str]:
    """A login's: nothing of this environment on the PATH, of a make that may be running these tests, or of a daemon."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "STOCKADE"))}
    own = Path(sys.executable).parent
    path = [each for each in kept.get("PATH", os.defpath).split(os.pathsep) if Path(each) != own]
    # Make would make its environment anew for another Python than the one it has.
    return {**kept, "HOME": str(home), "PATH": os.pathsep.join(path), "PYTHON": sys.executable}


def typed(script: str, home: Path) -> str:
    """What the script prints, run from the top of the repository."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=ROOT,
        env=newcomers_environment(home),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def home(scratch: Path) -> Path:
    """A newcomer's home directory."""
    made = scratch / "home"
    made.mkdir(exist_ok=True)
    return made


def test_the_readme_gives_the_two_commands_of_a_newcomer() -> None:
    assert "make demo" in COMMANDS
    assert "make test" in COMMANDS


def test_ci_runs_the_tests_as_the_readme_says() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert re.fullmatch(r"make test( ARGS=\S+)?", lines[-1])
    assert {"make check", "make proto-check"} <= set(lines)


def test_every_verb_that_the_readme_names_is_one_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)(?:`|$)", README, re.M)) <= targets
    assert {"help", "install", "proto", "proto-check", "check", "test", "demo", "wheel"} <= targets


@made_by_make
def test_the_demo_of_the_readme_plays_to_its_end(home: Path) -> None:
    assert "all as recorded" in typed("make --no-print-directory demo", home)


@made_by_make
def test_the_readme_works_as_it_stands(home: Path) -> None:
    script = ""
    for language, text, name in BLOCKS:
        if language == "python":
            script += f"cat > {name} <<'END OF PROGRAM'\n{text}END OF PROGRAM\n"
        elif text.strip() not in ("make demo", "make test"):
            script += text
    said = typed(script, home)
    before, _, program = said.partition("\nspoiled\nhello\n")
    assert before.splitlines()[-1].isdigit()
    assert "\n-hello\n+good day\n" in program
    assert program.endswith("\nTrue None good day\n\n")
    (greeting,) = home.glob("*/greeting.txt")
    assert greeting.read_text() == "good day\n"


def test_the_examples_of_operations_md_are_configurations(tmp_path: Path) -> None:
    examples = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs" / "operations.md").read_text(), re.M | re.S)
    file = tmp_path / "stockade.toml"
    read = []
    for example in examples:
        file.write_text(example)
        if "\nshared = true" in example and os.geteuid() != 0:
            with pytest.raises(ConfigurationError, match="only a daemon of root is shared by several uids"):
                config.load(file, state=tmp_path)
        else:
            read.append(config.load(file, state=tmp_path))
    assert read[0].workspaces == (Path("/srv/projects"),)
