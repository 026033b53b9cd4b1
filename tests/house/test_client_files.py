"""Nothing in the client touches files of a workspace: who opens files at all is listed here, with what they are."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "client" / "stockade_client"

# Modules that may touch files, and which. All others of the client have paths as text alone.
MAY: dict[str, str] = {
    "addresses": "the daemon's socket",
    "private": "the log of a private daemon, in its own directory",
    "private_directory": "the directory of a private daemon",
    "regular_file": "a file whose text is sent, because the caller named it: a profile, a tool",
    "streams": "/dev/null, for standard output that is closed",
    "token_file": "the caller's own token",
    "local_token": "the socket of the daemon's token broker",
    "tls": "the caller's own certificates and key",
    "connection": "owner and mode of a tool file that is to be judged",
    "commands.agent": "a recorded conversation that the caller named",
    "commands.catalog": "none: it asks for the size of the terminal",
    "commands.tool": "the directories that lead to a tool file",
    "runs.reading": "the files of calls and the directories that the caller named",
    "runs.junit": "the report that the caller named",
    "demo.prepare": "the workspace of the demo, before there is a session",
    "demo.play": "the script of the demo",
    "commands.demo": "the directory of the demo",
}
# What opens, changes or looks at files, by any of these names: builtins, functions of os and shutil, methods of paths.
TOUCH = frozenset(
    (
        *("open", "fdopen", "stat", "lstat", "fstat", "listdir", "scandir", "walk", "readlink", "unlink", "remove"),
        *("rename", "mkdir", "makedirs", "rmdir", "rmtree", "copytree", "copyfile", "move", "chmod", "chown", "link"),
        *("symlink", "truncate", "utime", "mkfifo", "mknod", "read_text", "read_bytes", "write_text", "write_bytes"),
        *("iterdir", "rglob", "touch", "exists", "is_file", "is_dir", "lexists", "isfile", "isdir", "islink"),
        *("mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile"),
    )
)
MODULES = frozenset({"shutil", "tempfile", "fileinput", "mmap", "glob", "io", "zipfile", "tarfile", "sqlite3"})
# Of the same names, and no files: a line of text that is shortened.
NOT_FILES = frozenset({"line.truncate"})


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(CLIENT.rglob("*.py")):
        yield ".".join(path.relative_to(CLIENT).with_suffix("").parts), path


def touches(text: str) -> list[str]:
    """Lines that touch files, and how."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in TOUCH:
                found.append((node.lineno, name))
            case ast.Call(func=ast.Attribute(attr=name) as called) if name in TOUCH:
                if ast.unparse(called) not in NOT_FILES:
                    found.append((node.lineno, ast.unparse(called)))
            case ast.Import(names=names):
                found += [(node.lineno, each.name) for each in names if each.name in MODULES]
            case ast.ImportFrom(module=str(name), names=names):
                if name in MODULES or (name in ("os", "pathlib") and {each.name for each in names} & TOUCH):
                    found.append((node.lineno, f"from {name}"))
    return [f"{line}: {what}" for line, what in sorted(found)]


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=[name for name, _ in modules()])
def test_a_module_of_the_client_touches_no_files_unless_it_says_which(name: str, path: Path) -> None:
    found = touches(path.read_text())
    assert name in MAY or not found, f"{path.name} touches files at {found}: paths of a workspace are the daemon's"


def test_a_module_that_may_touch_files_does() -> None:
    assert {name for name, path in modules() if touches(path.read_text())} == set(MAY)


def test_the_rule_sees_files_however_they_are_touched() -> None:
    text = (
        "import shutil\nfrom os import open\nfrom tempfile import mkdtemp\n"
        "open('a')\nos.open('a', 0)\nPath('a').read_text()\nself.path.unlink()\nfunction = lambda: os.stat('a')\n"
    )
    assert [line.split(":")[0] for line in touches(text)] == [str(number) for number in range(1, 9)]
