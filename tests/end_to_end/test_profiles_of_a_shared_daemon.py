"""A shared daemon tells about any profile, and runs those of its admin alone."""

from pathlib import Path

from tests.end_to_end.conftest import Stockade


def test_a_file_is_checked_and_explained_and_not_probed(stockade: Stockade, workspace: Path) -> None:
    (workspace / "mine.toml").write_text('extends = "dev"\n')
    assert stockade("profile", "check", "mine.toml").returncode == 0
    assert "limits.wall_s" in stockade("profile", "explain", "mine.toml").stdout
    refused = stockade("profile", "probe", "mine.toml")
    assert refused.returncode == 2
    assert "this daemon runs profiles by name only" in refused.stderr
    refused = stockade("exec", "--profile", "mine.toml", "--", "true")
    assert refused.returncode == 2
    assert "or use a private daemon (--private)" in refused.stderr


def test_an_unknown_tool_of_a_shared_daemon_is_not_put_down_to_a_private_one(stockade: Stockade) -> None:
    done = stockade("call", "words", "--profile", "dev")
    assert "UNKNOWN_TOOL" in done.stderr
    assert "private" not in done.stderr
