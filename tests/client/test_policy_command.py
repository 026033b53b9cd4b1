"""`stockade policy explain`: what a profile says about a command, as the daemon would at a call."""

import json
from pathlib import Path

import pytest

from tests.client.conftest import Stockade

PROFILE = '[approval]\ncommands = "{decision}"\n[commands]\nallow = ["ls *", "git status", "python3"]\n'


@pytest.mark.parametrize(
    ("decision", "words", "said"),
    [
        ("ask", ["ls a | ls"], 'allow\n  ls a: rule "ls *", '),
        ("ask", ["--", "git", "status"], 'allow\n  git status: rule "git status", '),
        ("ask", ["ls; rm x"], "ask: profile {file} asks about commands: `rm x` has no rule\n"),
        ("ask", ["ls $x"], "bash would put something else there"),
        ("ask", ["python3 -c 'x'"], "has no rule"),
        ("allow", ["rm x"], "allow\n  rm x: `rm x` has no rule\n"),
        ("deny", ["ls"], "deny: profile {file} denies commands"),
    ],
    ids=["allowed", "argv", "asked", "unclear", "interpreter", "unasked", "denied"],
)
def test_the_answer_says_which_rule_allows_each_part(
    stockade: Stockade, workspace: Path, decision: str, words: list[str], said: str
) -> None:
    file = "./rules.toml"
    (workspace / file).write_text(PROFILE.format(decision=decision))
    done = stockade("policy", "explain", "--profile", file, *words)
    assert said.format(file=file) in done.stdout.decode(), done
    assert done.returncode == (0 if done.stdout.startswith(b"allow") else 1)


def test_as_json_it_is_one_object(stockade: Stockade, workspace: Path) -> None:
    (workspace / "rules.toml").write_text(PROFILE.format(decision="ask"))
    done = stockade("policy", "explain", "--profile", "rules.toml", "--json", "ls; rm x")
    judged = json.loads(done.stdout)
    assert judged["decision"] == "ask"
    assert [(each["text"], each["rule"]) for each in judged["commands"]] == [("ls", "ls *"), ("rm x", "")]
