"""A shared daemon tells about any profile, and runs those of its admin alone."""

from pathlib import Path

from tests.end_to_end.conftest import Stockade
from tests.end_to_end.profile_admin import Admin
from tests.end_to_end.stockaded import Stockaded


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


def test_a_file_with_a_name_that_no_profile_can_have_is_listed_with_the_remedy(
    stockade: Stockade, stockaded: Stockaded, directory: Path
) -> None:
    admin = Admin.of(stockaded, directory)
    for name in ("my prof", "mine", ".mine"):
        admin.path(name).write_text('extends = "dev"\n')
    path = admin.path("my prof")
    stockaded.start()
    listed = stockade("profile", "list", daemon=stockaded)
    assert listed.returncode == 0
    (line,) = [each for each in listed.stdout.splitlines() if "cannot be used" in each]
    assert line.startswith(f"my prof          cannot be used: {path}:1:1: this cannot be a profile's name; rename it: ")
    (warning,) = [each for each in stockaded.log.read_text().splitlines() if "no profile" in each]
    assert f"{path}:1:1: this cannot be a profile's name" in warning


def test_a_run_under_a_file_with_several_mistakes_points_to_what_lists_them(
    stockade: Stockade, workspace: Path
) -> None:
    (workspace / "mine.toml").write_text("wall = 1\nlimit = 2\nfoo = 3\n")
    for arguments in (["exec", "--private", "--profile", "mine.toml", "--", "true"], ["profile", "show", "mine.toml"]):
        said = stockade(*arguments).stderr
        assert "mine.toml:1:1: unknown key 'wall'" in said
        assert "(and 2 more; `stockade profile check` lists every mistake of a profile)" in said
