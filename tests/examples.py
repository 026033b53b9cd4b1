"""How many examples a property is tried with."""

import os
from typing import Final

_TIMES: Final = int(os.environ.get("STOCKADE_TEST_EXAMPLES", "1"))


def examples(count: int) -> int:
    """`count`, as often as STOCKADE_TEST_EXAMPLES says."""
    return count * _TIMES
