"""The demo's workspace: the source of a small real package, with a plausible fault put in.

The source distribution of xmltodict 0.14.2 (MIT) is fetched by pip and pinned by its hash, unpacked, damaged in one
place, and committed to a git repository of its own, so that a difference can be shown later. This happens before any
session: it is the one place where the client writes files that become a workspace.
"""

import asyncio
import contextlib
import hashlib
import os
import shlex
import shutil
import signal
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from stockade_client.errors import StockadeError

NAME: Final = "xmltodict"
VERSION: Final = "0.14.2"
ARCHIVE: Final = f"{NAME}-{VERSION}.tar.gz"
SHA256: Final = "201e7c28bb210e374999d1dde6382923ab0ed1a8a5faeece48ab525b7810a553"

FAULTY_FILE: Final = "xmltodict.py"
# Where a second child of the same name makes its parent's value a list, the first one gets lost.
SOUND: Final = "item[key] = [value, data]"
FAULT: Final = "item[key] = [data]"

FETCH_S: Final = 300.0
DATE: Final = "2024-10-16T06:10:29+00:00"  # the release's; the same commit every time


class NotPrepared(StockadeError):
    """The workspace could not be made; the text says what to do."""


async def prepare(workspace: Path, cache: Path) -> None:
    """Makes the demo's workspace in `workspace`, which must be absent or empty.

    The archive is kept in `cache` and fetched only when it is not there. Raises NotPrepared.
    """
    _check_empty(workspace)
    archive = await fetch(cache)
    unpack(archive, workspace)
    put_fault_in(workspace)
    await commit(workspace)


async def fetch(cache: Path) -> Path:
    """The archive in `cache`, fetched by pip where it is missing or not the right one."""
    archive = cache / ARCHIVE
    if _digest(archive) == SHA256:
        return archive
    # pip builds the archive's metadata beneath here, and leaves nothing of it elsewhere.
    with tempfile.TemporaryDirectory(prefix="stockade-fetch-") as scratch:
        await _run(
            [
                *(sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"),
                *("download", "--no-deps", "--no-binary", ":all:", "--require-hashes"),
                *("--requirement", _requirement(scratch), "--dest", scratch),
            ],
            {**os.environ, "TMPDIR": scratch},
            f"pip cannot fetch {NAME} {VERSION}: look at the network, or put {ARCHIVE} into {cache}",
        )
        _keep(Path(scratch, ARCHIVE), archive)
    return archive


def unpack(archive: Path, workspace: Path) -> None:
    """The regular files of the archive, without its top directory.

    Written one by one: nothing of the archive decides about links, owners, modes or places outside.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "r:gz") as members:
        for member in members:
            parts = Path(member.name).parts
            if not member.isreg() or len(parts) < 2 or "__pycache__" in parts:
                continue
            if ".." in parts or member.name.startswith("/"):
                raise NotPrepared(f"{archive} holds {member.name!r}, which leads outside; fetch it again")
            content = members.extractfile(member)
            if content is None:
                continue
            target = workspace.joinpath(*parts[1:])
            target.parent.mkdir(parents=True, exist_ok=True)
            with content, open(target, "wb") as written:
                shutil.copyfileobj(content, written)


def put_fault_in(workspace: Path) -> None:
    """Damages the package in its one known place."""
    path = workspace / FAULTY_FILE
    text = path.read_text(encoding="utf-8")
    if text.count(SOUND) != 1:
        raise NotPrepared(f"{path} has {SOUND!r} {text.count(SOUND)} times and should have it once")
    path.write_text(text.replace(SOUND, FAULT), encoding="utf-8")


async def commit(workspace: Path) -> None:
    """Commits everything to a new repository, with no configuration but this."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "Stockade demo",
        "GIT_AUTHOR_EMAIL": "demo@stockade.invalid",
        "GIT_AUTHOR_DATE": DATE,
        "GIT_COMMITTER_NAME": "Stockade demo",
        "GIT_COMMITTER_EMAIL": "demo@stockade.invalid",
        "GIT_COMMITTER_DATE": DATE,
    }
    remedy = "git cannot make the demo's repository: install git (apt install git, dnf install git, apk add git)"
    for arguments in (
        ("init", "--quiet", "--template=", "--initial-branch=main"),
        ("-c", "core.autocrlf=false", "add", "--all", "--force"),
        ("-c", "gc.auto=0", "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", f"{NAME} {VERSION}"),
    ):
        await _run(["git", "-C", str(workspace), *arguments], environment, remedy)


def _check_empty(workspace: Path) -> None:
    try:
        taken = workspace.exists() and any(workspace.iterdir())
    except OSError as error:
        raise NotPrepared(f"{workspace} cannot be used: {error.strerror}; name a directory of yours") from error
    if taken:
        raise NotPrepared(f"{workspace} is not empty; name a directory that is, or does not exist yet")


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def _requirement(scratch: str) -> str:
    path = Path(scratch, "requirement.txt")
    path.write_text(f"{NAME}=={VERSION} --hash=sha256:{SHA256}\n", encoding="ascii")
    return str(path)


def _keep(fetched: Path, archive: Path) -> None:
    """Puts the fetched file into the cache, if it is the right one."""
    found = _digest(fetched)
    if found != SHA256:
        raise NotPrepared(f"{ARCHIVE} has the SHA-256 {found} and should have {SHA256}; fetch it again")
    archive.parent.mkdir(parents=True, exist_ok=True)
    # Whoever fetches at the same time puts the same bytes there; a half-written copy is never seen.
    partial = archive.with_name(f".{ARCHIVE}.{os.getpid()}")
    shutil.copyfile(fetched, partial)
    os.replace(partial, archive)


async def _run(command: list[str], environment: dict[str, str], remedy: str) -> None:
    """Runs a command to its end; cancelled meanwhile, ends it and all that it started."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # pip runs a build in processes of its own; the group ends them together
        )
    except FileNotFoundError as error:
        raise NotPrepared(f"{remedy}\n{command[0]} is not there") from error
    try:
        async with asyncio.timeout(FETCH_S):
            said, _ = await process.communicate()
    except TimeoutError as error:
        raise NotPrepared(f"{remedy}\n{command[0]} did not end within {FETCH_S:g} s") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode != 0:
        text = said.decode("utf-8", "replace").strip()
        raise NotPrepared(f"{remedy}\n{shlex.join(command)}\nended with status {process.returncode}: {text}")
