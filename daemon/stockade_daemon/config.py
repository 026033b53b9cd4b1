"""The daemon's own settings: `stockade.toml`, flags over it, defaults beneath it.

Defaults depend on who starts the daemon. Directories named by the environment are believed only where they
belong to the caller: `HOME` and `XDG_RUNTIME_DIR` often survive a change of user, and then they mislead.
"""

import contextlib
import os
import pwd
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from stockade_daemon import listening, principals, settings, toml_text
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.listening import Listening
from stockade_daemon.principals import Identity
from stockade_daemon.settings import Key, absolute_path, one_of, several, text, whole
from stockade_daemon.values import Durability

SOCKET_BYTES: Final = 107  # sun_path of unix(7) holds 108 with the closing NUL

SOCKET: Final[Key[str]] = Key(
    "daemon.socket",
    absolute_path,
    "",
    "absolute path, at most 107 bytes",
    "The Unix socket; its directory is made with mode 0700. Default: /run/stockade/daemon.sock for root, "
    "else $XDG_RUNTIME_DIR/stockade/daemon.sock, else /tmp/stockade-UID/daemon.sock.",
)
STATE: Final[Key[str]] = Key(
    "daemon.state",
    absolute_path,
    "",
    "absolute path",
    "Directory of the ledger. Default: /var/lib/stockade for root, else $XDG_STATE_HOME/stockade or "
    "~/.local/state/stockade.",
)
WORKSPACES: Final[Key[tuple[str, ...]]] = Key(
    "daemon.workspaces",
    several(absolute_path, most=1024),
    (),
    "array of absolute paths",
    "Directories at or below which a shared daemon of root opens sessions. Other daemons open what their uid owns.",
)
PROFILES: Final[Key[tuple[str, ...]]] = Key(
    "profiles.paths",
    several(absolute_path, most=64),
    (),
    "array of absolute paths",
    "Directories of profiles of your own. An edit of a profile is in force for the next call (docs/profiles.md); a "
    "shipped profile's name is refused. Directory and files belong to the daemon's user or root, and nobody else may "
    "write them.",
)

TOOLS: Final[Key[tuple[str, ...]]] = Key(
    "tools.paths",
    several(absolute_path, most=16),
    (),
    "array of absolute paths",
    "Directories of tools of your own (docs/tools.md). They are watched; one that does not exist yet counts when it "
    "does.",
)
PACKAGES: Final[Key[tuple[str, ...]]] = Key(
    "tools.packages",
    several(text(64), most=64),
    (),
    "array of names",
    "Entry points of the group stockade.tools whose tools are taken, of distributions installed with the daemon. "
    "Looked up at its start.",
)

PLUGINS: Final[Key[tuple[str, ...]]] = Key(
    "plugins.enabled",
    several(text(64), most=64),
    (),
    "array of names",
    "Entry points of the group stockade.plugins that run inside the daemon, with its rights (docs/plugins.md). Loaded "
    "at its start in this order; it does not start without one of them.",
)

_PROCESS: Final[Durability] = "process"
_POWER: Final[Durability] = "power"

DURABILITY: Final[Key[Durability]] = Key(
    "ledger.durability",
    one_of(_PROCESS, _POWER),
    _PROCESS,
    '"process" or "power"',
    "What is recorded when a request is answered survives a kill of the daemon, or a power cut too, at the price of a "
    'sync of the disk for each. Default: "process".',
)
KEEP_DAYS: Final[Key[int]] = Key(
    "ledger.keep_days",
    whole(0, 36500),
    0,
    "whole number, 0 to 36500",
    "Closed sessions in which nothing was recorded for so many days are removed, with all that is kept of them. 0, the "
    "default: none is.",
)

KEYS: Final[tuple[Key[Any], ...]] = (
    SOCKET,
    STATE,
    WORKSPACES,
    PROFILES,
    TOOLS,
    PACKAGES,
    PLUGINS,
    DURABILITY,
    KEEP_DAYS,
    *listening.KEYS,
    *principals.KEYS,
)


@dataclass(frozen=True, slots=True)
class Config:
    """What the daemon runs with."""

    socket: Path
    state: Path
    workspaces: tuple[Path, ...]  # empty: a shared daemon of root opens none
    profile_directories: tuple[Path, ...]  # of the admin; the shipped ones come first and are not named here
    tool_directories: tuple[Path, ...]
    tool_packages: tuple[str, ...]  # names of entry points
    durability: Durability
    keep_days: int  # 0: for ever
    plugins: tuple[str, ...] = ()  # the same, of what runs inside the daemon
    identity: Identity = field(default_factory=Identity)
    listening: Listening | None = None  # besides the socket


def load(
    path: Path | None = None,
    *,
    socket: Path | None = None,
    state: Path | None = None,
    listen: str | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    client_ca: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Config:
    """The settings of the file `path` (none: defaults) with flags over them; relative flags become absolute.

    Raises ConfigurationError: a faulty file, a socket path that is too long, no directory to keep state in, an address
    at which nobody could be known, or that would need TLS.
    """
    document = toml_text.parse(_contents(path), source=str(path)) if path else _EMPTY
    at = settings.read(document, KEYS)
    chosen_socket = socket.absolute() if socket else Path(at[SOCKET]) if at[SOCKET] else default_socket(environ)
    chosen_state = state.absolute() if state else Path(at[STATE]) if at[STATE] else default_state(environ)
    identity = _identity(at)
    longest = principals.broker(chosen_socket) if identity.shared else chosen_socket
    length = len(os.fsencode(longest))
    if length > SOCKET_BYTES:
        reason = (
            f"the socket path {longest} has {length} bytes, and the kernel takes {SOCKET_BYTES}; "
            "choose a shorter one with --socket or [daemon] socket"
        )
        if socket is None and at[SOCKET]:
            document.refuse(SOCKET.way, reason)
        raise ConfigurationError(reason)
    return Config(
        socket=chosen_socket,
        state=chosen_state,
        workspaces=tuple(Path(each) for each in at[WORKSPACES]),
        profile_directories=tuple(Path(each) for each in at[PROFILES]),
        tool_directories=tuple(Path(each) for each in at[TOOLS]),
        tool_packages=at[PACKAGES],
        plugins=at[PLUGINS],
        durability=at[DURABILITY],
        keep_days=at[KEEP_DAYS],
        identity=identity,
        listening=listening.listening(
            at, identity, listen=listen, certificate=certificate, key=key, client_ca=client_ca
        ),
    )


def _identity(at: settings.Settings) -> Identity:
    """Raises ConfigurationError."""
    listed, shared, answers = at[principals.PRINCIPALS], at[principals.SHARED], at[principals.ANSWER_OWN_ASKS]
    if shared and os.geteuid() != 0:
        at.document.refuse(
            principals.SHARED.way,
            "only a daemon of root is shared by several uids, since it works on the files of each; remove the line, or "
            "have root start the daemon",
        )
    return Identity(
        listed=listed,
        shared=shared,
        token_s=at[principals.TOKEN_S],
        said=answers,
    )


def default_socket(environ: Mapping[str, str] = os.environ) -> Path:
    """Where this user's daemon listens unless told otherwise.

    Raises ConfigurationError where /tmp/stockade-UID is somebody else's: anybody may make a name in /tmp.
    """
    uid = os.geteuid()
    if uid == 0:
        return Path("/run/stockade/daemon.sock")
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if _is_ours(runtime):
        return Path(runtime) / "stockade" / "daemon.sock"
    directory = Path(f"/tmp/stockade-{uid}")  # noqa: S108 - checked here, and made with 0700
    try:
        found = os.lstat(directory)
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or stat.S_IMODE(found.st_mode) != 0o700:
            raise ConfigurationError(
                f"{directory} is not a directory of uid {uid} with mode 0700, so a socket in it could be "
                "somebody else's; choose another place with --socket"
            )
    return directory / "daemon.sock"


def default_state(environ: Mapping[str, str] = os.environ) -> Path:
    """Where this user's daemon keeps its ledger unless told otherwise.

    Raises ConfigurationError where no home directory belongs to this user.
    """
    uid = os.geteuid()
    if uid == 0:
        return Path("/var/lib/stockade")
    named = environ.get("XDG_STATE_HOME", "")
    if named.startswith("/"):
        return Path(named) / "stockade"
    homes = [environ.get("HOME", "")]
    with contextlib.suppress(KeyError):  # a uid without an account: containers
        homes.append(pwd.getpwuid(uid).pw_dir)
    for home in homes:
        if _is_ours(home):
            return Path(home) / ".local" / "state" / "stockade"
    raise ConfigurationError(
        f"uid {uid} has no home directory of its own to keep the ledger in; choose a place with --state"
    )


def _is_ours(directory: str) -> bool:
    """Whether it is an existing directory of this user's, given by its absolute path."""
    if not directory.startswith("/"):
        return False
    try:
        found = os.stat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _contents(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(toml_text.MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"{path}:1:1: the configuration cannot be read: {error.strerror}; give an existing file to --config"
        ) from error


_EMPTY: Final = toml_text.parse(b"", source="defaults")
