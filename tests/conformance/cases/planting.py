"""A case's workspace and what lies in it before the first call."""

import errno
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.conformance.cases.filling import Places, bytes_of, evaluated
from tests.conformance.cases.reading import KINDS, Case, label
from tests.conformance.cases.verdicts import Missing

# The two ways in which the corpus describes a file that its own format cannot name.
_BY_BYTES: Final = re.compile(r"os\.open\((b'(?:[^'\\]|\\.)*')")
_MANY: Final = re.compile(r"create (\w+?)(\d+)\.\.\1(\d+) each with (b'.*')$")


def laid_out(case: Case, base: Path) -> Places:
    """Makes the directories of a case; nothing is in them."""
    home = base / label(case.id)
    home.mkdir(mode=0o755)
    outside = home / "out"
    outside.mkdir()
    given = workspace = home / "w"
    if case.config().get("root_is_symlink"):
        workspace = home / "real"
        workspace.mkdir()
        given.symlink_to("real")
    else:
        workspace.mkdir()
    return Places(given, workspace, outside)


def plant(case: Case, places: Places) -> None:
    """Raises Missing for a kind that is unknown, or that this file system cannot hold."""
    modes: list[tuple[bytes, int]] = []
    for item in case.setup:
        kind = item["kind"]
        if kind not in KINDS:
            raise Missing(f"setup of kind {kind!r}")
        if kind in ("config", "daemon_env"):
            continue
        try:
            path = _one(kind, item, places)
        except OSError as error:
            if error.errno in (errno.ENOTSUP, errno.EPERM, errno.EOPNOTSUPP):
                raise Missing(f"a file system that holds a {kind} ({error.strerror})") from None
            raise
        if "mode" in item:
            modes.append((path, int(str(item["mode"]), 8)))
    for path, mode in modes:  # last, so that a directory without write permission can be filled before
        os.chmod(path, mode)


def _one(kind: str, item: Mapping[str, Any], places: Places) -> bytes:
    path = places.within(item["path"])
    if kind != "xattr":
        os.makedirs(os.path.dirname(path), exist_ok=True)
    match kind:
        case "file" | "outside_file":
            _file(path, item, places)
        case "dir":
            os.makedirs(path, exist_ok=True)
        case "symlink":
            os.symlink(os.fsencode(places.fill(item["target"])), path)
        case "hardlink":
            os.link(places.within(item["target"]), path)
        case "fifo":
            os.mkfifo(path)
        case "socket":
            _socket(path)
        case "sparse":
            with open(path, "xb") as file:
                file.write(bytes_of({"b64": item.get("head_b64", "")}, "the head"))
                file.truncate(item["size"])
        case "xattr":
            value = item["value"]
            os.setxattr(path, item["name"], value.encode() if isinstance(value, str) else bytes_of(value, "a value"))
    return path


def _file(path: bytes, item: Mapping[str, Any], places: Places) -> None:
    words = str(item.get("py", ""))
    if "b64" not in item and (named := _BY_BYTES.search(words)):
        path = os.path.join(os.fsencode(places.workspace), evaluated(named[1], "a name"))
        _new(path, b"")
    elif "b64" not in item and (many := _MANY.match(words)):
        stem, first, last, content = many.groups()
        for number in range(int(first), int(last) + 1):
            name = f"{stem}{number:0{len(first)}}"
            _new(places.within(name), evaluated(content, "a content"))
    else:
        _new(path, bytes_of(item, "a setup"))


def _new(path: bytes, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
    os.chmod(path, 0o644)


def _socket(path: bytes) -> None:
    """Bound through its directory's descriptor: the path itself may be longer than a socket's address."""
    directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(b"/proc/self/fd/%d/%s" % (directory, os.path.basename(path)))
    finally:
        os.close(directory)
