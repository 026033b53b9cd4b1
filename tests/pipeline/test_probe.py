"""What `stockade profile probe` tries is open where nothing holds it, and held in a worker."""

import errno
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
import pytest_asyncio

from stockade_daemon import profiles
from stockade_daemon.pipeline import probe as probing
from stockade_daemon.pipeline.probe import Attempt, probe
from stockade_daemon.sandbox import covers, library
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.room import namespaces_of_this_process
from stockade_daemon.values import Profile
from stockade_worker import attempts
from stockade_worker import probing as inner

Names: TypeAlias = tuple[bytes, ...]
SHIPPED = [profiles.shipped()]
# Tried outside they would change the host, or need a right that whoever runs the tests may have.
NEVER_OUTSIDE = (
    "rename the host", "mount a file system", "write into the system", "change a setting of the kernel",
    "read the kernel's memory", "change the root directory", "become uid 0", "give a file to uid 0",
    "make a user namespace", "set up io_uring", "raise a limit", "write a device whose mode allows it",
    "open more files than open_files", "make sockets that the profile does not allow", "change a secret",
    "use a capability",
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
    assert [each for each in probed.attempts if each.verdict not in ("held", "absent")] == []
    # What only others have refused says nothing of a layer.
    own = {each.layer for each in probed.attempts if each.verdict == "held" and not each.by}
    assert own >= {layer.name for layer in probed.layers if layer.held}, "a layer that was never asked itself"
    answered = {each.layer for each in probed.attempts}
    assert answered >= {layer.name for layer in probed.layers}, "a layer of which nothing is said"
    assert {each.layer for each in probed.attempts if each.verdict == "absent"} == {
        layer.name for layer in probed.layers if not layer.held
    }
    assert os.listdir(place) == []


@pytest.mark.parametrize(
    ("name", "layer", "what", "by"),
    [
        ("strict", "mount", "mount a file system", "seccomp"),
        ("strict", "uts", "rename the host", "seccomp or capabilities"),
        ("strict", "capabilities", "change the root directory", "seccomp"),
        ("strict", "capabilities", "use a capability", ""),
        ("strict", "net", "connect to a server on the host's 127.0.0.1", "seccomp"),
        ("dev", "net", "connect to a server on the host's 127.0.0.1", ""),
        ("strict", "user", "become uid 0", ""),
        ("strict", "seccomp", "make a user namespace", ""),
        ("strict", "root", "write into the system", ""),
        ("strict", "proc", "change a setting of the kernel", "file modes"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_refusal_is_the_layers_that_answered(
    pool: Pool, scratch: Path, name: str, layer: str, what: str, by: str
) -> None:
    probed = await probe(pool, profiles.load(name, directories=SHIPPED), Path(tempfile.mkdtemp(dir=scratch)))
    (found,) = [each for each in probed.attempts if (each.layer, each.what) == (layer, what)]
    assert (found.verdict, found.by) == ("held", by), found


@pytest.mark.asyncio(loop_scope="module")
async def test_a_profile_that_shows_no_shell_is_probed_all_the_same(pool: Pool, scratch: Path) -> None:
    strict = profiles.load("strict", directories=SHIPPED)
    # What the interpreter needs and nothing else: the programs of a system lie in /bin and /usr/bin.
    libraries = tuple(path for path in strict.system if "lib" in path or path.startswith("/etc"))
    libraries += ("/usr/lib", "/usr/lib64", "/usr/local/lib")
    probed = await probe(pool, replace(strict, system=libraries), Path(tempfile.mkdtemp(dir=scratch)))
    assert of(probed.attempts, "overlay") == ["held"]
    assert [each for each in probed.attempts if each.verdict not in ("held", "absent")] == []


@pytest.mark.asyncio(loop_scope="module")
async def test_what_could_not_be_tried_is_neither_held_nor_open(
    pool: Pool, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = profiles.load("strict", directories=SHIPPED)
    profile = replace(strict, hidden=("*",), protected=("x" * 300,))
    probed = await probe(pool, profile, Path(tempfile.mkdtemp(dir=scratch)))
    assert of(probed.attempts, "protected") == ["untried"]
    assert of(probed.attempts, "hidden") == ["held"]
    monkeypatch.setattr(probing, "_WITHIN_S", 0.0)
    silent = await probe(pool, strict, Path(tempfile.mkdtemp(dir=scratch)))
    assert {each.layer: each.verdict for each in silent.attempts if each.layer in ("root", "overlay")} == {
        "root": "untried", "overlay": "untried",
    }  # fmt: skip
    assert "open" not in {each.verdict for each in silent.attempts}


@pytest.mark.parametrize(
    ("path", "verdict", "by"),
    [("there", "open", ""), ("absent", "held", ""), ("there/below", "held", "file modes"), ("loop", "untried", "")],
)
def test_a_verdict_follows_from_the_error_that_the_kernel_gave(
    tmp_path: Path, path: str, verdict: str, by: str
) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "loop").symlink_to("loop")
    answers = {errno.ENOENT: "root", errno.ENOTDIR: "file modes"}

    def act(given: object) -> None:
        os.close(os.open(tmp_path / path, os.O_RDONLY))
        raise attempts.Done("it was there")

    found = inner._tried(attempts.Attempt("root", "open it", act, answers), {})
    assert found is not None
    assert found[:2] == (verdict, by)


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
    def covers_nothing(place: Path, workspace: str, names: Names, points: Names, **_: object) -> covers.Built:
        os.chmod(place, 0o755)
        return covers.Built(names, points, {})  # as if it had

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
            "workspace": str(tmp_path),
            "witness": "",
            "hidden": ["canary"],
            "canary": str(tmp_path / "canary"),
            "namespaces": namespaces_of_this_process() | {"time": os.stat("/proc/self/ns/time").st_ino},
            "port": server.getsockname()[1],
            "abstract": f"stockade-control-{os.getpid()}",
        }  # fmt: skip
        program = (
            "import json, sys\nfrom stockade_worker import probing\n"
            f"probing.ATTEMPTS = [each for each in probing.ATTEMPTS if each.what not in {NEVER_OUTSIDE!r}]\n"
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
    tried = {each["what"]: each["verdict"] for each in json.loads(done.stdout)}
    assert tried.pop("gain privileges by a set-id program") in ("held", "open")  # whoever runs the tests may have it
    assert tried.pop("see a network interface besides lo") in ("held", "open")  # a host may have no other
    assert tried.pop("see the host's control groups") in ("held", "open")
    assert len(tried) == 12
    assert {what: verdict for what, verdict in tried.items() if verdict != "open"} == {}
