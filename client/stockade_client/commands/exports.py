"""The tools as others take them: for each format, from tools to one JSON value."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from stockade_client.results import Json
from stockade_client.values import Tool


def openai(tools: Sequence[Tool]) -> Json:
    """The `tools` of a chat completion (https://platform.openai.com/docs/guides/function-calling)."""
    return [
        {
            "type": "function",
            "function": {"name": each.name, "description": each.description, "parameters": each.input_schema},
        }
        for each in tools
    ]


def anthropic(tools: Sequence[Tool]) -> Json:
    """The `tools` of a message (https://docs.anthropic.com/en/docs/build-with-claude/tool-use)."""
    return [{"name": each.name, "description": each.description, "input_schema": each.input_schema} for each in tools]


def mcp(tools: Sequence[Tool]) -> Json:
    """The result of `tools/list` (https://modelcontextprotocol.io/specification/2025-06-18/server/tools)."""
    return {
        "tools": [
            {
                "name": each.name,
                "description": each.description,
                "inputSchema": each.input_schema,
                "annotations": {
                    "readOnlyHint": each.kind == "read",
                    "idempotentHint": each.idempotent,
                },
            }
            for each in tools
        ]
    }


FORMATS: Final[Mapping[str, Callable[[Sequence[Tool]], Json]]] = {"openai": openai, "anthropic": anthropic, "mcp": mcp}
