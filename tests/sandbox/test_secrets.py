"""Named secrets: a file for the worker, and nothing anywhere else."""

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Access, Profile
from tests.sandbox.test_covers import said

SECRET = "swordfish-" * 3


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


def giving(profile: Profile, file: Path) -> Profile:
    return replace(profile, secrets={"TOKEN": str(file)})


@pytest.mark.parametrize("access", [Access.NONE, Access.OVERLAY])
async def test_a_secret_is_a_file_that_the_worker_reads_and_cannot_change(
    pool: Pool, profile: Profile, file: Path, access: Access
) -> None:
    pool.open_room("room", giving(profile, file), None)
    async with pool.worker("room", access) as worker:
        text = await said(
            worker,
            "cat /run/secrets/TOKEN; echo; stat -c '%a %U' /run/secrets/TOKEN /run/secrets; ls /run/secrets; "
            "echo x > /run/secrets/TOKEN; chmod 644 /run/secrets/TOKEN; touch /run/secrets/y; rm -f /run/secrets/TOKEN",
        )
    assert text.startswith(f"{SECRET}\n400 agent\n500 agent\nTOKEN\n")
    assert text.count("Read-only file system") + text.count("Permission denied") == 4


async def test_a_secret_is_in_no_environment_argument_or_mount_of_any_process(
    pool: Pool, profile: Profile, file: Path
) -> None:
    pool.open_room("room", giving(profile, file), None)
    async with pool.worker("room", Access.OVERLAY) as worker:
        assert SECRET not in await said(worker, "cat /proc/*/environ /proc/*/cmdline /proc/self/mountinfo")
        told = await asyncio.to_thread(told_by_all_processes)
    assert b"stockade" in told
    assert SECRET.encode() not in told


def told_by_all_processes() -> bytes:
    found = b""
    for process in Path("/proc").iterdir():
        for name in ("environ", "cmdline"):
            with suppress(OSError):  # no process, another's, or gone
                found += (process / name).read_bytes()
    return found


async def test_another_room_has_no_secret(pool: Pool, profile: Profile, file: Path) -> None:
    pool.open_room("with", giving(profile, file), None)
    pool.open_room("without", profile, None)
    async with pool.worker("with", Access.NONE), pool.worker("without", Access.NONE) as worker:
        assert SECRET not in await said(worker, "cat /run/secrets/*; grep -r swordfish /run /tmp /etc")


def removed(file: Path) -> Path:
    file.unlink()
    return file


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda file: file.chmod(0o640), "which others can read or write (mode 0640); chmod 0600"),
        (lambda file: file.chmod(0o604), "mode 0604"),
        (lambda file: file.unlink(), "which cannot be opened: No such file or directory; create it"),
        (lambda file: removed(file).mkdir(0o700), "which is no regular file"),
        (lambda file: os.mkfifo(removed(file), 0o600), "which is no regular file"),
        (lambda file: file.write_bytes(b"x" * 65537), "which has more than 64 KiB"),
    ],
)
async def test_a_secret_that_cannot_be_given_ends_the_call_with_the_files_name(
    pool: Pool, profile: Profile, file: Path, spoil: object, complaint: str
) -> None:
    assert callable(spoil)
    spoil(file)
    pool.open_room("room", giving(profile, file), None)
    with pytest.raises(SandboxFailure) as failed:
        async with pool.worker("room", Access.NONE):
            pass
    assert f"profile dev gives a secret from {file}, " in failed.value.message
    assert complaint in failed.value.message
    assert SECRET not in failed.value.message
