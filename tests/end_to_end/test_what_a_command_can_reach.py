"""`stockade exec --profile strict`, asked for what it promises not to give."""

import json
import os
from pathlib import Path

from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import SECRET, running


def shell(stockade: Stockade, script: str) -> str:
    """What a script prints in a strict sandbox."""
    done = stockade("exec", "--profile", "strict", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_id_of_the_host_root_is_mapped(stockade: Stockade) -> None:
    maps = shell(stockade, "cat /proc/self/uid_map /proc/self/gid_map; id -u")
    inside, outside, count = maps.split()[:3]
    assert (inside, count) == ("1000", "1")
    assert outside != "0"
    assert maps.split()[-1] == "1000"


def test_every_capability_set_is_empty_and_none_can_be_gained(stockade: Stockade) -> None:
    lines = dict(line.split(":\t", 1) for line in shell(stockade, "cat /proc/self/status").splitlines())
    assert {lines[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (lines["NoNewPrivs"], lines["Seccomp"]) == ("1", "2")


def test_there_is_no_network(stockade: Stockade) -> None:
    """Shown without a packet: there is no device but loopback, it is down, and no socket can be made."""
    devices = shell(stockade, "cat /proc/net/dev").splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]
    tried = shell(
        stockade,
        "python3 -c 'import socket\n"
        "for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK, 40):\n"
        '    try: socket.socket(family, socket.SOCK_STREAM); print(family, "made")\n'
        "    except OSError as error: print(error.errno)'",
    )
    assert "made" not in tried
    assert len(tried.split()) == 5


def test_no_process_of_the_host_is_visible(stockade: Stockade) -> None:
    pids = [int(name) for name in shell(stockade, "ls /proc").split() if name.isdigit()]
    assert 1 in pids
    assert len(pids) <= 4  # init, sh, ls
    assert os.getpid() > 4


def test_only_tmp_and_the_private_view_of_the_workspace_can_be_written(stockade: Stockade, workspace: Path) -> None:
    script = (
        "for place in / /usr /etc /bin /dev /dev/shm /proc /proc/sys /run /run/stockade/lib /var /var/tmp /home /root "
        f'/tmp . {workspace.parent} "$HOME"; do '
        '(: > "$place/probe") 2>/dev/null && echo "$place"; done; exit 0'
    )
    written = set(shell(stockade, script).split())
    # Directories above a workspace that lies in /tmp are part of the private /tmp.
    allowed = {"/tmp", "/var/tmp", "/dev/shm", "."} | (
        {str(workspace.parent)} if str(workspace).startswith(("/tmp/", "/var/tmp/")) else set()
    )
    assert {"/tmp", "."} <= written <= allowed
    assert sorted(os.listdir(workspace)) == ["a.txt"]
    assert not Path("/tmp/probe").exists()


def test_the_workspace_is_unchanged_and_the_difference_is_listed(stockade: Stockade, workspace: Path) -> None:
    (workspace / "gone").write_text("x")
    done = stockade(
        "call", "shell", '{"command": "echo four >> a.txt; rm gone; mkdir d; echo n > d/new"}',
        "--profile", "strict", "--json",
    )  # fmt: skip
    value = json.loads(done.stdout)["value"]
    assert {(each["path"], each["change"]) for each in value["effects"]} == {
        ("a.txt", "changed"),
        ("gone", "deleted"),
        ("d", "created"),
        ("d/new", "created"),
    }
    assert value["effects_disposition"] == "discarded"
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert sorted(os.listdir(workspace)) == ["a.txt", "gone"]


def test_what_one_command_wrote_the_next_does_not_see(stockade: Stockade) -> None:
    script = "ls; echo more > b.txt; echo kept > /tmp/kept; echo kept > /dev/shm/kept"
    assert shell(stockade, script) == "a.txt\n"
    assert shell(stockade, "ls . /tmp/kept /dev/shm/kept 2>/dev/null; true").split() == [".:", "a.txt"]


def test_the_password_file_of_the_host_cannot_be_read(stockade: Stockade) -> None:
    done = stockade("exec", "--profile", "strict", "--", "cat", "/etc/shadow")
    assert done.returncode != 0
    assert done.stdout == ""
    assert shell(stockade, "grep -c : /etc/passwd") == "3\n"


def test_a_secret_of_the_daemons_environment_is_absent(stockade: Stockade) -> None:
    script = 'env; tr "\\0" "\\n" < /proc/self/environ; cat /proc/[0-9]*/environ 2>/dev/null; true'
    printed = shell(stockade, script)
    assert SECRET not in printed
    assert "PATH=" in printed


def test_only_the_descriptors_0_to_2_are_open(stockade: Stockade) -> None:
    # The directory that `ls` reads is one more of its own.
    numbers = shell(
        stockade, "cd /proc/self/fd && python3 -c 'import os; print(sorted(map(int, os.listdir(\"/proc/self/fd\"))))'"
    )
    assert numbers.strip() in ("[0, 1, 2, 3]", "[0, 1, 2]")
    assert shell(stockade, "readlink /proc/$$/fd/0") == "/dev/null\n"


def test_there_is_no_controlling_terminal_and_the_session_is_new(stockade: Stockade) -> None:
    assert shell(stockade, "(: < /dev/tty) 2>/dev/null || echo none") == "none\n"
    assert shell(stockade, "cut -d' ' -f6,7 /proc/self/stat") == "1 0\n"


def test_nothing_of_the_hosts_run_and_sys_is_there(stockade: Stockade) -> None:
    # The profile has no secrets; their directory is there for those that have.
    assert shell(stockade, "ls /run; ls /run/secrets; ls /sys 2>/dev/null; true") == "secrets\nstockade\n"


def test_privileged_system_calls_are_refused(stockade: Stockade) -> None:
    script = (
        "unshare -Ur true 2>&1; unshare -m true 2>&1; mount -t tmpfs x /tmp 2>&1; "
        "python3 -c 'import os; os.chroot(\"/\")' 2>&1; "
        "hostname other 2>&1; chmod 4755 a.txt 2>&1; mknod d b 1 1 2>&1; true"
    )
    assert len([line for line in shell(stockade, script).splitlines() if "ermi" in line or "must be" in line]) >= 7


def test_exit_facts_are_those_of_the_command_not_of_pid_1(stockade: Stockade) -> None:
    strict = ("exec", "--profile", "strict", "--")
    assert stockade(*strict, "sh", "-c", "exit 3").returncode == 3
    assert stockade(*strict, "sh", "-c", "kill -TERM $$").returncode == 128 + 15
    assert stockade(*strict, "python3", "-c", "import os; os.abort()").returncode == 128 + 6
    assert stockade(*strict, "no-such-program").returncode == 127


def test_a_child_that_left_its_session_ends_with_the_command(stockade: Stockade) -> None:
    """The command returns at once although its orphan would hold the output open for a minute."""
    done = stockade("exec", "--profile", "strict", "--", "sh", "-c", "setsid sleep 47.11 & echo started")
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert running("47.11") == []


def test_output_is_delivered_as_it_is(stockade: Stockade) -> None:
    done = stockade("exec", "--profile", "strict", "--", "sh", "-c", "seq 100000; echo end >&2")
    assert done.stdout == "".join(f"{number}\n" for number in range(1, 100001))
    assert done.stderr == "end\n"


def test_time_is_up_for_the_whole_process_tree(stockade: Stockade) -> None:
    done = stockade(
        "exec",
        "--profile",
        "strict",
        "--timeout",
        "1",
        "--",
        "sh",
        "-c",
        "echo before; setsid sleep 47.12 & sleep 47.12",
    )
    assert done.returncode == 124
    assert done.stdout == "before\n"
    assert running("47.12") == []
