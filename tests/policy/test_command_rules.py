"""Rules for commands: what runs unasked is exactly what a rule says, however it is written; all else is asked about."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stockade_daemon.policy import command_tree, command_words
from stockade_daemon.policy.command_rules import judge, unruled
from stockade_daemon.policy.command_words import Unclear
from stockade_daemon.policy.executables import Surroundings

RULES = (
    "git status",
    "git diff --stat",
    "ls *",
    "cat *",
    "make test",
    "python3 check.py",
    "true",
    "echo *",
    "env true",
)
HERE = Surroundings("/srv/work", {"PATH": "/usr/bin:/bin"}, ("/usr", "/bin"))

ALLOWED = [
    "ls",
    "ls src",
    "ls src tests",
    "true",
    "echo a b",
    "echo 'a b'",
    'echo "a b"',
    "echo a\\ b",
    "l's' src",
    '"ls" src',
    "ls; ls",
    "ls && ls src",
    "ls || true",
    "ls | cat",
    "ls |& cat",
    "ls & ls",
    "ls\nls",
    "ls\n\n# a comment\nls",
    "# first\nls",
    "(ls)",
    "{ ls; }",
    "! ls",
    "(ls; (cat a)) | cat",
    "ls > /dev/null",
    "ls 2>&1",
    "ls >/dev/null 2>&1",
    "ls 2>/dev/null",
    "ls &> /dev/null",
    "LANG=C ls",
    "CI=1 NO_COLOR=1 ls",
    "ls ./a/b",
    "ls a:b",
    "python3 check.py",
    "env true",
    "  ls  ",
    "ls 'x y' z",
    "echo a,b%c@d^e",
    "cat a",
]
ASKED = [
    # Another command behind, before or inside one that has a rule.
    "ls; rm x",
    "ls && rm x",
    "ls || rm x",
    "ls | xargs rm",
    "ls\nrm x",
    "ls & rm x",
    "rm x; ls",
    "(ls; rm x)",
    "{ rm x; }",
    "! rm x",
    "ls $(rm x)",
    "ls `rm x`",
    'ls "$(rm x)"',
    "ls <(rm x)",
    "ls >(rm x)",
    "echo ${x:-$(rm x)}",
    "ls |\nrm x",
    # What bash would put in.
    "ls $HOME",
    "ls *",
    "ls ?",
    "ls [a]",
    "ls ~",
    "ls {a,b}",
    "echo $'a'",
    'echo $"a"',
    'ls "$x"',
    "echo $((1))",
    "ls ~root",
    # Files that are written or read, here-documents.
    "ls > x",
    "ls >> x",
    "cat < x",
    "ls 2> x",
    "cat <<E\nE",
    "cat <<< x",
    "ls &> x",
    "ls >| x",
    "ls <> x",
    "ls > /dev/sda",
    "ls > /dev/null/x",
    "ls > /dev/nullx",
    # Other words, options, settings.
    "git statusfoo",
    "git",
    "git log",
    "git status -s",
    "git status .",
    "ls -la",
    "ls --color=x",
    "ls +x",
    "ls @x",
    "ls a=b",
    "echo -",
    "make",
    "make test x",
    "python3",
    "python3 -c 'print(1)'",
    "python3 check.py x",
    "env",
    "env true x",
    "catx a",
    # Names that are not the bare name, or mean something else.
    "./ls",
    "/bin/ls",
    "bin/ls x",
    "command ls",
    "builtin echo",
    "exec ls",
    "eval ls",
    ". ls",
    "source ls",
    "sudo ls",
    "nohup ls",
    "xargs ls",
    "find . -exec ls {} +",
    "time ls",
    "coproc ls",
    "ls() { rm x; }; ls",
    "function ls { rm x; }",
    "alias ls=rm; ls",
    "if true; then ls; fi",
    "for x in a; do ls; done",
    "while true; do ls; done",
    "case x in x) ls;; esac",
    "[[ -e x ]]",
    "[ -e x ]",
    "((1))",
    "trap ls EXIT",
    "export PATH=x",
    "set -x",
    "cd",
    "printf x",
    # Assignments.
    "PATH=x ls",
    "LD_PRELOAD=x ls",
    "GIT_SSH_COMMAND=x git status",
    "BASH_ENV=x ls",
    "IFS=x ls",
    "x=1 ls",
    "LANG=/x ls",
    "LANG=C",
    "LANG+=C ls",
    "LANG=$x ls",
    # What cannot be read.
    "",
    "   ",
    "# nothing",
    "ls 'x",
    'ls "x',
    "ls \\\nx",
    "ls \x00",
    "ls \x1b",
    "ls )",
    "( ls",
    "ls ;; ls",
    "ls &&",
    "ls é",
    "ls #x",
    "ls;#x\nls",
    "ls " + "a " * 9000,
    "ls; " * 200,
    "l\\\ns",
]


def why(command: str, rules: tuple[str, ...] = RULES, surroundings: Surroundings = HERE) -> str:
    return unruled(judge({"command": command}, rules, surroundings))


@pytest.mark.parametrize("command", ALLOWED)
def test_what_has_a_rule_runs_unasked(command: str) -> None:
    assert why(command) == ""


@pytest.mark.parametrize("command", ASKED, ids=range(len(ASKED)))
def test_what_is_not_exactly_a_rules_is_asked_about(command: str) -> None:
    reason = why(command)
    assert reason
    assert reason.isprintable()


def test_there_are_enough_commands_in_the_table() -> None:
    assert len(ALLOWED) + len(ASKED) >= 80
    assert len(set(ALLOWED)) + len(set(ASKED)) == len(ALLOWED) + len(ASKED)


@pytest.mark.parametrize(
    ("argv", "allowed"),
    [
        (["git", "status"], True),
        (["ls", "a b; rm x"], True),
        (["git", "status; rm x"], False),
        (["/usr/bin/git", "status"], False),
        (["ls", "-l"], False),
        (["echo", "x"], True),
        (["cd"], False),
        ([], False),
    ],
)
def test_an_argument_vector_is_judged_by_its_words(argv: list[str], allowed: bool) -> None:
    assert (unruled(judge({"argv": argv}, (*RULES, "cd"), HERE)) == "") is allowed


def test_a_program_that_runs_its_words_has_no_rule_by_its_name_alone() -> None:
    for name in ("python3", "bash", "env", "find", "xargs", "sudo", "python3.11"):
        for rule in (name, f"{name} *"):
            assert why(name, (rule,))
            assert why(f"{name} x", (rule,))


def test_a_name_is_looked_up_where_no_call_can_write(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "ls"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    inside = Surroundings(str(tmp_path), {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}, ("/usr", "/bin", str(tmp_path)))
    assert "where calls can write" in why("ls", surroundings=inside)
    assert "not absolute" in why("ls", surroundings=Surroundings("/srv/work", {"PATH": "bin:/usr/bin"}, ("/usr",)))
    assert "no program" in why("ls", surroundings=Surroundings("/srv/work", {"PATH": "/usr/bin"}, ()))
    steered = Surroundings("/srv/work", {"PATH": "/usr/bin:/bin", "BASH_ENV": "x"}, ("/usr", "/bin"))
    assert "BASH_ENV" in why("ls", surroundings=steered)


def test_what_test_would_run_between_brackets_is_asked_about(tmp_path: Path) -> None:
    hidden = "test -v 'x[$(touch made)]'"
    subprocess.run(["bash", "-c", hidden], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, check=False)
    assert (tmp_path / "made").exists()  # bash does run it
    for rule in ("test *", "test -v *", "test"):
        assert unruled(judge({"command": hidden}, (rule,), HERE))
    assert not unruled(judge({"command": "test -e a"}, ("test -e a",), HERE))


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, False),
        ({"LANG": "C"}, False),
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "de_DE.utf8@euro"}, False),
        ({"LANG": "zh_CN.GBK", "LC_ALL": "C.UTF-8"}, False),
        ({"LANG": "C.UTF-8", "LC_ALL": ""}, False),
        ({"LANG": "zh_CN.GBK"}, True),
        ({"LANG": "zh_CN"}, True),
        ({"LANG": "C.UTF-8", "LC_CTYPE": "ja_JP.SJIS"}, True),
        ({"LANG": "C.UTF-8", "LC_ALL": "zh_TW.Big5"}, True),
    ],
)
def test_a_text_that_is_not_ascii_is_asked_about_in_a_locale_that_is_not_utf_8(
    environment: dict[str, str], asked: bool
) -> None:
    # In GBK the backslash is the second half of a character, so that the quote ends and `touch` is a command.
    there = Surroundings("/srv/work", {"PATH": "/usr/bin:/bin", **environment}, ("/usr", "/bin"))
    assert ("not UTF-8" in why('echo "€\\"; touch made #"', surroundings=there)) is asked
    assert not why("echo a", surroundings=there)


PIECES = st.one_of(
    st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=4),
    st.sampled_from(
        ["'", '"', "\\", " ", ";", "|", "&", "\n", "$", "`", "(", ")", "#", "a b", "'a b'", '"a\\"b"', "\\ ", "x"]
    ),
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_what_is_read_as_words_bash_reads_as_the_same_words(text: str) -> None:
    """`print` in place of every name: what bash gives it has to be what was read, in order."""
    try:
        found = command_words.read(f"print {text}")
    except Unclear:
        return
    if command_tree.commands(f"print {text}") != [each.raw for each in found]:
        return  # only what both readers read alike is judged
    assume(
        len(found) == 1 and not found[0].assigned and "/dev/null" not in text and "<&" not in text and ">&" not in text
    )
    assume(not any(sign in text for sign in ("|", "&", ";")))
    script = f"print() {{ printf '%s\\0' \"$@\"; }}\nprint {text}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        check=False,
    )
    words = tuple(done.stdout.decode().split("\0")[:-1])
    assert words == (found[0].words[1:] or ("",))


@given(st.lists(PIECES, max_size=14).map("".join))
def test_whatever_is_allowed_both_readers_read_alike(text: str) -> None:
    for command in (text, f"ls {text}", f"ls; {text}"):
        if why(command) == "":
            found = command_words.read(command)
            assert command_tree.commands(command) == [each.raw for each in found]
            assert all(
                each.words[0] in ("ls", "cat", "true", "echo", "env", "git", "make", "python3") for each in found
            )
