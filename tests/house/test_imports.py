"""Who may import whom. docs/architecture.md gives the reasons.

    rpc → pipeline → {policy, registry, gate, sandbox, profiles, ledger} → the ground floor

The rooms in braces do not know each other. What runs inside a sandbox uses the standard library alone. Client and
daemon meet only in the protocol.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "stockade": ROOT / "proto",
    "stockade_daemon": ROOT / "daemon",
    "stockade_worker": ROOT / "daemon",
    "stockade_toolkit": ROOT / "daemon",
    "stockade_client": ROOT / "client",
}

# Modules at the daemon's top level that every room may import, and that import each other only in this order.
GROUND = [
    "errors",
    "values",
    "json_place",
    "json_text",
    "toml_text",
    "settings",
    "watching",
    "meanings",
    "trust",
    "looks",
    "removing",
    "path_patterns",
    "principals",
    "listening",
    "command_names",
]
ROOMS = ["policy", "registry", "gate", "sandbox", "profiles", "ledger"]
# Modules that put the rooms together, and the settings that they are given: they may import everything.
WIRING = ["__main__", "app", "config", "pages", "plugins"]


def modules(package: str) -> Iterator[tuple[str, Path]]:
    """Dotted names and files of a package; generated code is left out."""
    root = PACKAGES[package]
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if not path.stem.endswith(("_pb2", "_pb2_grpc")):
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imported(module: str, path: Path) -> set[str]:
    """All that a file imports, at its top or later, for types or for use; `from x import y` gives x and x.y."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                inside = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
                base = ".".join([*inside[: len(inside) - node.level + 1], *filter(None, [node.module])])
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def of(package: str) -> list[object]:
    return [pytest.param(name, path, id=name) for name, path in modules(package)]


def package_of(name: str) -> str:
    return name.partition(".")[0]


@pytest.mark.parametrize(("module", "path"), of("stockade_daemon"))
def test_the_daemons_rooms_import_in_one_direction(module: str, path: Path) -> None:
    room = module.split(".")[1] if "." in module else ""
    if room == "rpc":
        allowed = {"rpc", "pipeline", *ROOMS, *GROUND}
    elif room == "pipeline":
        allowed = {"pipeline", *ROOMS, *GROUND}
    elif room in ROOMS:
        allowed = {room, *GROUND}
    elif room in GROUND:
        allowed = set(GROUND[: GROUND.index(room)])
    elif room == "config":
        allowed = set(GROUND)
    elif room in WIRING or room == "":
        return
    else:
        pytest.fail(f"{module} is a room that this rule does not know: say here what it may import")
    targets = {name.split(".")[1] for name in imported(module, path) if name.startswith("stockade_daemon.")}
    # `from stockade_daemon import x` names modules; constants of the package itself are nobody's room.
    strangers = {name for name in targets - allowed if is_module("stockade_daemon", name)}
    assert not strangers, f"{module} imports {sorted(strangers)}"


def is_module(package: str, name: str) -> bool:
    place = PACKAGES[package] / package / name
    return place.is_dir() or place.with_suffix(".py").is_file()


@pytest.mark.parametrize(("module", "path"), of("stockade_daemon"))
def test_the_daemon_knows_nothing_of_workers_but_their_frames(module: str, path: Path) -> None:
    names = {name for name in imported(module, path) if package_of(name) in ("stockade_worker", "stockade_toolkit")}
    allowed = {"stockade_worker", "stockade_worker.frames"}
    assert {name for name in names if not name.startswith("stockade_worker.frames.")} <= allowed


@pytest.mark.parametrize(("module", "path"), of("stockade_daemon"))
def test_the_daemon_never_imports_the_client(module: str, path: Path) -> None:
    assert "stockade_client" not in map(package_of, imported(module, path))


@pytest.mark.parametrize(("module", "path"), of("stockade_daemon"))
def test_only_rpc_and_the_wiring_know_grpc_and_messages(module: str, path: Path) -> None:
    if module.startswith("stockade_daemon.rpc") or module.removeprefix("stockade_daemon.") in WIRING:
        return
    assert not {"grpc", "grpc_health", "grpc_reflection", "google", "stockade"} & set(
        map(package_of, imported(module, path))
    )


@pytest.mark.parametrize(("module", "path"), of("stockade_client"))
def test_the_client_imports_the_protocol_and_nothing_else_of_ours(module: str, path: Path) -> None:
    ours = {package_of(name) for name in imported(module, path)} & set(PACKAGES)
    assert ours <= {"stockade", "stockade_client"}


@pytest.mark.parametrize(("module", "path"), [*of("stockade_worker"), *of("stockade_toolkit")])
def test_what_runs_inside_imports_the_standard_library_alone(module: str, path: Path) -> None:
    mine = {"stockade_worker": {"stockade_worker", "stockade_toolkit"}, "stockade_toolkit": {"stockade_toolkit"}}
    used = {package_of(name) for name in imported(module, path)}
    assert used <= set(sys.stdlib_module_names) | mine[package_of(module)]


def test_the_rule_sees_imports_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "here.py"
    path.write_text(
        "import a.b\nfrom c import d\nfrom . import e\nfrom ..f import g\n"
        "def late():\n    import h\nif TYPE_CHECKING:\n    from i import j\n"
    )
    found = imported("top.room.here", path)
    assert {"a.b", "c", "c.d", "top.room.e", "top.f", "top.f.g", "h", "i", "i.j"} <= found
