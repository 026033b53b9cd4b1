"""Prints what a worker sees of a tree with other file systems mounted below it.

Arguments: the tree, a profile's name, and the uid of the daemon, root's or another.

A program of its own, because it has to mount: only in a mount namespace of its own, propagation made private first.
"""

import asyncio
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Access
from stockade_worker import kernel
from tests.sandbox.conftest import run


async def main(tree: Path, profile: str, uid: int) -> None:
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("inner", str(tree / "inner"), "tmpfs", 0, "size=64k,mode=755")
    (tree / "inner" / "file").write_text("file of the inner mount\n")
    (tree / "inner" / "bound").write_text("file bound\n")
    kernel.mount(str(tree / "inner" / "bound"), str(tree / "doc.txt"), None, kernel.MS_BIND)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    shown = replace(profiles.load(profile, directories=[profiles.shipped()]), mounts=(str(tree),))
    with tempfile.TemporaryDirectory() as state:
        async with Pool.start(Path(state)) as pool:
            pool.open_room("room", shown, None)
            try:
                async with pool.worker("room", Access.NONE) as worker:
                    writes = "; ".join(
                        f"touch '{tree}/{name}' 2> /dev/null && echo written || echo refused"
                        for name in ("inner/file", "inner/new", "doc.txt")
                    )
                    await run(worker, f"cat '{tree}/inner/file' '{tree}/doc.txt'; {writes}")
                    print(os.read(worker.stdout, 4096).decode(), end="")
            except SandboxFailure as failure:
                print(failure.message)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
