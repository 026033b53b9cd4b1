"""What every worker of one template has in common, as the daemon sends it once."""

from dataclasses import dataclass
from typing import Any

PROGRAMS = "/run/stockade/bin"  # where the programs are inside that built-in tools run


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Numbers are in the units of their names; the filters are programs of struct sock_filter."""

    environment: dict[str, str]
    network: str  # none, loopback, host
    workspace: str | None  # absolute path inside, the same as outside
    mounts_below_tmp: tuple[str, ...]  # of the template, which a worker's own /tmp and /var/tmp hide; outer ones first
    tmp_kb: int  # /tmp, /var/tmp and /dev/shm together
    tmp_inodes: int
    cpu_s: int
    processes: int
    open_files: int
    file_bytes: int
    allow_filter: bytes
    argument_filter: bytes
    mounts: tuple[str, ...] = ()  # in place: those of the profile, not judged yet
    readable: tuple[str, ...] | None = None  # in place (enter_in_place.py): trees and files that may be read; else None

    @classmethod
    def from_frame(cls, header: dict[str, Any], blob: bytes) -> "WorkerPlan":
        """`blob` is the allow list followed by the argument program; the header says where the first ends."""
        border = int(header["allow_bytes"])
        limits = header["limits"]
        return cls(
            environment=dict(header["environment"]),
            network=str(header["network"]),
            workspace=header["workspace"],
            mounts_below_tmp=tuple(header["mounts_below_tmp"]),
            tmp_kb=int(limits["tmp_kb"]),
            tmp_inodes=int(limits["tmp_inodes"]),
            cpu_s=int(limits["cpu_s"]),
            processes=int(limits["processes"]),
            open_files=int(limits["open_files"]),
            file_bytes=int(limits["file_bytes"]),
            allow_filter=blob[:border],
            argument_filter=blob[border:],
            mounts=tuple(header["mounts"]),
            readable=None if header["readable"] is None else tuple(header["readable"]),
        )
