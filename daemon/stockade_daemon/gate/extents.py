"""Where a file has bytes, so that its holes stay holes in a copy (lseek(2), SEEK_DATA and SEEK_HOLE)."""

import errno
import os
from collections.abc import Iterator


def extents(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each stretch of data below `size`, in order. Raises OSError."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # nothing but a hole is left
            if error.errno != errno.EINVAL:
                raise
            begin, end = end, size  # a file system that tells of no holes
        yield begin, end


def write_at(descriptor: int, content: bytes, at: int) -> int:
    """Writes all of it there; how many bytes that was. Raises OSError."""
    done = 0
    while done < len(content):
        done += os.pwrite(descriptor, memoryview(content)[done:], at + done)
    return done
