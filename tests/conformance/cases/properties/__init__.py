"""Hand-written checks of what cases expect in words, by the case's id; a case without one is skipped."""

from tests.conformance.cases.properties import approvals, bytes_kept, commands, gate, names, own, searches, windows
from tests.conformance.cases.properties.register import CHECKS as CHECKS

__all__ = ["CHECKS", "approvals", "bytes_kept", "commands", "gate", "names", "own", "searches", "windows"]
