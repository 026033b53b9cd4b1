"""What the rivals work on, and the sessions: each reads, edits and makes files through a real daemon."""

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from stockade_client.results import CallResult
from stockade_client.session import Session

EARLY: Final = tuple(f"file-{number}.txt" for number in range(4))  # there from the beginning, and never removed
LATER: Final = tuple(f"made-{number}.txt" for number in range(6))  # made, removed and made again
LINES: Final = 12


def line(who: str, number: int) -> str:
    """A line that is nowhere else: with it, every version of a file has a digest of its own."""
    return f"{who} wrote this, {number}\n"


def first_content(path: str) -> bytes:
    return "".join(line(f"the beginning of {path}", number) for number in range(LINES)).encode()


class Agent:
    """One session's model: it mostly looks before it changes something, and sometimes trusts what it knows."""

    def __init__(self, name: str, session: Session, tools: frozenset[str], seed: str) -> None:
        self._name = name
        self._session = session
        self._chance = random.Random(f"{seed}/{name}")
        self._kinds = [kind for kind in ("edit", "edit", "multi_edit", "write") if kind in tools]
        self._known: dict[str, str] = {}  # file contents as it believes them to be
        self._count = 0
        self.told: Counter[str] = Counter()

    async def work(self, goes_on: Callable[[], bool]) -> None:
        while goes_on():
            kind = self._chance.choice(self._kinds)
            path = self._chance.choice((*EARLY, *LATER))
            if self._chance.random() < 0.7 or path not in self._known:
                await self._read(path)
            if path in self._known or kind == "write":
                await self._change(kind, path)

    async def _read(self, path: str) -> None:
        result = await self._call("read", {"path": path})
        self._known.pop(path, None)
        if result.ok:
            self._known[path] = str(result.field("content"))

    async def _change(self, kind: str, path: str) -> None:
        known = self._known.get(path, "")
        lines = known.splitlines(keepends=True)
        if kind == "write" or not lines:
            if "write" not in self._kinds:
                return
            content = "".join([*self._chance.sample(lines, min(len(lines), LINES - 1)), self._line()])
            result = await self._call("write", {"path": path, "content": content})
        elif kind == "edit":
            old, new = self._chance.choice(lines), self._line()
            content = known.replace(old, new)
            result = await self._call("edit", {"path": path, "old_string": old, "new_string": new})
        else:
            content, edits = known, []
            for old in self._chance.sample(lines, min(3, len(lines))):
                edits.append({"old_string": old, "new_string": self._line()})
                content = content.replace(old, edits[-1]["new_string"])
            result = await self._call("multi_edit", {"path": path, "edits": edits})
        if result.ok:
            self._known[path] = content

    async def _call(self, tool: str, arguments: dict[str, Any]) -> CallResult:
        result = await self._session.call_json(tool, json.dumps(arguments).encode())
        self.told[f"{tool}: {result.error.code if result.error else 'ok'}"] += 1
        return result

    def _line(self) -> str:
        self._count += 1
        return line(self._name, self._count)
