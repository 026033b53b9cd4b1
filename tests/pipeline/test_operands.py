"""Which words of a command name the scripts that it runs."""

import shlex
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade_daemon.pipeline.operands import operands, words_of

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


@pytest.mark.parametrize(
    "text", ["y" * 2_000_000, '"' + 'y\\"' * 500_000 + '"', "'" + "y " * 1_000_000 + "'", "A=1 " * 500_000]
)
def test_a_command_of_megabytes_takes_no_time_by_the_square_of_its_length(text: str) -> None:
    """For minutes, that was; in a process of its own, so that it can be given up."""
    program = """
import sys
from stockade_daemon.pipeline.operands import operands
found = operands({"command": sys.stdin.read() + " ; bash run.sh"})
assert found[-1] == "run.sh", found[-1][:100]
"""
    subprocess.run([sys.executable, "-c", program], input=text, text=True, check=True, timeout=60)


@given(st.text(alphabet="ab/ \t\r\\'\";&|()<>\n`$=-.", max_size=30))
def test_words_are_told_as_the_shells_of_posix_tell_them(text: str) -> None:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>\n`")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        wanted = list(lexer)
    except ValueError:
        with pytest.raises(ValueError, match="a quote does not end"):
            list(words_of(text))
    else:
        assert [word for word, _ in words_of(text)] == wanted
