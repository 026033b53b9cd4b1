"""Templates start from compiled code, which the daemon has made before the first one."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from stockade_daemon.sandbox import bytecode, library
from stockade_daemon.sandbox.pool import Pool


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Copies of the packages that run inside, without compiled code."""
    copies = {
        name: str(shutil.copytree(source, tmp_path / "library" / name, ignore=shutil.ignore_patterns("__pycache__")))
        for name, source in library.packages().items()
    }
    monkeypatch.setattr(library, "packages", lambda: copies)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return copies


def _compiled(source: str) -> Path:
    return Path(importlib.util.cache_from_source(source))


def _without_compiled(packages: dict[str, str]) -> list[str]:
    modules = [str(each) for package in packages.values() for each in Path(package).rglob("*.py")]
    return [each for each in modules if not _compiled(each).is_file()]


async def test_a_pool_has_compiled_every_module_that_templates_import(packages: dict[str, str], tmp_path: Path) -> None:
    assert len(_without_compiled(packages)) > 40
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    async with Pool.start(state):
        pass
    assert _without_compiled(packages) == []


def test_a_changed_module_is_compiled_anew_and_no_other(packages: dict[str, str]) -> None:
    bytecode.prepare()
    changed, other = (f"{packages['stockade_worker']}/{name}.py" for name in ("zygote", "enter"))
    before = [_compiled(each).read_bytes() for each in (changed, other)]
    inode = _compiled(other).stat().st_ino
    with open(changed, "a", encoding="utf-8") as file:
        file.write("ADDED = 1\n")
    bytecode.prepare()
    assert _compiled(changed).read_bytes() != before[0]
    assert (_compiled(other).read_bytes(), _compiled(other).stat().st_ino) == (before[1], inode)


def test_nothing_is_written_where_python_is_told_so(packages: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    bytecode.prepare()
    assert not list(Path(packages["stockade_worker"]).rglob("__pycache__"))


def test_packages_that_cannot_be_written_are_left_as_they_are(packages: dict[str, str]) -> None:
    for package in packages.values():
        for directory in (Path(package), *(each for each in Path(package).rglob("*") if each.is_dir())):
            # A file in the directory's place stops root as well.
            (directory / "__pycache__").write_text("in the way")
    bytecode.prepare()
    for package in packages.values():
        assert os.path.isfile(f"{package}/__pycache__")
