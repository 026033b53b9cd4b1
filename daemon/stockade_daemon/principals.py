"""Who may be known to the daemon, as stockade.toml says it: the tables [[principals]] and [identity].

A principal is known by the uid that the kernel tells, by the subject of a certificate that the daemon's authority has
signed, or by a token of which the daemon has the digest alone. Whoever is known by none of these is nobody, but for the
uids of a shared daemon: each is an agent of its own, `uid:N`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stockade_daemon.settings import (
    Check,
    Key,
    Unfit,
    absolute_path,
    flag,
    nearest,
    one_of,
    several,
    tables,
    text,
    whole,
)
from stockade_daemon.values import ITSELF, Principal, Role

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z")
_OF_A_UID: Final = re.compile(r"uid:[0-9]+\Z")
_MOST_UID: Final = 2**32 - 2
_MOST: Final = 1024
KINDS_OF_NAMES: Final = ("CN", "DNS", "URI", "EMAIL")  # of a certificate's subject


def _name(value: object) -> str:
    said = text(64)(value)
    if not _NAME.match(said) or said == ITSELF.name:
        raise Unfit(
            f"is {said!r}; it must be 1 to 64 of A-Z a-z 0-9 . _ @ - and begin with a letter or digit, and not be "
            f"{ITSELF.name!r}"
        )
    return said


def _subject(value: object) -> str:
    said = text(1024)(value)
    kind, separator, subject = said.partition("=")
    if kind not in KINDS_OF_NAMES or not separator or not subject:
        raise Unfit(
            'must be "CN=…", the common name of the subject, or "DNS=…", "URI=…" or "EMAIL=…", one of its alternative '
            "names"
        )
    return said


NAME: Final[Key[str]] = Key("name", _name, "", "", "")
_ROLES: Final[Key[tuple[Role, ...]]] = Key("roles", several(one_of(*Role), most=len(Role)), (Role.AGENT,), "", "")
_UID: Final[Key[int | None]] = Key("uid", whole(0, _MOST_UID), None, "", "")
_CERTIFICATE: Final[Key[str | None]] = Key("certificate", _subject, None, "", "")
_TOKEN: Final[Key[str | None]] = Key("token", absolute_path, None, "", "")
_WORKSPACES: Final[Key[tuple[str, ...]]] = Key("workspaces", several(absolute_path, most=1024), (), "", "")
_APPROVES: Final[Key[tuple[str, ...]]] = Key("approves", several(text(64), most=_MOST), (), "", "")
_ANSWERS: Final[Key[bool | None]] = Key("answer_own_asks", flag, None, "", "")
_TABLES: Final[Check[tuple[dict[str, Any], ...]]] = tables(
    (NAME, _ROLES, _UID, _CERTIFICATE, _TOKEN, _WORKSPACES, _APPROVES, _ANSWERS), needed=NAME, most=_MOST
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A principal of the configuration, and how it is known."""

    name: str
    roles: frozenset[Role]
    uid: int | None
    certificate: str | None  # CN=…, DNS=…, URI=… or EMAIL=…
    token: str | None  # path of a file with the token's digest
    workspaces: tuple[str, ...]
    approves: frozenset[str]
    answers_own: bool | None  # None: as [identity] has it

    def principal(self, *, answers_own: bool) -> Principal:
        """Frozen, as the stages see it. `answers_own`: of [identity]."""
        own = answers_own if self.answers_own is None else self.answers_own
        return Principal(self.name, self.roles, own, self.approves, self.uid, self.workspaces)


def _principals(value: object) -> tuple[Listed, ...]:
    found: list[Listed] = []
    faults: list[Unfit] = []
    for index, table in enumerate(_TABLES(value)):
        listed = _listed(table)
        if listed.uid is None and listed.certificate is None and listed.token is None:
            faults.append(Unfit(f"{listed.name!r} is known by nothing; give uid, certificate or token", (index,)))
        for key in (_UID, _CERTIFICATE, _TOKEN):
            if key.name in table and any(getattr(each, key.name) == table[key.name] for each in found):
                faults.append(Unfit(f"`{key.name}` is another principal's as well", (index, key.name)))
        found.append(listed)
    names = {each.name for each in found}
    for index, each in enumerate(found):
        for name in sorted(each.approves - names):
            if not _OF_A_UID.match(name):
                near = nearest(name, names)
                hint = f"did you mean {near!r}?" if near else "list it as well, or write uid:N"
                faults.append(
                    Unfit(f"`approves` names {name!r}, which no principal is called; {hint}", (index, "approves"))
                )
    if faults:
        raise Unfit(str(faults[0]), faults[0].within, faults[1:])
    return tuple(found)


def _listed(table: Mapping[str, Any]) -> Listed:
    def value(key: Key[Any]) -> Any:
        return table.get(key.name, key.default)

    return Listed(
        name=table[NAME.name],
        roles=frozenset(value(_ROLES)),
        uid=value(_UID),
        certificate=value(_CERTIFICATE),
        token=value(_TOKEN),
        workspaces=value(_WORKSPACES),
        approves=frozenset(value(_APPROVES)),
        answers_own=value(_ANSWERS),
    )


PRINCIPALS: Final[Key[tuple[Listed, ...]]] = Key(
    "principals",
    _principals,
    (),
    "tables [[principals]]",
    "Who may use this daemon, beside its own user ([Who is calling](#who-is-calling)).",
)
ANSWER_OWN_ASKS: Final[Key[bool | None]] = Key(
    "identity.answer_own_asks",
    flag,
    None,
    "true or false",
    "Whether whoever has a session may answer what is asked about it. Default: true where the daemon knows no other "
    "principal than its own user, false where it does.",
)
SHARED: Final[Key[bool]] = Key(
    "identity.shared",
    flag,
    False,
    "true or false",
    "Opens the socket of a daemon of root to every uid of the host, each of which is a principal of its own. Default: "
    "false.",
)
TOKEN_S: Final[Key[int]] = Key(
    "identity.token_s",
    whole(2, 86400),
    300,
    "whole number of seconds, 2 to 86400",
    "How long a token lives that a shared daemon gives a uid of the host. Default: 300.",
)
KEYS: Final[Sequence[Key[Any]]] = (PRINCIPALS, ANSWER_OWN_ASKS, SHARED, TOKEN_S)


def broker(socket: Path) -> Path:
    """Where a shared daemon at this socket gives tokens."""
    return socket.with_name(f"{socket.name}.token")


@dataclass(frozen=True, slots=True)
class Identity:
    """How the daemon knows who is calling."""

    listed: tuple[Listed, ...] = ()
    shared: bool = False
    token_s: int = 300
    said: bool | None = None  # answer_own_asks
    alone: bool = False  # a private daemon: it is there for one client

    @property
    def answers_own(self) -> bool:
        """Of those of whom nothing else is said."""
        return (self.alone or not (self.listed or self.shared)) if self.said is None else self.said

    def of_uid(self, uid: int, own: int) -> Principal:
        """Somebody of this host. `own`: the daemon's uid."""
        for each in self.listed:
            if each.uid == uid:
                return each.principal(answers_own=self.answers_own)
        roles = frozenset(Role) if uid == own else frozenset({Role.AGENT})
        return Principal(f"uid:{uid}", roles, self.answers_own, uid=uid)
