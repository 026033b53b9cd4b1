"""A minimal agent: a model asks for tools, Stockade runs them in sandboxes, a person says yes to changes.

    python3 agent.py WORKSPACE        (with a file greeting.txt)

`Polite` stands in for a model. Yours goes in its place: `reply` is given all that was said so far, and the tools with
their descriptions and JSON schemas, and returns what the model says and the calls it asks for.
"""

import asyncio
import json
import sys
from collections.abc import Sequence

from stockade_client import Ask, Message, Results, Tool, ToolCall, Turn, connect, local_daemon, run_agent


class Polite:
    async def reply(self, conversation: Sequence[Message], tools: Sequence[Tool]) -> Turn:
        last = conversation[-1]
        if not isinstance(last, Results):  # the task: look first
            return Turn("I look at it.", (ToolCall("read", b'{"path": "greeting.txt"}', "look"),))
        if last.results[0].tool == "read":
            arguments = {"path": "greeting.txt", "old_string": "hello", "new_string": "good day"}
            return Turn("I change it.", (ToolCall("edit", json.dumps(arguments).encode(), "change"),))
        return Turn(f"The edit: {'done' if last.results[0].ok else last.results[0].error}.")


async def approve(ask: Ask) -> bool:
    print(ask.card["difference"])  # exactly what will be written, should the answer be yes
    return (await asyncio.to_thread(input, "Allow this? [y/N] ")).strip().lower() == "y"


async def main(workspace: str) -> None:
    async with local_daemon() as address, connect(address) as daemon:
        async with daemon.session(workspace, "dev", approve=approve) as session:
            conversation = await run_agent(session, Polite(), "Be polite.", tools=await session.tools())
    print(*(f"model: {message.text}" for message in conversation if isinstance(message, Turn)), sep="\n")


if len(sys.argv) != 2:
    print("usage: python3 agent.py WORKSPACE", file=sys.stderr)
    sys.exit(2)
asyncio.run(main(sys.argv[1]))
