"""Resource limits of a worker (getrlimit(2)); hard equals soft, so that no body can raise them.

But for processor time: at the hard limit the kernel sends SIGKILL, which tells nothing, and at the soft one SIGXCPU.
So the hard one is a second later.
"""

import resource

from stockade_worker.plan import WorkerPlan

_LOCKED_BYTES = 8 << 20  # the kernel's own default: enough for keys kept out of swap, not for using memory up


def apply(plan: WorkerPlan, *, processes: bool = True) -> None:
    """Sets the plan's limits. Processes are counted in the worker's own user namespace, which we are in by now; not
    `processes`: there is none, and a limit would count all that its host uid has."""
    for kind, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, plan.cpu_s, plan.cpu_s + 1),
        (resource.RLIMIT_FSIZE, plan.file_bytes, plan.file_bytes),
        (resource.RLIMIT_NOFILE, plan.open_files, plan.open_files),
        *([(resource.RLIMIT_NPROC, plan.processes, plan.processes)] if processes else []),
        (resource.RLIMIT_MEMLOCK, _LOCKED_BYTES, _LOCKED_BYTES),
        (resource.RLIMIT_RTPRIO, 0, 0),
        (resource.RLIMIT_NICE, 0, 0),
    ):
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))
