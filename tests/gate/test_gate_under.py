"""One session's gate under two sets of patterns: they refuse differently and know the same."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.workspace import Workspace
from tests.gate.conftest import Actor

Refused: TypeAlias = Callable[..., AbstractContextManager[None]]


async def test_what_was_seen_under_other_patterns_was_seen(workspace: Workspace, root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    first = Gate(workspace)
    second = first.under(protected=(), hidden=("b.txt",))
    await Actor(first, []).read("a.txt")
    await Actor(second, []).edit("a.txt", b"one", b"two")
    await Actor(first, []).edit("a.txt", b"two", b"three")
    assert (root / "a.txt").read_text() == "three\n"


async def test_a_change_that_began_before_is_made_under_what_it_began_with(
    workspace: Workspace, root: Path, refused: Refused
) -> None:
    (root / "a.txt").write_text("one\n")
    first = Gate(workspace)
    await Actor(first, []).read("a.txt")
    planned = await Actor(first, []).plan_edit("a.txt", b"one", b"two")
    second = first.under(protected=("a.txt",), hidden=(".env",))
    with refused("FS_PROTECTED"):
        await Actor(second, []).plan_edit("a.txt", b"one", b"two")
    await Actor(first, []).commit(planned)
    assert (root / "a.txt").read_text() == "two\n"
    assert (first.hides(b".env"), second.hides(b".env")) == (False, True)


async def test_a_handle_is_the_sessions_under_whichever_patterns(workspace: Workspace, root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    first = Gate(workspace)
    opened = await first.read("a.txt")
    os.close(opened.descriptor)
    assert first.under(protected=(), hidden=()).part(opened.handle, first=1, last=1).whole
