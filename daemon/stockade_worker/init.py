"""The worker's small init: pid 1, holder of the control descriptor, parent of the body.

As pid 1 itself a body would misreport: abort() would look like SIGSEGV and SIGTERM would be ignored. Exit facts travel
on the control descriptor, which no body can reach: init is not dumpable, so /proc/1/fd and ptrace are closed to it.
When the body's first process ends, so does init, and with pid 1 the kernel ends everything else.
"""

import os
from typing import NoReturn

from stockade_worker import body, kernel
from stockade_worker.enter import Entered
from stockade_worker.frames import encode
from stockade_worker.plan import WorkerPlan


def main(entered: Entered, plan: WorkerPlan) -> NoReturn:
    """Forks the body ahead of its job, reports `ready`, waits for its end, reports `exited`."""
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    child = os.fork()
    if child == 0:
        os.close(entered.control)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # or the body could not even read its own /proc/self
        body.main(entered.requests, plan)
    # The body's pipes must end with the body, not with us.
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for number in (1, 2):
        os.dup2(null, number)
    os.close(entered.requests)
    os.write(entered.control, encode({"type": "ready", "facts": entered.facts}))
    cpu_s, max_rss_kb = 0.0, 0
    while True:
        pid, status, usage = os.wait4(-1, 0)
        cpu_s += usage.ru_utime + usage.ru_stime
        max_rss_kb = max(max_rss_kb, usage.ru_maxrss)
        if pid != child:
            continue  # left to us by a parent that ended first
        exited = {
            "type": "exited",
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "cpu_s": cpu_s,
            "max_rss_kb": max_rss_kb,
        }
        os.write(entered.control, encode(exited))
        os._exit(0)
