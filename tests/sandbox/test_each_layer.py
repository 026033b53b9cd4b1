"""Each layer by itself, and all but one: what a layer holds, and what holds without it.

For each layer there is a program that finds something open (BROKEN) or closed (HELD). It must be BROKEN with what the
layer needs and HELD with the layer on top; HELD with all layers and BROKEN with all but this one. Where others hold
that as well, docs/security.md says which, and that is shown, too.
"""

import asyncio
import contextlib
import ctypes
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox import layers
from stockade_daemon.sandbox.cgroups import Cgroups
from stockade_daemon.values import Layer
from tests.sandbox.layered import Layered

PROJECT: Final = Path(__file__).parents[2]
ROOT: Final = os.getuid() == 0
ALL: Final = frozenset(
    layer.name for layer in layers.held({}, {}, own_uid=True, overlay=True, cgroup=Layer("cgroup", True))
)
# An ordinary user cannot have these, or only with a control group that is left to him.
ONLY_ROOT: Final = {"user", "uid", "groups", "cgroup"}
# Before the layers of an ordinary user there is a user namespace in which he may make them. These need none.
PLAIN: Final = {"no_new_privs", "landlock", "seccomp", "rlimits"}
PROFILE: Final = """
extends = "dev"
widen = ["filesystem.mounts", "limits.processes"]
[filesystem]
mounts = [{{path = "{share}", mode = "ro"}}]
[limits]
memory_mb = 64
open_files = 256
processes = 4096
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One layer. `needs`: without these it cannot be, so they are there when it is asked alone."""

    alone: str
    needs: frozenset[str] = frozenset()
    left_out: str = ""  # another program, where the first one's answer depends on other layers


def _opened(path: str, mode: str = "rb") -> str:
    return f"""
try:
    open({path}, {mode!r}).close()
    say(False)
except OSError:
    say(True)
"""


def _own_namespace(kind: str) -> str:
    return f"import os\nsay(os.readlink('/proc/self/ns/{kind}') != given['namespaces']['{kind}'])"


ROWS: Final = {
    "user": Row("""
import os
try:
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1)
    say(False)
except PermissionError:
    say(True)
"""),
    "mount": Row(_own_namespace("mnt")),
    "root": Row(_opened("given['canary']"), frozenset({"mount", "pid"})),
    "proc": Row("say(not open('/proc/interrupts', 'rb').read(1))", frozenset({"mount", "pid", "root"})),
    "pid": Row("""
import os
try:
    os.kill(given['process'], 0)
    say(False)
except ProcessLookupError:
    say(True)
""", left_out="import os\nsay(not os.path.exists(f\"/proc/{given['process']}\"))"),
    "net": Row("""
import socket
with socket.socket() as end:
    say(end.connect_ex(("127.0.0.1", given["port"])) != 0)
"""),
    "ipc": Row("import ctypes\nsay(ctypes.CDLL(None).shmget(given['key'], 0, 0) == -1)"),
    "uts": Row("import os\nsay(os.uname().nodename != given['hostname'])"),
    "cgroup_ns": Row("say(all(line.rstrip().endswith(':/') for line in open('/proc/self/cgroup')))"),
    "time": Row(_own_namespace("time")),
    "uid": Row(_opened("given['private']")),
    "groups": Row("import os\nsay(os.getgroups() == [])"),
    "capabilities": Row("""
import os
path = f"/tmp/{os.getpid()}-of-nobody"
os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0))
try:
    os.close(os.open(path, os.O_RDONLY))
    say(False)
except PermissionError:
    say(True)
os.unlink(path)
""", frozenset({"user"})),
    "no_new_privs": Row("import ctypes\nsay(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) == 1)"),
    "landlock": Row(_opened("'/dev/urandom'", "wb"), frozenset({"no_new_privs"})),
    "seccomp": Row("""
import ctypes, os
add_key = 217 if os.uname().machine == "aarch64" else 248
say(ctypes.CDLL(None).syscall(add_key, b"user", b"layer", b"x", ctypes.c_long(1), ctypes.c_long(-2)) == -1)
""", frozenset({"no_new_privs"})),
    "rlimits": Row("""
import os
try:
    for _ in range(400):
        os.open("/dev/null", os.O_RDONLY)
    say(False)
except OSError:
    say(True)
"""),
    "cgroup": Row("""
held = bytearray(100 << 20)
say(False)
"""),
    "overlay": Row("open(given['file'], 'w').write('changed')", frozenset({"mount"})),
}  # fmt: skip


class Host:
    """What the programs look for, and the running of them."""

    def __init__(self, place: Path, given: dict[str, Any]) -> None:
        self.place = place
        self.given = given
        self.file = place / "workspace" / "file"

    def ask(self, program: str, kept: frozenset[str], *, outer: bool) -> str:
        """HELD or BROKEN, or what else was said."""
        self.file.write_text("as it was")
        self.file.chmod(0o666)
        mounts = Path(tempfile.mkdtemp(dir=self.place))
        mounts.chmod(0o755)
        wanted = Layered(
            layers=kept,
            program=program,
            given=self.given,
            profile=PROFILE.format(share=self.place / "share"),
            workspace=str(self.file.parent),
            place=str(mounts),
            outer=outer,
        )
        said = asyncio.run(self._run(wanted))
        shutil.rmtree(mounts)
        if program == ROWS["overlay"].alone and not said:
            return "HELD" if self.file.read_text() == "as it was" else "BROKEN"
        return said

    async def _run(self, wanted: Layered) -> str:
        async with Cgroups.start(wanted="cgroup" in wanted.layers) as groups:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.sandbox.layered", cwd=PROJECT,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            group = None
            if "cgroup" in wanted.layers:
                limits = profiles.parse(
                    wanted.profile.encode(), name="layered", source="", directories=[profiles.shipped()]
                ).limits
                group = await asyncio.to_thread(groups.admit, process.pid, limits)
            said, _ = await process.communicate(wanted.text().encode())
            if group is not None:
                await asyncio.to_thread(group.remove)
        text = said.decode().strip()
        # The kernel's end of a program that uses too much is an answer as well.
        return "HELD" if not text and process.returncode not in (0, 70) else text


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    place = Path(tempfile.mkdtemp(prefix="layers-"))
    place.chmod(0o755)
    libc = ctypes.CDLL(None, use_errno=True)
    key = random.randrange(1, 1 << 30)  # any that is free will do
    segment = libc.shmget(key, 4096, 0o1666)
    assert segment >= 0, os.strerror(ctypes.get_errno())
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, place)
        stack.callback(libc.shmctl, segment, 0, None)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        process = stack.enter_context(subprocess.Popen(["sleep", "599"]))
        stack.callback(process.kill)
        for name in ("workspace", "share"):
            (place / name).mkdir()
            (place / name).chmod(0o777)
        for path, mode in ((place / "canary", 0o644), (place / "share" / "private", 0o600)):
            path.write_text("of the host")
            path.chmod(mode)
        yield Host(place, {
            "canary": str(place / "canary"), "private": str(place / "share" / "private"), "process": process.pid,
            "port": listener.getsockname()[1], "key": key, "hostname": os.uname().nodename,
            "file": str(place / "workspace" / "file"),
        })  # fmt: skip


def can_be_asked(layer: str) -> None:
    if layer in ONLY_ROOT and not ROOT:
        pytest.skip(f"an ordinary user has no layer {layer} of this kind to enter or to leave out")
    if layer == "time" and not os.path.exists("/proc/self/ns/time"):
        pytest.skip("this kernel has no time namespaces")
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    if layer == "cgroup_ns" and all(line.endswith(":/") for line in lines):
        pytest.skip("these tests run in the root of the control groups, which looks the same from inside")


def table(title: str) -> dict[str, frozenset[str]]:
    """Two columns of a table of docs/security.md: layers, and a set of others."""
    text = (PROJECT / "docs" / "security.md").read_text()
    _, _, after = text.partition(f"## {title}\n")
    section, _, _ = after.partition("\n## ")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
    return {name: frozenset(re.findall(r"`(\w+)`", others)) for name, others in rows}


OVERLAPS: Final = table("Layers that overlap")
DEPENDENT: Final = table("Layers that need another")
FULL: Final = ALL if ROOT else ALL - ONLY_ROOT


def test_every_layer_is_asked() -> None:
    assert set(ROWS) == ALL
    assert set(OVERLAPS) | set(DEPENDENT) <= ALL


@pytest.mark.parametrize("layer", sorted(ROWS))
def test_a_layer_alone_holds_what_is_open_without_it(host: Host, layer: str) -> None:
    can_be_asked(layer)
    row = ROWS[layer]
    outer = not ROOT and layer not in PLAIN
    assert host.ask(row.alone, row.needs, outer=outer) == "BROKEN"
    assert host.ask(row.alone, row.needs | {layer}, outer=outer) == "HELD"


@pytest.mark.parametrize("layer", sorted(ROWS))
def test_a_layer_left_out_leaves_something_open(host: Host, layer: str) -> None:
    can_be_asked(layer)
    program = ROWS[layer].left_out or ROWS[layer].alone
    without = FULL - {layer} - DEPENDENT.get(layer, frozenset())
    assert host.ask(program, FULL, outer=not ROOT) == "HELD"
    overlapping = OVERLAPS.get(layer, frozenset())
    if overlapping:
        assert host.ask(program, without, outer=not ROOT) == "HELD"
    assert host.ask(program, without - overlapping, outer=not ROOT) == "BROKEN"
