"""Kills in the middle of calls, and what ledger and disk say afterwards."""
