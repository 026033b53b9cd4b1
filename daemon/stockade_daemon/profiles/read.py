"""From a profile's text to a frozen `Profile`, and from a name to its text.

A profile's name is its file's name without `.toml`. Names are looked up in a list of directories; a name that
stands in two of them is refused: one would silently hide the other, and the hidden one could be the stricter.
"""

import importlib.resources
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from stockade_daemon import settings, toml_text, trust
from stockade_daemon.errors import ConfigurationError, Mistake, RequestError
from stockade_daemon.profiles import chain, keys, limit_keys
from stockade_daemon.profiles.chain import File
from stockade_daemon.profiles.scratch import clash
from stockade_daemon.profiles.widening import widenings
from stockade_daemon.values import Approval, Budget, Limits, Profile

_SUFFIX: Final = ".toml"


def shipped() -> Path:
    """The directory of the profiles that come with the daemon."""
    return Path(str(importlib.resources.files("stockade_daemon"))) / "sandbox_profiles"


def available(directories: Sequence[Path]) -> list[str]:
    """The names that `load` finds, sorted. A directory that cannot be listed has none."""
    names: set[str] = set()
    for directory in directories:
        try:
            entries = os.listdir(directory)
        except OSError:
            continue
        names.update(
            entry.removesuffix(_SUFFIX)
            for entry in entries
            if entry.endswith(_SUFFIX) and keys.NAME.match(entry.removesuffix(_SUFFIX))
        )
    return sorted(names)


def misnamed(directories: Sequence[Path]) -> list[Mistake]:
    """What to say of files that are meant as profiles and have names that no profile can have, sorted. Hidden files are
    editors' own."""
    found: set[Path] = set()
    for directory in directories:
        with suppress(OSError):
            found.update(
                directory / entry
                for entry in os.listdir(directory)
                if entry.endswith(_SUFFIX) and not entry.startswith(".")
                if not keys.NAME.match(entry.removesuffix(_SUFFIX))
            )
    reason = (
        "this cannot be a profile's name; rename it: at most 64 letters, digits and `._-`, a letter or digit first, "
        f"then {_SUFFIX}"
    )
    return [Mistake(os.fsencode(path).decode("utf-8", "replace"), 1, 1, reason) for path in sorted(found)]


def load(name: str, *, directories: Sequence[Path]) -> Profile:
    """The profile of that name.

    Raises RequestError NOT_FOUND where no directory has it, ConfigurationError where the file or one that it extends is
    faulty, cannot be read, or stands in two directories.
    """
    look_up = partial(find, directories)
    return effective(chain.follow(look_up(name), look_up, found=True))


def parse(text: bytes, *, name: str, source: str, directories: Sequence[Path]) -> Profile:
    """The profile that `text` describes; what it extends is looked up in `directories`.

    Raises ConfigurationError `source:line:column: what is wrong; what is right`.
    """
    return effective(chain.follow(File(name, source, text), partial(find, directories), found=False))


def restore(text: bytes, *, name: str, source: str) -> Profile:
    """The profile whose `text` this is, with the same digest, whatever became of the files that it was read from.

    Raises ConfigurationError where this version no longer takes it.
    """
    return effective(chain.unpack(text, name=name, source=source))


def own_text(text: bytes) -> bytes:
    """Of a profile's `text` the bytes of its own file, without those that it extends and those that tighten it."""
    return next(file.text for file in chain.unpack(text, name="", source="") if not file.tightens)


def own_tightening(text: bytes) -> bytes:
    """Of a profile's `text` what narrows it, empty where nothing does."""
    first = chain.unpack(text, name="", source="")[0]
    return first.text if first.tightens else b""


def effective(files: Sequence[File]) -> Profile:
    """The profile that a chain comes to.

    Raises ConfigurationError for a file that allows more than what it extends or tightens and does not say so.
    """
    profiles = [_profile(files[start:]) for start in range(len(files))]
    for file, child, parent in zip(files, profiles, profiles[1:], strict=False):
        _refuse_widening(file, child, parent)
    if profiles[0].network == "host" and "net" in profiles[0].required_layers:
        at = chain.document(files[0]).document
        place = keys.REQUIRED.way if keys.REQUIRED.way in at.places else keys.MODE.way
        at.refuse(
            place,
            '`layers.required` has "net", which `network.mode = "host"` gives up: take it out of the list, or choose '
            "another mode",
        )
    for key, patterns in ((keys.HIDDEN, profiles[0].hidden), (keys.PROTECTED, profiles[0].protected)):
        found = clash(profiles[0].scratch, patterns)
        if found is not None:
            at = chain.document(files[0]).document
            path, pattern = found
            place = next((each for each in (keys.SCRATCH.way, key.way) if each in at.places), keys.EXTENDS.way)
            at.refuse(
                place,
                f'`filesystem.scratch` has "{path}", which `{key.name}` binds with "{pattern}"; take one of them out',
            )
    if keys.WIDEN.name in chain.document(files[-1]).values:
        chain.document(files[-1]).document.refuse(
            keys.WIDEN.way, "`widen` is of use only beside `extends`; take it out, or extend a profile"
        )
    return profiles[0]


def _refuse_widening(file: File, child: Profile, parent: Profile) -> None:
    at = chain.document(file)
    named = () if file.tightens else at[keys.WIDEN]
    found = [each for each in widenings(child, parent) if each.key not in named]
    if not found:
        return
    if file.tightens:
        remedy = f"than profile {parent.name}, and a session can only be narrower: take it out"
    else:
        remedy = "than `{base}`, which it extends: make it narrower, or say so with widen = [{keys}]".format(
            base=at[keys.EXTENDS], keys=", ".join(f'"{key}"' for key in (*named, *(each.key for each in found)))
        )
    mistakes = []
    for each in found:
        way = tuple(each.key.split("."))
        place = way if way in at.document.places else keys.EXTENDS.way
        mistakes.append(at.document.mistake(place, f"{each}; this allows more {remedy}"))
    raise ConfigurationError(*sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))


def places(directories: Sequence[Path], name: str) -> list[Path]:
    """Where a profile of that name would lie; nowhere, where it cannot be a name."""
    return [directory / (name + _SUFFIX) for directory in directories] if keys.NAME.match(name) else []


def find(directories: Sequence[Path], name: str) -> File:
    """The file of that name. Raises as `load` does for this one file."""
    found = [path for path in places(directories, name) if os.path.lexists(path)]
    if not found:
        known = available(directories)
        near = settings.nearest(name, known)
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known) or 'none'}"
        raise RequestError("NOT_FOUND", f"no profile is named {name[:80]!r}; {hint}")
    if len(found) > 1:
        both = " and ".join(str(path) for path in found)
        raise ConfigurationError(
            Mistake(str(found[1]), 1, 1, f"two profiles are named {name!r}, {both}; rename one of them")
        )
    return File(name, str(found[0]), _contents(found[0]))


def _profile(files: Sequence[File]) -> Profile:
    at = chain.merge(files)
    environment = at[keys.SET]
    secrets: dict[str, str] = at[keys.SECRETS]
    own = next(file for file in files if not file.tightens)
    return Profile(
        name=own.name,
        text=chain.pack(files),
        digest=chain.digest(files),
        source=own.source,
        description=at[keys.DESCRIPTION],
        system=at[keys.SYSTEM],
        mounts=at[keys.MOUNTS],
        hidden=at[keys.HIDDEN],
        protected=at[keys.PROTECTED],
        scratch=at[keys.SCRATCH],
        workspace=at[keys.WORKSPACE],
        secrets=MappingProxyType(secrets),
        network=at[keys.MODE],
        syscalls=at[keys.SYSCALLS],
        environment=MappingProxyType(environment),
        environment_pass=at[keys.PASS],
        limits=Limits(
            wall_s=at[limit_keys.WALL_S],
            cpu_s=at[limit_keys.CPU_S],
            memory_mb=at[limit_keys.MEMORY_MB],
            processes=at[limit_keys.PROCESSES],
            open_files=at[limit_keys.OPEN_FILES],
            file_mb=at[limit_keys.FILE_MB],
            tmp_mb=at[keys.TMP_MB],
            tmp_inodes=at[keys.TMP_INODES],
            output_mb=at[limit_keys.OUTPUT_MB],
            output_past=at[limit_keys.OUTPUT_PAST],
            cpus=at[limit_keys.CPUS],
            jobs=at[limit_keys.JOBS],
            job_s=at[limit_keys.JOB_S],
        ),
        budget=Budget(calls=at[limit_keys.CALLS], seconds=at[limit_keys.SECONDS], output_mb=at[limit_keys.RESULTS_MB]),
        approval=Approval(
            reads=at[keys.READS],
            writes=at[keys.WRITES],
            commands=at[keys.COMMANDS],
            effects=at[keys.EFFECTS],
            wait_s=at[keys.WAIT_S],
        ),
        command_rules=at[keys.COMMAND_RULES],
        required_layers=at[keys.REQUIRED],
    )


def _contents(path: Path) -> bytes:
    """The bytes of a profile that may be trusted."""
    try:
        return trust.content(path, None if path.parent == shipped() else path.parent, toml_text.MAX_BYTES + 1)
    except trust.Untrusted as fault:
        reason = _untrusted(fault, path)
        raise ConfigurationError(Mistake(str(path), 1, 1, reason)) from None
    except OSError as error:
        reason = f"the file cannot be read: {error.strerror}; make it readable to the daemon"
        raise ConfigurationError(Mistake(str(path), 1, 1, reason)) from error


def _untrusted(fault: trust.Untrusted, path: Path) -> str:
    match fault.reason:
        case "leads out":
            return f"this is a link that leads out of {path.parent}, to {fault.place}; put the file itself here"
        case "no file":
            return "this is not a regular file; put the profile's text here"
        case "names":
            return (
                f"the file has {fault.found.st_nlink} names (hard links), and by another one it could be written "
                "from a workspace; put a copy here"
            )
        case "owner":
            return f"{fault.place} belongs to uid {fault.found.st_uid}; have it owned by the daemon's user or by root"
        case "writers":
            return (
                f"{fault.place} can be written by its group or by others, who could then say what is allowed; "
                "chmod go-w it"
            )
