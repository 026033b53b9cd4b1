"""Whose files may say what a worker does: profiles and tools are policy, so nobody else may own or write them."""

import os
import stat
from typing import Literal


def stranger(found: os.stat_result) -> Literal["owner", "writers"] | None:
    """Who besides root and the daemon's own user could change a file or directory (inode(7)); None: nobody."""
    if found.st_uid not in (0, os.geteuid()):
        return "owner"
    return "writers" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None
