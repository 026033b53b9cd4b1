"""The client opens no file of the workspace: the demo's client runs where the workspace is hidden from it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# In a mount namespace of its own: an empty directory over the workspace, a look that it is really hidden, the client.
HIDDEN = 'mount --bind "$1" "$2" && test -z "$(ls -A "$2")" && cd / && shift 2 && exec "$@"'


def own_mounts() -> list[str]:
    """The command that gives a client mounts of its own, or a skip that says what is missing."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare (util-linux) is missing")
    flags = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    command = ["unshare", *flags, "--propagation", "private"]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"this host gives no mount namespace: {tried.stderr.strip()}")
    return command


def test_the_demo_plays_with_the_workspace_hidden_from_its_client(
    environment: dict[str, str], prepared: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    client = [sys.executable, "-m", "stockade_client", "demo", "--workspace", str(prepared)]
    done = subprocess.run(
        [*own_mounts(), "sh", "-c", HIDDEN, "sh", str(empty), str(prepared), *client],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all as recorded" in done.stdout
    assert "item[key] = [value, data]" in (prepared / "xmltodict.py").read_text()
    assert list(empty.iterdir()) == []
