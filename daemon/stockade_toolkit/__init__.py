"""All that a tool author imports.

    from stockade_toolkit import tool

    @tool(parallel_safe=True, idempotent=True)
    def add(a: int, b: int) -> int:
        \"\"\"Adds two integers.

        a: The first one.
        b: The second one.
        \"\"\"
        return a + b

The function's types and docstring are the tool's schema and description; what else there is to say of it is said in
the decorator. A parameter annotated with `Files` is given the way to the workspace; `tell` says
something to the agent beside the result. docs/tools.md is the manual.
"""

from stockade_toolkit.contract import Answer, Committed, Entry, Files, Json, Listing, OpenedFile, Span, ToolError
from stockade_toolkit.declaring import tool
from stockade_toolkit.telling import tell

__all__ = [
    "Answer",
    "Committed",
    "Entry",
    "Files",
    "Json",
    "Listing",
    "OpenedFile",
    "Span",
    "ToolError",
    "tell",
    "tool",
]
