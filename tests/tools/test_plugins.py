"""docs/plugins.md, followed: its plugin in a distribution that is really installed, in a real daemon."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stockade_client import Daemon, Tool, ToolCall, Turn, connect, run_agent
from stockade_client.model import Message, Results
from stockade_daemon import plugins

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
(TEXT,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
PROFILE = 'extends = "dev"\nwiden = ["approval.writes"]\napproval.writes = "allow"\n'
HANG_S = 60.0
LINES = "".join(f"line {number}\n" for number in range(150))


def install(place: Path, monkeypatch: pytest.MonkeyPatch, text: str, point: str = "house_rules:register") -> None:
    """Installs a distribution as pip leaves it, where the daemon will look."""
    site = place / "site"
    files = {
        "house_rules.py": text,
        "house_rules-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: house-rules\nVersion: 1.0\n",
        "house_rules-1.0.dist-info/entry_points.txt": f"[stockade.plugins]\nhouse-rules = {point}\n",
    }
    record = "".join(f"{name},,\n" for name in files)
    for name, content in {**files, "house_rules-1.0.dist-info/RECORD": record}.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(content)
    monkeypatch.setenv("PYTHONPATH", str(site))


async def started(place: Path, enabled: str) -> asyncio.subprocess.Process:
    configuration = place / "stockade.toml"
    configuration.write_text(f'[daemon]\nworkspaces = ["{place}"]\n[plugins]\nenabled = {enabled}\n')
    profile = place / "profiles"
    profile.mkdir(mode=0o700)
    (profile / "mine.toml").write_text(PROFILE)
    with configuration.open("a") as file:
        file.write(f'[profiles]\npaths = ["{profile}"]\n')
    where = ["--socket", f"{place}/run/d.sock", "--state", f"{place}/state", "--config", str(configuration)]
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "stockade_daemon", "serve", *where),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@asynccontextmanager
async def serving(place: Path, enabled: str) -> AsyncIterator[tuple[Daemon, asyncio.StreamReader]]:
    process = await started(place, enabled)
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), HANG_S)
        assert line.startswith(b"ready "), line
        async with connect(line.split()[1].decode()) as daemon:
            yield daemon, process.stdout
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


@pytest.fixture
def workspace(place: Path) -> Path:
    made = place / "workspace"
    made.mkdir()
    (made / "a.txt").write_text("one\n")
    (made / "list.txt").write_text(LINES)
    (made / "Makefile").write_text("all:\n\t@$(MAKE) -C . inner\ninner:\n\t@echo made\n")
    return made


async def test_the_plugin_of_the_manual_does_what_the_manual_says(
    place: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(place, monkeypatch, TEXT)
    async with (
        serving(place, '["house-rules"]') as (daemon, printed),
        daemon.session(workspace=workspace, profile="mine") as session,
    ):
        forced = await session.call("shell", command="git push --force")
        assert forced.error is not None
        assert (forced.error.code, forced.error.message.split(";")[0]) == ("DENIED", "nobody pushes with --force here")
        made = await session.call("shell", command="make all")
        assert made.field("stdout") == "made\n", made
        closed = await session.call("read", path="archive/x")
        assert closed.error is not None
        assert closed.error.message == "the archive is closed"
        await session.call("read", path="a.txt")
        edited = await session.call("edit", path="a.txt", old_string="one", new_string="two")
        assert edited.ok, edited
        await session.call("read", path="list.txt")
        emptied = await session.call("edit", path="list.txt", old_string=LINES, new_string="")
        assert emptied.error is not None
        assert emptied.error.code == "APPROVAL_UNAVAILABLE"
        rewritten = await session.call("write", path="list.txt", content="short\n")
        assert rewritten.error is not None
        assert rewritten.error.code == "APPROVAL_UNAVAILABLE"
        key = await session.call("edit", path="list.txt", old_string="line 7\n", new_string="-----BEGIN KEY-----\n")
        assert key.error is not None
        assert (key.error.code, key.error.message.split(";")[0]) == (
            "DENIED",
            "list.txt would have a key, or what cannot be looked at",
        )
        assert (workspace / "list.txt").read_text() == LINES
        async with session.events() as events:
            told = [event.body["text"] async for event in events if event.type == "context/message"]
        assert told == ["Run the tests before you go on."]
        lines = [(await asyncio.wait_for(printed.readline(), HANG_S)).decode() for _ in range(5)]
        assert lines[:3] == ["settled shell DENIED\n", "settled shell ok\n", "settled read DENIED\n"]


class Edits:
    """A model that reads a file, edits it, and looks at what it was told."""

    async def reply(self, conversation: Sequence[Message], tools: Sequence[Tool]) -> Turn:
        edit = b'{"path": "a.txt", "old_string": "one", "new_string": "two"}'
        read = b'{"path": "a.txt"}'
        messages = [[ToolCall("read", read, "call_0")], [ToolCall("edit", edit, "call_0"), ToolCall("read", read, "b")]]
        said = sum(isinstance(each, Turn) for each in conversation)
        return Turn("", tuple(messages[said])) if said < len(messages) else Turn("done")


async def test_what_a_plugin_tells_beside_results_reaches_the_model_after_all_of_them(
    place: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(place, monkeypatch, TEXT)
    async with (
        serving(place, '["house-rules"]') as (daemon, _),
        daemon.session(workspace=workspace, profile="mine") as session,
    ):
        first, second = [each for each in await run_agent(session, Edits(), "t") if isinstance(each, Results)]
    assert first.context == ()
    assert [result.ok for result in second.results] == [True, True]
    assert second.context == ("Run the tests before you go on.",)


async def test_what_is_installed_and_not_named_is_not_loaded(
    place: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(place, monkeypatch, TEXT)
    async with serving(place, "[]") as (daemon, _), daemon.session(workspace=workspace, profile="mine") as session:
        assert (await session.call("read", path="archive/x")).error.code == "FS_NOT_FOUND"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("enabled", "text", "words"),
    [
        ('["none"]', TEXT, "plugin 'none': no installed distribution has an entry point of this name"),
        ('["house-rules"]', "raise ValueError('broken at import')", "ValueError: broken at import"),
        ('["house-rules"]', "import sys\nsys.exit(7)", "SystemExit: 7"),
        ('["house-rules"]', "def register(extensions):\n    extensions.guard(3)", "3 is called and not awaited"),
        ('["house-rules"]', "def register(e):\n    e.execute(lambda a, b: None)", "write `async def listener"),
        ('["house-rules"]', "def register(e):\n    e.edit_intent(lambda a: None)", "`async def listener(intended)`"),
        ('["house-rules"]', "async def a(t): ...\ndef register(e):\n    e.transaction_guard(a)", "not awaited"),
        ('["house-rules"]', "def other(e): pass", "AttributeError"),
        ('["house-rules", "house-rules"]', TEXT, '"house-rules" a second time'),
    ],
    ids=[
        "missing",
        "import",
        "exit",
        "no guard",
        "not async",
        "no listener",
        "an awaited guard",
        "no function",
        "twice",
    ],
)
async def test_the_daemon_does_not_start_without_a_plugin_that_it_is_told_to_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, enabled: str, text: str, words: str
) -> None:
    install(place, monkeypatch, text)
    process = await started(place, enabled)
    out, err = await asyncio.wait_for(process.communicate(), HANG_S)
    assert (process.returncode, out) == (2, b"")
    assert words in err.decode()
    assert "house-rules" in err.decode() or "'none'" in err.decode()


def test_the_manual_names_all_that_may_be_registered() -> None:
    methods = {name for name in vars(plugins.Extensions) if not name.startswith("_")}
    assert {line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `")} == methods
    assert all(hasattr(plugins, name) for name in plugins.__all__)
