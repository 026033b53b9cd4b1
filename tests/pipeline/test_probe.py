"""What `stockade profile probe` tries is open where nothing holds it, and held in a worker."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_daemon import profiles
from stockade_daemon.pipeline.probe import Attempt, probe
from stockade_daemon.sandbox import covers, library
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.room import namespaces_of_this_process
from stockade_daemon.values import Profile

SHIPPED = [profiles.shipped()]
# Tried outside they would change the host, or need a right that whoever runs the tests may have.
NEVER_OUTSIDE = (
    "rename the host", "mount a file system", "write into the system", "change a setting of the kernel",
    "read the kernel's memory", "change the root directory", "become uid 0", "give a file to uid 0",
    "make a user namespace", "set up io_uring", "raise a limit", "write a device whose mode allows it",
    "open more files than open_files", "make sockets that the profile does not allow", "change a secret",
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(scratch: Path) -> AsyncIterator[Pool]:
    async with Pool.start(Path(tempfile.mkdtemp(dir=scratch))) as pool:
        yield pool


def of(attempts: Iterable[Attempt], layer: str) -> list[str]:
    return [each.verdict for each in attempts if each.layer == layer]


@pytest.mark.parametrize("name", ["strict", "dev", "offline", "ci", "hook", "network"])
@pytest.mark.asyncio(loop_scope="module")
async def test_everything_that_a_shipped_profile_forbids_is_held(pool: Pool, scratch: Path, name: str) -> None:
    place = Path(tempfile.mkdtemp(dir=scratch))
    profile = profiles.load(name, directories=SHIPPED)
    probed = await probe(pool, profile, place)
    assert [each for each in probed.attempts if each.verdict == "open"] == []
    answered = {each.layer for each in probed.attempts}
    assert answered >= {layer.name for layer in probed.layers}, "a layer of which nothing is said"
    assert {each.layer for each in probed.attempts if each.verdict == "absent"} == {
        layer.name for layer in probed.layers if not layer.held
    }
    assert os.listdir(place) == []


@pytest.mark.asyncio(loop_scope="module")
async def test_names_and_secrets_of_a_profile_are_tried(pool: Pool, scratch: Path) -> None:
    place = Path(tempfile.mkdtemp(dir=scratch))
    secret = place / "secret"
    secret.write_text("swordfish")
    secret.chmod(0o600)
    strict = profiles.load("strict", directories=SHIPPED)
    profile = replace(strict, hidden=("**/.env", "keys/*"), protected=("ci/**",), secrets={"T": str(secret)})
    probed = await probe(pool, profile, place)
    assert (of(probed.attempts, "hidden"), of(probed.attempts, "protected")) == (["held"], ["held"])
    assert of(probed.attempts, "secrets") == ["held"]
    assert os.listdir(place) == ["secret"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_hidden_name_that_is_not_covered_is_open(
    pool: Pool, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def covers_nothing(place: Path, workspace: str, names: tuple[bytes, ...], **_: object) -> tuple[bytes, ...]:
        os.chmod(place, 0o755)
        return names  # as if it had

    monkeypatch.setattr(covers, "build", covers_nothing)
    strict = profiles.load("strict", directories=SHIPPED)
    probed = await probe(pool, replace(strict, hidden=(".env",)), Path(tempfile.mkdtemp(dir=scratch)))
    assert of(probed.attempts, "hidden") == ["open"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_wider_worker_than_the_profile_says_is_open(
    pool: Pool, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe judges by the profile it was given; the worker is made from a wider one."""
    opened: Callable[..., None] = pool.open_room

    def wider(name: str, profile: Profile, *rest: object, **more: object) -> None:
        limits = replace(profile.limits, open_files=512, memory_mb=1024)
        opened(name, replace(profile, syscalls=("sockets_inet", *profile.syscalls), limits=limits), *rest, **more)

    monkeypatch.setattr(pool, "open_room", wider)
    strict = profiles.load("strict", directories=SHIPPED)
    probed = await probe(pool, strict, Path(tempfile.mkdtemp(dir=scratch)))
    found = {each.what: each for each in probed.attempts}
    assert found["make sockets that the profile does not allow"].detail == "a socket of group sockets_inet"
    assert found["open more files than open_files"].verdict == "open"
    if "cgroup" in {layer.name for layer in probed.layers if layer.held}:
        assert of(probed.attempts, "cgroup") == ["open"]


def test_outside_a_sandbox_the_attempts_succeed(tmp_path: Path) -> None:
    (tmp_path / "canary").touch()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0stockade-control-{os.getpid()}")
        abstract.listen()
        given = {
            "layers": [
                "user", "mount", "pid", "net", "ipc", "uts", "cgroup_ns", "time", "root", "no_new_privs", "landlock",
                "hidden",
            ],
            "hidden": ["canary"],
            "canary": str(tmp_path / "canary"),
            "namespaces": namespaces_of_this_process() | {"time": os.stat("/proc/self/ns/time").st_ino},
            "port": server.getsockname()[1],
            "abstract": f"stockade-control-{os.getpid()}",
        }  # fmt: skip
        program = (
            "import json, sys\nfrom stockade_worker import probing\n"
            f"probing._ATTEMPTS = [each for each in probing._ATTEMPTS if each[1] not in {NEVER_OUTSIDE!r}]\n"
            "print(json.dumps(probing.run(json.load(sys.stdin), None).value['attempts']))\n"
        )
        path = os.pathsep.join({str(Path(place).parent) for place in library.packages().values()})
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(given),
            cwd=tmp_path,
            env={"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    tried = {each["what"]: each["held"] for each in json.loads(done.stdout)}
    assert tried.pop("gain privileges by a set-id program") in (True, False)  # whoever runs the tests may have it
    assert tried.pop("see a network interface besides lo") in (True, False)  # a host may have no other
    assert tried.pop("see the host's control groups") in (True, False)
    assert len(tried) == 9
    assert [what for what, held in tried.items() if held] == []
