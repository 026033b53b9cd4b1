"""What git obeys, wherever it lies: settings and hooks of repositories, and the names that say where these are.

Writing one of them is running a program later, outside every sandbox, as soon as somebody types `git status` or a
prompt does. Three things are told apart (gitrepository-layout(5), git-worktree(1)):

* names below a directory `.git`, by patterns;
* `.git` itself as a file: it says where the repository is, and could name one that an agent has filled;
* a repository without a working tree: any directory with HEAD, objects and refs is one, whatever it is called. Its
  settings are protected, and so is the last name that would make a directory that has settings into one.

Names are compared without regard to case: where the file system does not tell `.GIT` from `.git`, neither does git.
"""

from collections.abc import Set
from typing import Final

from stockade_daemon.errors import Refusal
from stockade_daemon.gate.paths import resolve
from stockade_daemon.gate.patterns import Patterns
from stockade_daemon.gate.workspace import Workspace

# The last three hold what a rebase or a cherry-pick that is continued would run.
OBEYED: Final = ("hooks", "config", "config.worktree", "commondir", "rebase-merge", "rebase-apply", "sequencer")
ALWAYS: Final = tuple(
    f"{directory}/{name}" for directory in ("**/.git", "**/.git/worktrees/*", "**/.git/modules/**") for name in OBEYED
)
SETTINGS: Final = (b"config", b"config.worktree", b"hooks", b"commondir")
MARKS: Final = (b"HEAD", b"objects", b"refs")
NAMES: Final = frozenset(name.lower() for name in (*SETTINGS, *MARKS))
_PATTERNS: Final = Patterns(ALWAYS)


def protects(workspace: Workspace, path: bytes) -> str | None:
    """Why a file at `path`, relative to the workspace and without links, must not be written; None where it may.

    Looks at the disk only for names that a repository has. Raises Moved.
    """
    return protects_name(workspace, path) or _protects_repository(workspace, path)


def protects_name(workspace: Workspace, path: bytes) -> str | None:
    """The same by the names of the path alone, which may lead through links."""
    # From the root of the host: a workspace may lie within a repository.
    from_root = (workspace.path.encode("utf-8", "surrogateescape").strip(b"/") + b"/" + path).lower()
    pattern = _PATTERNS.match(from_root)
    if pattern is not None:
        return f"is protected by {pattern!r}, since git obeys it"
    if path.rpartition(b"/")[2].lower() == b".git":
        return "is protected: as a file it would tell git where to find a repository"
    return None


def _protects_repository(workspace: Workspace, path: bytes) -> str | None:
    for directory, name in _places(path):
        there = {each for each in (*SETTINGS, *MARKS) if _exists(workspace, directory + each)}
        with_it = there | {each for each in (*SETTINGS, *MARKS) if each.lower() == name}
        settings = with_it & set(SETTINGS)
        if settings and is_repository(with_it) and (name in SETTINGS or not is_repository(there)):
            return "is protected: its directory is, or would become, a git repository, and git obeys what it says"
    return None


def shared(path: bytes) -> list[bytes]:
    """Directories that this path could help to make a repository of: two such changes are made one after the other, or
    neither would see the other's."""
    return [directory for directory, _ in _places(path)]


def _places(path: bytes) -> list[tuple[bytes, bytes]]:
    """Each directory (with a slash behind it, or empty) in which the path has a name that a repository has too."""
    parts = path.split(b"/")
    return [
        (b"".join(each + b"/" for each in parts[:at]), part.lower())
        for at, part in enumerate(parts)
        if part.lower() in NAMES
    ]


def is_repository(names: Set[bytes]) -> bool:
    """Whether a directory with these names is one."""
    return b"HEAD" in names and (b"commondir" in names or {b"objects", b"refs"} <= names)


def _exists(workspace: Workspace, path: bytes) -> bool:
    """Whether there is such a name; a link is one wherever it leads, since git follows it out of the workspace, and
    takes one that leads nowhere for a branch without a commit."""
    try:
        with resolve(workspace, path) as place:
            return place.status is not None or place.real != path
    except Refusal:
        return True
