"""Keeping figures: a JSON file for each part, and its tables in docs/bench/README.md between two marks."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.bench.daemon import ROOT
from tests.bench.figures import Cell, Table, text

PARTS: Final = ("calls", "memory", "hostile", "usage", "stages", "files", "search", "effects", "entries")
DOCS: Final = ROOT / "docs" / "bench"


def kept(place: Path, part: str, machine: Mapping[str, Cell], load: tuple[float, float], tables: list[Table]) -> None:
    """Writes PART.json; where `place` has a page with this part's marks, the tables go between them."""
    place.mkdir(parents=True, exist_ok=True)
    body = {
        "machine": dict(machine),
        "load": {"before": load[0], "after": load[1]},
        "tables": [{"title": table.title, "rows": list(table.rows)} for table in tables],
    }
    (place / f"{part}.json").write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")
    page = place / "README.md"
    if page.exists():
        whole = page.read_text()
        between = re.compile(rf"(<!-- begin {part} -->\n).*?(<!-- end {part} -->)", re.DOTALL)
        page.write_text(between.sub(lambda found: f"{found[1]}{section(body)}{found[2]}", whole))


def section(body: Mapping[str, Any]) -> str:
    """What a part's JSON looks like on the page."""
    tables = [Table(each["title"], tuple(each["rows"])) for each in body["tables"]]
    machine = body["machine"]
    load = body["load"]
    measured = (
        f"Measured {machine['date']} at {machine['commit']} as {machine['identity']}: {machine['processor']}, "
        f"{machine['cores']} cores, Linux {machine['kernel']}, control groups {machine['control groups']}, Python "
        f"{machine['python']}, {machine['bubblewrap']}; load {load['before']} before, {load['after']} after."
    )
    return "\n" + "\n\n".join([*map(text, tables), measured]) + "\n\n"
