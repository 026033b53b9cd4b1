"""network.mode = "host": the host's addresses are reached, its abstract sockets are not, and `net` is not held."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Access, Profile
from stockade_worker import landlock
from tests.sandbox.test_covers import said

scoped = pytest.mark.skipif(landlock.abi() < landlock.SCOPES_ABI, reason="Landlock here has no scopes")


def on_the_host(profile: Profile) -> Profile:
    layers = tuple(name for name in profile.required_layers if name != "net")
    return replace(profile, network="host", required_layers=layers)


@contextmanager
def listening(family: int, address: object) -> Iterator[socket.socket]:
    with socket.socket(family) as end:
        end.bind(address)  # type: ignore[arg-type]
        end.listen()
        yield end


def connecting(expression: str) -> str:
    return f"python3 -c \"import socket as s; e = {expression}; print('connected')\""


@scoped
async def test_a_worker_reaches_the_hosts_loopback_and_says_that_net_is_not_held(pool: Pool, profile: Profile) -> None:
    pool.open_room("room", on_the_host(profile), None)
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as end:
        async with pool.worker("room", Access.NONE) as worker:
            layers = {layer.name: layer for layer in worker.layers}
            text = await said(worker, connecting(f"s.create_connection({end.getsockname()!r})"))
            assert text == "connected\n"
    assert not layers["net"].held
    assert "network.mode is" in layers["net"].reason
    assert layers["landlock"].held


@scoped
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
async def test_the_hosts_abstract_sockets_stay_out_of_reach(pool: Pool, profile: Profile, kind: str) -> None:
    pool.open_room("room", on_the_host(profile), None)
    name = f"stockade-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, getattr(socket, kind)) as end:
        end.bind(f"\0{name}")
        if kind == "SOCK_STREAM":
            end.listen()
        with socket.socket(socket.AF_UNIX, getattr(socket, kind)) as control:
            control.connect(f"\0{name}")  # outside it is there
        async with pool.worker("room", Access.NONE) as worker:
            text = await said(worker, connecting(f"s.socket(s.AF_UNIX, s.{kind}).connect(chr(0) + '{name}')"))
    assert "connected" not in text
    assert "Operation not permitted" in text


@scoped
async def test_nothing_of_the_hosts_network_can_be_changed(pool: Pool, profile: Profile) -> None:
    pool.open_room("room", on_the_host(profile), None)
    async with pool.worker("room", Access.NONE) as worker:
        text = await said(
            worker,
            "echo 1 > /proc/sys/net/ipv4/ip_forward; "
            + connecting("__import__('fcntl').ioctl(s.socket(), 0x8914, b'lo' + bytes(38))"),
        )
    assert "connected" not in text
    assert "Read-only file system" in text
    assert "Operation not permitted" in text or "PermissionError" in text


@scoped
async def test_names_are_looked_up_as_on_the_host(pool: Pool, profile: Profile) -> None:
    pool.open_room("room", on_the_host(profile), None)
    expected = await asyncio.to_thread(Path("/etc/resolv.conf").read_text)
    async with pool.worker("room", Access.NONE) as worker:
        assert await said(worker, "cat /etc/resolv.conf") == expected


async def test_a_profile_that_requires_net_gets_no_worker_on_the_hosts_network(pool: Pool, profile: Profile) -> None:
    pool.open_room("room", replace(profile, network="host"), None)
    with pytest.raises(SandboxFailure) as failed:
        async with pool.worker("room", Access.NONE):
            pass
    assert failed.value.code == "SANDBOX_UNAVAILABLE"


def test_without_landlocks_scope_the_hosts_network_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from stockade_worker import confinement

    monkeypatch.setattr(landlock, "abi", lambda: landlock.SCOPES_ABI - 1)
    with pytest.raises(OSError, match="needs Landlock that scopes abstract sockets"):
        confinement.restrict((), network="host")
