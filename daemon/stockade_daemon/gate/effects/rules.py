"""What of a transaction somebody has to be asked about: names that are protected, and links that leave the workspace.

A new repository is let through where nothing in it makes git run anything: what `git init` and `git clone` write.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from typing import Final

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate import repositories
from stockade_daemon.gate.effects.tree import Tree
from stockade_daemon.gate.effects.values import Effect, Plan
from stockade_daemon.gate.hidden import Hidden
from stockade_daemon.gate.names import joined, told
from stockade_daemon.gate.patterns import below
from stockade_daemon.gate.protected import Protected
from stockade_daemon.gate.scratch import ScratchPaths
from stockade_daemon.gate.workspace import Workspace

_MOST: Final = 20  # reasons
_MOST_SETTINGS: Final = 64 * 1024  # bytes of a repository's settings that are looked at
_SECTION: Final = re.compile(rb'\[([a-zA-Z]+)(?: "([^"\\\n\0]*)")?\]')
_SETTING: Final = re.compile(rb"([a-zA-Z]+) ?= ?([^\\\"\n\0]*)")
_CORE: Final = (b"repositoryformatversion", b"filemode", b"bare", b"logallrefupdates", b"ignorecase", b"symlinks")
# What none of these settings does is run a program, or name a file to be read.
_HARMLESS: Final = {
    b"core": (*_CORE, b"precomposeunicode"),
    b"remote": (b"url", b"fetch", b"tagopt"),
    b"branch": (b"remote", b"merge", b"rebase"),
    b"user": (b"name", b"email"),
    b"init": (b"defaultbranch",),
    b"extensions": (b"objectformat", b"refstorage"),
}
_URL: Final = re.compile(rb"(?!ext::|fd::|-)[^\n\0]*")
_URLS: Final = (b"url", b"remote")  # a branch's remote may be a name or a URL (git-config(1))
_BLANK: Final = b" \t\v\f\r"


class Rules:
    """Of one session."""

    def __init__(self, workspace: Workspace, protected: Protected, hidden: Hidden, scratch: ScratchPaths) -> None:
        self._workspace = workspace
        self._protected = protected
        self._hidden = hidden
        self._scratch = scratch

    def reasons(self, plan: Plan, upper: Tree) -> tuple[tuple[bytes, str], ...]:
        """Path and reason, the first of them. File work.

        Raises GateRefusal FS_PROTECTED where a hidden name is among what changes, which cannot be shown to anybody, or
        a scratch path; where a directory is shut, so that no later command of the session could be shown the workspace.
        """
        self._check_modes(plan.effects)
        touched = dict.fromkeys([*(path for each in plan.effects for path in _names(each)), *plan.touched])
        for path in touched:
            if path and self._hidden.hides(path):
                raise _hidden()
            self._scratch.check_transaction(path)
        found: list[tuple[bytes, str]] = []
        harmless: dict[bytes, bool] = {}
        kinds = {each.path: each for each in plan.effects}
        for path, why in self._protected.among(touched, lambda path: self._is_directory(path, kinds)):
            repository = _repository(path)
            if repository is not None and self._is_new(repository, kinds):
                if repository not in harmless:
                    harmless[repository] = self._obeys_nothing(repository, touched, kinds, upper)
                if harmless[repository]:
                    continue
            found.append((path, why))
        found += self._shared(plan)
        for path in self._made_repositories(touched, kinds, upper):
            found.append((path, "is, or would become, a git repository with settings that git obeys"))
        links = [(each.path, each.target) for each in plan.effects if each.target is not None]
        for path, target in [*links, *self._moved_links(plan, kinds)]:
            if self._leaves(path, target):
                found.append((path, f"is a link that leaves the workspace, or may, to {told(target)}"))
        return tuple(found[:_MOST])

    def _check_modes(self, effects: Iterable[Effect]) -> None:
        """Root's daemon looks everywhere. Another one could not say what in a directory that shuts it out is hidden."""
        if os.geteuid() == 0:
            return
        for each in effects:
            if each.kind == "directory" and each.change != "deleted" and each.mode is not None:
                missing = (self._hidden.need(each.path) | self._scratch.need(each.path)) & ~each.mode
                if missing:
                    raise _shut(each)

    def _moved_links(self, plan: Plan, kinds: dict[bytes, Effect]) -> Iterator[tuple[bytes, bytes]]:
        """Path and target of links that come with a directory to another place, and did not leave from the old one."""
        with Tree(self._workspace.descriptor) as tree:
            for each in plan.effects:
                if each.source is None or each.kind != "directory":
                    continue
                for path, status in tree.below(each.source):
                    now = each.path + path[len(each.source) :]
                    if status is None or not stat.S_ISLNK(status.st_mode) or now in kinds:
                        continue
                    directory, name = tree.at(path)
                    target = os.readlink(name, dir_fd=directory)
                    if not self._leaves(path, target):
                        yield now, target

    def _shared(self, plan: Plan) -> list[tuple[bytes, str]]:
        """Files that change under a protected name as well, because they have several."""
        wanted = {identity: path for path, identity in plan.shared}
        found = []
        if wanted:
            for name, status in below(self._workspace, b""):
                path = wanted.get((status.st_dev, status.st_ino))
                if path is None or status.st_nlink < 2:
                    continue
                if self._hidden.hides(name):
                    raise _hidden()
                if self._protected.why(name) is not None:
                    found.append((path, f"is another name of {told(name)}, which is protected"))
        return found

    def _is_directory(self, path: bytes, kinds: dict[bytes, Effect]) -> bool:
        known = kinds.get(path)
        if known is not None:
            return known.kind == "directory"
        with Tree(self._workspace.descriptor) as tree:
            status = tree.status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def _is_new(self, repository: bytes, kinds: dict[bytes, Effect]) -> bool:
        """Whether the directory was made by the command, and nothing was there."""
        known = kinds.get(repository)
        return known is not None and known.change == "created" and known.kind == "directory"

    def _obeys_nothing(
        self, repository: bytes, touched: Iterable[bytes], kinds: dict[bytes, Effect], upper: Tree
    ) -> bool:
        """Whether nothing in a new directory makes git run anything; all of it has to be the command's own work."""
        for path in touched:
            if not path.startswith(repository + b"/"):
                continue
            inner = path[len(repository) + 1 :].lower()
            each = kinds.get(path)
            if each is None or each.source is not None:
                return False  # it was somewhere else before, where nobody had to be asked about it
            if self._protected.lists(path):
                return False
            if inner == b"config":
                if each.kind != "file" or not _is_harmless(upper, each):
                    return False
            elif inner.startswith(b"hooks/"):
                if each.kind != "file" or not inner.endswith(b".sample"):
                    return False
            elif (inner != b"hooks" and self._protected.why(path) is not None) or each.kind == "symlink":
                return False
        return True

    def _made_repositories(
        self, touched: dict[bytes, None], kinds: dict[bytes, Effect], upper: Tree
    ) -> Iterator[bytes]:
        """Directories that are repositories without a working tree afterwards, and whose settings are touched."""
        places: dict[bytes, set[bytes]] = {}
        for path in touched:
            for directory in repositories.shared(path):
                part = path[len(directory) :].split(b"/", 1)[0]
                places.setdefault(directory.rstrip(b"/"), set()).add(part)
        with Tree(self._workspace.descriptor) as tree:
            for directory, names in places.items():
                if directory.rpartition(b"/")[2].lower() == b".git":
                    continue  # by patterns
                marks = (*repositories.SETTINGS, *repositories.MARKS)
                there = {mark for mark in marks if tree.status(joined(directory, mark)) is not None}
                after = {
                    mark
                    for mark in marks
                    if self._is_there_after(joined(directory, mark), mark in there, touched, kinds)
                }
                settings = after & set(repositories.SETTINGS)
                if not settings or not repositories.is_repository(after):
                    continue
                if not names & settings and repositories.is_repository(there):
                    continue
                if self._is_new(directory, kinds) and self._obeys_nothing(directory, touched, kinds, upper):
                    continue
                yield directory

    def _is_there_after(
        self, path: bytes, before: bool, touched: dict[bytes, None], kinds: dict[bytes, Effect]
    ) -> bool:
        """Whether it may be: what goes or comes with a directory that moves has no effect of its own."""
        known = kinds.get(path)
        return (before or path in touched) if known is None else known.change != "deleted"

    def _leaves(self, path: bytes, target: bytes) -> bool:
        """Whether a link at `path` leads out, or may one day: `..` behind a name that is, or may become, a link leads
        wherever that does."""
        if target.startswith(b"/"):
            below = self._workspace.beneath(target)
            return below is None or b".." in below.split(b"/")
        above = path.split(b"/")[:-1]  # directories, or it would not be the link's path
        named = False
        for part in target.split(b"/"):
            if part in (b"", b"."):
                continue
            if part != b"..":
                named = True
            elif named or not above:
                return True
            else:
                above.pop()
        return False


def _hidden() -> GateRefusal:
    return GateRefusal(
        "FS_PROTECTED",
        "The command changed a directory in which the profile hides something, or made something there, so nothing of "
        "what it changed was committed. Have it work in another directory.",
    )


def _shut(effect: Effect) -> GateRefusal:
    what = told(effect.path) if effect.path else "the workspace"
    return GateRefusal(
        "FS_PROTECTED",
        f"The command left {what} with mode {effect.mode:03o}, so that the daemon could no longer find there what the "
        "profile hides or keeps apart, and every later command would fail. Nothing of what it changed was committed. "
        "Have it keep u+rx of directories.",
    )


def _names(effect: Effect) -> list[bytes]:
    return [effect.path] if effect.source is None else [effect.path, effect.source]


def _repository(path: bytes) -> bytes | None:
    """The `.git` that a path lies in."""
    parts = path.split(b"/")
    for number, part in enumerate(parts):
        if part.lower() == b".git":
            return b"/".join(parts[: number + 1])
    return None


def _is_harmless(upper: Tree, settings: Effect) -> bool:
    """Whether a repository's settings hold nothing but what is known to run nothing."""
    if settings.size > _MOST_SETTINGS or not settings.held:
        return False
    directory, name = upper.at(settings.held)
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    with open(descriptor, "rb") as file:
        text = file.read(_MOST_SETTINGS)
    allowed: tuple[bytes, ...] = ()
    for line in text.split(b"\n"):
        line = line.strip(b" \t")
        if not line or line.startswith((b"#", b";")):
            continue
        section, setting = _SECTION.fullmatch(line), _SETTING.fullmatch(line)
        if section is not None:
            allowed = _HARMLESS.get(section[1].lower(), ())
        elif (
            setting is None
            or setting[1].lower() not in allowed
            or (setting[1].lower() in _URLS and _URL.fullmatch(setting[2].strip(_BLANK)) is None)
        ):
            return False
    return True
