"""Version control, packages, builds and test suites leave the same tree through Stockade as they do outside."""

import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from stockade_client import connect
from tests.end_to_end.both_ways import both_ways
from tests.end_to_end.session_s import code, start_with
from tests.end_to_end.stockaded import Stockaded
from tests.end_to_end.test_real_work import host_git, programs
from tests.scripts.snapshot import differences, snapshot

# What a commit is called depends on who made it, and when.
GIT: Final = """
set -eu
export GIT_CONFIG_NOSYSTEM=1 GIT_EDITOR=: GIT_SEQUENCE_EDITOR=:
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE='2026-01-02T03:04:05Z'
export GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org GIT_COMMITTER_DATE='2026-01-02T03:04:06Z'
"""


@pytest.fixture(scope="module")
def served(scratch: Path) -> Iterator[Stockaded]:
    """A running daemon. Profile `tools` is `ci` with the environment of these tests, by a mount."""
    daemon = Stockaded(Path(tempfile.mkdtemp(dir=scratch)), workspaces=scratch)
    mount = f'{{path = "{sys.prefix}", mode = "ro"}}'
    text = f'extends = "ci"\nwiden = ["filesystem.mounts"]\n[filesystem]\nmounts = [{mount}]\n'
    try:
        start_with(daemon, {"tools": text})
        yield daemon
        assert daemon.end() == 0, daemon.log.read_text()
    finally:
        if daemon.process is not None:
            daemon.end(signal.SIGKILL)


def planted(workspace: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def repository(workspace: Path) -> Path:
    """A branch `side` that has come apart from `main`, over forty files."""
    planted(workspace, {f"d{n % 4}/f{n}.txt": "".join(f"line {i} of {n}\n" for i in range(50)) for n in range(40)})
    planted(workspace, {"run.sh": "#!/bin/sh\n"})
    (workspace / "run.sh").chmod(0o755)
    (workspace / "link").symlink_to("d0/f0.txt")
    script = r"""
        git init --quiet --initial-branch=main .; git add .; git commit --quiet --message=first
        git checkout --quiet -b side
        for n in 10 20 30; do sed -i "s/line $n of/side $n of/" d1/*.txt; git commit -qam "side $n"; done
        git mv d2/f2.txt d2/moved.txt; git rm --quiet d3/f3.txt; echo new > d3/new; git add .; git commit -qm 'side 4'
        sed -i 's/side 10 of/fixed 10 of/' d1/f1.txt; git commit --quiet --all --fixup=:/'side 10'
        git checkout --quiet main
        sed -i 's/line 20 of/main 20 of/' d1/f5.txt d0/*.txt; chmod 644 run.sh; git commit -qam second
        git checkout --quiet side
    """
    subprocess.run(["bash", "-c", GIT + script], cwd=workspace, check=True)
    return workspace


def test_git_commits_and_merges_as_outside(served: Stockaded, repository: Path) -> None:
    script = r"""
        echo more >> d0/f0.txt; rm -r d3; mkdir d3; echo new > d3/f1.txt; git mv d2 moved || cp -r d2 moved
        ln -sfn d3 link; chmod 600 run.sh; git add --all; git commit --quiet --message=one
        echo more >> d0/f4.txt; git commit --quiet --amend --all --no-edit; git tag -a -m tagged v1
        git checkout --quiet -b other :/'side 20'
        git merge --no-edit --strategy-option=ours main; git checkout --quiet -; git log --oneline --all | sort
    """
    if os.geteuid() != 0:  # an overlay of an ordinary user's daemon renames no directory: docs/effects.md
        script = script.replace("git mv d2 moved || cp -r d2 moved", "cp -r d2 moved; git rm -qr d2")
    both = both_ways(served, "ci", repository, [GIT + script, GIT + "git status --porcelain; git fsck"])
    assert both.differences() == []
    assert both.through.statuses == (0, 0), both.through.printed
    assert "link" in {each["path"] for each in both.through.effects}
    assert host_git("status", "--porcelain", at=repository) == ""


def test_git_rebases_as_outside(served: Stockaded, repository: Path) -> None:
    script = r"""
        git rebase --quiet -i --autosquash main 2>&1 || echo stopped
        git status --porcelain | grep ^UU
        sed -i -e '/^[<=>]/d' d1/f5.txt; git add d1/f5.txt
        git rebase --continue
    """
    commands = [script, "git log --stat --format=%H%n%B; git status --porcelain; git fsck"]
    both = both_ways(served, "ci", repository, [GIT + each for each in commands])
    assert both.differences() == []
    assert both.through.statuses == (0, 0), both.through.printed
    assert "stopped" in both.through.printed[0]
    assert "fixup!" not in both.through.printed[1]
    assert host_git("status", "--porcelain", at=repository) == ""
    assert not (repository / ".git" / "rebase-merge").exists()


async def test_a_rebase_that_stops_half_way_is_not_committed_unasked(served: Stockaded, repository: Path) -> None:
    """What git is to do next lies in .git/rebase-merge, and it runs what that says."""
    before = snapshot(repository)
    async with connect(served.address) as daemon, daemon.session(repository, "ci") as session:
        result = await session.call("shell", command=f"{GIT}git rebase main || git status")
    assert code(result) == "FS_PROTECTED"
    assert differences(before, snapshot(repository)) == []


def test_a_command_that_goes_by_where_it_runs_is_told(served: Stockaded, workspace: Path) -> None:
    """So that a comparison without differences says something."""
    both = both_ways(served, "ci", workspace, ['echo "$HOME" > "$HOME/x"; cp "$HOME/x" a.txt; chmod 600 a.txt', "pwd"])
    (difference,) = both.differences()
    assert difference.startswith("b'a.txt': content: ")
    assert both.through.printed == ("", f"{workspace}\n")


C_MAKEFILE: Final = """
units := $(basename $(notdir $(wildcard src/*.c)))
out/bin/program: build/main.o build/libunits.a | out/bin
\tcc -g -o $@.new $^ && mv $@.new $@
build/libunits.a: $(patsubst %,build/%.o,$(filter-out main,$(units)))
\trm -f $@ && ar rc $@ $^ && ranlib $@
build/%.o: src/%.c | build
\tcc -g -O1 -Wall -Werror -MMD -c -o $@ $<
build out/bin:
\tmkdir -p $@
-include $(wildcard build/*.d)
"""


@programs("make", "cc", "ar")
def test_make_builds_c_with_four_jobs(served: Stockaded, workspace: Path) -> None:
    names = [f"unit{number}" for number in range(16)]
    planted(
        workspace, {f"src/{name}.c": f'#include "all.h"\nint {name}(int n) {{ return n + STEP; }}\n' for name in names}
    )
    planted(workspace, {"src/all.h": "".join(["#define STEP 1\n", *(f"int {name}(int);\n" for name in names)])})
    calls = "".join(f"    n = {name}(n);\n" for name in names)
    body = f'int main(void) {{\n    int n = 0;\n{calls}    return printf("%d\\n", n) < 0;\n}}\n'
    planted(workspace, {"src/main.c": f'#include <stdio.h>\n#include "all.h"\n{body}', "Makefile": C_MAKEFILE})
    again = "sed -i 's/STEP 1/STEP 2/' src/all.h; rm src/unit0.c; sed -i /unit0/d src/*; rm build/unit0.*; make -s -j4"
    commands = ["make -s -j4; out/bin/program", "make -q", f"{again}; out/bin/program", "make -q"]
    both = both_ways(served, "ci", workspace, commands)
    assert both.differences() == []
    assert both.through.statuses == (0, 0, 0, 0)
    assert both.through.printed == ("16\n", "", "30\n", "")
    # make goes by times of files: those that were committed are those of the command.
    assert subprocess.run(["make", "-q"], cwd=workspace).returncode == 0


SHELL_MAKEFILE: Final = """
parts := $(foreach n,$(shell seq 60),parts/$n)
whole: $(parts)
\tcat $^ > $@.new; mv $@.new $@; chmod 444 $@
parts/%: Makefile
\tmkdir -p parts/$*.d; echo $* > parts/$*.d/n; cp -r parts/$*.d parts/$*.e; cat parts/$*.?/n > $@; rm -r parts/$*.?
clean:
\trm -rf whole parts
"""


@programs("make")
def test_make_runs_sixty_jobs_in_one_directory_four_at_a_time(served: Stockaded, workspace: Path) -> None:
    planted(workspace, {"Makefile": SHELL_MAKEFILE})
    both = both_ways(served, "ci", workspace, ["make -s -j4", "rm parts/7; make -s -j4", "make clean; make -s -j4"])
    assert both.differences() == []
    assert both.through.statuses == (0, 0, 0)
    assert (workspace / "whole").read_text().splitlines() == [str(n) for n in range(1, 61) for _ in range(2)]


def repacked(name: str, directory: Path) -> None:
    """A wheel of a distribution that is installed here, of the files that its record names."""
    distribution = importlib.metadata.distribution(name)
    files = [each for each in distribution.files or () if each.parts[0] != ".." and each.suffix != ".pyc"]
    made = {f"{name}-{distribution.version}.dist-info/{each}" for each in ("INSTALLER", "REQUESTED", "direct_url.json")}
    with zipfile.ZipFile(directory / f"{name}-{distribution.version}-py3-none-any.whl", "w") as archive:
        for each in files:
            if str(each) not in made:
                archive.write(str(distribution.locate_file(each)), str(each))


def packed(version: str, files: Mapping[str, str], directory: Path) -> None:
    """A wheel of a package `greet` that wants `click`, and has a program of the same name."""
    info = f"greet-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: greet\nVersion: {version}\nRequires-Dist: click\n"
    whole = {
        **files,
        f"greet-{version}.data/scripts/greet.sh": "#!/bin/sh\necho greet\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ngreet = greet:main\n",
    }
    with zipfile.ZipFile(directory / f"greet-{version}-py3-none-any.whl", "w") as archive:
        for name, text in whole.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in (*whole, f"{info}/RECORD")))


# Sets of strings that are constants are written in the order of their hashes.
PIP: Final = (
    f"export PYTHONHASHSEED=0 PIP_CONFIG_FILE=/dev/null; {sys.executable} -P -m pip --disable-pip-version-check"
)


def wheels(workspace: Path) -> None:
    """Two versions of a package `greet`, and what it wants."""
    (workspace / "wheels").mkdir()
    repacked("click", workspace / "wheels")
    code = "import click\n\n\n@click.command()\ndef main() -> None:\n    click.echo('hello')\n"
    packed("1.0", {"greet/__init__.py": code, "greet/one.py": "", "greet/data/a.json": "{}\n"}, workspace / "wheels")
    packed("2.0", {"greet/__init__.py": code, "greet/two/__init__.py": ""}, workspace / "wheels")


def test_pip_installs_into_a_directory(served: Stockaded, workspace: Path) -> None:
    wheels(workspace)
    pip = f"{PIP} install --quiet --no-index --find-links wheels -t site"
    commands = [
        f"{pip} greet==1.0; PYTHONPATH=site site/bin/greet",
        f"{pip} --upgrade greet; PYTHONPATH=site site/bin/greet; sh site/bin/greet.sh",
    ]
    both = both_ways(served, "tools", workspace, commands)
    assert both.differences() == []
    assert both.through.statuses == (0, 0)
    assert both.through.printed == ("hello\n", "hello\ngreet\n")
    assert (workspace / "site" / "greet" / "two").is_dir()
    assert not (workspace / "site" / "greet" / "data").exists()
    assert list((workspace / "site" / "click").rglob("*.pyc"))


SETTINGS: Final = """
[pytest]
addopts = --doctest-modules --basetemp=work/of tests --junitxml=reports/junit.xml -q -ra
tmp_path_retention_policy = all
"""
TESTS: Final = """
from pathlib import Path

import pytest
from sortedcontainers import SortedDict, SortedKeyList


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@pytest.mark.parametrize("count", [1, 10, 1000])
def test_sorts(count, tmp_path, shared):
    found = SortedKeyList(range(count), key=lambda n: -n)
    (tmp_path / "found").write_text(repr(list(found)))
    with (shared / "all").open("a") as file:
        print(count, file=file)
    assert found[0] == count - 1


def test_keeps_a_snapshot(request):
    snapshot = Path(request.config.rootpath, "snapshots", "one.txt")
    snapshot.parent.mkdir(exist_ok=True)
    snapshot.write_text(repr(SortedDict(b=1, a=2)))


def test_fails():
    assert SortedDict(a=1) == {"a": 2}
"""


def test_pytest_runs_the_tests_of_a_real_package(served: Stockaded, workspace: Path) -> None:
    """Of sortedcontainers: the examples of its docstrings, and tests that leave files behind."""
    installed = importlib.metadata.distribution("sortedcontainers").locate_file("sortedcontainers")
    shutil.copytree(str(installed), workspace / "sortedcontainers", ignore=shutil.ignore_patterns("__pycache__"))
    planted(workspace, {"pytest.ini": SETTINGS.replace("work/of tests", "work"), "tests/test_sorted.py": TESTS})
    run = f"{sys.executable} -m pytest -p no:randomly | sed 's/ in [0-9.]*s$//'; echo ${{PIPESTATUS[0]}}"
    # The second time with modules compiled, last failures first, and the directory of the first run to be removed.
    commands = [run, f"unset PYTHONDONTWRITEBYTECODE; {run.replace('pytest', 'pytest --ff', 1)}"]
    both = both_ways(served, "tools", workspace, commands)
    assert both.differences() == []
    for printed in both.through.printed:
        assert "1 failed, " in printed
        assert printed.endswith(" passed\n1\n")
    assert list(workspace.rglob("*.pyc"))
    assert (workspace / "work" / "shared0" / "all").read_text() == "1\n10\n1000\n"


def npm_project(workspace: Path) -> list[str]:
    """Commands that install into `application`: a directory, which npm links, and packed ones, one of which has a
    program, and a script of its own."""
    packages = {
        "linked": {"name": "linked", "version": "1.0.0", "main": "index.js"},
        "packed": {"name": "packed", "version": "1.0.0", "main": "index.js"},
        "tool": {
            "name": "tool",
            "version": "2.0.0",
            "bin": {"tool": "tool.js"},
            "scripts": {"postinstall": "node -e \"require('fs').writeFileSync('made.txt', 'made')\""},
        },
    }
    for name, package in packages.items():
        planted(
            workspace, {f"{name}/package.json": json.dumps(package), f"{name}/index.js": "module.exports = () => 42;\n"}
        )
    planted(
        workspace,
        {
            "tool/tool.js": "#!/usr/bin/env node\nconsole.log(require('./index.js')());\n",
            "tool/deep/er/data.json": "[]\n",
            "application/package.json": json.dumps({"name": "application", "version": "1.0.0"}),
        },
    )
    npm = """
        set -eu
        export npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
        export npm_config_loglevel=error
    """
    return [
        f"{npm} npm pack --silent ./packed ./tool",
        f"{npm} cd application; npm install --silent ../linked ../packed-1.0.0.tgz ../tool-2.0.0.tgz; npx --no tool",
        f"{npm} cd application; npm uninstall --silent packed; npm ls",
        f"{npm} cd application; npm ci --silent; npm ls --all; node_modules/.bin/tool",
    ]


@programs("node", "npm")
def test_npm_installs_what_is_at_hand(served: Stockaded, workspace: Path) -> None:
    both = both_ways(served, "ci", workspace, npm_project(workspace))
    assert both.differences() == []
    assert both.through.statuses == (0, 0, 0, 0), both.through.printed
    assert both.through.printed[1].endswith("42\n")
    assert (workspace / "application" / "node_modules" / "linked").is_symlink()
    assert (workspace / "application" / "node_modules" / "tool" / "made.txt").read_text() == "made"
