"""Bodies that use up what they can, each for a few seconds and within a cap of its own."""

from dataclasses import dataclass
from typing import Final

SECONDS: Final = 2
# What is shipped, but for a shorter life: the bombs shall end, and be many.
LIMITS: Final = "[limits]\nwall_s = 20\ncpu_s = 4\nmemory_mb = 2048\n"


@dataclass(frozen=True, slots=True)
class Bomb:
    name: str
    program: str  # for python3 -c


_UNTIL: Final = f"import os, signal, sys, time\nend = time.monotonic() + {SECONDS}\n"

BOMBS: Final = (
    Bomb(
        "fork bomb",
        # Every process forks as long as it may; all of them end by themselves. The number is a cap beyond the limit's.
        _UNTIL + "made = 0\n"
        "while time.monotonic() < end and made < 5000:\n"
        "    try:\n"
        "        made += os.fork() != 0\n"
        "    except OSError:\n"
        "        pass\n",
    ),
    Bomb(
        "memory bomb",
        "held = [bytearray(16 << 20) for _ in range(256)]\nprint('not stopped')\n",  # 4 GiB at most
    ),
    Bomb(
        "/tmp filling",
        _UNTIL + "block = b'x' * (1 << 20)\n"
        "while time.monotonic() < end:\n"
        "    try:\n"
        "        for number in range(64):\n"
        "            with open(f'/tmp/{number}', 'wb', 0) as file:\n"
        "                for _ in range(16):\n"
        "                    file.write(block)\n"
        "    except OSError as error:\n"
        "        why = error.strerror\n"
        "print(why)\n",
    ),
    Bomb(
        "inode filling",
        _UNTIL + "why = 'time was up first'\n"
        "while time.monotonic() < end:\n"
        "    made = 0\n"
        "    try:\n"
        "        while made < 100000 and time.monotonic() < end:\n"
        "            open(f'/tmp/{made}', 'w').close()\n"
        "            made += 1\n"
        "    except OSError as error:\n"
        "        why = error.strerror\n"
        "    for number in range(made):\n"
        "        os.unlink(f'/tmp/{number}')\n"
        "print(why)\n",
    ),
    Bomb(
        "descriptor exhaustion",
        _UNTIL + "while time.monotonic() < end:\n"
        "    held = []\n"
        "    try:\n"
        "        while len(held) < 5000:\n"
        "            held.append(os.open('/dev/null', os.O_RDONLY))\n"
        "    except OSError as error:\n"
        "        why = error.strerror\n"
        "    for each in held:\n"
        "        os.close(each)\n"
        "print(why)\n",
    ),
    Bomb(
        "output flood",
        _UNTIL + "block = b'y\\n' * 32768\n"
        "while time.monotonic() < end:\n"
        "    os.write(1, block)\n"
        "    os.write(2, block)\n",
    ),
    Bomb(
        "CPU burn",
        "import os\nos.fork()\nwhile True:\n    pass\n",
    ),
)
