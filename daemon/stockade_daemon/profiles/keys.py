"""Every key of a profile: its values, its default, its meaning.

The defaults are those of the shipped profile `strict`, so a profile that says nothing allows nothing more
than that one does. docs/profiles.md shows the same list; a test keeps them equal.
"""

import re
from typing import Any, Final

from stockade_daemon.profiles import limit_keys
from stockade_daemon.profiles.command_rule import MOST as MOST_RULES
from stockade_daemon.profiles.command_rule import RULE, command_rule
from stockade_daemon.profiles.patterns import PATTERN, workspace_pattern
from stockade_daemon.profiles.scratch import PATH as SCRATCH_PATH
from stockade_daemon.profiles.scratch import scratch
from stockade_daemon.profiles.secrets import MOST as MOST_SECRETS
from stockade_daemon.profiles.secrets import secret_file, secret_name
from stockade_daemon.profiles.shown import mount, system_path
from stockade_daemon.settings import Key, Unfit, mapping, number, one_of, several, text, whole
from stockade_daemon.values import CommandsView, Decision, Effects, Network

# Groups of system calls. No program gets far without the first six, so a profile cannot leave them out.
SYSCALL_GROUPS: Final = (
    "base",
    "files",
    "processes",
    "signals",
    "time",
    "memory",
    "ipc_local",
    "async_io",
    "sockets_local",
    "sockets_inet",
    "sysv_ipc",
    "debug",
    "scheduling",
)
WANTED_GROUPS: Final = SYSCALL_GROUPS[:6]

LAYERS: Final = (
    "user",
    "mount",
    "pid",
    "net",
    "ipc",
    "uts",
    "cgroup_ns",
    "time",
    "root",
    "proc",
    "overlay",
    "uid",
    "groups",
    "capabilities",
    "no_new_privs",
    "landlock",
    "seccomp",
    "rlimits",
    "cgroup",
)

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def profile_name(value: object) -> str:
    """A profile's name: its file's, without `.toml`."""
    if not isinstance(value, str) or not NAME.match(value):
        raise Unfit(
            'is not a profile\'s name, for example "strict": a letter or digit first, then letters, digits, . _ and -, '
            "at most 64; without .toml"
        )
    return value


def variable(value: object) -> str:
    """A name of an environment variable that every shell can spell."""
    if not isinstance(value, str) or not _VARIABLE.match(value):
        raise Unfit("is not a variable's name: a letter or _ first, then letters, digits and _")
    return value


def _groups(value: object) -> tuple[str, ...]:
    names = several(one_of(*SYSCALL_GROUPS), most=len(SYSCALL_GROUPS))(value)
    missing = [name for name in WANTED_GROUPS if name not in names]
    if missing:
        raise Unfit(f"lacks {', '.join(missing)}, without which no program runs; add them")
    return names


def _widenable(value: object) -> str:
    return one_of(*(key.name for key in KEYS if key not in (DESCRIPTION, EXTENDS, WIDEN)))(value)


_ALLOW: Final[Decision] = "allow"
_ASK: Final[Decision] = "ask"
_DENY: Final[Decision] = "deny"
_decision = one_of(_ALLOW, _ASK, _DENY)
_DECISIONS: Final = '"allow", "ask" or "deny"'

_COMMIT: Final[Effects] = "commit"
_ASKED: Final[Effects] = "ask"
_DISCARD: Final[Effects] = "discard"

DESCRIPTION = Key("description", text(400), "", "text, at most 400 characters", "One line for lists of profiles.")

EXTENDS = Key(
    "extends",
    profile_name,
    "",
    "a profile's name",
    "The profile that this one begins as and narrows; keys given here replace that one's. "
    "Without it: `strict`'s values.",
)

WIDEN: Final[Key[tuple[str, ...]]] = Key(
    "widen",
    several(_widenable, most=64),
    (),
    "array of names of keys",
    "Keys by which this profile may allow more than the one it extends; any other key that does is an error.",
)

SYSTEM: Final[Key[tuple[str, ...]]] = Key(
    "filesystem.system",
    several(system_path, most=256),
    (
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/etc/alternatives",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/localtime",
        "/etc/timezone",
        "/etc/mime.types",
        "/etc/ssl/certs",
        "/etc/ca-certificates",
    ),
    "absolute paths: /usr /bin /sbin /lib /lib32 /lib64 /libx32 /opt /nix/store /gnu/store and below, below /etc",
    "Host files and directories shown at the same place, read-only. What the host lacks is left out.",
)
MOUNTS: Final[Key[tuple[str, ...]]] = Key(
    "filesystem.mounts",
    several(mount, most=64),
    (),
    'array of {path = "/absolute/path", mode = "ro"}; not / /etc /var /tmp themselves, nothing of /proc /sys /dev /run',
    "More host files and directories shown at the same place, read-only. All of them must exist.",
)
HIDDEN: Final[Key[tuple[str, ...]]] = Key(
    "filesystem.hidden",
    several(workspace_pattern, most=256),
    (),
    f"array of {PATTERN}",
    "Names of the workspace that do not exist for a session, with all below them: no tool sees, reads or changes them.",
)
PROTECTED: Final[Key[tuple[str, ...]]] = Key(
    "filesystem.protected",
    several(workspace_pattern, most=256),
    (),
    f"array of {PATTERN}",
    "Names of the workspace that are read but never changed, with all below them: FS_PROTECTED.",
)
SCRATCH: Final[Key[tuple[str, ...]]] = Key(
    "filesystem.scratch",
    scratch,
    (),
    f"array of {SCRATCH_PATH}",
    "Directories that commands of a session share there, beside the workspace: kept from call to call, never "
    "committed, gone with the session.",
)
_OVERLAY: Final[CommandsView] = "overlay"
_READ: Final[CommandsView] = "read"
WORKSPACE = Key(
    "filesystem.workspace",
    one_of(_READ, _OVERLAY),
    _OVERLAY,
    '"overlay" or "read"',
    "What commands have of the workspace. overlay: a private view that they may write. read: the workspace as it is, "
    "read-only; a command that writes there is refused it at once.",
)
TMP_MB = Key(
    "filesystem.tmp_mb",
    whole(1, 65536),
    64,
    "MiB, 1 to 65536",
    "Size of /tmp, /var/tmp and /dev/shm together, in memory.",
)
TMP_INODES = Key(
    "filesystem.tmp_inodes", whole(64, 10_000_000), 4096, "64 to 10000000", "How many names they can hold."
)

SECRETS: Final[Key[dict[str, str]]] = Key(
    "secrets",
    mapping(secret_name, secret_file, most=MOST_SECRETS),
    {},
    'table of NAME = {file = "/absolute/path"}, at most 16; the file open to its owner alone, at most 64 KiB',
    "Secrets for bodies: each is the file /run/secrets/NAME inside, in memory, for the worker alone.",
)

_NONE: Final[Network] = "none"
_LOOPBACK: Final[Network] = "loopback"
_HOST: Final[Network] = "host"
MODE = Key(
    "network.mode",
    one_of(_NONE, _LOOPBACK, _HOST),
    _NONE,
    '"none", "loopback" or "host"',
    "none: no interface at all. loopback: 127.0.0.1 and ::1 of the call's own, reaching nobody else. "
    "host: the host's network, with all that listens on it.",
)

SYSCALLS: Final[Key[tuple[str, ...]]] = Key(
    "syscalls.groups",
    _groups,
    WANTED_GROUPS,
    f"array of {' '.join(SYSCALL_GROUPS)}; the first six always",
    "The groups of system calls that the filter lets through; every other call answers ENOSYS or EPERM.",
)

SET: Final[Key[dict[str, str]]] = Key(
    "environment.set",
    mapping(variable, text(32_768), most=256),
    {"LANG": "C.UTF-8", "TERM": "dumb"},
    "table of text, at most 256 names",
    "Variables that every body gets.",
)
PASS: Final[Key[tuple[str, ...]]] = Key(
    "environment.pass",
    several(variable, most=256),
    (),
    "array of names",
    "Variables taken over from the daemon's own environment, where they are set there.",
)

READS = Key("approval.reads", _decision, _ALLOW, _DECISIONS, "Calls that only look at files (tools of kind read).")
WRITES = Key("approval.writes", _decision, _DENY, _DECISIONS, "Changes to files through the gate (kind write).")
COMMANDS = Key("approval.commands", _decision, _ALLOW, _DECISIONS, "Running commands (kind command).")
EFFECTS = Key(
    "approval.effects",
    one_of(_COMMIT, _ASKED, _DISCARD),
    _DISCARD,
    '"commit", "ask" or "discard"',
    "What becomes of a command's changes to its private view of the workspace: committed as one, shown and committed "
    "after a yes, or listed and gone.",
)
WAIT_S = Key(
    "approval.wait_s",
    number(0, 604_800),
    0.0,
    "seconds, 0 to 604800",
    "How long an ask waits for somebody who can answer; 0: the call is refused at once when nobody is there.",
)

COMMAND_RULES: Final[Key[tuple[str, ...]]] = Key(
    "commands.allow",
    several(command_rule, most=MOST_RULES),
    (),
    f"array of {RULE}",
    'Commands of `shell` that run unasked where `approval.commands` is "ask": every simple command has a rule.',
)

REQUIRED: Final[Key[tuple[str, ...]]] = Key(
    "layers.required",
    several(one_of(*LAYERS), most=len(LAYERS)),
    (
        "user",
        "mount",
        "pid",
        "net",
        "ipc",
        "uts",
        "root",
        "capabilities",
        "no_new_privs",
        "seccomp",
        "rlimits",
    ),
    f"array of {' '.join(LAYERS)}",
    "Layers without which nothing runs: the call ends with SANDBOX_UNAVAILABLE and the reason.",
)

KEYS: Final[tuple[Key[Any], ...]] = (
    DESCRIPTION,
    EXTENDS,
    WIDEN,
    SYSTEM,
    MOUNTS,
    HIDDEN,
    PROTECTED,
    SCRATCH,
    WORKSPACE,
    TMP_MB,
    TMP_INODES,
    SECRETS,
    MODE,
    SET,
    PASS,
    *limit_keys.KEYS,
    READS,
    WRITES,
    COMMANDS,
    EFFECTS,
    WAIT_S,
    COMMAND_RULES,
    REQUIRED,
    SYSCALLS,
)
