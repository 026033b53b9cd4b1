"""The work of every day in the shipped profile `dev`: version control, packages, compilers, test suites."""

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import Stockaded

ROOT = Path(__file__).parents[2]
IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org")
GIT = shlex.join(["git", *IDENTITY])


def programs(*names: str) -> pytest.MarkDecorator:
    """Skips where a program is not below /usr, which is where workers have programs from."""
    missing = [name for name in names if not os.path.realpath(shutil.which(name) or "/").startswith("/usr/")]
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)} below /usr on this host")


def dev(stockade: Stockade, script: str, *, profile: str = "dev", daemon: Stockaded | None = None) -> str:
    """What a script prints; it ends with status 0, and no program in it has anything to complain about."""
    done = stockade("exec", "--yes", "--profile", profile, "--", "bash", "-euc", script, daemon=daemon)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def host_git(*arguments: str, at: Path) -> str:
    """git outside, without the configuration of whoever runs the tests."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", *IDENTITY, *arguments], cwd=at, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def repository(workspace: Path) -> Path:
    """The workspace as a repository with one commit and a clean working tree."""
    (workspace / "src").mkdir()
    (workspace / "src" / "run.sh").write_text("#!/bin/sh\necho run\n")
    (workspace / "src" / "run.sh").chmod(0o755)
    (workspace / "link").symlink_to("src/run.sh")
    (workspace / ".gitignore").write_text("*.log\n")
    host_git("init", "--quiet", "--initial-branch=main", at=workspace)
    host_git("add", ".", at=workspace)
    host_git("commit", "--quiet", "--message=first", at=workspace)
    return workspace


def test_git_status_finds_nothing_that_is_not_of_the_repository(stockade: Stockade, repository: Path) -> None:
    assert dev(stockade, "git status --porcelain --ignored --untracked-files=all") == ""
    (repository / "a.txt").write_text("changed\n")
    assert dev(stockade, "git status --porcelain --ignored; git diff --stat").startswith(" M a.txt\n a.txt |")


def test_a_commit_is_seen_in_its_call_and_in_the_effects_but_not_outside(stockade: Stockade, repository: Path) -> None:
    command = f"echo new > new.txt; git add new.txt; {GIT} commit -qm second; git log --format=%s; git status --short"
    arguments = json.dumps({"command": command})
    done = stockade("call", "shell", arguments, "--profile", "dev", "--json")
    value: dict[str, Any] = json.loads(done.stdout)["value"]
    assert (value["stdout"], value["stderr"], value["exit_code"]) == ("second\nfirst\n", "", 0)
    effects = {each["path"]: each["change"] for each in value["effects"]}
    assert effects["new.txt"] == "created"
    assert effects[".git/refs/heads/main"] == effects[".git/index"] == effects[".git/logs/HEAD"] == "changed"
    assert host_git("log", "--format=%s", at=repository) == "first\n"
    assert host_git("status", "--porcelain", at=repository) == ""


def test_git_status_has_no_effects(stockade: Stockade, repository: Path) -> None:
    os.utime(repository / "a.txt")  # so that outside it would write the index anew
    arguments = json.dumps({"command": "git status; git log; git show"})
    done = stockade("call", "shell", arguments, "--profile", "dev", "--json")
    assert json.loads(done.stdout)["value"]["effects"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_a_repository_of_another_owner_is_not_dubious(stockade: Stockade, repository: Path) -> None:
    for path in (repository, *repository.rglob("*")):
        os.chown(path, 54321, 54321, follow_symlinks=False)
    assert dev(stockade, f"git status --porcelain; {GIT} commit --allow-empty -qm second; git log --format=%s") == (
        "second\nfirst\n"
    )


def test_working_trees_and_submodules_inside_the_workspace_behave(stockade: Stockade, repository: Path) -> None:
    library = repository / "library"
    library.mkdir()
    host_git("init", "--quiet", at=library)
    host_git("commit", "--quiet", "--allow-empty", "--message=library", at=library)
    script = f"""
        git worktree add -q -b side tree; cd tree; {GIT} commit -q --allow-empty -m second; git status --porcelain
        cd ..; git worktree move tree moved; git -C moved log --format=%s; git worktree remove moved
        git worktree list --porcelain | grep -c ^worktree
        {GIT} -c protocol.file.allow=always submodule --quiet add "file://$PWD/library" sub
        {GIT} commit -qm third; git submodule --quiet update --init; git submodule status | wc -l
        git -C sub log --format=%s; git fsck --no-progress --no-dangling; git gc --quiet
    """
    assert dev(stockade, script) == "second\nfirst\n1\n1\nlibrary\n"


def test_renaming_directories_of_the_workspace(stockade: Stockade, repository: Path) -> None:
    """`mv` copies where the kernel cannot rename; git does not, and an ordinary user's daemon has such a kernel."""
    assert dev(stockade, "mv src moved; ls moved; ls src 2>&1 || true; mv moved src").startswith(
        "run.sh\nls: cannot access 'src'"
    )
    done = stockade("exec", "--yes", "--profile", "dev", "--", "sh", "-c", "git mv src moved && git status --porcelain")
    if os.geteuid() == 0:
        assert (done.returncode, done.stdout) == (0, "R  src/run.sh -> moved/run.sh\n"), done.stderr
    else:
        assert "Invalid cross-device link" in done.stderr


def test_cloning_a_repository_of_the_workspace(stockade: Stockade, repository: Path) -> None:
    """git links the files where it can, and insists on links that the overlay of an ordinary user's daemon splits."""
    script = "git clone --quiet --no-hardlinks . one; git clone --quiet . /tmp/two; ls one /tmp/two"
    assert dev(stockade, script) == "/tmp/two:\na.txt\nlink\nsrc\n\none:\na.txt\nlink\nsrc\n"
    done = stockade("exec", "--yes", "--profile", "dev", "--", "sh", "-c", "git clone --quiet . inner && ls inner")
    if os.geteuid() == 0:
        assert (done.returncode, done.stdout) == (0, "a.txt\nlink\nsrc\n"), done.stderr
    else:
        # Versions of git before 2.39.4 do not look; then the clone is whole, with files of its own.
        assert "hardlink different from source" in done.stderr or done.stdout == "a.txt\nlink\nsrc\n"


def with_mounts(stockaded: Stockaded, *mounts: str) -> Stockaded:
    """A started daemon with a profile `work`, which is `dev` with more mounts."""
    profiles = stockaded.directory / "profiles"
    profiles.mkdir()
    listed = ", ".join(f'{{path = "{mount}", mode = "ro"}}' for mount in mounts)
    (profiles / "work.toml").write_text(
        f'extends = "dev"\nwiden = ["filesystem.mounts"]\n[filesystem]\nmounts = [{listed}]\n'
    )
    with stockaded.configuration.open("a") as configuration:
        configuration.write(f'[profiles]\npaths = ["{profiles}"]\n')
    stockaded.start()
    return stockaded


def test_a_working_tree_has_its_history_by_a_mount(
    stockaded: Stockaded, stockade: Stockade, workspace: Path, directory: Path
) -> None:
    main = directory / "main"
    main.mkdir()
    host_git("init", "--quiet", at=main)
    host_git("commit", "--quiet", "--allow-empty", "--message=first", at=main)
    shutil.rmtree(workspace)
    host_git("worktree", "add", "--quiet", "-b", "side", str(workspace), at=main)
    (workspace / "new.txt").write_text("new\n")
    daemon = with_mounts(stockaded, f"{main}/.git")
    assert dev(stockade, "git log --format=%s; git status --porcelain", profile="work", daemon=daemon) == (
        "first\n?? new.txt\n"
    )
    tried = stockade("exec", "--profile", "work", "--", "git", "add", "new.txt", daemon=daemon)
    assert "Read-only file system" in tried.stderr


def test_modes_times_and_links_are_those_of_outside(stockade: Stockade, workspace: Path) -> None:
    for number, mode in enumerate((0o600, 0o640, 0o755, 0o444)):
        (workspace / f"file{number}").write_text("x" * number)
        (workspace / f"file{number}").chmod(mode)
        os.utime(workspace / f"file{number}", ns=(1, 1_000_000_123_456_789 + number))
    (workspace / "inner").mkdir(mode=0o750)
    (workspace / "link").symlink_to("file0")
    os.link(workspace / "file1", workspace / "file1-too")
    script = (
        "import json, os; f = lambda n: os.lstat(n); "
        "print(json.dumps({n: [f(n).st_mode, f(n).st_mtime_ns, f(n).st_size] for n in os.listdir()}))"
    )
    outside = {}
    for path in workspace.iterdir():
        found = path.lstat()
        outside[path.name] = [found.st_mode, found.st_mtime_ns, found.st_size]
    assert json.loads(dev(stockade, f"python3 -c {shlex.quote(script)}")) == outside
    assert stat.S_ISLNK(outside["link"][0])
    assert dev(stockade, "find . ! -user agent; cmp file1 file1-too; : > file2; chmod 700 inner; cat link") == ""


DEVICES = """
head -c 3 /dev/zero | od -An -tx1
head -c 5 /dev/random | wc -c; head -c 5 /dev/urandom | wc -c
echo gone > /dev/null; wc -c < /dev/null
(echo full > /dev/full) 2> /dev/null || echo "full is full"
echo piped | cat /dev/stdin > /dev/stdout; echo error 2> /dev/null > /dev/stderr
cat <(echo substituted)
echo 3 > /dev/shm/three; cat /dev/shm/three
(: < /dev/tty) 2> /dev/null || echo "no terminal"
test -t 0 || test -t 1 || echo "not a terminal either"
"""


def test_the_devices_that_programs_expect_are_there(stockade: Stockade) -> None:
    assert dev(stockade, DEVICES).splitlines() == [
        " 00 00 00", "5", "5", "0", "full is full", "piped", "substituted", "3", "no terminal", "not a terminal either"
    ]  # fmt: skip


PARALLEL = """
import concurrent.futures, multiprocessing, multiprocessing.shared_memory, os, subprocess, sys, tempfile, threading

def twice(number): return 2 * number

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, tempfile.NamedTemporaryFile() as file:
        assert os.path.isdir(directory) and os.path.isfile(file.name)
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    assert os.cpu_count() >= len(os.sched_getaffinity(0)) >= 1
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            assert pool.map(twice, [1, 2, 3]) == [2, 4, 6], method
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(twice, [1])) == [2]
    lock, semaphore, queue = multiprocessing.Lock(), multiprocessing.Semaphore(2), multiprocessing.Queue()
    with lock, semaphore:
        queue.put(1)
    assert queue.get() == 1
    block = multiprocessing.shared_memory.SharedMemory(create=True, size=4096)
    block.close()
    block.unlink()
    threads = [threading.Thread(target=twice, args=(1,)) for _ in range(20)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True).stdout == b"1\\n"
    print("done")
"""


def test_temporary_files_processes_and_shared_memory_work(stockade: Stockade, workspace: Path) -> None:
    (workspace / "parallel.py").write_text(PARALLEL)
    assert dev(stockade, "python3 parallel.py") == "done\n"


def test_locale_and_time_zone_are_complete(stockade: Stockade) -> None:
    script = r"""
        locale charmap
        python3 -c 'import locale, sys, time; locale.setlocale(locale.LC_ALL, ""); print(sys.stdout.encoding, "ä")'
        python3 -c 'import getpass, os, pwd; print(getpass.getuser(), pwd.getpwuid(os.getuid()).pw_dir)'
        test "$(TZ=UTC0 date -d @0 +%F)" = 1970-01-01
        printf 'b\na\n' | sort | tr '\n' ' '
        hash perl 2> /dev/null && perl -e 1
    """
    assert dev(stockade, script) == "UTF-8\nutf-8 ä\nagent /tmp\na b "
    assert dev(stockade, "date +%z") == subprocess.check_output(["date", "+%z"], text=True)


def wheel(directory: Path) -> None:
    """A package `greet` with a script of the same name."""
    info = "greet-1.0.dist-info"
    files = {
        "greet/__init__.py": "def main():\n    print('hello')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ngreet = greet:main\n",
    }
    with zipfile.ZipFile(directory / "greet-1.0-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")))


def test_a_virtual_environment_is_made_and_a_wheel_installed(stockade: Stockade, workspace: Path) -> None:
    wheel(workspace)
    script = """
        python3 -m venv env
        env/bin/pip install --quiet --disable-pip-version-check --no-index --find-links . greet
        env/bin/greet; env/bin/python -c 'import greet, sys; print(sys.prefix, greet.__file__)'
    """
    lines = dev(stockade, script).splitlines()
    assert lines[0] == "hello"
    assert lines[1].startswith(f"{workspace}/env {workspace}/env/lib/")
    assert (workspace / "env" / "bin" / "greet").is_file()


def test_the_tests_of_a_real_package_pass(stockaded: Stockaded, stockade: Stockade, workspace: Path) -> None:
    """Of this one: its code and some of its tests in the workspace, its environment by a mount."""
    for name in (
        "daemon",
        "proto",
        "client",
        "pyproject.toml",
        "tests/registry",
        "tests/profiles",
        "tests/conftest.py",
    ):
        source, target = ROOT / name, workspace / name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (workspace / "daemon" / "stockade_daemon" / "sandbox_profiles").unlink()
    shutil.copytree(ROOT / "sandbox_profiles", workspace / "daemon" / "stockade_daemon" / "sandbox_profiles")
    daemon = with_mounts(stockaded, sys.prefix)
    script = f"""
        export PYTHONPATH=daemon:proto:client
        {sys.prefix}/bin/python -m pytest -q -p no:cacheprovider tests/registry tests/profiles/test_toml_text.py
    """
    printed = dev(stockade, script, profile="work", daemon=daemon)
    assert " passed in " in printed
    assert "failed" not in printed


@programs("node", "npm")
def test_npm_runs_scripts_and_installs_what_is_at_hand(stockade: Stockade, workspace: Path) -> None:
    (workspace / "dependency").mkdir()
    (workspace / "dependency" / "index.js").write_text("module.exports = () => 42;\n")
    (workspace / "application").mkdir()
    script = r"""
        export npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
        (cd dependency; npm init --yes --silent > /dev/null; npm pack --silent)
        cd application
        npm init --yes --silent > /dev/null
        npm pkg set 'scripts.greet=node -e "console.log(process.env.npm_lifecycle_event, require(\"dependency\")())"'
        npm install --silent ../dependency/dependency-1.0.0.tgz > /dev/null
        npm run --silent greet
        rm -rf node_modules package-lock.json
        npm install --silent ../dependency > /dev/null
        npm run --silent greet
        node -e 'new (require("worker_threads").Worker)("console.log(1)", {eval: true})'
    """
    assert dev(stockade, script) == "dependency-1.0.0.tgz\ngreet 42\ngreet 42\n1\n"


MAKEFILE = """
program: main.o part.o
\tgcc -o $@ $^
%.o: %.c
\tgcc -O2 -g -Wall -Werror -c -o $@ $<
"""


@programs("gcc", "make")
def test_a_program_is_built_and_run(stockade: Stockade, workspace: Path) -> None:
    (workspace / "Makefile").write_text(MAKEFILE)
    (workspace / "main.c").write_text("int part(void);\nint main(void) { return part(); }\n")
    (workspace / "part.c").write_text('#include <stdio.h>\nint part(void) { return puts("built") < 0; }\n')
    assert dev(stockade, "make -s -j2; ./program; make -q && make -s clean 2> /dev/null || echo up to date") == (
        "built\nup to date\n"
    )
    made = {"main.o", "part.o", "program"}
    assert {path.name for path in workspace.iterdir()} == {"Makefile", "a.txt", "main.c", "part.c", *made}
