"""Where a daemon may listen, and for whom; what is refused is refused before anything listens."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from stockade_client.addresses import Network, network
from stockade_client.errors import NoDaemon
from stockade_daemon.config import Config, load
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.listening import Address, Tls
from tests.end_to_end.stockaded import COMMAND_S, Stockaded
from tests.identity.people import People

_TOKEN = '[[principals]]\nname = "a"\ntoken = "/t"\n'
_CERTIFICATE = '[[principals]]\nname = "a"\ncertificate = "CN=a"\n'
_SERVER = '[tls]\ncertificate = "/c"\nkey = "/k"\n'
_MUTUAL = f'{_SERVER}client_ca = "/a"\n'


def _loaded(tmp_path: Path, listen: str | None, text: str) -> Config:
    file = tmp_path / "stockade.toml"
    file.write_text(text)
    return load(file, socket=tmp_path / "s", state=tmp_path / "state", listen=listen)


@pytest.mark.parametrize(
    ("listen", "text", "said"),
    [
        ("0.0.0.0:7443", _TOKEN, "0.0.0.0:7443: beyond loopback there is no listening without TLS, since whoever"),
        ("192.0.2.1:7443", _TOKEN, "beyond loopback there is no listening without TLS"),
        ("[::]:7443", _TOKEN, r"\[::\]:7443: beyond loopback"),
        ("127.0.0.1:7443", "", "nobody could be known there; give a .* a token in stockade.toml"),
        ("0.0.0.0:7443", _SERVER, "nobody could be known there; give a .* a token in stockade.toml"),
        ("0.0.0.0:7443", _MUTUAL, "give a .* a token, or a certificate in stockade.toml"),
        ("0.0.0.0:7443", _SERVER + _CERTIFICATE, "there is no authority to judge those of clients by; add --client-ca"),
        ("127.0.0.1:7443", '[tls]\ncertificate = "/c"\n' + _TOKEN, "TLS takes a certificate and its private key"),
        (None, _SERVER + _TOKEN, "there are certificates and nowhere to listen"),
        ("example.org:1", _TOKEN, "--listen has the host .* write the IP address to listen on, or localhost"),
        ("127.0.0.1", _TOKEN, "write HOST:PORT"),
        ("127.0.0.1:65536", _TOKEN, "write HOST:PORT"),
        (None, '[daemon]\nlisten = "all:1"\n', r"toml:2:1: `daemon.listen` has the host 'all'"),
    ],
)
def test_what_would_let_in_somebody_unknown_is_refused(
    tmp_path: Path, listen: str | None, text: str, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        _loaded(tmp_path, listen, text)


def test_flags_win_and_localhost_is_an_address(tmp_path: Path) -> None:
    found = _loaded(tmp_path, "localhost:1", f'[daemon]\nlisten = "[::1]:2"\n{_TOKEN}').listening
    assert found is not None
    assert (found.address, found.tls) == (Address("127.0.0.1", 1), None)
    found = _loaded(tmp_path, None, f'[daemon]\nlisten = "[2001:db8::1]:2"\n{_MUTUAL}{_CERTIFICATE}').listening
    assert found is not None
    assert str(found.address) == "[2001:db8::1]:2"
    assert found.tls == Tls(Path("/c"), Path("/k"), Path("/a"))


def test_a_daemon_that_is_refused_binds_nothing(stockaded: Stockaded, people: People) -> None:
    """Where it would bind, it would fail at the port, which is taken."""
    stockaded.configuration.write_text(f"{stockaded.configuration.read_text()}{people.toml()}")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for place, said in (
            (f"0.0.0.0:{port}", "beyond loopback there is no listening without TLS"),
            (f"127.0.0.1:{port}", f"127.0.0.1:{port}: cannot listen here"),
        ):
            done = subprocess.run(
                [*stockaded.command, "--listen", place],
                env=stockaded.environment,
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
                check=False,
            )
            assert done.returncode == 2
            assert said in done.stderr
    assert not os.path.exists(stockaded.socket)


def test_a_client_sends_no_plain_text_away_from_its_host() -> None:
    assert network("unix:/a/b") is None
    assert network("tls:example.org:7443") == Network("example.org", 7443, True)
    for local in ("tcp:localhost:1", "tcp:127.0.0.1:1", "tcp:[::1]:1"):
        found = network(local)
        assert found is not None
        assert not found.tls
    for away in ("tcp:192.0.2.1:1", "tcp:example.org:1", "tcp:[2001:db8::1]:1"):
        with pytest.raises(NoDaemon, match="leads away from this host without TLS, for all on the way to read; use"):
            network(away)
    for wrong in ("tls:", "tls:host", "tls:host:0", "tls::1", "tcp:127.0.0.1:x"):
        with pytest.raises(NoDaemon, match="not of the form"):
            network(wrong)
