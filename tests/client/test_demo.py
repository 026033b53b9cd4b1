"""The demo: prepared, played, and honest when something goes otherwise."""

import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stockade_client.demo.prepare import FAULT, FAULTY_FILE, SOUND, NotPrepared, put_fault_in, unpack

Stockade = Callable[..., "subprocess.CompletedProcess[bytes]"]


def git(workspace: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(workspace), *arguments],
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_prepared_workspace_is_one_clean_commit_with_the_fault(prepared: Path) -> None:
    assert FAULT in (prepared / FAULTY_FILE).read_text()
    assert SOUND not in (prepared / FAULTY_FILE).read_text()
    assert git(prepared, "status", "--short", "--ignored") == ""
    assert len(git(prepared, "log", "--format=%H").split()) == 1


def test_the_demo_goes_as_recorded_and_changes_one_line(stockade: Stockade, prepared: Path) -> None:
    done = stockade("demo", "--workspace", str(prepared))
    text = done.stdout.decode()
    assert done.returncode == 0, text + done.stderr.decode()
    for part in (
        "FAILED (failures=5)",
        "FS_NOT_OBSERVED",
        "you (recorded): yes",
        "Ran 60 tests",
        "Network is unreachable",
        "Read-only file system",
        "fs/committed",
        "tool/result",
    ):
        assert part in text
    assert git(prepared, "diff", "--numstat") == f"1\t1\t{FAULTY_FILE}\n"
    assert SOUND in (prepared / FAULTY_FILE).read_text()

    again = stockade("demo", "--workspace", str(prepared))
    assert again.returncode == 1
    assert b"turn-1.call-1 (shell) did not go as recorded" in again.stderr


def test_a_directory_that_holds_something_is_not_prepared(stockade: Stockade, workspace: Path) -> None:
    before = sorted(workspace.iterdir())
    done = stockade("demo", "--prepare", str(workspace))
    assert done.returncode == 1
    assert b"not empty" in done.stderr
    assert sorted(workspace.iterdir()) == before


def test_preparing_and_playing_are_two_commands(stockade: Stockade) -> None:
    assert stockade("demo", "--prepare", "a", "--workspace", "b").returncode == 2


@pytest.mark.parametrize("stops", [False, True])
def test_the_demo_leaves_nothing_behind(environment: dict[str, str], scratch: Path, archive: Path, stops: bool) -> None:
    temporary = scratch / f"temporary-{stops}"
    temporary.mkdir()
    alone = {**environment, "TMPDIR": str(temporary)}
    if os.geteuid() != 0:
        # A private daemon of its own, whose traces count too; root's default socket is one for the whole host.
        alone |= {"XDG_RUNTIME_DIR": str(temporary)}
        del alone["STOCKADE_ADDRESS"]
    with subprocess.Popen(
        [sys.executable, "-m", "stockade_client", "demo", "--cache", str(archive.parent)],
        env=alone,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline()
        if stops:
            demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=60)
    assert demo.returncode == (130 if stops else 0), errors
    assert errors == b""
    assert list(temporary.iterdir()) == []


def test_the_demo_keeps_no_directory_where_nothing_could_be_fetched(
    stockade: Stockade, environment: dict[str, str], scratch: Path
) -> None:
    temporary = scratch / "nothing-fetched"
    temporary.mkdir()
    # An index where there is none: pip fails without trying the network.
    nowhere = {"TMPDIR": str(temporary), "PIP_INDEX_URL": f"file://{temporary}/index", "PIP_CONFIG_FILE": os.devnull}
    done = stockade("demo", "--keep", "--cache", str(scratch / "no-cache"), env={**environment, **nowhere})
    assert done.returncode == 1
    assert b"pip cannot fetch" in done.stderr
    assert done.stdout == b""
    assert list(temporary.iterdir()) == []


def test_the_demo_keeps_its_workspace_when_asked_to(
    stockade: Stockade, environment: dict[str, str], scratch: Path, archive: Path
) -> None:
    temporary = scratch / "kept"
    temporary.mkdir()
    done = stockade("demo", "--keep", "--cache", str(archive.parent), env={**environment, "TMPDIR": str(temporary)})
    assert done.returncode == 0, done.stderr
    (kept,) = temporary.glob("stockade-demo-*/*")
    assert done.stdout.decode().splitlines()[0] == f"the workspace stays in {kept}"
    assert SOUND in (kept / FAULTY_FILE).read_text()


def packed(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as written:
        for member in members:
            content = b"content"
            member.size = len(content) if member.isreg() else 0
            written.addfile(member, io.BytesIO(content))
    return path


def test_an_archive_that_leads_outside_is_refused(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.tar.gz", tarfile.TarInfo("top/../../outside"))
    with pytest.raises(NotPrepared, match="leads outside"):
        unpack(archive, tmp_path / "inside" / "ws")
    assert not (tmp_path / "outside").exists()


def test_links_and_devices_of_an_archive_are_left_out(tmp_path: Path) -> None:
    link, device, file = tarfile.TarInfo("top/link"), tarfile.TarInfo("top/null"), tarfile.TarInfo("top/file")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    device.type = tarfile.CHRTYPE
    unpack(packed(tmp_path / "a.tar.gz", link, device, file), tmp_path / "ws")
    assert [entry.name for entry in (tmp_path / "ws").iterdir()] == ["file"]


def test_a_package_without_the_known_place_is_not_damaged(tmp_path: Path) -> None:
    (tmp_path / FAULTY_FILE).write_text("something else\n")
    with pytest.raises(NotPrepared, match="should have it once"):
        put_fault_in(tmp_path)
