"""The filters, asked through the kernel: a worker makes the calls by number."""

import errno
import json
import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stockade_daemon.profiles.keys import SYSCALL_GROUPS
from stockade_daemon.sandbox import filters
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.syscalls import ABSENT, GROUPS, REFUSED
from stockade_daemon.values import Access, Profile
from tests.sandbox.conftest import run

ARM = os.uname().machine == "aarch64"
NUMBERS = {
    # name: (x86-64, arm64)
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "pivot_root": (155, 41), "bpf": (321, 280),
    "io_uring_setup": (425, 425), "userfaultfd": (323, 282), "perf_event_open": (298, 241), "keyctl": (250, 219),
    "add_key": (248, 217), "clone3": (435, 435), "open_tree": (428, 428), "kexec_load": (246, 104),
    "process_vm_readv": (310, 270), "pidfd_getfd": (438, 438), "open_by_handle_at": (304, 265), "fchmodat2": (452, 452),
    "no_such_call": (999, 999), "getpid": (39, 172),
}  # fmt: skip

PROBE = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
numbers = json.loads(NUMBERS)
found = {}
for name, number in numbers.items():
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
    found[name] = ctypes.get_errno() if result < 0 else 0
def by(name, what):
    try: what(); found[name] = 0
    except OSError as error: found[name] = error.errno
import fcntl, socket
by("TIOCSTI", lambda: fcntl.ioctl(0, 0x5412, b"x"))
libc.ioctl(0, ctypes.c_ulong(0x100005412), b"x")
found["TIOCSTI high"] = ctypes.get_errno()
open("/tmp/f", "w").close()
by("setuid bit", lambda: os.chmod("/tmp/f", 0o4755))
by("setgid file", lambda: os.close(os.open("/tmp/g", os.O_CREAT | os.O_WRONLY, 0o2644)))
by("plain file", lambda: os.close(os.open("/tmp/h", os.O_CREAT | os.O_WRONLY, 0o644)))
by("device", lambda: os.mknod("/tmp/d", 0o060644, 0x101))
by("inet", lambda: socket.socket().close())
by("unix", lambda: socket.socket(socket.AF_UNIX).close())
by("netlink", lambda: socket.socket(16, 3).close())
by("vsock", lambda: socket.socket(40, 1).close())
by("alg", lambda: socket.socket(38, 5).close())
by("packet", lambda: socket.socket(17, 3).close())
by("raw", lambda: socket.socket(2, 3, 1).close())
by("pair", lambda: socket.socketpair())
print(json.dumps(found))
"""


async def asked(pool: Pool, profile: Profile) -> dict[str, Any]:
    numbers = json.dumps({name: pair[1 if ARM else 0] for name, pair in NUMBERS.items()})
    script = PROBE.replace("NUMBERS", repr(numbers), 1)
    pool.open_room(profile.digest, profile, None)
    async with pool.worker(profile.digest, Access.NONE) as worker:
        await run(worker, f"exec python3 - <<'END'\n{script}\nEND")
        said = os.read(worker.stdout, 65536)
        assert said, os.read(worker.stderr, 65536).decode()
        found: dict[str, Any] = json.loads(said)
        return found


def name(number: int) -> str:
    return errno.errorcode.get(number, "OK")


async def test_an_unlisted_call_is_absent_and_a_privileged_one_not_permitted(pool: Pool, profile: Profile) -> None:
    found = {what: name(number) for what, number in (await asked(pool, profile)).items()}
    assert {what: found[what] for what in ("no_such_call", "clone3", "fchmodat2")} == dict.fromkeys(
        ("no_such_call", "clone3", "fchmodat2"), "ENOSYS"
    )
    refused = set(NUMBERS) - {"no_such_call", "clone3", "fchmodat2", "getpid"}
    assert {what: found[what] for what in refused} == dict.fromkeys(refused, "EPERM")
    assert found["getpid"] == "OK"


async def test_arguments_that_escape_are_refused_and_their_plain_neighbours_are_not(
    pool: Pool, profile: Profile
) -> None:
    found = {what: name(number) for what, number in (await asked(pool, profile)).items()}
    for what in ("TIOCSTI", "TIOCSTI high", "setuid bit", "setgid file", "device", "raw"):
        assert found[what] == "EPERM", what
    for what in ("netlink", "vsock", "alg", "packet"):
        assert found[what] in ("EAFNOSUPPORT", "EPERM"), what
    for what in ("plain file", "pair", "inet", "unix"):
        assert found[what] == "OK", what


async def test_without_socket_groups_only_pairs_can_be_made(pool: Pool, profile: Profile) -> None:
    groups = tuple(group for group in profile.syscalls if not group.startswith("sockets"))
    found = await asked(pool, replace(profile, syscalls=groups, digest="no sockets"))
    assert found["pair"] == 0
    assert all(found[what] for what in ("inet", "unix", "netlink", "vsock"))


@pytest.mark.skipif(ARM, reason="int 0x80 is an entry of x86")
async def test_a_32_bit_entry_kills_the_process(pool: Pool, profile: Profile) -> None:
    # mov eax, 20 (getpid); int 0x80; ret
    script = (
        "import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex('b814000000cd80c3'));"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))(); print('alive')"
    )
    pool.open_room("room", profile, None)
    async with pool.worker("room", Access.NONE) as worker:
        await run(worker, f'python3 -c "{script}"; echo $?')
        assert os.read(worker.stdout, 4096) == b"159\n"  # 128 + SIGSYS


def test_the_groups_are_those_that_profiles_may_name() -> None:
    assert tuple(GROUPS) == SYSCALL_GROUPS


def test_no_call_is_in_a_group_and_refused_but_for_those_that_a_group_opens() -> None:
    allowed = {call for calls in GROUPS.values() for call in calls}
    opened = {"socket", "bind", "connect", "listen", "accept", "accept4", "ptrace"}
    assert allowed & set(REFUSED) == opened
    assert "clone3" in ABSENT


def test_a_program_is_whole_instructions_and_within_what_the_kernel_takes(tmp_path: Path) -> None:
    programs = filters.compiled(SYSCALL_GROUPS)
    for program in (programs.allow, programs.arguments):
        assert len(program) % struct.calcsize("HBBI") == 0
        assert 0 < len(program) // 8 <= 4096  # BPF_MAXINSNS
