"""Certificates of a client: what it trusts the daemon by, and what it shows of itself."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import grpc

from stockade_client.errors import InvalidRequest

CA_VARIABLE: Final = "STOCKADE_TLS_CA"
CERTIFICATE_VARIABLE: Final = "STOCKADE_TLS_CERTIFICATE"
KEY_VARIABLE: Final = "STOCKADE_TLS_KEY"
_MOST: Final = 1024 * 1024  # bytes of a file


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files; they are read with each new connection."""

    ca: str | os.PathLike[str] | None = None  # authorities of daemons; None: those of the system
    certificate: str | os.PathLike[str] | None = None  # this client's, with those that lead to its authority
    key: str | os.PathLike[str] | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """For grpc. Raises InvalidRequest for a file that cannot be used."""
        if (self.certificate is None) != (self.key is None):
            raise InvalidRequest("a certificate and its private key go together; give both, or neither")
        if self.certificate is not None and self.key is not None:
            try:
                # grpc says nothing of what is wrong with them.
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(self.certificate, self.key, lambda: "")
            except (ssl.SSLError, OSError, ValueError) as error:
                raise InvalidRequest(
                    f"{os.fspath(self.certificate)} is no certificate of the key {os.fspath(self.key)} ({error}); give "
                    "both in PEM, the key without a passphrase"
                ) from error
        return grpc.ssl_channel_credentials(
            root_certificates=_content(self.ca),
            private_key=_content(self.key),
            certificate_chain=_content(self.certificate),
        )


def of_environment(environment: Mapping[str, str] | None = None) -> Tls:
    """As a command has it."""
    env = os.environ if environment is None else environment
    return Tls(*(env.get(name) or None for name in (CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE)))


def _content(path: str | os.PathLike[str] | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.read(_MOST)
    except OSError as error:
        raise InvalidRequest(f"{os.fspath(path)} cannot be read: {error.strerror}; give a file in PEM") from error
