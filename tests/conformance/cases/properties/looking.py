"""What checks look at in replies."""

import base64
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from tests.conformance.cases.replies import Played, Reply
from tests.conformance.cases.verdicts import Fails, hold


def everything(reply: Reply) -> str:
    """The whole reply as one text: value, content, error."""
    return json.dumps(reply.result.as_json(), ensure_ascii=False)


def legible(replies: Iterable[Reply]) -> None:
    """Raises Fails where a reply is no UTF-8, or holds a surrogate; what parses as JSON is what came over the wire."""
    for reply in replies:
        text = everything(reply)
        hold(not any(0xD800 <= ord(each) <= 0xDFFF for each in text), f"{reply.tool}: the reply holds a surrogate")
        json.loads(text.encode())


def all_ok(replies: Iterable[Reply]) -> None:
    for reply in replies:
        hold(reply.ok, f"{reply}; expected ok")


def content(reply: Reply) -> str:
    """What `read` returned of the file."""
    text = reply.field("content")
    if not isinstance(text, str):
        raise Fails(f"{reply}: it has no content")
    return text


def names(reply: Reply) -> list[bytes]:
    """The distinct names that a listing or a search gave, in order, as bytes: `path_b64` where there is one."""
    value = reply.value if isinstance(reply.value, dict) else {}
    # What stands beside the lists is the place that was asked for.
    return list(dict.fromkeys(_names([each for each in value.values() if isinstance(each, list)])))


def _names(value: Any) -> Iterator[bytes]:
    if isinstance(value, list):
        for each in value:
            yield from _names(each)
    elif isinstance(value, dict):
        for key in ("path", "name"):
            if f"{key}_b64" in value:
                yield base64.b64decode(value[f"{key}_b64"])
                break
            if isinstance(value.get(key), str) and any(k in value for k in ("kind", "line", "text")) | (key == "path"):
                yield os.fsencode(value[key])
                break
        for key, each in value.items():
            if isinstance(each, list | dict) and key != "skipped":
                yield from _names(each)


def finds(reply: Reply, *wanted: bytes) -> None:
    """Raises Fails where the reply is not ok or does not name all of them."""
    hold(reply.ok, f"{reply}; expected ok")
    there = names(reply)
    for name in wanted:
        hold(name in there, f"{reply.tool} does not give {name!r} but {there!r:.200}")


def present(path: bytes) -> None:
    hold(os.path.lexists(path), f"{os.fsdecode(path)} does not exist")


def on_disk(played: Played, name: str) -> bytes:
    """Raises Fails where it cannot be read."""
    try:
        with open(played.places.within(name), "rb") as file:
            return file.read()
    except OSError as error:
        raise Fails(f"{name} cannot be read: {error.strerror}") from None
