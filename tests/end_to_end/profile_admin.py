"""An admin who edits profiles while a daemon runs, and what its sessions hear of it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stockade_client.results import CallResult
from stockade_client.session import Session
from tests.end_to_end.stockaded import Stockaded

HANG_S = 60.0  # a hang detector
SAYS = 'extends = "dev"\nwiden = ["environment.set"]\n{more}\n[environment.set]\nWORD = "{word}"\n'


@dataclass(slots=True)
class Admin:
    """With a directory of profiles in the daemon's configuration."""

    daemon: Stockaded
    directory: Path

    @classmethod
    def of(cls, daemon: Stockaded, directory: Path) -> "Admin":
        place = directory / "profiles"
        place.mkdir(mode=0o755)
        text = daemon.configuration.read_text()
        daemon.configuration.write_text(f'{text}[profiles]\npaths = ["{place}"]\n')
        return cls(daemon, place)

    def path(self, name: str) -> Path:
        return self.directory / f"{name}.toml"

    def write(self, name: str, text: str) -> None:
        """In one step, as editors do."""
        made = self.directory / f".{name}.new"
        made.write_text(text)
        made.replace(self.path(name))

    def says(self, name: str, word: str, more: str = "") -> None:
        """A profile under which commands see `word`; `more`: keys of the file's top."""
        self.write(name, SAYS.format(word=word, more=more))


async def said(session: Session) -> tuple[str, str]:
    """What a command sees of the profile, and the digest of its result."""
    result = await session.call("shell", command="echo $WORD")
    assert result.ok, result
    return printed(result).strip(), result.profile_digest


def printed(result: CallResult) -> str:
    assert isinstance(result.value, dict), result
    return str(result.value["stdout"])


def code(result: CallResult) -> str:
    return result.error.code if result.error else "ok"


async def bodies(session: Session, type: str) -> list[Mapping[str, Any]]:
    async with session.events() as events:
        return [event.body async for event in events if event.type == type]


async def news(session: Session, type: str, count: int) -> list[Mapping[str, Any]]:
    """The bodies of the session's events of this type, once there are so many; no call is made for it."""
    found: list[Mapping[str, Any]] = []
    async with asyncio.timeout(HANG_S), session.events(follow=True) as events:
        async for event in events:
            if event.type == type:
                found.append(event.body)
            if len(found) == count:
                return found
    raise AssertionError("the session ended")


async def logged(daemon: Stockaded, *words: str) -> str:
    """The line of the daemon's log that has all these words, once it is there."""
    async with asyncio.timeout(HANG_S):
        while True:
            for line in (await asyncio.to_thread(daemon.log.read_text)).splitlines():
                if all(word in line for word in words):
                    return line
            await asyncio.sleep(0)
