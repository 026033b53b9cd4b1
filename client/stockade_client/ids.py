"""Ids that the client chooses, so that whatever it asks for can safely be asked again."""

import secrets


def new(kind: str) -> str:
    """A fresh id such as `call-9f86d081884c7d65`: 64 random bits, and words that tell ids apart in a log."""
    return f"{kind}-{secrets.token_hex(8)}"
