"""User namespaces: writing id maps (user_namespaces(7))."""

import os


def map_single(inside: int, outside_uid: int, outside_gid: int) -> None:
    """Maps one id of the parent namespace for this process, which has just made a user namespace.

    Allowed without privilege because setgroups is given up first and only the caller's own id is mapped.
    """
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inside} {outside_uid} 1"),
        ("gid_map", f"{inside} {outside_gid} 1"),
    ):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
