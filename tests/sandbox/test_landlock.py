"""Landlock alone: a process of the host that enters nothing else."""

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from stockade_daemon.sandbox import library
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Access
from stockade_worker import landlock
from tests.sandbox.conftest import run

ABI = landlock.abi()
HAS_TIME = os.path.exists("/proc/self/ns/time")
needs = pytest.mark.skipif(ABI == 0, reason="this kernel has no Landlock, or it is switched off")


def alone(script: str, *, readable: str = "/", changeable: str = "", tcp: bool = False) -> str:
    """What a script prints in a process that has entered Landlock and nothing else of the sandbox."""
    program = f"""
import os, socket, signal
from stockade_worker import kernel, landlock
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
changeable = {tuple(filter(None, [changeable]))!r}
rules = landlock.Rules(readable=({readable!r},), changeable=changeable, writable=(), tcp={tcp})
assert landlock.restrict(rules) == {ABI}
def tried(what):
    try: what(); print("done")
    except OSError as error: print(os.strerror(error.errno))
{textwrap.dedent(script)}
"""
    path = os.pathsep.join({str(Path(place).parent) for place in library.packages().values()})
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs
def test_files_are_written_only_where_the_rules_say(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "closed").mkdir()
    script = f"""
    tried(lambda: open({str(tmp_path / "open" / "f")!r}, "w").close())
    tried(lambda: open({str(tmp_path / "closed" / "f")!r}, "w").close())
    tried(lambda: os.mkdir({str(tmp_path / "closed" / "d")!r}))
    tried(lambda: os.rename({str(tmp_path / "open" / "f")!r}, {str(tmp_path / "closed" / "f")!r}))
    """
    said = alone(script, changeable=str(tmp_path / "open")).split("\n")[:4]
    assert said[0] == "done"
    assert set(said[1:]) <= {"Permission denied", "Invalid cross-device link"}
    assert os.listdir(tmp_path / "closed") == []


@needs
def test_files_are_read_only_where_the_rules_say(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    script = f"tried(lambda: open({str(tmp_path / 'secret')!r}).close())"
    assert alone(script) == "done\n"
    assert alone(script, readable="/usr") == "Permission denied\n"


@needs
@pytest.mark.skipif(ABI < 4, reason="Landlock before ABI 4 does not know TCP")
def test_tcp_is_refused_unless_allowed() -> None:
    script = """
    with socket.socket() as end:
        tried(lambda: end.bind(("127.0.0.1", 0)))
        tried(lambda: end.connect(("127.0.0.1", 9)))
    """
    assert alone(script) == "Permission denied\nPermission denied\n"
    assert alone(script, tcp=True).startswith("done\n")


@needs
@pytest.mark.skipif(ABI < 6, reason="Landlock before ABI 6 has no scopes")
def test_abstract_sockets_and_processes_outside_are_out_of_reach() -> None:
    name = f"\0stockade-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(name)
        listening.listen(1)
        script = f"""
        tried(lambda: socket.socket(socket.AF_UNIX).connect({name!r}))
        tried(lambda: os.kill({os.getpid()}, 0))
        tried(lambda: os.kill(os.getpid(), 0))
        """
        assert alone(script) == "Operation not permitted\nOperation not permitted\ndone\n"


@needs
async def test_a_worker_has_it_and_ordinary_work_goes_on(pool: Pool, room: str) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(
            worker,
            "mkdir d2 && mv a.txt d2/ && mv d2/a.txt . && ln a.txt l && ln -s a.txt s && mkfifo p && : > /dev/null && "
            "echo x > /tmp/x && truncate -s 0 a.txt && rm -r d2 l s p && "
            "(: > /dev/urandom) 2>/dev/null || echo refused",
        )
        assert os.read(worker.stdout, 100) == b"refused\n"
        assert os.read(worker.stderr, 1000) == b""
        held = {layer.name: layer.held for layer in worker.layers}
    assert held["landlock"]
    assert held["time"] == HAS_TIME
