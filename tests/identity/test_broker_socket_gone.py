"""The broker's socket is removed, or something else gets its name, while its daemon runs."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stockade_client import NotPermitted, connect, local_token
from tests.end_to_end.stockaded import Stockaded
from tests.identity.users import FIRST, answer_of, run_as, tell_needs

WANTS = "is not this daemon's socket any more; have its admin remove what is there by now"


@pytest.fixture
def shared(stockaded: Stockaded, scratch: Path) -> Stockaded:
    """A running daemon that several users share; the fixture of all ends it."""
    for each in (scratch, stockaded.directory):
        each.chmod(0o711)
    tell_needs([stockaded.directory])
    stockaded.configuration.write_text(f"{stockaded.configuration.read_text()}[identity]\nshared = true\n")
    stockaded.start()
    return stockaded


def broker_of(daemon: Stockaded) -> Path:
    return Path(f"{daemon.socket}.token")


@contextmanager
def impostor(path: Path) -> Iterator[socket.socket]:
    """Another socket at the broker's path, which listens and says nothing."""
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o666)
        listening.listen()
        try:
            yield listening
        finally:
            path.unlink()


async def test_a_socket_that_was_removed_is_made_again_for_whoever_comes_next(shared: Stockaded) -> None:
    broker_of(shared).unlink()
    who = run_as(FIRST, shared.address, "async with connect(ADDRESS) as daemon:\n    return daemon.info.caller.name")
    assert who == f"uid:{FIRST}"
    assert answer_of(broker_of(shared))["token"]
    assert shared.log.read_text().count("was gone, and is made again") == 1
    broker_of(shared).unlink()
    async with connect(shared.address) as daemon:
        assert daemon.info.caller.name
        broker_of(shared).unlink()
        await daemon.sessions()  # with the token that it has
    assert shared.end() == 0
    assert not broker_of(shared).exists()


async def test_something_else_in_its_place_is_told_of_and_left_alone(
    shared: Stockaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(shared.address) as before:
        with impostor(broker_of(shared)), monkeypatch.context() as impatient:
            impatient.setattr(local_token, "_ANSWER_S", 0.2)  # the impostor never answers
            theirs = os.lstat(broker_of(shared)).st_ino
            for _ in range(2):
                with pytest.raises(NotPermitted, match=WANTS):
                    async with connect(shared.address):
                        pass
            assert os.lstat(broker_of(shared)).st_ino == theirs
            assert shared.log.read_text().count("is not this daemon's socket any more") == 1
            await before.sessions()  # whoever has a token goes on
        async with connect(shared.address) as daemon:  # it is made again
            await daemon.sessions()


@pytest.mark.parametrize("answer", [b'{"token": "local.00.x", "seconds": 300}\n', b"nonsense\n", b""])
async def test_what_something_else_says_in_its_place_gives_nothing(shared: Stockaded, answer: bytes) -> None:
    with impostor(broker_of(shared)) as listening:
        listening.setblocking(False)

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.send(answer)

        loop = asyncio.get_running_loop()
        loop.add_reader(listening, serve)
        try:
            with pytest.raises(NotPermitted, match=WANTS):
                async with connect(shared.address):
                    pass
        finally:
            loop.remove_reader(listening)
