"""The documentation says what the code says: lists that appear in both are equal."""

import ast
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from stockade_daemon import config, meanings, pages
from stockade_daemon.errors import CODES
from stockade_daemon.profiles import keys
from stockade_daemon.settings import Key
from tests.bench.report import PARTS, section

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
EVENT = re.compile(r"(session|profile|todo|tool|call|policy|approval|fs|context|catalog)/[a-z-]+")


def rows(page: str, heading: str) -> list[list[str]]:
    """Cells of the table beneath a heading, without its head; back-ticks around a first cell are taken off."""
    _, beneath = (DOCS / page).read_text().split(f"# {heading}\n", 1)
    section = beneath.split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ") or line.startswith("|-")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [[first.strip("`"), *rest] for first, *rest in cells if not set(first) <= {"-"}][1:]


def default_of(key: Key[Any]) -> str:
    value = key.default
    if isinstance(value, dict):
        return "`{" + ", ".join(f"{name} = {json.dumps(text)}" for name, text in value.items()) + "}`"
    if isinstance(value, tuple):
        return f"`{json.dumps(list(value))}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{json.dumps(value)}`"


def test_profiles_md_has_every_key_with_its_values_default_and_meaning() -> None:
    written = rows("profiles.md", "Every key")
    assert written == [[key.name, key.allowed, default_of(key), key.meaning] for key in keys.KEYS]


def test_operations_md_has_every_key_of_stockade_toml() -> None:
    written = rows("operations.md", "stockade.toml")
    assert written == [[key.name, key.allowed, key.meaning] for key in config.KEYS]


def test_every_error_code_has_a_meaning() -> None:
    assert list(meanings.OF_CODES) == list(CODES)
    assert all(text.endswith(".") for text in meanings.OF_CODES.values())


def test_every_event_that_the_daemon_records_has_a_meaning() -> None:
    recorded = {
        node.value
        for path in (ROOT / "daemon" / "stockade_daemon").rglob("*.py")
        if path.name != "meanings.py"
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and EVENT.fullmatch(node.value)
    }
    assert sorted(meanings.OF_EVENTS) == sorted(recorded)


def test_the_pages_of_the_catalog_are_what_the_code_says() -> None:
    assert pages.main(["--check", str(DOCS / "catalog")]) == 0


def test_a_page_of_the_catalog_that_is_old_missing_or_no_longer_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pages.main([str(tmp_path)]) == 0
    assert pages.main(["--check", str(tmp_path)]) == 0
    (tmp_path / "errors.md").write_text("old\n")
    (tmp_path / "events.md").unlink()
    (tmp_path / "more.md").write_text("more\n")
    assert pages.main(["--check", str(tmp_path)]) == 1
    named = [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert named == [str(tmp_path / name) for name in ("errors.md", "events.md", "more.md")]


def test_protocol_md_has_every_method_of_the_protos() -> None:
    files = sorted((ROOT / "proto" / "stockade" / "v1").glob("*.proto"))
    modules = [importlib.import_module(f"stockade.v1.{path.stem}_pb2") for path in files]
    methods = [
        (f"{service.name}.{method.name}", "stream" if method.server_streaming else "unary")
        for module in modules
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
    assert len(methods) > 20
    assert sorted((row[0], row[1]) for row in rows("protocol.md", "Protocol")) == sorted(methods)


def test_the_catalog_that_protocol_md_leads_to_has_every_event_and_code_once() -> None:
    page = (DOCS / "protocol.md").read_text()
    for name, wanted in (("events", meanings.OF_EVENTS), ("errors", CODES)):
        assert f"](catalog/{name}.md)" in page
        cells = re.findall(r"^\| `([^`]+)` ", (DOCS / "catalog" / f"{name}.md").read_text(), re.MULTILINE)
        assert sorted(cells) == sorted(wanted)


@pytest.mark.parametrize("part", PARTS)
def test_bench_page_has_the_figures_that_were_kept(part: str) -> None:
    page = (DOCS / "bench" / "README.md").read_text()
    _, beneath = page.split(f"<!-- begin {part} -->\n", 1)
    kept = json.loads((DOCS / "bench" / f"{part}.json").read_text())
    assert beneath.split(f"<!-- end {part} -->", 1)[0] == section(kept)


def test_codes_and_keys_that_pages_mention_exist() -> None:
    for page in PAGES:
        mentioned = set(re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", page.read_text()))
        variables = {"STOCKADE_ADDRESS", "STOCKADE_TOKEN_FILE", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"}
        variables |= {f"STOCKADE_TLS_{name}" for name in ("CA", "CERTIFICATE", "KEY")}
        assert mentioned - set(CODES) - variables == set(), page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_events_and_methods_that_a_page_mentions_exist(page: Path) -> None:
    text = page.read_text()
    words = re.findall(r"`([^`\n]+)`", text)
    events = {word for word in words if EVENT.fullmatch(word)}
    assert events - set(meanings.OF_EVENTS) == set()
    methods = {row[0] for row in rows("protocol.md", "Protocol")}
    services = {name.partition(".")[0] for name in methods}
    called = {word for word in words if re.fullmatch(r"[A-Z][a-z]+\.[A-Z][A-Za-z]+", word)}
    assert {word for word in called if word.partition(".")[0] in services} - methods == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    places = (ROOT, ROOT / "daemon" / "stockade_daemon", ROOT / "daemon")
    text = page.read_text()
    saved = set(re.findall(r"ave this as\s+`([^`]+)`", text))  # the reader's own
    for name in set(re.findall(r"`([a-z_]+/[a-z_/]+\.(?:py|toml|proto))`", text)) - saved:
        assert any((place / name).exists() for place in places), name
