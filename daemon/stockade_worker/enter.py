"""Entering the sandbox: the whole order of privilege loss of a worker, on one screen.

It begins in namespaces just cloned, with every capability of the new user namespace, and ends with none. Each step may
rely only on those above it; the filters come last, because they forbid what the others do.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stockade_worker import (
    admission,
    confinement,
    descriptors,
    facts,
    filters,
    limits,
    mounts,
    network,
    privileges,
    signals,
    timens,
    userns,
)
from stockade_worker.frames import encode
from stockade_worker.plan import WorkerPlan


@dataclass(frozen=True, slots=True)
class Entered:
    """A sandbox that holds: its two channels, and what the kernel says about it."""

    control: int  # to the daemon; held by init alone
    requests: int  # to the daemon; held by the body alone
    facts: dict[str, Any]


Step = tuple[str, Callable[[], None]]


def steps(plan: WorkerPlan, request: dict[str, Any], *, control: int, given: tuple[int, ...]) -> tuple[Step, ...]:
    """What makes the sandbox, in order and by name.

    `request`: workspace (it gets one), writable, scratch (paths of directories that the session keeps). `given`: the
    mounts for these, as descriptors.
    """
    workspace = plan.workspace if request["workspace"] else None
    scratch = [str(path) for path in request["scratch"]]

    def attach() -> None:
        if workspace is not None:
            mounts.attach_workspace(given[0], workspace)
            for tree, path in zip(given[1:], scratch, strict=True):
                mounts.attach_scratch(tree, workspace, path)

    def restrict() -> None:
        changeable: tuple[str, ...] = ()
        if workspace is not None:
            changeable = (workspace,) if request["writable"] else tuple(f"{workspace}/{path}" for path in scratch)
        confinement.restrict(changeable, network=plan.network)

    return (
        ("user", lambda: userns.map_single(1000, 1000, 1000)),
        ("proc", mounts.own_proc),
        ("root", lambda: mounts.private_tmp(plan.tmp_kb, plan.tmp_inodes, plan.mounts_below_tmp)),
        ("workspace", attach),
        ("net", lambda: network.enter(plan.network)),
        ("time", timens.own_time),
        # So late, because joining takes the daemon about as long as all that stands above takes us.
        ("admission", lambda: admission.wait(control)),
        ("cgroup_ns", admission.own_view),
        ("session", signals.own_session),
        ("rlimits", lambda: limits.apply(plan)),
        ("capabilities", privileges.drop_capabilities),
        ("no_new_privs", privileges.no_new_privileges),
        ("landlock", restrict),
        ("seccomp", lambda: filters.load(plan.allow_filter, plan.argument_filter)),
    )


def contain(plan: WorkerPlan, request: dict[str, Any], given: tuple[int, ...]) -> Entered:
    """Seals this process, or reports the failing step on the control descriptor and exits."""
    control = given[0]
    step = "descriptors"
    try:
        control, requests, given = descriptors.arrange(given)
        for step, enter in steps(plan, request, control=control, given=given):  # noqa: B007 (read by the handler below)
            enter()
        step = "facts"
        return Entered(control, requests, facts.of_this_process())
    except BaseException as error:
        number = getattr(error, "errno", None) or 0
        failure = {
            "type": "failed",
            "step": step,
            "errno": number,
            "message": f"{type(error).__name__}: {error}",
        }
        os.write(control, encode(failure))
        os._exit(1)
