"""Where the daemon listens besides its Unix socket, and with which certificates.

What would let somebody in unknown, or carry tokens over a network for all to read, is refused here, before anything
listens.
"""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stockade_daemon.errors import ConfigurationError
from stockade_daemon.principals import Identity
from stockade_daemon.settings import Key, Settings, Unfit, absolute_path, text

_ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%a-z]+)\]|([^\[\]:]+)):([0-9]{1,5})\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address and a port; 0: one that the kernel chooses."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback


def address(value: object) -> Address | None:
    """HOST:PORT; None for an empty text."""
    said = text(255)(value)
    if not said:
        return None
    found = _ADDRESS.match(said)
    if found is None or int(found[3]) > 65535:
        raise Unfit(f"is {said!r}; write HOST:PORT, such as 127.0.0.1:7443 or [::1]:7443")
    host = found[1] or found[2]
    try:
        ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise Unfit(
            f"has the host {host!r}; write the IP address to listen on, or localhost, so that nothing else decides how "
            "far it reaches"
        ) from None
    return Address("127.0.0.1" if host == "localhost" else host, int(found[3]))


LISTEN: Final[Key[Address | None]] = Key(
    "daemon.listen",
    address,
    None,
    "HOST:PORT",
    "Where to listen besides the socket ([Over the network](#over-the-network)). Default: nowhere.",
)
CERTIFICATE: Final[Key[str]] = Key(
    "tls.certificate",
    absolute_path,
    "",
    "absolute path",
    "The daemon's certificate, PEM, with those that lead to its authority. Read again when the file changes.",
)
KEY: Final[Key[str]] = Key(
    "tls.key",
    absolute_path,
    "",
    "absolute path",
    "Its private key, PEM, without a passphrase, in a file that others cannot read.",
)
CLIENT_CA: Final[Key[str]] = Key(
    "tls.client_ca",
    absolute_path,
    "",
    "absolute path",
    "Certificates of the authorities that sign those of clients, PEM. With it every client has to show one.",
)
KEYS: Final[tuple[Key[Any], ...]] = (LISTEN, CERTIFICATE, KEY, CLIENT_CA)


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: Path
    key: Path
    client_ca: Path | None  # None: clients show no certificate


@dataclass(frozen=True, slots=True)
class Listening:
    address: Address
    tls: Tls | None  # None: on loopback only, for whoever has a token


def listening(
    at: Settings,
    identity: Identity,
    *,
    listen: str | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    client_ca: Path | None = None,
) -> Listening | None:
    """As the file has it, with flags over it; None: nowhere. Raises ConfigurationError."""
    try:
        place = address(listen) if listen is not None else at[LISTEN]
    except Unfit as unfit:
        raise ConfigurationError(f"--listen {unfit}") from unfit
    chosen = {
        each.name: flag.absolute() if flag else Path(at[each]) if at[each] else None
        for each, flag in ((CERTIFICATE, certificate), (KEY, key), (CLIENT_CA, client_ca))
    }
    tls = _tls(chosen[CERTIFICATE.name], chosen[KEY.name], chosen[CLIENT_CA.name])
    if place is None:
        if tls is not None:
            raise ConfigurationError(
                "there are certificates and nowhere to listen; add --listen HOST:PORT or [daemon] listen, or take them "
                "away"
            )
        return None
    _check(place, tls, identity)
    return Listening(place, tls)


def _tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> Tls | None:
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        raise ConfigurationError(
            "TLS takes a certificate and its private key: --tls-cert and --tls-key, or [tls] certificate and key"
        )
    return Tls(certificate, key, client_ca)


def _check(place: Address, tls: Tls | None, identity: Identity) -> None:
    by_token = any(each.token for each in identity.listed)
    by_certificate = any(each.certificate for each in identity.listed)
    if tls is None and not place.is_loopback:
        raise ConfigurationError(
            f"{place}: beyond loopback there is no listening without TLS, since whoever is on the way could read "
            "tokens and files, and change calls; add --tls-cert, --tls-key and --client-ca, or listen on 127.0.0.1"
        )
    if by_certificate and (tls is None or tls.client_ca is None):
        raise ConfigurationError(
            "a principal is known by a certificate, and there is no authority to judge those of clients by; add "
            "--client-ca or [tls] client_ca"
        )
    if not by_token and not by_certificate:
        raise ConfigurationError(
            f"{place}: nobody could be known there; give a [[principals]] a token"
            + (", or a certificate" if tls is not None and tls.client_ca is not None else "")
            + " in stockade.toml"
        )
