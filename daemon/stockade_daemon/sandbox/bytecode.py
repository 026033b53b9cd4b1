"""Has compiled at once what each template would compile anew: it cannot write beside the sources itself."""

import compileall
import sys

from stockade_daemon.sandbox import library


def prepare() -> None:
    """Compiles what changed of the packages that run inside, beside their sources, as an import in the daemon would.

    Where nothing can be written there, or Python is told to write none (PYTHONDONTWRITEBYTECODE), templates start more
    slowly and work all the same.
    """
    if sys.dont_write_bytecode:
        return
    for directory in library.packages().values():
        compileall.compile_dir(directory, quiet=2)  # says what it could not do in its result alone
