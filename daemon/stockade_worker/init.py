"""The worker's small init: pid 1, holder of the control descriptor, parent of the body.

As pid 1 itself a body would misreport: abort() would look like SIGSEGV and SIGTERM would be ignored. Exit facts travel
on the control descriptor, which no body can reach: init is not dumpable, so /proc/1/fd and ptrace are closed to it.
When the body's first process ends, what is left has a moment to end by itself: the `tee` of `exec > >(tee log)` still
has to write what it was given. Then init kills the rest and waits for it, so that what it reports is of all of them,
and ends, too.

The body leads a process group of its own. What the daemon asks for on the control descriptor, init does: a signal goes
to that group, as a terminal's would.
"""

import contextlib
import os
import select
import signal
import time
from typing import Final, NoReturn

from stockade_worker import body, kernel
from stockade_worker.enter import Entered
from stockade_worker.frames import BrokenFrame, Decoder, encode
from stockade_worker.plan import WorkerPlan

_LAST_S: Final = 0.3  # for what the body's first process has left behind
_LOOK_S: Final = 0.002


def main(entered: Entered, plan: WorkerPlan) -> NoReturn:
    """Forks the body ahead of its job, reports `ready`, waits for its end, reports `exited`."""
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(entered.control)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # or the body could not even read its own /proc/self
        body.main(entered.requests, plan)
    with contextlib.suppress(PermissionError, ProcessLookupError):  # by whichever of the two comes first (setpgid(2))
        os.setpgid(child, child)
    let_go(entered.requests)
    news = _News(entered.control, child)
    os.write(entered.control, encode({"type": "ready", "facts": entered.facts}))
    cpu_s, max_rss_kb = 0.0, 0
    while True:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            news.wait()
            continue
        cpu_s += usage.ru_utime + usage.ru_stime
        max_rss_kb = max(max_rss_kb, usage.ru_maxrss)
        if pid == child:
            break  # any other was left to us by a parent that ended first
    last = time.monotonic() + _LAST_S
    try:
        while time.monotonic() < last:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                time.sleep(_LOOK_S)
                continue
            cpu_s += usage.ru_utime + usage.ru_stime
            max_rss_kb = max(max_rss_kb, usage.ru_maxrss)
        os.kill(-1, signal.SIGKILL)  # all of the namespace but us; a fork under way does not escape it
        while True:
            _, _, usage = os.wait4(-1, 0)
            cpu_s += usage.ru_utime + usage.ru_stime
            max_rss_kb = max(max_rss_kb, usage.ru_maxrss)
    except (ProcessLookupError, ChildProcessError):
        pass  # nobody else is left
    report(entered.control, status, cpu_s=cpu_s, max_rss_kb=max_rss_kb)


class _News:
    """What init waits for while the body runs: the end of a process, or a frame on the control descriptor."""

    def __init__(self, control: int, body: int) -> None:
        self._control = control
        self._body = body
        self._frames = Decoder(max_header=4096)
        self._ended, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # Without a handler there is nothing to wake up for; one byte in the pipe is as good as many.
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._poll = select.poll()
        self._poll.register(self._ended, select.POLLIN)
        self._poll.register(control, select.POLLIN)

    def wait(self) -> None:
        """Returns when a process may have ended, or after what was asked for has been done."""
        for descriptor, _ in self._poll.poll():
            if descriptor == self._ended:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._ended, 4096)
            else:
                self._asked()

    def _asked(self) -> None:
        try:
            data = os.read(self._control, 4096)
            frames = self._frames.feed(data)
        except (OSError, BrokenFrame):
            data, frames = b"", []
        if not data:
            self._poll.unregister(self._control)  # the daemon is gone, and whoever ends this tree is on the way
        for frame in frames:
            if frame.type == "signal":
                with contextlib.suppress(ProcessLookupError):  # all of the group have ended
                    os.killpg(self._body, frame.header["number"])


def let_go(requests: int) -> None:
    """Gives up the body's ends: its pipes must end with the body, not with init."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for number in (1, 2):
        os.dup2(null, number)
    os.close(requests)


def report(control: int, status: int, *, cpu_s: float, max_rss_kb: int) -> NoReturn:
    """Says how the body's first process ended (`status` of wait4(2)) and what all of them used; ends init."""
    moved = _moved()
    exited = {
        "type": "exited",
        "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        "cpu_s": cpu_s,
        "max_rss_kb": max_rss_kb,
        "read_bytes": moved.get("read_bytes", 0),
        "written_bytes": moved.get("write_bytes", 0),
    }
    os.write(control, encode(exited))
    os._exit(0)


def _moved() -> dict[str, int]:
    """Bytes that all of the tree has moved from and to storage: of a process that was waited for they are added to its
    parent, in the end to us (proc_pid_io(5)). Empty where the kernel does not count them."""
    # What is not dumpable cannot read its own counters; nobody is left who could look at us instead.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    try:
        with open("/proc/self/io", encoding="ascii") as lines:
            return {key: int(number) for key, _, number in (line.partition(": ") for line in lines)}
    except OSError:
        return {}
