"""TLS: whose certificate counts, whose does not, and files that change while the daemon runs."""

import asyncio
import dataclasses
import datetime
import functools
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from stockade_client import NoDaemon, NotPermitted, Session, Tls, connect
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.listening import Tls as Files
from stockade_daemon.rpc import standing
from stockade_daemon.rpc.certificates import Certificates
from stockade_daemon.rpc.tokens import make
from tests.end_to_end.stockaded import COMMAND_S, Stockaded
from tests.identity.workload import of_uri

_PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_CONFIGURATION = """
[daemon]
workspaces = ["{scratch}"]
[[principals]]
name = "ann"
certificate = "CN=ann"
workspaces = ["{workspace}"]
[[principals]]
name = "ben"
certificate = "URI=spiffe://example.org/ben"
roles = ["approver"]
[[principals]]
name = "cid"
certificate = "EMAIL=two@example.org"
[[principals]]
name = "dan"
certificate = "CN=two"
[[principals]]
name = "eve"
token = "{token}"
"""


@dataclass
class Place:
    """A directory with the certificates of a daemon that listens on loopback, and of its clients."""

    path: Path
    ca: trustme.CA = field(default_factory=trustme.CA)

    @property
    def files(self) -> Files:
        return Files(self.path / "daemon.pem", self.path / "daemon.key", self.path / "clients.pem")

    def put(self) -> None:
        """The daemon's certificate; the authority of clients is the same."""
        mine = self.ca.issue_cert("127.0.0.1")
        key = self.path / "fresh.key"
        mine.private_key_pem.write_to_path(str(key))
        key.chmod(0o600)
        key.rename(self.files.key)
        self.files.certificate.write_bytes(_chain(mine))
        self.ca.cert_pem.write_to_path(str(self.path / "clients.pem"))

    def client(self, mine: trustme.LeafCert | None, *, trusting: trustme.CA | None = None) -> Tls:
        (trusting or self.ca).cert_pem.write_to_path(str(self.path / "trusted.pem"))
        if mine is None:
            return Tls(self.path / "trusted.pem")
        mine.private_key_pem.write_to_path(str(self.path / "client.key"))
        (self.path / "client.pem").write_bytes(_chain(mine))
        return Tls(self.path / "trusted.pem", self.path / "client.pem", self.path / "client.key")


def _chain(mine: trustme.LeafCert) -> bytes:
    return b"".join(each.bytes() for each in mine.cert_chain_pems)


@pytest.fixture
def place(directory: Path) -> Place:
    found = Place(directory / "tls")
    found.path.mkdir(mode=0o700)
    found.put()
    return found


@dataclass(frozen=True)
class Serving:
    address: str
    token: str
    workspace: Path
    log: Path


@pytest.fixture
def serving(stockaded: Stockaded, place: Place, scratch: Path) -> Iterator[Serving]:
    token, workspace = stockaded.directory / "token", stockaded.directory / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\n")
    made = make(token)
    stockaded.configuration.write_text(_CONFIGURATION.format(scratch=scratch, workspace=workspace, token=token))
    files = place.files
    command = [
        *stockaded.command,
        *("--listen", "127.0.0.1:0", "--tls-cert", str(files.certificate), "--tls-key", str(files.key)),
        *("--client-ca", str(files.client_ca)),
    ]
    with stockaded.log.open("ab") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        word, unix, address = process.stdout.readline().split()
        assert (word, unix) == ("ready", stockaded.address)
        assert address.startswith("tls:127.0.0.1:")
        yield Serving(address, made, workspace, stockaded.log)
    finally:
        process.terminate()
        assert process.wait(COMMAND_S) == 0
        assert process.stdout is not None
        process.stdout.close()


async def test_a_certificate_says_who_is_calling(serving: Serving, place: Place) -> None:
    anns = place.client(place.ca.issue_cert("ann@example.org", common_name="ann"))
    async with connect(serving.address, tls=anns) as ann:
        assert (ann.info.caller.name, ann.info.caller.roles) == ("ann", ("agent",))
        # A token says more than the certificate that the connection was made with.
        async with connect(serving.address, serving.token, tls=anns) as eve:
            assert eve.info.caller.name == "eve"
            assert await eve.sessions() == []
        async with ann.session(serving.workspace, "dev", id="s") as session:
            assert (await session.call("read", path="a.txt")).ok
            async with session.events() as events:
                assert {event.principal async for event in events} == {"ann"}
            bens = place.client(of_uri(place.ca, "spiffe://example.org/ben"))
            async with connect(serving.address, tls=bens) as ben:
                assert ben.info.caller.name == "ben"
                assert [each.principal for each in await ben.sessions()] == ["ann"]
                with pytest.raises(NotPermitted):
                    await ben.close_session("s")


async def test_a_certificate_of_nobody_or_of_two_is_refused_with_what_to_do(serving: Serving, place: Place) -> None:
    for certificate, said in (
        (
            place.ca.issue_cert("fay@example.org", common_name="fay"),
            "no principal has the certificate of CN=fay, EM",
        ),
        # A name counts as what it is: a host of that name is not somebody of that common name.
        (place.ca.issue_cert("ann", common_name="x"), "no principal has the certificate of CN=x, DNS=ann; have the"),
        (place.ca.issue_cert("two@example.org", common_name="two"), "stands for several principals, cid, dan"),
    ):
        with pytest.raises(NotPermitted, match=said):
            async with connect(serving.address, tls=place.client(certificate)):
                pass
    anns = place.client(place.ca.issue_cert("ann@example.org", common_name="ann"))
    with pytest.raises(NotPermitted, match="the token is not, or no longer"):
        async with connect(serving.address, "local.0.x", tls=anns):
            pass


@pytest.mark.parametrize("which", ["expired", "foreign", "none"])
async def test_the_handshake_refuses_a_certificate_that_is(which: str, serving: Serving, place: Place) -> None:
    shown = None
    if which == "expired":
        a_day = datetime.timedelta(days=1)
        shown = place.ca.issue_cert("a@x.org", common_name="ann", not_before=_PAST, not_after=_PAST + a_day)
    elif which == "foreign":
        shown = trustme.CA().issue_cert("a@x.org", common_name="ann")
    with pytest.raises(NoDaemon, match="it refuses what this client shows"):
        async with connect(serving.address, serving.token, tls=place.client(shown)):
            pass


async def test_a_client_trusts_no_daemon_of_another_authority_or_name(serving: Serving, place: Place) -> None:
    mine = place.ca.issue_cert("ann@example.org", common_name="ann")
    named = serving.address.replace("127.0.0.1", "localhost")
    for address, trusting in ((serving.address, trustme.CA()), (named, None)):
        with pytest.raises(NoDaemon, match="its certificate is not one to trust"):
            async with connect(address, tls=place.client(mine, trusting=trusting)):
                pass


async def test_files_that_change_count_at_once_and_broken_ones_do_not(serving: Serving, place: Place) -> None:
    before = place.client(place.ca.issue_cert("ann@example.org", common_name="ann"))
    async with connect(serving.address, tls=before) as ann:
        place.files.certificate.write_text("-----BEGIN nothing\n")
        for _ in range(2):
            async with connect(serving.address, tls=before) as again:
                assert again.info.caller.name == "ann"
        assert serving.log.read_text().count("The certificates of before stay in use") == 1
        assert f"{place.files.certificate}:1:1: is no certificate of the key" in serving.log.read_text()
        # Another authority for both sides: what the old one signed is refused.
        old, place.ca = place.ca, trustme.CA()
        place.put()
        olds = place.client(old.issue_cert("ann@example.org", common_name="ann"))
        with pytest.raises(NoDaemon):
            async with connect(serving.address, tls=olds):
                pass
        news = place.client(place.ca.issue_cert("ann@example.org", common_name="ann"))
        async with connect(serving.address, tls=news) as again:
            assert again.info.caller.name == "ann"
        # The connection that stands was made with what the old one signed.
        with pytest.raises(NotPermitted, match="the authority that signed the certificate counts here no more"):
            await ann.sessions()


async def test_a_connection_that_stands_ends_with_its_certificate(serving: Serving, place: Place) -> None:
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=8)
    brief = place.client(place.ca.issue_cert("ann@example.org", common_name="ann", not_after=ends))
    async with (
        connect(serving.address, tls=brief) as ann,
        connect(serving.address, serving.token, tls=brief) as eve,
        ann.session(serving.workspace, "dev", id="s") as session,
    ):
        assert (await session.call("read", path="a.txt")).ok
        with pytest.raises(NotPermitted, match=r"the certificate counts until \S+ \S+ and no longer"):
            await followed(session)  # it was let in, and ends with the certificate
        assert datetime.datetime.now(datetime.UTC) >= ends.replace(microsecond=0)
        for each in (ann, eve):  # a token is no more than the connection that it comes over
            with pytest.raises(NotPermitted, match="renew it"):
                await each.sessions()


async def followed(session: Session) -> None:
    """A stream of events to its end."""
    async with asyncio.timeout(COMMAND_S), session.events(follow=True, heartbeat_s=0.1) as events:
        async for _ in events:
            pass


def test_an_authority_is_known_by_name_and_key_and_through_what_stands_between(place: Place) -> None:
    between = place.ca.create_child_ca()
    leaf = between.issue_cert("ann@example.org", common_name="ann")
    pem, *chain = (each.bytes() for each in leaf.cert_chain_pems)
    now = time.time()

    def fault(*authorities: trustme.CA, chain: list[bytes] = chain, now: float = now) -> str:
        counting = [each for ca in authorities for each in standing.read(ca.cert_pem.bytes())]
        return standing.fault(pem, b"".join(chain), counting, now)

    assert fault(place.ca) == fault(trustme.CA(), between, chain=[]) == ""
    assert "counts here no more" in fault(place.ca, chain=[])
    assert "counts here no more" in fault(trustme.CA())
    assert "counts here no more" in fault()
    (shown,) = standing.read(pem)
    assert "and no longer" in fault(place.ca, now=shown.ends + 1)
    assert "and no longer" in fault(place.ca, now=shown.begins - 1)
    assert standing.fault(pem[:-40], b"", [], now) == "the certificate cannot be read"
    (above,) = standing.read(between.cert_pem.bytes())
    assert shown.is_signed_by(above)
    assert not shown.is_signed_by(dataclasses.replace(above, key=b"another"))
    assert standing.fault(pem, b"", [above], above.ends + 1) != ""


@given(st.binary(max_size=300), st.integers(0, 600))
def test_bytes_that_are_no_certificate_are_refused_and_nothing_else_happens(tail: bytes, cut: int) -> None:
    good = ssl.PEM_cert_to_DER_cert(trustme_pem())
    try:
        standing._shown(good[:cut] + tail)
    except ValueError:
        pass
    else:
        assert good[:cut] + tail == good


@functools.cache
def trustme_pem() -> str:
    return trustme.CA().cert_pem.bytes().decode()


async def test_a_command_takes_its_certificates_from_files(serving: Serving, place: Place) -> None:
    mine = place.client(place.ca.issue_cert("ann@example.org", common_name="ann"))
    environment = {
        "STOCKADE_ADDRESS": serving.address,
        "STOCKADE_TLS_CA": str(mine.ca),
        "STOCKADE_TLS_CERTIFICATE": str(mine.certificate),
        "STOCKADE_TLS_KEY": str(mine.key),
    }

    async def said() -> tuple[int | None, str, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "stockade_client", "exec", "--profile", "ci", "--", "echo", "there"),
            cwd=serving.workspace,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, error = await process.communicate()
        return process.returncode, out.decode(), error.decode()

    assert await said() == (0, "there\n", "")
    environment["STOCKADE_TLS_KEY"] = "/nowhere"
    assert "is no certificate of the key /nowhere" in (await said())[2]
    del environment["STOCKADE_TLS_KEY"]
    assert "a certificate and its private key go together" in (await said())[2]


async def test_on_loopback_tokens_will_do_and_without_one_nobody_is_known(stockaded: Stockaded, scratch: Path) -> None:
    token = stockaded.directory / "token"
    made = make(token)
    stockaded.configuration.write_text(
        f'[daemon]\nworkspaces = ["{scratch}"]\nlisten = "127.0.0.1:0"\n'
        f'[[principals]]\nname = "eve"\ntoken = "{token}"\n'
    )
    process = await asyncio.create_subprocess_exec(
        *stockaded.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        *_, address = (await process.stdout.readline()).decode().split()
        assert address.startswith("tcp:127.0.0.1:")
        async with connect(address, made) as eve:
            assert eve.info.caller.name == "eve"
        with pytest.raises(NotPermitted, match="nobody is known here without a token"):
            async with connect(address):
                pass
    finally:
        process.terminate()
        assert await process.wait() == 0


def test_files_that_cannot_be_used_end_the_start(place: Place) -> None:
    def refused(said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            Certificates(place.files)

    Certificates(place.files)
    place.files.key.chmod(0o604)
    refused("everybody may read or write this private key: chmod 0600")
    place.files.key.unlink()
    refused("daemon.key:1:1: cannot be read: No such file or directory")
    place.put()
    trustme.CA().issue_cert("x").private_key_pem.write_to_path(str(place.files.key))
    place.files.key.chmod(0o600)
    refused("daemon.pem:1:1: is no certificate of the key")
    place.put()
    (place.path / "clients.pem").write_text("nothing")
    refused("clients.pem:1:1: holds no certificates of authorities")
