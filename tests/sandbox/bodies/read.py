"""A `read` that does what its `path` says."""

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from stockade_toolkit import Answer, Files


def run(arguments: Mapping[str, Any], files: Files) -> Answer:
    match arguments["path"]:
        case "burn":
            held = bytearray(100_000_000)
            begun = time.process_time()
            while time.process_time() - begun < 1.0:
                pass
            return Answer({"held": len(held)}, "")
        case "too much memory":
            held = bytearray(400 << 20)
            signal.pause()
        case "too much time":
            while True:
                pass
        case "too large a file":
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            with open("/dev/shm/x", "wb") as file:
                file.truncate(1 << 40)
        case "its own end":
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
    return Answer({"done": True}, "")
