"""The gate: the one writer of the workspace.

A body states what it wants changed; the gate checks the wish against what this session was shown of the file and
against the disk, and commits it. `gate.py` holds the conversation, `decision.py` the table, `publish.py` the writing,
`recovery.py` what the disk proves after a crash.
"""

from stockade_daemon.gate.content import MAX_FILE_BYTES as MAX_FILE_BYTES
from stockade_daemon.gate.difference import Difference as Difference
from stockade_daemon.gate.gate import Begun as Begun
from stockade_daemon.gate.gate import Gate as Gate
from stockade_daemon.gate.gate import Opened as Opened
from stockade_daemon.gate.intents import Committed as Committed
from stockade_daemon.gate.intents import EditIntent as EditIntent
from stockade_daemon.gate.intents import Planned as Planned
from stockade_daemon.gate.intents import WriteIntent as WriteIntent
from stockade_daemon.gate.observations import Observation as Observation
from stockade_daemon.gate.recovery import Proof as Proof
from stockade_daemon.gate.recovery import prove as prove
from stockade_daemon.gate.recovery import recover as recover
from stockade_daemon.gate.spans import Span as Span
from stockade_daemon.gate.workspace import Workspace as Workspace
