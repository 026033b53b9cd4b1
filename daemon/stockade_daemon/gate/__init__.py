"""The gate: the one writer of the workspace.

A body states what it wants changed; the gate checks the wish against what this session was shown of the file and
against the disk, and commits it. `gate.py` holds the conversation, `decision.py` the table, `publish.py` the writing.
"""
