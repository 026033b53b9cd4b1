"""Who is calling: the principal of a request, found out once, by what the transport and its metadata prove."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from stockade_daemon.errors import RequestError
from stockade_daemon.principals import Identity, broker
from stockade_daemon.rpc.broker import PREFIX, Broker, LocalTokens
from stockade_daemon.rpc.certificates import Certificates
from stockade_daemon.rpc.tokens import TokenFiles
from stockade_daemon.values import Principal

_HEADER: Final = "authorization"
_SCHEME: Final = "bearer "
_LONGEST: Final = 512  # characters of a token
# What grpc calls the names of a client's certificate.
_PROPERTIES: Final = {"CN": "x509_common_name", "DNS": "peer_dns", "URI": "peer_uri", "EMAIL": "peer_email"}


class Callers:
    """The principals of this daemon."""

    def __init__(self, identity: Identity, tokens: TokenFiles, socket: Path) -> None:
        """`socket`: the path that is told to those who want a token."""
        self._identity = identity
        self._tokens = tokens
        self._socket = socket
        self.certificates: Certificates | None = None  # of the address that listens with TLS, once there is one
        self.local = LocalTokens(identity.token_s)
        self.broker: Broker | None = None  # who gives them, once there is one
        self.shared = identity.shared
        self.owner = identity.of_uid(os.geteuid(), os.geteuid())

    def of(self, context: Any) -> Principal:
        """The principal of a request, from its grpc.aio.ServicerContext. Raises RequestError UNAUTHENTICATED."""
        token = _token(context)
        local = str(context.peer()).startswith("unix:")
        if not local and self.certificates is not None:
            fault = self.certificates.fault(context.auth_context())
            if fault:
                raise _unknown(fault)
        if local and token.startswith(PREFIX):
            uid = self.local.of(token)
            if uid is None:
                raise _unknown(f"the token has ended; {self._broker()}")
            return self._identity.of_uid(uid, os.geteuid())
        if token:
            listed = self._tokens.of(token.encode())
            if listed is None:
                raise _unknown("the token is not, or no longer, one of this daemon's; get a new one")
            return listed.principal(answers_own=self._identity.answers_own)
        if not local:
            return self._by_certificate(context)
        if self.shared:
            raise _unknown(f"this daemon serves several users and wants a token; {self._broker()}")
        # The socket's directory is open to the daemon's own user alone.
        return self.owner

    def still(self, context: Any, principal: Principal) -> None:
        """Of a stream that goes on: raises RequestError UNAUTHENTICATED where whoever began it is not known as that any
        more. A token of the broker's stands for a user of this host, who is that as long as the connection is."""
        if str(context.peer()).startswith("unix:") and _token(context).startswith(PREFIX):
            return
        if self.of(context) != principal:
            raise _unknown("the token, or the certificate, stands for somebody else by now; begin anew")

    def _by_certificate(self, context: Any) -> Principal:
        names = _names(context.auth_context())
        found = [each for each in self._identity.listed if each.certificate in names]
        if len(found) == 1:
            return found[0].principal(answers_own=self._identity.answers_own)
        if found:
            raise _unknown(
                f"the certificate stands for several principals, {', '.join(each.name for each in found)}; use one "
                "that stands for one of them"
            )
        if names:
            raise _unknown(
                f"no principal has the certificate of {', '.join(sorted(names))}; have the admin list one of these, or "
                "send a token"
            )
        raise _unknown("nobody is known here without a token; send the one that the admin gave you")

    def _broker(self) -> str:
        fault = self.broker.fault() if self.broker is not None else ""
        if fault:
            return f"{fault}, or send one that the admin gave you"
        return f"connect to {broker(self._socket)}, which sends one, or send the one that its admin gave you"


def _names(proven: Mapping[str, Sequence[bytes]]) -> set[str]:
    """The names of a certificate whose authority grpc has checked, as [[principals]] spells them."""
    return {
        f"{kind}={name.decode('utf-8', 'replace')}"
        for kind, property in _PROPERTIES.items()
        for name in proven.get(property, ())
    }


def _token(context: Any) -> str:
    """The bearer token in the metadata; empty: none. Raises RequestError UNAUTHENTICATED."""
    found = [value for key, value in context.invocation_metadata() or () if key == _HEADER]
    if not found:
        return ""
    if len(found) > 1 or not isinstance(found[0], str) or not found[0].lower().startswith(_SCHEME):
        raise _unknown("`authorization` is not of the form `Bearer TOKEN`, once")
    token = found[0][len(_SCHEME) :].strip()
    if not 0 < len(token) <= _LONGEST:
        raise _unknown(f"the token is empty, or longer than {_LONGEST} characters")
    return token


def _unknown(reason: str) -> RequestError:
    return RequestError("UNAUTHENTICATED", reason)
