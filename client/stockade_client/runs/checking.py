"""What a call came to beside what it was expected to come to."""

from stockade_client.results import CallResult, Failure, Json
from stockade_client.runs import patterns, printed
from stockade_client.runs.entries import EntryCall, Expected
from stockade_client.runs.outcomes import INFRASTRUCTURE, Difference
from stockade_client.runs.patterns import Search
from stockade_client.runs.printed import STREAMS
from stockade_client.session import Session


async def difference(session: Session, call: EntryCall, result: CallResult, search: Search) -> Difference | None:
    """How the result differs from what was expected; None where it does not. What is searched in an output is
    searched in all of it: where its value leaves out the middle, the rest is asked for.

    An error of what the call runs on is as expected only where its code or domain is: an entry that expects no more
    than that its call fails says nothing about the machine.
    """
    told = await _told(session, call, result, search)
    error = result.error
    if error is None or _is_named(call.expected, error):
        return None if told is None else Difference(told)
    if told is None and error.domain in INFRASTRUCTURE:
        told = f"{call.tool} failed with {error}"
    return None if told is None else Difference(told, error)


def _is_named(expected: Expected, error: Failure) -> bool:
    """Whether this very error is expected, or one of its domain."""
    return error.domain == expected.domain if expected.code is None else error.code == expected.code


async def _told(session: Session, call: EntryCall, result: CallResult, search: Search) -> str | None:
    expected, error = call.expected, result.error
    if expected.ok and error is not None:
        return f"{call.tool} should have succeeded and failed with {error}"
    if not expected.ok and error is None:
        code = f" with {expected.code}" if expected.code else ""
        return f"{call.tool} should have failed{code} and succeeded: {result.text[-400:].strip()}"
    if error is not None:
        if expected.code is not None and error.code != expected.code:
            return f"{call.tool} should have failed with {expected.code} and failed with {error}"
        if expected.domain is not None and error.domain != expected.domain:
            return f"the error's domain should be {expected.domain} and is {error.domain} ({error})"
    for name, pattern in expected.parts:
        if name in STREAMS and pattern is not None and not isinstance(result.field(name), str):
            return f"{call.tool} should have {name}, and its result has none"
        told = await _part_difference(session, result, pattern, name, search)
        if told is not None:
            status = _status(call, result, printing=False)
            return told if status is None else f"{told}\n{status}"
    return _status(call, result, printing=True)


async def _part_difference(
    session: Session, result: CallResult, pattern: Json, name: str, search: Search
) -> str | None:
    found = _part(result, name)
    searched = [name] if name in STREAMS and patterns.searches(pattern) else []
    if name == "value" and isinstance(pattern, dict) and isinstance(found, dict):
        searched = [each for each in STREAMS if patterns.searches(pattern.get(each))]
    for stream in searched:
        if not printed.cut(result, stream):
            continue
        if not printed.kept(result, stream):
            kept = f"{result.field(f'{stream}_kept')} of {result.field(f'{stream}_bytes')} bytes were kept"
            return f"{name} cannot be told: of {stream}, {kept}, and not the middle"
        whole = await printed.whole(session.job(result.call_id), stream)
        found = {**found, stream: whole} if isinstance(found, dict) else whole
    return await patterns.difference(pattern, found, name, search)


def _status(call: EntryCall, result: CallResult, *, printing: bool) -> str | None:
    """How the command's end differs from what was expected; with what it printed where nothing else tells of that."""
    status, signal = result.field("exit_code"), result.field("signal")
    wanted = call.expected.exit_code
    if not call.expected.ok or wanted == "any" or (status is None and signal is None):
        return None
    if status == wanted:
        return None
    came = f"is {status}" if status is not None else f"there is none: signal {signal} ended it"
    differs = f"the exit status should be {wanted} and {came}"
    if not printing:
        return differs
    said = "\n".join(
        text.strip()[-2000:] for text in (result.field("stdout"), result.field("stderr")) if isinstance(text, str)
    ).strip()
    return differs + (f"; it printed\n{said}" if said else "")


def _part(result: CallResult, name: str) -> Json:
    if name == "message":
        return None if result.error is None else result.error.message
    if name == "text":
        return result.text
    return result.value if name == "value" else result.field(name)
