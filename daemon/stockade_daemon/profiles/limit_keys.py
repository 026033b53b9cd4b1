"""Keys of a profile that bound: what a call's processes and a session's jobs may use, and what a session may come to.

Defaults are those of the shipped profile `strict`, as in keys.py.
"""

from typing import Any, Final, Literal

from stockade_daemon.settings import Key, number, one_of, whole

WALL_S = Key(
    "limits.wall_s",
    number(0.1, 86_400),
    120.0,
    "seconds, 0.1 to 86400",
    "Longest life of a call's body; then its whole process tree is killed.",
)
CPU_S = Key(
    "limits.cpu_s",
    whole(1, 86_400),
    60,
    "seconds, 1 to 86400",
    "Processor time of each process (RLIMIT_CPU).",
)
MEMORY_MB = Key(
    "limits.memory_mb",
    whole(16, 1_048_576),
    1024,
    "MiB, 16 to 1048576",
    "Memory and swap of a call's processes together, /tmp included.",
)
PROCESSES = Key(
    "limits.processes",
    whole(8, 32_768),
    128,
    "8 to 32768",
    "Processes and threads of a call at one time (RLIMIT_NPROC).",
)
OPEN_FILES = Key(
    "limits.open_files",
    whole(32, 1_048_576),
    256,
    "32 to 1048576",
    "Open descriptors of each process (RLIMIT_NOFILE).",
)
FILE_MB = Key(
    "limits.file_mb",
    whole(1, 65_536),
    64,
    "MiB, 1 to 65536",
    "Largest file that a process can write (RLIMIT_FSIZE).",
)
OUTPUT_MB = Key(
    "limits.output_mb",
    whole(1, 4096),
    4,
    "MiB, 1 to 4096",
    "Kept of stdout and of stderr, each; a call that prints more is cut or ended, as `limits.output_past` says.",
)
OUTPUT_PAST: Final[Key[Literal["stop", "truncate"]]] = Key(
    "limits.output_past",
    one_of("truncate", "stop"),
    "truncate",
    '"truncate" or "stop"',
    "What becomes of a call that prints more: the rest is read and dropped, and the result says so; or it is killed "
    "and ends with OUTPUT_LIMIT.",
)
CPUS = Key(
    "limits.cpus",
    number(0.01, 64),
    1.0,
    "0.01 to 64",
    "How many processors' worth of time a call's processes together may use.",
)
JOBS = Key(
    "limits.jobs",
    whole(0, 256),
    4,
    "0 to 256",
    "Background jobs of a session at one time; 0: none.",
)
JOB_S = Key(
    "limits.job_s",
    number(0.1, 604_800),
    3600.0,
    "seconds, 0.1 to 604800",
    "Longest life of a background job, for which `wall_s` does not count; then its whole process tree is killed.",
)

# The largest ones are beyond what a session can come to, and stand for no budget.
_MOST: Final = 1_000_000_000
CALLS = Key(
    "budget.calls",
    whole(1, _MOST),
    _MOST,
    "1 to 1000000000",
    "Calls of a session that policy lets run; each further one ends with DENIED.",
)
SECONDS = Key(
    "budget.seconds",
    whole(1, _MOST),
    _MOST,
    "seconds, 1 to 1000000000",
    "Time of a session's bodies together; when it is used up, the next call ends with DENIED.",
)
RESULTS_MB = Key(
    "budget.output_mb",
    whole(1, _MOST),
    _MOST,
    "MiB, 1 to 1000000000",
    "Results of a session together, values and texts for the model; the same.",
)

KEYS: Final[tuple[Key[Any], ...]] = (
    WALL_S,
    CPU_S,
    MEMORY_MB,
    PROCESSES,
    OPEN_FILES,
    FILE_MB,
    OUTPUT_MB,
    OUTPUT_PAST,
    CPUS,
    JOBS,
    JOB_S,
    CALLS,
    SECONDS,
    RESULTS_MB,
)
