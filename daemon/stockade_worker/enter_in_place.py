"""Workers where the host refuses user namespaces: in place, in the host's own view, with what is left.

Landlock, the system-call filters and the limits. No mount can be made, so no worker has a view of the workspace or a
place to write, and files are kept from it by Landlock alone. There is no pid namespace, so nothing would end a worker's
children: a body is one process of one thread and cannot make another (sandbox/syscalls.py), and it dies with init.

    mounter → template: another uid, exec (template_in_place.py) → worker: init → body
"""

import os
import signal
from typing import NoReturn

from stockade_worker import (
    admission,
    body,
    confinement,
    descriptors,
    facts,
    filters,
    init,
    kernel,
    limits,
    privileges,
    signals,
)
from stockade_worker.frames import encode
from stockade_worker.plan import WorkerPlan


def become_worker(plan: WorkerPlan, given: tuple[int, ...], *, parent: int) -> NoReturn:
    """Becomes init, makes the body's process ahead of its job, reports how that ends.

    Init keeps the control descriptor and is outside the body's Landlock domain, so no signal of the body reaches it.
    """
    control = given[0]
    step = "descriptors"
    try:
        _die_with(parent)
        control, requests, _ = descriptors.arrange(given)
        step = "admission"
        admission.wait(control)
        step = "session"
        signals.own_session()
        step = "rlimits"
        limits.apply(plan, processes=False)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        ours = os.getpid()
        child = os.fork()
    except BaseException as error:
        _fail(control, step, error)
    if child == 0:
        _become_body(plan, control=control, requests=requests, parent=ours)
    init.let_go(requests)
    _, status, usage = os.wait4(child, 0)
    init.report(control, status, cpu_s=usage.ru_utime + usage.ru_stime, max_rss_kb=usage.ru_maxrss)


def _become_body(plan: WorkerPlan, *, control: int, requests: int, parent: int) -> NoReturn:
    """Seals this process, says so, gives up the control descriptor, and waits for its job."""
    step = "parent"
    try:
        _die_with(parent)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # for its own /proc/self/status
        status = facts.opened()
        step = "capabilities"
        if os.geteuid() == 0:
            raise OSError(0, "it would be root")  # the daemon sees to it; nothing else here would hold it
        privileges.clear()
        step = "no_new_privs"
        privileges.no_new_privileges()
        step = "landlock"
        confinement.restrict_in_place(plan.readable or (), plan.mounts)
        step = "seccomp"
        filters.load(plan.allow_filter, plan.argument_filter)
        step = "facts"
        ready = encode({"type": "ready", "facts": facts.of_this_process(status)})
    except BaseException as error:
        _fail(control, step, error)
    os.write(control, ready)
    os.close(control)
    body.main(requests, plan)


def _die_with(parent: int) -> None:
    """Has the kernel kill this process when `parent` ends; ends it now if that has happened (prctl(2))."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _fail(control: int, step: str, error: BaseException) -> NoReturn:
    number = getattr(error, "errno", None) or 0
    message = f"{type(error).__name__}: {error}"
    os.write(control, encode({"type": "failed", "step": step, "errno": number, "message": message}))
    os._exit(1)
