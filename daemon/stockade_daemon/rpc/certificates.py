"""The daemon's certificate and whose it takes from clients, read again whenever a file has changed.

grpc asks before each handshake, in a thread of its own; each request over a connection that stands asks whether the
certificate of its handshake still counts. A file that has become unusable changes nothing: the last good ones stay in
use, and the log says so once.
"""

import logging
import os
import ssl
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc

from stockade_daemon.errors import ConfigurationError
from stockade_daemon.listening import Tls
from stockade_daemon.rpc import standing

_log = logging.getLogger(__name__)
_MOST: Final = 1024 * 1024  # bytes of a file

_Signature: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Loaded:
    for_grpc: Any
    authorities: tuple[standing.Shown, ...]  # of clients


class Certificates:
    """Those of one address."""

    def __init__(self, tls: Tls) -> None:
        """Raises ConfigurationError where they cannot be used."""
        self._tls = tls
        self._lock = threading.Lock()
        self._seen = self._signature()
        self._initial = self._latest = self._told = _loaded(tls)

    def credentials(self) -> Any:
        """For grpc's server."""
        return grpc.dynamic_ssl_server_credentials(
            self._initial.for_grpc, self._changed, require_client_authentication=self._tls.client_ca is not None
        )

    def fault(self, proven: Mapping[str, Sequence[bytes]]) -> str:
        """Why the certificate of a connection, `proven` in its handshake, counts no more; empty where it does, or none
        is wanted."""
        if self._tls.client_ca is None:
            return ""
        pem, chain = (b"".join(proven.get(name, ())) for name in ("x509_pem_cert", "x509_pem_cert_chain"))
        with self._lock:
            self._look()
            authorities = self._latest.authorities
        return standing.fault(pem, chain, authorities, time.time())

    def _changed(self) -> Any:
        """What to use from now on; None: as before."""
        with self._lock:
            self._look()
            if self._told is self._latest:
                return None
            self._told = self._latest
            return self._latest.for_grpc

    def _look(self) -> None:
        signature = self._signature()
        if signature == self._seen:
            return
        self._seen = signature
        try:
            self._latest = _loaded(self._tls)
        except ConfigurationError as error:
            _log.error("%s. The certificates of before stay in use", error)
        else:
            _log.info("%s: the certificates are other ones now", self._tls.certificate)

    def _signature(self) -> _Signature:
        return tuple(_signature(path) for path in (self._tls.certificate, self._tls.key, self._tls.client_ca) if path)


def _signature(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _loaded(tls: Tls) -> _Loaded:
    """Raises ConfigurationError."""
    key = _content(tls.key, secret=True)
    certificate = _content(tls.certificate)
    authorities = _content(tls.client_ca) if tls.client_ca is not None else None
    try:
        # That they fit each other; a passphrase would be asked for at a terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigurationError(
            f"{tls.certificate}:1:1: is no certificate of the key {tls.key} ({error}); give both in PEM, the key "
            "without a passphrase"
        ) from error
    if (key, certificate) != (_content(tls.key, secret=True), _content(tls.certificate)):
        raise ConfigurationError(f"{tls.certificate}:1:1: is being replaced; it is read again with the next connection")
    shown: tuple[standing.Shown, ...] = ()
    if authorities is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=authorities.decode("ascii"))
            shown = standing.read(authorities)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"{tls.client_ca}:1:1: holds no certificates of authorities ({error}); give them in PEM"
            ) from error
    return _Loaded(
        grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authorities), shown
    )


def _content(path: Path, *, secret: bool = False) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ConfigurationError(f"{path}:1:1: is no file; give one in PEM")
            if secret and found.st_mode & (stat.S_IROTH | stat.S_IWOTH):
                raise ConfigurationError(f"{path}:1:1: everybody may read or write this private key: chmod 0600 {path}")
            return file.read(_MOST)
    except OSError as error:
        raise ConfigurationError(f"{path}:1:1: cannot be read: {error.strerror}; give an existing file") from error
