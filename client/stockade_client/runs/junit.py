"""Outcomes as JUnit XML: a suite for each file, a case for each entry.

`failure` is what was not as expected, with type failed, refused or timeout; `error` is what it runs on, with type
infrastructure, and a line that cannot be read, with type malformed; `skipped` was not played. Characters that XML
cannot hold are made visible.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final
from xml.etree import ElementTree as xml

from stockade_client.errors import InvalidRequest
from stockade_client.results import CallResult
from stockade_client.runs.entries import Fault
from stockade_client.runs.outcomes import Outcome

# What is no Char of XML 1.0 (section 2.2), which no escape can bring in either. CR would be read as LF.
_NO_CHARACTER: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST: Final = 64 * 1024  # characters of one call's output


def write(
    path: str, outcomes: Sequence[Outcome], faults: Iterable[Fault], properties: Mapping[str, str], *, began: float
) -> None:
    """Writes the report: beside `path` first, so that nobody reads half of it. Raises OSError.

    began: seconds since 1970.
    """
    root = xml.Element("testsuites", name="stockade run")
    properties = {**properties, **_layers(outcomes)}
    suites = [
        _suite(file, list(entries), properties, began)
        for file, entries in groupby(outcomes, key=lambda each: each.entry.file)
    ]
    malformed = [_fault(each) for each in faults]
    if malformed:
        suite = xml.Element("testsuite", name="lines that cannot be used", timestamp=_time(began))
        suite.extend(malformed)
        suites.append(suite)
    for suite in suites:
        _count(suite)
        root.append(suite)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.set("time", _seconds(sum(each.wall_s for each in outcomes)))
    xml.indent(root)
    beside = f"{path}.{os.getpid()}.part"
    try:
        with open(beside, "wb") as file:
            xml.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)
            file.write(b"\n")
        os.replace(beside, path)
    except BaseException:
        if os.path.lexists(beside):
            os.unlink(beside)
        raise


def check(path: str | None) -> None:
    """Raises InvalidRequest where no report can be written to `path`, before anything is run."""
    if path is None:
        return
    above = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.access(above, os.W_OK | os.X_OK):
        raise InvalidRequest(f"the report {path!r} cannot be written; give a file in a directory that you may write")


def legible(text: str) -> str:
    """The text with what XML cannot hold made visible, as \\x1b or \\ud800."""
    return _NO_CHARACTER.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"


def _layers(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """The layers that held in every call that had a worker."""
    held = [
        {layer.name for layer in result.layers if layer.held}
        for outcome in outcomes
        for result in outcome.results
        if result.layers
    ]
    return {"layers": " ".join(sorted(set.intersection(*held)))} if held else {}


def _suite(file: str, outcomes: list[Outcome], properties: Mapping[str, str], began: float) -> xml.Element:
    suite = xml.Element("testsuite", name=legible(file), timestamp=_time(began))
    suite.set("time", _seconds(sum(each.wall_s for each in outcomes)))
    _properties(suite, properties)
    suite.extend(_case(each) for each in outcomes)
    return suite


def _case(outcome: Outcome) -> xml.Element:
    entry = outcome.entry
    case = xml.Element("testcase", name=legible(entry.name), classname=legible(entry.file.removesuffix(".jsonl")))
    case.set("time", _seconds(outcome.wall_s))
    case.set("file", legible(entry.file))
    case.set("line", str(entry.line))
    told = {"attempts": str(outcome.attempts)} if outcome.attempts > 1 else {}
    if outcome.retried:
        told["retried"] = outcome.retried
    digests = {each.profile_digest for each in outcome.results if each.profile_digest}
    if digests:
        told["profile_digest"] = " ".join(sorted(digests))
    missing = sorted({layer.name for each in outcome.results for layer in each.layers if not layer.held})
    if missing:
        told["layers_not_held"] = " ".join(missing)
    _properties(case, told)
    _verdict(case, outcome)
    output = "\n".join(_said(each) for each in outcome.results)
    if output.strip():
        xml.SubElement(case, "system-out").text = legible(output)
    return case


def _verdict(case: xml.Element, outcome: Outcome) -> None:
    if outcome.kind == "passed":
        return
    if outcome.kind == "not run":
        xml.SubElement(case, "skipped", message="the run ended before")
        return
    word = "error" if outcome.kind == "infrastructure" else "failure"
    reasons = [legible(each) for each in outcome.reasons]
    verdict = xml.SubElement(case, word, type="refused" if outcome.refused else outcome.kind)
    verdict.set("message", reasons[0].partition("\n")[0] if reasons else outcome.kind)
    verdict.text = "\n".join([f"{legible(outcome.entry.file)}:{outcome.entry.line}", *reasons])


def _said(result: CallResult) -> str:
    parts = [f"# {result.tool}"]
    for name in ("stdout", "stderr"):
        text = result.field(name)
        if isinstance(text, str) and text:
            parts.append(text if len(text) <= _MOST else f"{text[:_MOST]}… ({len(text)} characters)")
    if len(parts) == 1 and result.text:
        parts.append(result.text[:_MOST])
    return "\n".join(parts)


def _fault(fault: Fault) -> xml.Element:
    case = xml.Element("testcase", name=legible(f"{fault.file}:{fault.line}"), classname=legible(fault.file))
    case.set("time", "0")
    verdict = xml.SubElement(case, "error", type="malformed", message=legible(fault.reason))
    verdict.text = legible(str(fault))
    return case


def _properties(owner: xml.Element, properties: Mapping[str, str]) -> None:
    if properties:
        listed = xml.SubElement(owner, "properties")
        for name, value in properties.items():
            xml.SubElement(listed, "property", name=name, value=legible(value))


def _count(suite: xml.Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for name, inner in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(inner) is not None for case in cases)))


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _time(began: float) -> str:
    return datetime.fromtimestamp(began, UTC).isoformat(timespec="seconds")
