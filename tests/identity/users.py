"""Programs that other users of the host run against a daemon."""

import json
import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.everybodys_python import NOBODYS, everybodys_python

FIRST: Final = NOBODYS + 10
SECOND: Final = NOBODYS + 11
HANG_S: Final = 60.0
_PRELUDE: Final = """
import asyncio, json, sys
from stockade_client import *

ADDRESS = sys.argv[1]

async def outcome(awaitable):
    try:
        return await awaitable
    except StockadeError as error:
        return f"{type(error).__name__}: {error}"

async def program():
"""


def run_as(uid: int, address: str, lines: str) -> Any:
    """What the body of a coroutine returns, in a process of that user; JSON."""
    python, variables = everybodys_python()
    body = "".join(f"    {line}\n" for line in lines.strip().splitlines())
    done = subprocess.run(
        [python, "-P", "-c", f"{_PRELUDE}{body}\nprint(json.dumps(asyncio.run(program())))", address],
        user=uid,
        group=uid,
        extra_groups=[],
        env={"PATH": os.environ["PATH"], **variables},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tell_needs(places: Sequence[Path]) -> None:
    """Skips the test where no other user can be had."""
    if os.geteuid() != 0:
        pytest.skip("only root can be several users")
    try:
        everybodys_python()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    for place in places:
        for each in (place, *place.parents):
            if not each.stat().st_mode & 0o001:
                pytest.skip(f"{each} is closed to other users")


def answer_of(path: Path) -> dict[str, Any]:
    """What the broker at `path` says to this process."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(HANG_S)
        asking.connect(str(path))
        said = b""
        while piece := asking.recv(4096):
            said += piece
    answer = json.loads(said)
    assert isinstance(answer, dict)
    return answer
