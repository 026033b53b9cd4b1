"""A profile's extra mounts: there in every worker, read-only, at their own path."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.profiles.keys import WANTED_GROUPS
from stockade_daemon.sandbox.attached import Place
from stockade_daemon.sandbox.plan import below_tmp
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Access, Profile
from tests.sandbox.conftest import run


@pytest.fixture(params=["/tmp", "/var/tmp", "/home"])
def tree(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A host tree with an odd name, in places that workers have of their own and in one that they have not."""
    where = request.param if request.param != "/home" else os.path.expanduser("~")
    if not os.access(where, os.W_OK) or where == "/":
        pytest.skip(f"{where} cannot be written")
    with tempfile.TemporaryDirectory(dir=where, prefix="tests tree ") as name:
        tree = Path(name)
        tree.chmod(0o755)
        (tree / "doc.txt").write_text("shown\n")
        (tree / "run").write_text("#!/bin/sh\necho ran\n")
        (tree / "run").chmod(0o755)
        (tree / "inner").mkdir()
        yield tree


async def printed(
    pool: Pool, profile: Profile, command: str, *, workspace: Path | None = None, access: Access = Access.OVERLAY
) -> str:
    place = None
    if workspace is not None:
        found = await asyncio.to_thread(workspace.stat)
        place = Place(str(workspace), found.st_dev, found.st_ino)
    pool.open_room("room", profile, place)
    try:
        async with pool.worker("room", access) as worker:
            await run(worker, f"{{ {command}\n}} 2>&1")
            return os.read(worker.stdout, 65536).decode()
    finally:
        await pool.close_room("room")


async def test_a_mount_is_read_and_run_at_its_own_path(
    pool: Pool, profile: Profile, tree: Path, workspace: Path
) -> None:
    mounting = replace(profile, mounts=(str(tree),))
    said = await printed(pool, mounting, f"cat '{tree}/doc.txt'; '{tree}/run'; ls", workspace=workspace)
    assert said == "shown\nran\na.txt\nd\n"


async def test_a_mount_cannot_be_changed_in_any_way(pool: Pool, profile: Profile, tree: Path) -> None:
    os.chmod(tree, 0o777)
    os.chmod(tree / "doc.txt", 0o666)
    command = (
        f"cd '{tree}'; for each in 'echo x > doc.txt' 'chmod 644 doc.txt' 'touch doc.txt' 'mv doc.txt other'"
        " 'rm doc.txt' 'mkdir new' 'ln doc.txt link' 'touch inner/new' 'echo x <> doc.txt >&0'; do"
        ' bash -c "$each" 2> /dev/null && echo "done: $each"; done; mv "$PWD" /tmp/moved 2> /dev/null; echo end'
    )
    assert await printed(pool, replace(profile, mounts=(str(tree),)), command) == "end\n"
    assert (tree / "doc.txt").read_text() == "shown\n"


async def test_a_mount_shows_no_other_name_of_itself_and_nothing_beside_it(
    pool: Pool, profile: Profile, tree: Path
) -> None:
    beside = tree.parent / f"{tree.name} beside"
    beside.mkdir()
    try:
        said = await printed(
            pool, replace(profile, mounts=(str(tree),)), f"ls '{tree.parent}'; cat /proc/self/mountinfo"
        )
    finally:
        beside.rmdir()
    listed, _, _ = said.partition("\n")
    # /home and /root cannot be listed at all, where they are not mounts themselves.
    assert listed == tree.name or "ermission denied" in listed
    assert beside.name.replace(" ", "\\040") not in said
    for line in said.splitlines()[1:]:
        root, point = line.split()[3:5]
        if tree.name.replace(" ", "\\040") in root:
            assert str(tree.parent) in point
            assert Path(point).name == Path(root).name


async def test_every_worker_has_the_mounts_that_the_first_one_had(pool: Pool, profile: Profile, tree: Path) -> None:
    pool.open_room("room", replace(profile, mounts=(str(tree),)), None)
    for _ in range(3):
        async with pool.worker("room", Access.NONE) as worker:
            await run(worker, f"cat '{tree}/doc.txt'; touch /tmp/mine /var/tmp/mine && ls /var/tmp/mine")
            assert os.read(worker.stdout, 100) == b"shown\n/var/tmp/mine\n"


async def test_a_mount_may_be_one_file(pool: Pool, profile: Profile, tree: Path) -> None:
    mounting = replace(profile, mounts=(f"{tree}/doc.txt",))
    assert await printed(pool, mounting, f"ls '{tree}'; cat '{tree}/doc.txt'") == "doc.txt\nshown\n"


async def test_a_mount_inside_another_is_shown_once(pool: Pool, profile: Profile, tree: Path) -> None:
    mounting = replace(profile, mounts=(f"{tree}/inner", str(tree)))
    said = await printed(pool, mounting, f"ls '{tree}'; grep -c inner /proc/self/mountinfo")
    assert said == "doc.txt\ninner\nrun\n0\n"


async def test_a_link_is_followed_and_its_target_shown_in_its_place(
    pool: Pool, profile: Profile, tree: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(tree)
    assert await printed(pool, replace(profile, mounts=(str(link),)), f"cat '{link}/doc.txt'") == "shown\n"


async def test_the_workspace_lies_over_a_mount_that_holds_it(pool: Pool, profile: Profile, tree: Path) -> None:
    workspace = tree / "inner"
    (workspace / "a.txt").write_text("one\n")
    command = f"echo two > a.txt; cat a.txt '{tree}/doc.txt'; touch '{tree}/new' 2> /dev/null || echo refused"
    said = await printed(pool, replace(profile, mounts=(str(tree),)), command, workspace=workspace)
    assert said == "two\nshown\nrefused\n"
    assert (workspace / "a.txt").read_text() == "one\n"


async def test_what_lies_in_the_workspace_is_the_workspaces(pool: Pool, profile: Profile, tree: Path) -> None:
    mounting = replace(profile, mounts=(f"{tree}/inner",))
    said = await printed(pool, mounting, f"touch inner/new; ls inner; cat '{tree}/doc.txt'", workspace=tree)
    assert said == "new\nshown\n"
    assert list((tree / "inner").iterdir()) == []


async def test_a_mount_that_does_not_exist_refuses_the_worker_and_names_path_and_profile(
    pool: Pool, profile: Profile, tmp_path: Path
) -> None:
    with pytest.raises(SandboxFailure) as caught:
        await printed(pool, replace(profile, mounts=(f"{tmp_path}/absent",)), "true")
    assert caught.value.code == "SANDBOX_FAILED"
    assert caught.value.message.startswith(f"profile dev mounts {tmp_path}/absent, which does not exist on this host;")


async def test_a_link_to_a_view_of_the_host_is_refused(pool: Pool, profile: Profile, tmp_path: Path) -> None:
    for number, view in enumerate(("/proc", "/sys", "/dev", "/", "/etc", "/run")):
        link = tmp_path / f"link{number}"
        link.symlink_to(view)
        with pytest.raises(SandboxFailure, match=f"link{number}, which shows {view} of the host"):
            await printed(pool, replace(profile, mounts=(str(link),)), "true")


async def test_a_socket_or_a_pipe_is_no_mount(pool: Pool, profile: Profile, scratch: Path) -> None:
    place = Path(tempfile.mkdtemp(dir=scratch))
    os.mkfifo(place / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "socket"))
        for name in ("pipe", "socket"):
            with pytest.raises(SandboxFailure, match=f"{name}, which is neither a directory nor a regular file"):
                await printed(pool, replace(profile, mounts=(str(place / name),)), "true")


async def test_a_listening_socket_in_a_mount_is_out_of_reach(pool: Pool, profile: Profile, scratch: Path) -> None:
    place = Path(tempfile.mkdtemp(dir=scratch))
    os.chmod(place, 0o755)
    connecting = (
        f"import socket\ntry: socket.socket(socket.AF_UNIX).connect('{place}/socket'); print('connected')\n"
        "except OSError as error: print(type(error).__name__)"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "socket"))
        os.chmod(place / "socket", 0o777)
        listener.listen()
        for groups in (profile.syscalls, WANTED_GROUPS):
            said = await printed(
                pool,
                replace(profile, mounts=(str(place),), syscalls=groups),
                f'test -S {place}/socket && python3 -c "{connecting}"',
            )
            # With the group that makes such sockets it is the overlay that refuses, else the filter.
            assert said == ("ConnectionRefusedError\n" if groups == profile.syscalls else "OSError\n"), said


async def test_a_pipe_in_a_mount_leads_to_nobody_outside(pool: Pool, profile: Profile, scratch: Path) -> None:
    place = Path(tempfile.mkdtemp(dir=scratch))
    os.chmod(place, 0o755)
    os.mkfifo(place / "pipe")
    os.chmod(place / "pipe", 0o666)
    outside = os.open(place / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        # A writer that does not wait is told whether anybody reads (fifo(7)).
        writing = f"import os; os.open('{place}/pipe', os.O_WRONLY | os.O_NONBLOCK)"
        said = await printed(pool, replace(profile, mounts=(str(place),)), f'python3 -c "{writing}"')
    finally:
        os.close(outside)
    assert "No such device or address" in said


async def test_what_is_mounted_below_a_mount_is_shown_read_only_as_well(
    pool: Pool, profile: Profile, tree: Path
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can mount something below a directory of the host")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.sandbox.mounted_below", str(tree), profile.name, "0",
        cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert said.decode() == "file of the inner mount\nfile bound\nrefused\nrefused\nrefused\n"
    assert os.listdir(tree / "inner") == []


async def test_a_workspace_below_var_tmp_is_the_working_directory(pool: Pool, profile: Profile) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tests-") as name:
        before = set(os.listdir("/tmp"))
        (Path(name) / "a.txt").write_text("one\n")
        assert await printed(pool, profile, "cat a.txt", workspace=Path(name)) == "one\n"
        assert Path(name).name not in set(os.listdir("/tmp")) - before


def test_only_the_outer_mounts_below_tmp_are_attached_again() -> None:
    mounts = ("/tmp/a/b", "/opt/x", "/tmp/a", "/var/tmp/c", "/tmpx", "/tmp/ab")
    assert below_tmp(mounts) == ["/tmp/a", "/tmp/ab", "/var/tmp/c"]
