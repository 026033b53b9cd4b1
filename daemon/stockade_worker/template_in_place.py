"""The template zygote where the host refuses user namespaces: an ordinary process in the host's own view.

What its workers have instead stands in enter_in_place.py.
"""

import os
from typing import Any, NoReturn

from stockade_worker import kernel, legible, privileges
from stockade_worker.frames import encode

_BOOT = "import sys; sys.path[:0] = sys.argv[3:]; from stockade_worker.zygote import main; main()"


def become_template(plan: dict[str, Any], channel: int, *, parent: int) -> NoReturn:
    """Executes a zygote. Reports a failure on `channel`.

    `plan`: host_uid, interpreter, trees (its own), packages ({name: host path}). With a host uid of the daemon's range
    nobody else's processes and files are the worker's; all of root's rights are given up for good as it is taken.
    """
    step = "descriptors"
    try:
        kept = os.dup2(channel, 3, inheritable=True) if channel != 3 else channel
        os.set_inheritable(kept, True)
        kernel.close_range(4, 2**31 - 1)
        host_uid = plan["host_uid"]
        if host_uid is not None:
            step = "host uid"
            privileges.lock()
            privileges.become(host_uid)
            # The locked bits keep them across the change of uid, and nothing is to be found or run by their help.
            privileges.clear()
        step = "interpreter"
        executable = plan["interpreter"]
        for path in (executable, *plan["trees"]):
            legible.refuse(path)
        for path in plan["packages"].values():
            legible.refuse_package(path)
        paths = sorted({os.path.dirname(path) for path in plan["packages"].values()})
        arguments = [executable, "-I", "-S", "-B", "-c", _BOOT, str(kept), str(parent), *paths]
        os.execve(executable, arguments, {"LC_ALL": "C.UTF-8"})
    except BaseException as error:
        number = getattr(error, "errno", None) or 0
        failure = {
            "type": "failed",
            "step": f"{step} in place",
            "errno": number,
            "message": str(error) if isinstance(error, legible.Illegible) else f"{type(error).__name__}: {error}",
        }
        os.write(3, encode(failure))
    os._exit(1)
