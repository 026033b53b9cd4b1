"""A directory of tools that a real daemon watches, and its news as a session sees them."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from stockade.v1 import catalog_pb2
from stockade_client import connect, local_daemon
from stockade_client.link import opened
from stockade_client.session import Session

HANG_S = 120.0  # a hang detector


@dataclass(slots=True)
class Shop:
    """`session`: on `workspace`, under profile dev; whatever is asked is answered with yes."""

    directory: Path
    workspace: Path
    session: Session
    address: str
    seen: int = 0  # events before this number are old

    def write(self, name: str, text: str) -> Path:
        """Puts a file into the directory in one step, as editors do."""
        path = self.directory / name
        made = self.directory / f".{name}.new"
        made.write_text(text)
        made.replace(path)
        return path

    async def news(self, kind: str, word: str = "") -> Mapping[str, object]:
        """The body of the next `catalog/changed` or `catalog/refused` that has `word` in it."""
        async with asyncio.timeout(HANG_S), self.session.events(after=self.seen, follow=True) as events:
            async for event in events:
                self.seen = event.seq
                if event.type == f"catalog/{kind}" and word in str(event.body):
                    return event.body
        raise AssertionError("the session ended")

    async def listed(self) -> catalog_pb2.ListToolsResponse:
        async with opened(self.address, None) as link:
            return await link.ask(link.catalog.ListTools, catalog_pb2.ListToolsRequest(), "list its tools")

    async def names(self) -> set[str]:
        return {each.name for each in (await self.listed()).tools}

    async def refused(self) -> dict[str, str]:
        """By file name: why it is refused, without the directory."""
        reasons = [each.reason for each in (await self.listed()).refused]
        return {os.path.basename(each.partition(":")[0]): each.replace(f"{self.directory}/", "") for each in reasons}


async def yes(ask: object) -> bool:
    return True


@asynccontextmanager
async def open_shop(
    place: Path, tools: Mapping[str, str], *, profile: str = "dev", packages: Sequence[str] = ()
) -> AsyncIterator[Shop]:
    """A daemon that has begun with `tools` (name → text) in its directory, and these entry points."""
    directory, workspace = place / "tools", place / "workspace"
    for each in (directory, workspace):
        await asyncio.to_thread(each.mkdir, mode=0o755)
    config = place / "stockade.toml"
    await asyncio.to_thread(config.write_text, f'[tools]\npaths = ["{directory}"]\npackages = {list(packages)}\n')
    for name, text in tools.items():
        await asyncio.to_thread((directory / name).write_text, text)
    await asyncio.to_thread((workspace / "a.txt").write_text, "one two\ntwo\n")
    async with (
        local_daemon(config=config) as address,
        connect(address) as daemon,
        daemon.session(workspace=workspace, profile=profile, approve=yes) as session,
    ):
        yield Shop(directory, workspace, session, address)
