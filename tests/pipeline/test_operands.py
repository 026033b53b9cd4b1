"""Which words of a command name the scripts that it runs."""

from typing import Any

import pytest

from stockade_daemon.pipeline.operands import operands

COMMANDS: list[tuple[str, set[str]]] = [
    ("bash run.sh", {"run.sh"}),
    ("bash -x run.sh a", {"run.sh"}),
    ("python3 x.py", {"x.py"}),
    ("python3.12 -W error x.py", {"x.py"}),
    ("./x --all", {"x"}),
    ("bin/x", {"bin/x"}),
    ("cd sub && ./x", {"sub/x"}),
    ("cd sub; python3 x.py", {"sub/x.py"}),
    (". ./env.sh; true", {"env.sh"}),
    ("source env.sh", {"env.sh"}),
    ("env A=1 B=2 timeout 5s bash run.sh", {"run.sh"}),
    ("A=1 nohup ./x &", {"x"}),
    ("echo $(bash run.sh)", {"run.sh"}),
    ("echo `bash run.sh`", {"run.sh"}),
    ("true\nbash run.sh", {"run.sh"}),
    ("bash < run.sh", {"run.sh"}),
    ("cat a | python3 x.py", {"x.py"}),
    ("bash -c 'python3 x.py'", {"x.py"}),
    ("if true; then bash run.sh; fi", {"run.sh"}),
    ("make", {"Makefile", "makefile", "GNUmakefile"}),
    ("bash 'a b.sh'", {"a b.sh"}),
]


@pytest.mark.parametrize(("command", "wanted"), COMMANDS)
def test_a_command_names_its_scripts(command: str, wanted: set[str]) -> None:
    assert wanted <= set(operands({"command": command}))


@pytest.mark.parametrize(
    "command", ["cat a.txt", "git add run.sh", "echo bash run.sh", "grep x run.sh", "", "'", "\x00"]
)
def test_what_is_only_read_is_no_script(command: str) -> None:
    assert operands({"command": command}) == []


def test_an_argument_vector_names_its_scripts_below_its_directory() -> None:
    given: dict[str, Any] = {"argv": ["python3", "x.py", "; bash y.sh"], "cwd": "sub"}
    assert operands(given) == ["sub/x.py", "sub/; bash y.sh"]
    assert operands({"argv": ["./x"]}) == ["x"]
    assert operands({"argv": []}) == []


@pytest.mark.parametrize("word", ["sh ", "/bin/x ", "/bin/sh a "])
def test_the_words_of_a_long_command_are_told_once_and_not_as_often_as_there_are_words(word: str) -> None:
    found = operands({"command": "env " + word * 50_000 + "sh run.sh"})
    assert 0 < len(found) <= 4096
