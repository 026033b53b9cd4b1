"""`stockaded` that is killed as soon as an answer to an ask is recorded; everything else is the product's own.

python -m tests.end_to_end.killed_when_answered serve …
"""

import os
import signal
from typing import Any

from stockade_daemon.__main__ import main
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.values import Event

append = Ledger.append


async def killing(ledger: Ledger, session_id: str, type: str, *arguments: Any, **named: Any) -> Event:
    event = await append(ledger, session_id, type, *arguments, **named)
    if type == "approval/decided":
        os.kill(os.getpid(), signal.SIGKILL)
    return event


if __name__ == "__main__":
    Ledger.append = killing  # type: ignore[assignment,method-assign]
    main()
