"""Whether a client's certificate still counts, long after the handshake that showed it.

A handshake is judged once, and its connection may stand for weeks: meanwhile the certificate ends, or its authority is
taken out of the file. So each request looks again at what can change. Signatures were checked in the handshake, and do
not change; an authority is known again by its name and, where both have one, its key's identifier (RFC 5280, 4.1 and
4.2.1).
"""

import re
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_BLOCK: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_LONGEST_CHAIN: Final = 10
# Tags of DER (X.690).
_INTEGER, _OCTETS, _OID, _UTC_TIME, _TIME, _SEQUENCE = 0x02, 0x04, 0x06, 0x17, 0x18, 0x30
_VERSION, _EXTENSIONS, _KEY_ID = 0xA0, 0xA3, 0x80
_SUBJECT_KEY: Final = bytes.fromhex("551d0e")
_AUTHORITY_KEY: Final = bytes.fromhex("551d23")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a certificate says of itself."""

    whole: bytes  # DER
    subject: bytes  # a name, in DER
    issuer: bytes
    begins: float  # seconds since 1970
    ends: float
    key: bytes  # identifier of its own key; empty: it has none
    issuer_key: bytes

    def counts_at(self, now: float) -> bool:
        return self.begins <= now <= self.ends

    def is_signed_by(self, other: "Shown") -> bool:
        keys = (self.issuer_key, other.key)
        return self.issuer == other.subject and (not all(keys) or self.issuer_key == other.key)


@lru_cache(maxsize=1024)
def read(pem: bytes) -> tuple[Shown, ...]:
    """The certificates of a file, or of a handshake, in their order. Raises ValueError for what is none."""
    blocks = _BLOCK.findall(pem.decode("ascii"))
    return tuple(_shown(ssl.PEM_cert_to_DER_cert(block)) for block in blocks)


def fault(pem: bytes, chain: bytes, authorities: Sequence[Shown], now: float) -> str:
    """Why a certificate counts no more, in words; empty where it does. `chain`: what else the client has shown."""
    try:
        (leaf,), between = read(pem), read(chain)
    except ValueError:
        return "the certificate cannot be read"
    if not leaf.counts_at(now):
        ended = datetime.fromtimestamp(leaf.ends, UTC)
        return f"the certificate counts until {ended:%Y-%m-%d %H:%M:%SZ} and no longer; renew it, and connect anew"
    at = leaf
    for _ in range(_LONGEST_CHAIN):
        if any(each.whole == at.whole or at.is_signed_by(each) for each in authorities if each.counts_at(now)):
            return ""
        above = [each for each in between if at.is_signed_by(each) and each != at and each.counts_at(now)]
        if not above:
            break
        at = above[0]
    return "the authority that signed the certificate counts here no more; get a certificate of one that does"


def _shown(der: bytes) -> Shown:
    """Raises ValueError."""
    certificate = _only(der, _SEQUENCE)
    tag, signed = next(_parts(certificate))
    if tag != _SEQUENCE:
        raise ValueError("no certificate")
    parts = list(_parts(signed, whole=True))
    if parts[0][0] == _VERSION:
        parts.pop(0)
    # serialNumber, signature, issuer, validity, subject, subjectPublicKeyInfo, and what there may be besides
    if len(parts) < 6 or parts[0][0] != _INTEGER:
        raise ValueError("no certificate")
    begins, ends = (_seconds(tag, text) for tag, text in _parts(_only(parts[3][1], _SEQUENCE)))
    key = issuer_key = b""
    for tag, field in parts[6:]:
        if tag != _EXTENSIONS:
            continue
        for _, extension in _parts(_only(_only(field, _EXTENSIONS), _SEQUENCE)):
            pieces = list(_parts(extension))
            name, value = pieces[0][1], pieces[-1][1]
            if name == _SUBJECT_KEY:
                key = _only(value, _OCTETS)
            elif name == _AUTHORITY_KEY:
                issuer_key = next((each for tag, each in _parts(_only(value, _SEQUENCE)) if tag == _KEY_ID), b"")
    return Shown(der, parts[4][1], parts[2][1], begins, ends, key, issuer_key)


def _seconds(tag: int, text: bytes) -> float:
    """RFC 5280, 4.1.2.5: always in UTC, to the second."""
    said = text.decode("ascii")
    if tag == _UTC_TIME:
        said = f"{'19' if said >= '50' else '20'}{said}"
    elif tag != _TIME:
        raise ValueError("no time")
    return datetime.strptime(said, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _only(data: bytes, wanted: int) -> bytes:
    """The content of the one value that there is."""
    ((tag, content),) = _parts(data)
    if tag != wanted:
        raise ValueError(f"tag {tag:#x} where {wanted:#x} belongs")
    return content


def _parts(data: bytes, *, whole: bool = False) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each value, one after the other; `whole`: with tag and length before the content."""
    at = 0
    while at < len(data):
        if len(data) < at + 2:
            raise ValueError("cut off")
        tag, length, start = data[at], data[at + 1], at + 2
        if length & 0x80:
            more = length & 0x7F
            length = int.from_bytes(data[start : start + more], "big")
            start += more
        if start + length > len(data):
            raise ValueError("cut off")
        yield tag, data[at if whole else start : start + length]
        at = start + length
