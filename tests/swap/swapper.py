"""Exchanges two names of a directory as fast as it can, until its standard input ends.

    python -m tests.swap.swapper DIRECTORY ONE OTHER COUNTER

COUNTER is a file of eight bytes, in which whoever maps it sees how often; 0: it has not begun.
"""

import mmap
import os
import select
import struct
import sys
from typing import Final

from stockade_daemon.gate.syscalls import RENAME_EXCHANGE, renameat2

COUNT: Final = struct.Struct("=Q")

_BURST: Final = 64  # exchanges between two looks at the standard input


def main(directory: str, one: str, other: str, counter: str) -> None:
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    names = os.fsencode(one), os.fsencode(other)
    done = 0
    with open(counter, "r+b") as file, mmap.mmap(file.fileno(), COUNT.size) as shared:
        while not select.select([sys.stdin], [], [], 0)[0]:
            for _ in range(_BURST):
                renameat2(descriptor, *names, RENAME_EXCHANGE)
                done += 1
                COUNT.pack_into(shared, 0, done)


if __name__ == "__main__":
    main(*sys.argv[1:])
