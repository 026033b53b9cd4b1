"""Where custom tools come from: files of the configured directories, modules of installed distributions. Read, never
imported.

Which files count, trust.py says.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from stockade_daemon import trust
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.values import Code, Module

GROUP: Final = "stockade.tools"  # the group of entry points
MAX_BYTES: Final = 1024 * 1024  # of one file
_MAX_PACKAGE: Final = 4 * 1024 * 1024  # of a distribution's modules together
_MAX_MODULES: Final = 500
_STEM: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\Z", re.ASCII)
_SUFFIXES: Final = (".py", ".toml")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may hold tools, and what it looked like: another signature means that it has to be read again."""

    origin: str
    stem: str
    suffix: str
    signature: tuple[object, ...]


def misnamed(name: str) -> str:
    """Why a file of this name holds no tools, and the name that it could have; empty where it may hold some."""
    path = Path(name)
    if path.suffix in _SUFFIXES and _STEM.match(path.stem):
        return ""
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        return "a tool file's name ends in .py or .toml; rename it, if it is one"
    stem = re.sub(r"[^a-z0-9]+", "_", path.stem.lower()).lstrip("_0123456789")[:64].rstrip("_")
    proposal = f", for example to {stem}{suffix}" if stem else ""
    return (
        "a tool file's name is of a-z 0-9 _, begins with a letter, has at most 64 characters and then .py or .toml, "
        f"since its tools are named after it; rename it{proposal}"
    )


def candidates(directory: Path) -> list[Candidate]:
    """The files of `directory` that may hold tools, by name. One that does not exist, or not yet, has none.

    Raises OSError where it is there and cannot be listed, which says nothing about its files.

    Left alone: names that begin with a dot or an underscore, and those with another ending than .py and .toml.
    """
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for name in names:
        path = directory / name
        # os.path's, which takes whatever cannot be looked at for no directory: reading it says why, of it alone.
        if name[0] in "._" or path.suffix not in _SUFFIXES or os.path.isdir(path):
            continue
        found.append(Candidate(str(path), path.stem, path.suffix, _signature(path)))
    return found


def _signature(path: Path) -> tuple[object, ...]:
    """Also of the directory: a mode that is put right there counts for the files in it."""
    result: list[object] = [os.path.realpath(path)]
    for each in (path, path.parent, Path(str(result[0])).parent):
        try:
            found = each.stat()
        except OSError as error:
            result.append(error.errno)
        else:
            result += [found.st_dev, found.st_ino, found.st_uid, found.st_mode]
            result += [found.st_mtime_ns, found.st_ctime_ns, found.st_size] if each is path else []
    return tuple(result)


def read(candidate: Candidate, directory: Path) -> bytes:
    """The bytes of a file that may be trusted. Raises ConfigurationError `FILE:1: …` with what to do."""
    origin = candidate.origin
    if reason := misnamed(candidate.stem + candidate.suffix):
        raise ConfigurationError(f"{origin}:1: {reason}")
    try:
        text = trust.content(Path(origin), directory, MAX_BYTES + 1)
    except trust.Untrusted as fault:
        raise ConfigurationError(f"{origin}:1: {_untrusted(fault, directory)}") from None
    except OSError as error:
        raise ConfigurationError(
            f"{origin}:1: the file cannot be read: {error.strerror}; make it readable to the daemon"
        ) from error
    if len(text) > MAX_BYTES:
        raise ConfigurationError(f"{origin}:1: the file has more than {MAX_BYTES} bytes; shorten it")
    return text


def insist(origin: str, path: str, found: os.stat_result) -> None:
    """Refuses a tool file, or a directory that leads to it, that somebody else could change: ConfigurationError."""
    stranger = trust.stranger(found)
    if stranger is not None:
        fault = trust.Untrusted(stranger, Path(path), found)
        raise ConfigurationError(f"{origin}:1: {_untrusted(fault, Path(path).parent)}")


def _untrusted(fault: trust.Untrusted, directory: Path) -> str:
    path, found = fault.place, fault.found
    match fault.reason:
        case "leads out":
            return f"it is a link that leads out of {directory}, to {path}; put the file itself here"
        case "no file":
            return "this is not a regular file; put the tool's text here"
        case "names":
            return (
                f"the file has {found.st_nlink} names (hard links), and by another one it could be "
                "written from a workspace; put a copy here"
            )
        case "owner":
            ours = " or ".join(f"uid {uid}" for uid in sorted({0, os.geteuid()}))
            return (
                f"{path} belongs to uid {found.st_uid}, who could put anything there; it must belong to {ours}: "
                f"chown {os.geteuid()} {path}"
            )
        case "writers":
            bits = ((stat.S_IWGRP, "its group"), (stat.S_IWOTH, "others"))
            whom = " and ".join(who for bit, who in bits if found.st_mode & bit)
            return (
                f"{path} is writable for {whom} (mode {stat.S_IMODE(found.st_mode):04o}), who could put anything "
                f"there: chmod go-w {path}"
            )


def single(text: bytes, *, origin: str, stem: str) -> Code:
    """The sources that one Python file is."""
    # A name that no module of the standard library has: a tool may be called json.
    return _code(origin, stem, f"tool_{stem}", [Module(f"tool_{stem}", False, text)])


def installed(name: str) -> Code:
    """The sources of an entry point `name` of the group stockade.tools: all Python modules of its package.

    Raises ConfigurationError: no such entry point, two of them, a package that cannot be read.
    """
    points = list(metadata.entry_points(group=GROUP, name=name))
    if not points:
        known = sorted(each.name for each in metadata.entry_points(group=GROUP))
        raise ConfigurationError(
            f"no installed distribution has an entry point {name!r} in {GROUP}; there are: "
            f"{', '.join(known) or 'none'}. Install it where the daemon runs, or take it out of [tools] packages"
        )
    point = points[0]
    if len(points) > 1:
        raise ConfigurationError(f"{len(points)} installed distributions have an entry point {name!r}; uninstall one")
    if point.dist is None:
        raise ConfigurationError(f"the entry point {name!r} is of no installed distribution; install its wheel")
    origin = f"{point.dist.name} {point.dist.version} ({point.value})"
    top = point.module.partition(".")[0]
    modules = []
    total = 0
    for file in point.dist.files or ():
        parts = file.parts
        if file.suffix != ".py" or (parts[0] != top and str(file) != f"{top}.py") or ".." in parts:
            continue
        path = Path(str(point.dist.locate_file(file)))
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{path}:1: cannot be read: {error.strerror}; install {origin} again") from error
        total += len(text)
        names = [*parts[:-1], file.stem]
        package = names[-1] == "__init__"
        modules.append(Module(".".join(names[:-1] if package else names), package, text))
    if point.module not in {each.name for each in modules}:
        raise ConfigurationError(
            f"{origin}: its module is not among its files, as in an editable installation; install a wheel"
        )
    if total > _MAX_PACKAGE or len(modules) > _MAX_MODULES:
        raise ConfigurationError(
            f"{origin}: its package {top} has {len(modules)} modules and {total} bytes, more than the "
            f"{_MAX_MODULES} and {_MAX_PACKAGE} taken; give the tools a package of their own"
        )
    return _code(origin, name, point.module, modules)


def _code(origin: str, stem: str, entry: str, modules: Iterable[Module]) -> Code:
    ordered = tuple(sorted(modules, key=lambda each: each.name))
    hashed = hashlib.sha256()
    for each in ordered:
        hashed.update(f"{each.name}\0{len(each.text)}\0".encode() + each.text)
    return Code(origin, stem, entry, ordered, hashed.hexdigest())
