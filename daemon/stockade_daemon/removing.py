"""Removing what somebody else filled: a tree of any depth, whatever its directories' modes, no link followed."""

import os
import secrets
import stat


def remove_tree(path: str | bytes | os.PathLike[str], *, dir_fd: int | None = None) -> None:
    """Removes a tree, or a file; nothing where there is none. Raises OSError.

    Every directory found is moved up to the top before it is emptied, so that neither the length of a path nor the
    number of open descriptors grows with the depth of the tree.
    """
    try:
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        os.unlink(path, dir_fd=dir_fd)
        return
    try:
        os.fchmod(top, 0o700)
        while directories := _remove_files(top):
            for name in directories:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
                try:
                    for deeper in _remove_files(inner):
                        # Whoever filled the tree may have taken any name that could be guessed.
                        os.rename(deeper, f".{secrets.token_hex(16)}", src_dir_fd=inner, dst_dir_fd=top)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path, dir_fd=dir_fd)


def _remove_files(directory: int) -> list[str]:
    """Unlinks all that is no directory; gives the names of those that are, made ours to change."""
    directories = []
    for name in os.listdir(directory):
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            os.chmod(name, 0o700, dir_fd=directory)
            directories.append(name)
        else:
            os.unlink(name, dir_fd=directory)
    return directories
