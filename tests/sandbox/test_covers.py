"""What a profile hides is in no view of the workspace, whatever a command tries."""

import asyncio
import os
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.pipeline.arrival import Arrival
from stockade_daemon.pipeline.kept_bytes import KeptBytes
from stockade_daemon.pipeline.output import Output, Pump
from stockade_daemon.sandbox.attached import Place
from stockade_daemon.sandbox.effects import difference
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Access, Profile
from tests.sandbox.conftest import run

SECRET = "nobody-may-see-this"
HIDDEN = (".env", "d/**/*.key", "private")


@pytest.fixture
def tree(workspace: Path) -> Path:
    for name in (".env", "d/e/one.key", "private/x"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(SECRET)
        (workspace / name).chmod(0o666)
    os.link(workspace / ".env", workspace / "hard")
    (workspace / "soft").symlink_to(".env")
    (workspace / "d/e").chmod(0o750)
    return workspace


@pytest_asyncio.fixture
async def hiding(pool: Pool, profile: Profile, tree: Path) -> str:
    """The name of a room whose views hide."""
    found = await asyncio.to_thread(tree.stat)
    gate = Gate(Workspace.open(str(tree)), hidden=HIDDEN)
    pool.open_room("hiding", profile, Place(str(tree), found.st_dev, found.st_ino), hidden=gate.hidden_names)
    return "hiding"


async def said(worker: Worker, command: str) -> str:
    """What a command prints, its errors included."""
    arrival = Arrival()
    output = Output(KeptBytes((Path("/nowhere"),) * 3, arrival), arrival, 0, cap=1 << 16)
    async with asyncio.TaskGroup() as group:
        group.create_task(Pump(worker.stdout, output).run())
        await run(worker, f"exec 2>&1; {command}")
    return (await output.read(0, 1 << 16)).decode()


@pytest.mark.parametrize("access", [Access.OVERLAY, Access.READ])
async def test_no_name_in_a_view_leads_to_hidden_bytes(pool: Pool, hiding: str, access: Access) -> None:
    async with pool.worker(hiding, access) as worker:
        text = await said(
            worker,
            f"grep -r {SECRET} . ; cat .env hard soft d/e/one.key private/x; find . -inum 1; ls -laR; "
            "for each in /proc/self/fd/*; do ls -la $each/; done; echo end",
        )
    assert "end" in text
    assert SECRET not in text
    assert "No such file" in text
    names = text.split()
    assert not {"one.key", "private", "hard", "private:"} & set(names)
    assert "a.txt" in names


TRICKS = [
    "mv d moved; cat moved/e/one.key; ls -R moved",
    "cp -r d copy; cat copy/e/one.key",
    "rm -rf d private .env; mkdir -p d/e private; ls -aR; cat d/e/one.key private/x",
    "ln d/e/one.key again; ln -s private p; cat again p/x",
    "touch .env; cat .env; rm .env; cat .env",
    "mkdir private; ls private; cat private/x; rmdir private; ls private",
    "chmod 777 d d/e; echo > d/e/one.key; cat d/e/one.key; rm d/e/one.key; cat d/e/one.key",
    "mknod .env c 0 0; rm -f .env; cat .env",
    "python3 -c \"import os; print(os.listdir('.'), os.path.exists('.env'), os.path.exists('d/e/one.key'))\"",
    "rename() { mv \"$1\" \"$2\"; }; rename d/e x; cat x/one.key; mv x d/e; cat d/e/one.key",
    "setfattr -n user.overlay.redirect -v /.env a.txt; cat a.txt; setfattr -n trusted.overlay.redirect -v .env a.txt",
]  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS)
async def test_no_change_of_the_private_view_brings_hidden_bytes_back(pool: Pool, hiding: str, trick: str) -> None:
    async with pool.worker(hiding, Access.OVERLAY) as worker:
        assert SECRET not in await said(worker, f"({trick}); grep -r {SECRET} .; grep -r {SECRET} /tmp")


async def test_what_a_command_makes_at_a_hidden_name_is_new(pool: Pool, hiding: str, tree: Path) -> None:
    gate = Gate(Workspace.open(str(tree)), hidden=HIDDEN)
    async with pool.worker(hiding, Access.OVERLAY) as worker:
        await run(worker, "echo mine > .env; mkdir private; echo > private/x; echo >> a.txt; rm -f hard soft")
        assert worker.scratch is not None
        found = difference(str(worker.scratch.upper), str(tree), hides=gate.hides)
    changes = {each.path: each.change for each in found.effects}
    assert changes == {
        ".env": "created", "private": "created", "private/x": "created", "a.txt": "changed", "soft": "deleted"
    }  # fmt: skip
    assert (tree / ".env").read_text() == SECRET


async def test_a_name_that_came_after_a_view_was_prepared_is_hidden_in_the_next(
    pool: Pool, hiding: str, tree: Path
) -> None:
    await pool._sessions[hiding].own.prepare(Access.OVERLAY)
    assert pool._sessions[hiding].own._prepared[Access.OVERLAY]
    (tree / "d/two.key").write_text(SECRET)
    async with pool.worker(hiding, Access.OVERLAY) as worker:
        assert SECRET not in await said(worker, f"ls -R; grep -r {SECRET} .")


async def test_directories_above_a_hidden_name_look_as_before(pool: Pool, hiding: str, room: str, tree: Path) -> None:
    looks = []
    command = "stat -c '%n %a %u %g %Y' . d d/e"
    for each in (hiding, room):
        async with pool.worker(each, Access.READ) as worker:
            looks.append(await said(worker, command))
    assert looks[0] == looks[1]
    assert "750" in looks[0]


async def test_the_covers_are_gone_with_their_worker(pool: Pool, hiding: str, tmp_path: Path) -> None:
    async with pool.worker(hiding, Access.READ) as worker:
        assert worker.cover.layer is not None
        place = worker.cover.layer.path
        assert place.is_dir()
        worker.kill()
        await worker.close()
    assert not place.exists()


async def test_without_the_covers_the_bytes_are_there(pool: Pool, room: str, tree: Path) -> None:
    """Otherwise the tests above would say nothing."""
    async with pool.worker(room, Access.OVERLAY) as worker:
        assert (await said(worker, f"grep -r {SECRET} .")).count(SECRET) == 4
