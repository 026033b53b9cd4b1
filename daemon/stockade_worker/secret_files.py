"""Named secrets of a profile: read from the host's files while a template is built, and files in memory inside.

They are read here, in the process that becomes the template and then executes a fresh interpreter, so that they are in
no frame, no argument, no environment and no memory of the daemon. Inside they lie on the root's own memory file system,
readable to the worker alone, and that file system is read-only.
"""

import os
import stat

DIRECTORY = "/run/secrets"
MOST_BYTES = 64 * 1024


class Unusable(Exception):
    """A secret that a profile names cannot be given. The message says which file, and why; never what is in it."""


def read(path: str) -> bytes:
    """The bytes of a secret's file, links followed. Raises Unusable."""
    try:
        # Not blocking: opening a FIFO waits for whoever writes to it, open(2).
        held = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise Unusable(
            f"{path}, which cannot be opened: {error.strerror}; create it for the daemon's user, or take it out of the "
            "profile"
        ) from error
    try:
        found = os.fstat(held)
        if not stat.S_ISREG(found.st_mode):
            raise Unusable(f"{path}, which is no regular file; write the secret to one")
        if found.st_mode & 0o077:
            raise Unusable(
                f"{path}, which others can read or write (mode {stat.S_IMODE(found.st_mode):04o}); chmod 0600 it"
            )
        with open(held, "rb", closefd=False) as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Unusable(f"{path}, which cannot be read: {error.strerror}; look at its file system") from error
    finally:
        os.close(held)
    if len(content) > MOST_BYTES:
        raise Unusable(f"{path}, which has more than {MOST_BYTES // 1024} KiB; a secret is shorter: check the path")
    return content


def write(directory: str, contents: dict[str, bytes], *, owner: int | None) -> None:
    """Makes the directory and a file of mode 0400 for each secret; `owner`: host uid and gid, None: our own."""
    os.mkdir(directory, 0o700)
    for name, content in contents.items():
        held = os.open(
            f"{directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o400
        )
        try:
            if owner is not None:
                os.fchown(held, owner, owner)
            view = memoryview(content)
            while view:
                view = view[os.write(held, view) :]
        finally:
            os.close(held)
    if owner is not None:
        os.chown(directory, owner, owner)
    os.chmod(directory, 0o500)
