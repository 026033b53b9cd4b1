"""The checker that fails where a command leaves something behind."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.leaks import own_groups

LEAKS = Path(__file__).parents[1] / "leaks.py"
NAMESPACE = os.stat("/proc/self/ns/pid").st_ino
JOIN = 'for each in $1; do echo 0 >"$each/cgroup.procs" || exit; done; shift; exec "$@"'
UNSHARE = ("unshare", "--mount")

_groups: list[str] = []  # below those of this process, where it may make some; everybody's daemons are beside them
_apart: list[str] = []  # what has a command see no mounts but its own, where that can be


def inside(*groups: str) -> list[str]:
    """What has the command behind it run in these groups."""
    return ["sh", "-c", JOIN, "sh", " ".join(groups)]


def works(*command: str) -> bool:
    try:
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module", autouse=True)
def apart() -> Iterator[None]:
    """The checker runs in control groups and with mounts of its own: what others, daemons and tests, leave and mount
    at the same time is not its command's."""
    if works(*UNSHARE, "true"):
        _apart.extend(UNSHARE)
    for place in own_groups():
        group = f"{place}/leaks-{os.getpid()}"
        with contextlib.suppress(OSError):
            os.mkdir(group)
            # Some, as those of cpuset, have nobody in them before they are given more.
            if works(*inside(group), "true"):
                _groups.append(group)
            else:
                os.rmdir(group)
    yield
    _apart.clear()
    while _groups:
        os.rmdir(_groups.pop())


def leaks(*arguments: str, patience: float = 2.0) -> subprocess.CompletedProcess[str]:
    command = [*_apart, *inside(*_groups), sys.executable, str(LEAKS), "--patience", str(patience), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def python(code: str) -> tuple[str, ...]:
    return "--", sys.executable, "-c", code


def test_a_command_that_leaves_nothing_passes() -> None:
    done = leaks(*python("import tempfile; tempfile.TemporaryDirectory().cleanup(); print('said')"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "said\n", "leaks: nothing left behind\n")


@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_a_clean_commands_own_status_comes_through(code: str, status: int) -> None:
    assert leaks(*python(code)).returncode == status


def test_a_command_that_does_not_exist_is_said_to() -> None:
    done = leaks("--", "/no/such/program", patience=0.2)
    assert done.returncode == 127
    assert "No such file or directory" in done.stderr


def test_no_command_is_a_mistake_in_usage() -> None:
    assert leaks().returncode == 2


def test_a_process_that_is_left_fails_even_in_a_session_of_its_own_and_without_environment() -> None:
    code = (
        "import os, subprocess; subprocess.Popen(['/bin/sleep', '600'], start_new_session=True, env={},"
        " stdin=-3, stdout=-3, stderr=-3)"
    )
    done = leaks(*python(code), patience=0.2)
    assert done.returncode == 1
    assert "left behind: process" in done.stderr
    assert "/bin/sleep 600" in done.stderr


def test_a_process_that_ends_soon_is_waited_for() -> None:
    code = "import subprocess; subprocess.Popen(['/bin/sleep', '0.3'], stdin=-3, stdout=-3, stderr=-3)"
    assert leaks(*python(code)).returncode == 0


@pytest.mark.parametrize(
    "code",
    [
        "import tempfile; tempfile.mkdtemp()",
        "import tempfile; tempfile.mkstemp(prefix='xy')",
        "import os, socket; socket.socket(socket.AF_UNIX).bind(os.environ['TMPDIR'] + '/s')",
    ],
)
def test_a_temporary_file_directory_or_socket_that_is_left_fails(code: str) -> None:
    done = leaks(*python(code), patience=0.2)
    assert done.returncode == 1
    assert "left behind: file " in done.stderr


def test_a_tree_deeper_than_recursion_goes_is_found_and_removed() -> None:
    code = (
        "import os; os.chdir(os.environ['TMPDIR']); print(os.getcwd())\n"
        "for _ in range(3000): os.mkdir('d'); os.chdir('d')"
    )
    done = leaks(*python(code), patience=0.2)
    assert done.returncode == 1
    assert "left behind: file " in done.stderr
    assert not os.path.lexists(done.stdout.strip())


def test_what_pytest_keeps_is_not_a_leak() -> None:
    assert leaks(*python("import os; os.makedirs(os.environ['TMPDIR'] + '/pytest-of-x/pytest-0')")).returncode == 0


def test_a_name_of_the_product_that_is_left_in_a_shared_place_fails() -> None:
    path = f"/var/tmp/stockade-leaks-{os.getpid()}"
    try:
        done = leaks(*python(f"open({path!r}, 'w')"), patience=0.2)
        assert done.returncode == 1
        assert f"left behind: file {path}" in done.stderr
    finally:
        Path(path).unlink()


def test_a_name_that_another_living_process_uses_is_not_the_commands(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    os.mkfifo(tmp_path / "made")
    with tempfile.TemporaryDirectory(prefix="other-", dir="/var/tmp") as parent:
        directory = f"/var/tmp/stockade-{os.path.basename(parent)}"
        # The other process makes and enters its directory while the command runs, and stays.
        other = (
            "import os, sys; open('go').close(); made = open('made', 'w');"
            f" os.mkdir({directory!r}); os.chdir({directory!r}); made.close();"
            f" sys.stdin.read(); os.rmdir({directory!r})"
        )
        command = f"import os; os.chdir({str(tmp_path)!r}); open('go', 'w').close(); open('made').read()"
        with subprocess.Popen([sys.executable, "-c", other], cwd=tmp_path, stdin=subprocess.PIPE) as process:
            done = leaks(*python(command))
            process.communicate()
        assert done.returncode == 0, done.stderr
        assert process.returncode == 0
        assert not os.path.exists(directory)


def test_the_next_start_may_tidy_up_files_but_not_processes(tmp_path: Path) -> None:
    make = "import os; os.mkdir(os.environ['TMPDIR'] + '/old')"
    tidy = tmp_path / "tidy.py"
    tidy.write_text("import os; os.rmdir(os.environ['TMPDIR'] + '/old')")
    start = f"{sys.executable} {tidy}"
    assert leaks("--after-next-start", start, *python(make)).returncode == 0
    left = "import subprocess; subprocess.Popen(['/bin/sleep', '600'], stdin=-3, stdout=-3, stderr=-3)"
    done = leaks("--after-next-start", start, *python(f"{make}; {left}"), patience=0.2)
    assert done.returncode == 1
    assert "/bin/sleep 600" in done.stderr
    assert "/old" not in done.stderr


def test_a_next_start_that_fails_is_a_failure() -> None:
    done = leaks("--after-next-start", "false", *python("pass"), patience=0.2)
    assert done.returncode == 1
    assert "the next start ended with status 1: false" in done.stderr


def group_of_a_daemon(pid: int, started: str, namespace: int = NAMESPACE) -> str:
    """The path of a control group named like that of such a daemon; skips where none can be made."""
    if not _groups:
        pytest.skip("this user cannot make control groups here")
    return f"{_groups[-1]}/stockade-{pid}-{started}-{namespace}-1"


@contextmanager
def another_daemon() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A process that lives, and the path of the control group that it would have as a daemon; the group is removed."""
    with subprocess.Popen(["/bin/sleep", "600"]) as other:
        try:
            started = Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[19]
            path = group_of_a_daemon(other.pid, started)
            try:
                yield other, path
            finally:
                os.rmdir(path)
        finally:
            other.kill()


def test_a_control_group_that_is_left_fails() -> None:
    path = group_of_a_daemon(0, "0", NAMESPACE + os.getpid())
    done = leaks(*python(f"import os; os.mkdir({path!r})"), patience=0.2)
    os.rmdir(path)
    assert done.returncode == 1
    assert f"left behind: cgroup {path}" in done.stderr


def test_the_control_group_of_another_daemon_that_lives_is_not_the_commands() -> None:
    with another_daemon() as (_, path):
        done = leaks(*python(f"import os; os.mkdir({path!r})"), patience=0.2)
        assert (done.returncode, done.stderr) == (0, "leaks: nothing left behind\n")


def test_the_control_group_of_a_daemon_that_was_there_before_and_is_killed_meanwhile_is_not_the_commands() -> None:
    with another_daemon() as (other, path):
        os.mkdir(path)
        reaping = threading.Thread(target=other.wait)
        reaping.start()
        kill = f"import os; os.kill({other.pid}, 9)\nwhile os.path.exists('/proc/{other.pid}'): pass"
        done = leaks(*python(kill), patience=0.2)
        reaping.join()
        assert (done.returncode, done.stderr) == (0, "leaks: nothing left behind\n")


def test_a_control_group_that_a_daemon_elsewhere_has_left_is_not_the_commands() -> None:
    inside = Path(group_of_a_daemon(0, "0", NAMESPACE + os.getpid()))
    beside = inside.parent.parent / inside.name
    done = leaks(*python(f"import os; os.mkdir({str(beside)!r})"), patience=0.2)
    beside.rmdir()
    assert (done.returncode, done.stderr) == (0, "leaks: nothing left behind\n")


needs_mounts = pytest.mark.skipif(not works(*UNSHARE, "mount", "-t", "tmpfs", "probe", "/mnt"), reason="needs to mount")


@needs_mounts
def test_a_mount_that_is_left_fails(tmp_path: Path) -> None:
    done = leaks("--", "mount", "-t", "tmpfs", "probe", str(tmp_path), patience=0.2)
    assert done.returncode == 1
    assert f"left behind: mount {tmp_path} (tmpfs)" in done.stderr
    assert not os.path.ismount(tmp_path)


@needs_mounts
def test_a_mount_that_somebody_elsewhere_makes_meanwhile_is_not_the_commands(tmp_path: Path) -> None:
    elsewhere = f"--mount=/proc/{os.getpid()}/ns/mnt"
    done = leaks("--", "nsenter", elsewhere, "mount", "-t", "tmpfs", "probe", str(tmp_path), patience=0.2)
    assert os.path.ismount(tmp_path)
    subprocess.run(["umount", str(tmp_path)], check=True)
    assert (done.returncode, done.stderr) == (0, "leaks: nothing left behind\n")
