"""Resource limits of a worker (getrlimit(2)); hard equals soft, so that no body can raise them."""

import resource

from stockade_worker.plan import WorkerPlan

_LOCKED_BYTES = 8 << 20  # the kernel's own default: enough for keys kept out of swap, not for using memory up


def apply(plan: WorkerPlan) -> None:
    """Sets the plan's limits. Processes are counted in the worker's own user namespace, which we are in by now."""
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, plan.cpu_s),
        (resource.RLIMIT_FSIZE, plan.file_bytes),
        (resource.RLIMIT_NOFILE, plan.open_files),
        (resource.RLIMIT_NPROC, plan.processes),
        (resource.RLIMIT_MEMLOCK, _LOCKED_BYTES),
        (resource.RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_NICE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (allowed, allowed))
