"""Every code has a failure domain and says whether a repetition is safe, from closed lists."""

from typing import Final

import pytest

from stockade_daemon.errors import CODES
from stockade_daemon.pipeline import outcomes

DOMAINS: Final = {"arguments", "policy", "tool", "sandbox", "infrastructure", "deadline", "unknown"}
# Where nothing has run, or nothing was changed, a repetition does no harm.
NOTHING_RAN: Final = {"ABORTED_BEFORE_DISPATCH", "TOOL_NOT_STARTED", "SANDBOX_FAILED", "APPROVAL_UNAVAILABLE"}
MAY_HAVE_RUN: Final = {"ABORTED", "TOOL_TIMEOUT", "TOOL_OUTCOME_UNKNOWN", "TOOL_FAILED", "RESOURCE_LIMIT"}


def test_domains_and_words_for_repeating_are_those_of_the_contract() -> None:
    assert {domain for domain, _ in CODES.values()} == DOMAINS
    assert {retry for _, retry in CODES.values()} == {"safe", "unsafe", "never"}


@pytest.mark.parametrize("code", CODES)
def test_a_result_has_the_domain_and_the_word_of_its_code(code: str) -> None:
    error = outcomes.failed(code, "it failed").error
    assert error is not None
    assert (error.domain, error.retry) == CODES[code]


def test_a_repetition_is_safe_where_nothing_ran_and_not_where_something_may_have() -> None:
    assert {code: CODES[code][1] for code in NOTHING_RAN} == dict.fromkeys(NOTHING_RAN, "safe")
    assert {code: CODES[code][1] for code in MAY_HAVE_RUN} == dict.fromkeys(MAY_HAVE_RUN, "unsafe")
