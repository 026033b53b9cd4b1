"""A daemon, two sessions and an outsider for some time, and the judgement."""

import asyncio
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from stockade_client import connect
from stockade_client.values import Event
from stockade_daemon.removing import remove_tree
from tests.end_to_end.stockaded import Stockaded
from tests.rivals.load import EARLY, Agent, first_content
from tests.rivals.replay import Report, replayed

PROFILE: Final = 'extends = "dev"\nwiden = ["approval.writes"]\n[approval]\nwrites = "allow"\n'
SESSIONS: Final = ("one", "two")
ROOT: Final = Path(__file__).parents[2]


async def campaign(seconds: float, seed: int) -> tuple[Report, Counter[str]]:
    """What was found, and what the sessions were told, by tool and code."""
    directory = Path(tempfile.mkdtemp(prefix="rivals-"))
    workspace = directory / "workspace"
    workspace.mkdir()
    before = {path: first_content(path) for path in EARLY}
    for path, content in before.items():
        (workspace / path).write_bytes(content)
    daemon = Stockaded(directory, workspaces=workspace)
    profile = directory / "profiles" / "rivals.toml"
    profile.parent.mkdir()
    profile.write_text(PROFILE)
    with daemon.configuration.open("a") as configuration:
        configuration.write(f'[profiles]\npaths = ["{profile.parent}"]\n')
    try:
        await asyncio.to_thread(daemon.start)
        log = directory / "outsider.jsonl"
        events, told = await _run(daemon, workspace, log, seconds, seed)
        after = {path.name: path.read_bytes() for path in workspace.iterdir()}
        records = [json.loads(record) for record in log.read_text().splitlines()]
        return replayed(before, after, events, records), told
    finally:
        if daemon.process is not None:
            daemon.end(signal.SIGTERM)
        remove_tree(directory)


async def _run(
    daemon: Stockaded, workspace: Path, log: Path, seconds: float, seed: int
) -> tuple[dict[str, list[Event]], Counter[str]]:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(daemon.address))
        tools = frozenset(tool.name for tool in await client.tools())
        agents = []
        for name in SESSIONS:
            session = await stack.enter_async_context(client.session(workspace, "rivals", id=name))
            agents.append(Agent(name, session, tools, str(seed)))
        outsider = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.rivals.outsider", str(workspace), str(log), str(seed)),
            stdin=asyncio.subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is this program's to deal with
        )
        deadline = time.monotonic() + seconds
        try:
            async with asyncio.TaskGroup() as working:
                for agent in agents:
                    working.create_task(agent.work(lambda: time.monotonic() < deadline))
        finally:
            assert outsider.stdin is not None
            outsider.stdin.close()
            status = await outsider.wait()
        if status:
            raise RuntimeError(f"the outsider ended with status {status}")
        events = {}
        for name in SESSIONS:
            async with client.events(name) as stream:
                events[name] = [event async for event in stream]
        return events, sum((agent.told for agent in agents), Counter())
