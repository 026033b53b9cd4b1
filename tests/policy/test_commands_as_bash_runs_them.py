"""What the rules allow is given to a real bash in which every program is a recorder: it starts what was judged, with
the words that were judged, and nothing else."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from stockade_daemon.policy import command_words
from stockade_daemon.policy.command_rules import judge, unruled
from stockade_daemon.policy.executables import Surroundings
from tests.examples import examples

RULES = ("ls *", "cat *", "git status")
HERE = Surroundings("/srv/work", {"PATH": "/usr/bin:/bin"}, ("/usr", "/bin"))
BASH = shutil.which("bash") or "bash"
HANG_S = 30.0
# One write to a file that is opened for appending, so those of a pipeline do not mix.
RECORDER = """#!/bin/sh
name=${0##*/}
printf '%s\\0' "$#" "$name" "$@" >> "$LOG"
"""
NOT_FOUND = '() { printf \'%s\\0\' "$(($#-1))" "$@" >> "$LOG"; }'


class Bash:
    def __init__(self, place: Path) -> None:
        self._programs, self._log = place / "programs", place / "log"
        self._work = place / "work"
        for each in (self._programs, self._work):
            each.mkdir()
        for name in ("ls", "cat", "git"):
            (self._programs / name).write_text(RECORDER)
            (self._programs / name).chmod(0o755)

    def run(self, text: str) -> Counter[tuple[str, ...]]:
        """What it starts, however often."""
        self._log.write_bytes(b"")
        # Held by all that it starts, in the background too. A command's redirections name descriptors of one digit.
        reader, writer = os.pipe()
        held = fcntl.fcntl(writer, fcntl.F_DUPFD, 10)
        os.close(writer)
        try:
            subprocess.run(
                [BASH, "-c", text],
                cwd=self._work,
                env={
                    "PATH": str(self._programs),
                    "LOG": str(self._log),
                    "LC_ALL": "C.UTF-8",
                    "BASH_FUNC_command_not_found_handle%%": NOT_FOUND,
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(held,),
                timeout=HANG_S,
                check=False,
            )
        finally:
            os.close(held)
            with open(reader, "rb") as ended:
                ended.read()
        assert os.listdir(self._work) == [], text
        parts = iter(self._log.read_bytes().decode().split("\0")[:-1])
        return Counter(tuple(next(parts) for _ in range(int(count) + 1)) for count in parts)


@pytest.fixture(scope="module")
def bash(scratch: Path) -> Bash:
    return Bash(Path(tempfile.mkdtemp(dir=scratch)))


PIECES = st.one_of(
    st.sampled_from(
        ["ls", "cat", "git status", "ls a", "cat 'a b'", 'ls "a"', "rm x", "rm", "12", "a=b", "A=1", "CI=1"]
    ),
    st.sampled_from(
        [" ", "\t", "\n", ";", "; ", " && ", " || ", " | ", " |& ", " & ", "&", "|", "(", ")", "{ ", "; }"]
    ),
    st.sampled_from(["'", '"', "\\", "\\ ", "\\'", '\\"', "''", "#", " # ", "\n# x\n", "#;", "$", "`", "$(rm x)", "~"]),
    st.sampled_from(
        [">", "<", ">&", "<&", "2>&1", " >/dev/null", "2>/dev/null ", "&>/dev/null", "> x", "<<E\n", "E", "<("]
    ),
    st.sampled_from([*list("*?{}[]=+-,!^%@:/\r\x0bé\xa0"), "if ", "then ", "fi", "case x in", "esac", "time ", "()"]),
    st.sampled_from(["done", "function ", ";;", "\\\n", "$'", '$"', "\\#", "<<<", "! ", "`rm x`", "$x", "coproc "]),
)
TEXTS = st.lists(PIECES, max_size=14).map("".join)
COMMANDS = st.lists(
    st.sampled_from(["ls", "ls a", "cat 'b c'", "git status", 'cat "$d"', "rm x"]), min_size=1, max_size=4
)
JOINED = st.tuples(COMMANDS, st.sampled_from([";", "\n", " && ", "|", " & ", " >/dev/null; ", " 2>&1 | "])).map(
    lambda pair: pair[1].join(pair[0])
)
BENT = st.tuples(JOINED, PIECES, st.integers(0, 60)).map(
    lambda three: three[0][: three[2]] + three[1] + three[0][three[2] :]
)


@settings(max_examples=examples(300), deadline=None)
@given(text=st.one_of(BENT, BENT, TEXTS, TEXTS.map(lambda rest: f"ls {rest}")))
def test_bash_starts_nothing_but_what_the_rules_were_asked_about(bash: Bash, text: str) -> None:
    if unruled(judge({"command": text}, RULES, HERE)):
        event("asked")
        return
    event("allowed")
    judged = Counter(each.words for each in command_words.read(text))
    started = bash.run(text)
    assert started <= judged, text


def test_the_recorder_sees_what_is_started(bash: Bash) -> None:
    assert bash.run("ls 'a b' | cat & rm x") == Counter([("ls", "a b"), ("cat",), ("rm", "x")])
    assert bash.run("cat '' >/dev/null 2>&1 &") == Counter([("cat", "")])
