"""For any bytes, encodings, line endings and edits: what is committed is what plain text replacement gives, or the call
is refused and not one byte is other than before."""

import asyncio
import codecs
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from stockade_client import connect, local_daemon
from stockade_client.session import Session
from stockade_daemon.gate.workspace import Workspace
from stockade_toolkit import ToolError
from stockade_worker.frames import image_kind
from tests.examples import examples
from tests.tools.bodies_at_a_gate import Bodies
from tests.tools.reference import Edit, edited, text_of

ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "latin-1", "cp1252", "shift_jis",
             "gb18030", "iso2022_jp", "utf-7", "hz")  # fmt: skip
# The same text has several spellings in these; what is not replaced keeps the one it has.
BY_CONTEXT = ("iso2022_jp", "utf-7", "hz")
# Few characters, so that texts repeat themselves: what ends lines, joins with others, has several spellings.
CHARACTERS = st.sampled_from(
    [*"aab \t\\$&", "\n", "\n", "\r\n", "\r\n", "\r", "\u2028", "é", "e\u0301", "ﬁ", "日", "🙂", "\ufeff", "\0"]
)
TEXTS = st.lists(CHARACTERS, max_size=24).map("".join)
FAST = settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, str]:
    """Bytes, and the encoding in which they are to be changed."""
    encoding = draw(st.sampled_from(ENCODINGS))
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=40)), encoding
    return draw(TEXTS).encode(encoding, "ignore"), encoding


@st.composite
def edits_of(draw: st.DrawFn, text: str, most: int) -> list[Edit]:
    """Edits that mostly take a piece of the text, sometimes with LF where it has CRLF."""
    found = []
    for _ in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, max(len(text) - 1, 0)))
        old = text[start : start + draw(st.integers(1, 8))]
        if draw(st.integers(0, 5)) == 0:
            old = draw(TEXTS)
        elif draw(st.booleans()):
            old = old.replace("\r\n", "\n")
        edit = Edit(old or "a", draw(TEXTS), draw(st.booleans()))
        found.append(edit)
        text = edited(text, [edit]) or text
    return found


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


class Calls(Protocol):
    """One session's calls."""

    def call(self, tool: str, **arguments: Any) -> object:
        """Raises ToolError where the call was refused."""
        raise NotImplementedError


class Remote:
    """The same through the client, the daemon and a worker."""

    def __init__(self, session: Session, runner: asyncio.Runner) -> None:
        self._session = session
        self._runner = runner

    def call(self, tool: str, **arguments: Any) -> object:
        result = self._runner.run(self._session.call(tool, **arguments))
        if result.error is not None:
            raise ToolError(result.error.code, result.error.message)
        return result.value


class Trial:
    """One file, read by its session, and what a change of it comes to."""

    def __init__(self, root: Path, bodies: Calls, data: bytes) -> None:
        self.file = root / "a"
        self.file.unlink(missing_ok=True)
        self.file.write_bytes(data)
        self.file.chmod(0o640)
        self.before = data
        self.bodies = bodies

    def change(self, tool: str, encoding: str, **arguments: Any) -> str:
        """Reads the file, then changes it; the code of a refusal, or nothing. What never changes is looked at here."""
        more = {} if encoding == "utf-8" else {"encoding": encoding}
        code = ""
        try:
            self.bodies.call("read", path="a", **more)
            self.bodies.call(tool, path="a", **arguments, **more)
        except ToolError as error:
            code = error.code
            assert self.file.read_bytes() == self.before
        assert [path.name for path in self.file.parent.iterdir()] == ["a"]
        assert self.file.stat().st_mode & 0o7777 == 0o640
        event(f"{tool}: {code or 'done'}")
        return code


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    with Workspace.open(str(root)) as workspace:
        yield workspace


def agree(trial: Trial, code: str, encoding: str, edits: list[Edit]) -> None:
    """What is on the disk is what the edits give by plain replacement; a plain edit of plain text is not refused."""
    taken = text_of(trial.before, encoding)
    wanted = None if taken is None else edited(taken[1], edits)
    if not code:
        assert taken is not None
        assert wanted is not None
        mark, _, name = taken
        present = trial.file.read_bytes()
        if name in BY_CONTEXT:
            assert present.decode(name) == wanted
        else:
            assert present == mark + wanted.encode(name)
    elif encoding == "utf-8" and taken is not None and b"\0" not in trial.before and not trial.before.startswith(
        (b"\xff\xfe", b"\xfe\xff")
    ):  # fmt: skip
        assert wanted is None or any(edit.old == edit.new for edit in edits), (code, edits)


@FAST
@given(data=st.data(), file=files())
def test_an_edit_is_a_replacement_of_text_or_nothing(
    root: Path, workspace: Workspace, runner: asyncio.Runner, data: st.DataObject, file: tuple[bytes, str]
) -> None:
    content, encoding = file
    (edit,) = data.draw(edits_of((text_of(content, encoding) or (b"", "a", ""))[1], 1))
    trial = Trial(root, Bodies(workspace, runner), content)
    agree(trial, trial.change("edit", encoding, **edit.arguments()), encoding, [edit])


@FAST
@given(data=st.data(), file=files())
def test_several_edits_are_replacements_in_order_or_nothing(
    root: Path, workspace: Workspace, runner: asyncio.Runner, data: st.DataObject, file: tuple[bytes, str]
) -> None:
    content, encoding = file
    edits = data.draw(edits_of((text_of(content, encoding) or (b"", "a", ""))[1], 4))
    trial = Trial(root, Bodies(workspace, runner), content)
    code = trial.change("multi_edit", encoding, edits=[edit.arguments() for edit in edits])
    agree(trial, code, encoding, edits)


@FAST
@given(file=files(), content=TEXTS)
@example(file=(codecs.BOM_UTF8, "utf-8"), content="a")
@example(file=(codecs.BOM_UTF16_LE, "utf-16"), content="a")
@example(file=(b"", "utf-8"), content="a")
@example(file=(b"\x89PNG\r\n\x1a\n", "utf-8"), content="a")
def test_a_write_is_its_text_in_its_encoding_or_nothing(
    root: Path, workspace: Workspace, runner: asyncio.Runner, file: tuple[bytes, str], content: str
) -> None:
    before, encoding = file
    trial = Trial(root, Bodies(workspace, runner), before)
    code = trial.change("write", encoding, content=content)
    if not code:
        assert trial.file.read_bytes() == content.encode(encoding)
    elif encoding == "utf-8":
        # A picture is shown as one, so that none of its lines has been seen.
        unseen = "FS_NOT_OBSERVED" if image_kind(before) else "FS_NOT_TEXT"
        assert code in ("FS_NOT_UTF8", "FS_NOT_TEXT", unseen)


@FAST
@given(file=files(), content=TEXTS)
@example(file=(b"caf\xe9\n", "latin-1"), content="a")
@example(file=(codecs.BOM_UTF16_LE, "utf-16"), content="a")
@example(file=("a".encode("utf-16-be"), "utf-16-be"), content="a")
@example(file=(b"\xe9\0", "latin-1"), content="a")
@example(file=(b"GIF89a\xe9", "latin-1"), content="a")
def test_a_write_that_names_no_encoding_replaces_no_text_of_another(
    root: Path, workspace: Workspace, runner: asyncio.Runner, file: tuple[bytes, str], content: str
) -> None:
    """Text is what has no NUL and no signature of an image, or has a byte-order mark."""
    before, encoding = file
    trial = Trial(root, Bodies(workspace, runner), before)
    try:
        trial.bodies.call("read", path="a", encoding=encoding)
    except ToolError:
        return
    code = ""
    try:
        trial.bodies.call("write", path="a", content=content)
    except ToolError as error:
        code = error.code
        assert code == "FS_NOT_UTF8"
    assert trial.file.read_bytes() == (before if code else content.encode())
    marked = before.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))
    if marked or (b"\0" not in before and not before.startswith(b"GIF89a")):
        assert (code == "FS_NOT_UTF8") == (marked or text_of(before, "utf-8") is None)


@FAST
@given(before=st.binary(max_size=60), spans=st.lists(st.tuples(st.integers(0, 60), st.binary(max_size=6)), max_size=6))
def test_an_edit_of_any_bytes_by_latin_1_changes_the_matched_ones_alone(
    root: Path, workspace: Workspace, runner: asyncio.Runner, before: bytes, spans: list[tuple[int, bytes]]
) -> None:
    """Latin-1 has a character for every byte."""
    for at, new in spans:
        trial = Trial(root, Bodies(workspace, runner), before)
        old = before[at : at + 3].decode("latin-1")
        edit = Edit(old or "a", new.decode("latin-1"), everywhere=False)
        agree(trial, trial.change("edit", "latin-1", **edit.arguments()), "latin-1", [edit])


@pytest.fixture
def remote(scratch: Path, runner: asyncio.Runner) -> Iterator[tuple[Path, Remote]]:
    """A session at a private daemon, and its workspace."""
    place = Path(tempfile.mkdtemp(dir=scratch))
    (place / "work").mkdir()
    profile = place / "profile.toml"
    profile.write_text('extends = "dev"\nwiden = ["approval.writes"]\napproval.writes = "allow"\n')

    async def opened(stack: AsyncExitStack) -> Session:
        daemon = await stack.enter_async_context(connect(await stack.enter_async_context(local_daemon())))
        return await stack.enter_async_context(daemon.session(workspace=place / "work", profile=profile))

    stack = AsyncExitStack()
    try:
        yield place / "work", Remote(runner.run(opened(stack)), runner)
    finally:
        runner.run(stack.aclose())


@settings(FAST, max_examples=examples(25))
@given(data=st.data(), file=files(), content=TEXTS)
def test_through_a_real_daemon_it_is_the_same(
    remote: tuple[Path, Remote], data: st.DataObject, file: tuple[bytes, str], content: str
) -> None:
    root, bodies = remote
    before, encoding = file
    edits = data.draw(edits_of((text_of(before, encoding) or (b"", "a", ""))[1], 3))
    trial = Trial(root, bodies, before)
    agree(trial, trial.change("multi_edit", encoding, edits=[edit.arguments() for edit in edits]), encoding, edits)
    trial = Trial(root, bodies, before)
    if not trial.change("write", encoding, content=content):
        assert trial.file.read_bytes() == content.encode(encoding)
