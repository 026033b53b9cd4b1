"""The ledger: the daemon's record of sessions, calls and events, and what it proves after a crash."""

from stockade_daemon.ledger.ledger import INLINE_VALUE_BYTES, VALUE_PART, Ledger
from stockade_daemon.ledger.records import CallRecord, CallState, Resolution, SessionRecord, SessionState, Unsettled
from stockade_daemon.ledger.recovery import Proof, settle_unfinished

__all__ = [
    "INLINE_VALUE_BYTES",
    "VALUE_PART",
    "CallRecord",
    "CallState",
    "Ledger",
    "Proof",
    "Resolution",
    "SessionRecord",
    "SessionState",
    "Unsettled",
    "settle_unfinished",
]
