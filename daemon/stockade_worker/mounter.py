"""The mounter: keeps the host's view, makes mounts, and starts template zygotes. It never runs a tool.

Started once by the daemon, with a clean environment and one channel. It owns a mount namespace of its own, so what it
mounts exists for nobody else; when it ends, all of it is gone. Two modes:

root    it stays host root, so it can id-map a workspace and make overlays with redirect_dir; templates drop to a host
        uid of the daemon's range before their user namespace exists
user    it makes a user namespace first, in which the daemon's own uid is 1000

On a host that refuses user namespaces both fail at their start, and the daemon asks for a third:

in-place   nothing is mounted; templates and their workers live in the host's own view (template_in_place.py)

Requests are served one at a time: they take well under a millisecond, and a namespace has one working directory.

An overlay keeps what it has found out about names, and so shows a file that others have replaced as it was, and one
that they have made not at all. A view that is to be followed has that forgotten several times a second.
"""

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from stockade_worker import idmap, kernel, privileges, root, template_in_place, userns
from stockade_worker.frames import Channel, Frame

_EMPTY = "empty"  # an overlay wants two lower directories where it has no upper one
IN_PLACE = "in-place"
INSIDE_UID = 1000  # what a worker is in its own user namespace
_FOLLOW_S = 0.2  # how old what a followed view shows may be


class Mounter:
    """Serves one daemon. Working directory: a private tmpfs that holds a mount point for each workspace."""

    def __init__(self, channel: Channel, mode: str) -> None:
        self._channel = channel
        self._mode = mode
        self._templates: dict[int, int] = {}  # pidfd → pid
        self._followed: dict[int, int] = {}  # what the daemon keeps open the other end of → context of a view

    def serve(self) -> None:
        """Answers requests until the daemon is gone."""
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        due = 0.0
        while True:
            now = time.monotonic()
            if self._followed and now >= due:
                self._refresh()
                due = now + _FOLLOW_S
            for descriptor, _ in poll.poll(1000 * (due - now) if self._followed else None):
                if descriptor == self._channel.fileno():
                    frame = self._channel.receive()
                    if frame is None:
                        return
                    for watched in self._answer(frame):
                        poll.register(watched, select.POLLIN)
                elif descriptor in self._templates:
                    poll.unregister(descriptor)
                    self._reap(descriptor)
                elif descriptor in self._followed:
                    poll.unregister(descriptor)
                    self._leave(descriptor)

    def _answer(self, frame: Frame) -> list[int]:
        """Carries out one request; returns descriptors to watch: those of templates, and ends of followed views."""
        request = frame.header
        number = request["id"]
        try:
            if frame.type == "template":
                pid, pidfd = self._template(request, frame.descriptors)
                self._templates[pidfd] = pid
                self._channel.send({"type": "done", "id": number, "pid": pid}, descriptors=(pidfd,))
                return [pidfd]
            if frame.type == "follow":
                end = self._follow(*frame.descriptors)
                self._channel.send({"type": "done", "id": number})
                return [end]
            made = self._mount(frame.type, request)
            try:
                self._channel.send({"type": "done", "id": number}, descriptors=tuple(made))
            finally:
                for each in made:
                    os.close(each)
        except OSError as error:
            self._channel.send({"type": "error", "id": number, "errno": error.errno or 0, "message": str(error)})
        finally:
            for descriptor in frame.descriptors:
                os.close(descriptor)
        return []

    def _mount(self, kind: str, request: dict[str, Any]) -> list[int]:
        if kind == "workspace":
            self._attach(f"l{request['key']}", request)
            return []
        if kind == "scratch":
            # Nothing in it counts for more than what a worker made of it.
            attributes = kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
            self._attach(_scratch(request["key"], request["number"]), request, attributes)
            return []
        if kind == "forget":
            for place in (*(_scratch(request["key"], each) for each in request["scratch"]), f"l{request['key']}"):
                kernel.umount2(place)
                os.rmdir(place)
            return []
        if kind == "view":
            view = self._view(int(request["key"]), request["cover"])
        elif kind == "overlay":
            view = self._overlay(int(request["key"]), str(request["layers"]), request["cover"])
        else:
            raise OSError(0, f"no request is called {kind}")
        return self._with_scratch(view, [_scratch(request["key"], each) for each in request["scratch"]])

    def _with_scratch(self, view: int, places: list[str]) -> list[int]:
        """A view, and detached copies of the mounts that go into it."""
        made = [view]
        try:
            for place in places:
                made.append(kernel.open_tree(place))
        except OSError:
            for each in made:
                os.close(each)
            raise
        return made

    def _attach(self, place: str, request: dict[str, Any], attributes: int = 0) -> None:
        """Keeps a directory at `place`, id-mapped when its owner is to look like the worker."""
        tree = kernel.open_tree(str(request["path"]))
        try:
            found = os.fstat(tree)
            # The path is looked up a second time here, in another mount namespace: insist on the same directory.
            if (found.st_dev, found.st_ino) != (request["device"], request["inode"]):
                raise OSError(
                    0,
                    f"{request['path']} is another directory for the mounter than for the daemon: it was moved, or its "
                    "file system was mounted after the daemon had started; restart the daemon",
                )
            if request["owner"] is not None:
                uid, gid = request["owner"]
                idmap.swap(tree, int(uid), int(gid), int(request["worker"]))
            if attributes:
                kernel.mount_setattr(tree, "", set_=attributes)
            os.mkdir(place, 0o700)
            try:
                kernel.move_mount(tree, place)
            except OSError:
                os.rmdir(place)
                raise
        finally:
            os.close(tree)

    def _view(self, key: int, cover: str | None) -> int:
        """A detached read-only view of a workspace, below the layer that covers names of it.

        An overlay without an upper directory and not a bind mount, because a read-only bind mount stops no connection:
        sockets and FIFOs of the workspace would lead to host processes. Those of an overlay are its own.
        """
        attributes = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
        with _lower(key, cover) as layers:
            return kernel.new_mount("overlay", {"lowerdir": layers if cover else f"{layers}:{_EMPTY}"}, attributes)

    def _follow(self, view: int, end: int) -> int:
        """Keeps a view current until `end` says that nobody has the other one; returns our own copy of it."""
        context = kernel.fspick(view)
        try:
            _forget_names(context)
            kept = os.dup(end)
        except OSError:
            os.close(context)
            raise
        self._followed[kept] = context
        return kept

    def _refresh(self) -> None:
        for context in self._followed.values():
            # A view that cannot be refreshed is no reason to end what all sessions live on.
            with suppress(OSError):
                _forget_names(context)

    def _leave(self, end: int) -> None:
        os.close(self._followed.pop(end))
        os.close(end)

    def _overlay(self, key: int, above: str, cover: str | None) -> int:
        """A detached overlay: the workspace below, the layer that covers names of it, `above`/upper above.

        Layers are named relative to this process (l<key>, /proc/self/fd), because a worker can read the names in
        /proc/self/mountinfo and because ':' and ',' have a meaning in overlay options.
        """
        held = os.open(above, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            own = f"/proc/self/fd/{held}"
            # volatile: no sync on unmount; the upper directory lives for one call.
            variants: list[dict[str, str | None]] = (
                [{"redirect_dir": "on", "index": "on"}, {"redirect_dir": "on", "index": "off"}, {}]
                if self._mode == "root"
                else [{"userxattr": None}]
            )
            attributes = kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
            with _lower(key, cover) as lower:
                layers: dict[str, str | None] = {
                    "lowerdir": lower,
                    "upperdir": f"{own}/upper",
                    "workdir": f"{own}/work",
                }
                for last, options in [(False, each) for each in variants[:-1]] + [(True, variants[-1])]:
                    try:
                        return kernel.new_mount("overlay", {**layers, **options, "volatile": None}, attributes)
                    except OSError:
                        if last:
                            raise
            raise AssertionError("the last variant returns or raises")
        finally:
            os.close(held)

    def _template(self, request: dict[str, Any], descriptors: tuple[int, ...]) -> tuple[int, int]:
        """Starts a template zygote as pid 1 of a pid namespace; returns its pid and a pidfd."""
        ours = os.getpid()
        pid = kernel.clone(0 if self._mode == IN_PLACE else kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)
        if pid == 0:
            if self._mode == IN_PLACE:
                template_in_place.become_template(request["plan"], descriptors[0], parent=ours)
            root.become_template(request["plan"], descriptors[0], host_uid=request["plan"]["host_uid"])
        try:
            return pid, os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise

    def _reap(self, pidfd: int) -> None:
        pid = self._templates.pop(pidfd)
        os.waitpid(pid, 0)
        os.close(pidfd)


def _forget_names(context: int) -> None:
    """Has a view forget what it knows of names, but for those of files and directories that are in use: the kernel
    drops them from its cache when a file system is reconfigured, here to what it is (fs/super.c, shrink_dcache_sb)."""
    kernel.reconfigure(context, "ro")


def _scratch(key: int, number: int) -> str:
    """Where a directory that a session keeps is mounted."""
    return f"s{key}-{number}"


@contextmanager
def _lower(key: int, cover: str | None) -> Iterator[str]:
    """A workspace and what covers names of it, as overlay options spell layers that are not written."""
    if cover is None:
        yield f"l{key}"
        return
    held = os.open(cover, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{held}:l{key}"
    finally:
        os.close(held)


def _enter(mode: str, worker: int | None) -> None:
    """Enters a mount namespace of our own. Raises OSError where this process, or templates, cannot have namespaces.

    `worker`: a host uid of those that templates will have.
    """
    if mode == "user":
        uid, gid = os.getuid(), os.getgid()
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
        userns.map_single(INSIDE_UID, uid, gid)
    else:
        _try_as(worker)
        kernel.unshare(kernel.CLONE_NEWNS)
    # First of all, or what is mounted here reaches the host.
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)


def _try_as(worker: int | None) -> None:
    """Has a child make a user namespace as a template does: when it has given up root. Raises OSError."""
    pid = os.fork()
    if pid == 0:
        try:
            if worker is not None:
                privileges.become(worker)
            kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
            # Where a security module lets it be made and takes its rights away, this is refused (userns and AppArmor).
            kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    number = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if number:
        raise OSError(number, f"making a user namespace: {os.strerror(number)}")


def _take_place(place: str) -> None:
    """Makes the private tmpfs at `place` the working directory."""
    kernel.mount("stockade", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC, "mode=700,size=1m")
    os.chdir(place)
    os.mkdir(_EMPTY, 0o755)


def main() -> None:
    # The daemon sends SIGKILL's consent in advance: without it there is nobody to serve. The death of the thread that
    # started us counts, so the daemon starts us from its main thread.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon, which then ends us
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    start = channel.receive()
    if start is None or os.getppid() != start.header["parent"]:
        return  # the daemon died before the death signal was set
    mode = str(start.header["mode"])
    step = "namespaces"
    try:
        if mode != IN_PLACE:
            _enter(mode, start.header["worker"])
            step = "mounts"
            _take_place(str(start.header["place"]))
    except OSError as error:
        channel.send({"type": "failed", "step": step, "errno": error.errno or 0, "message": str(error)})
        return
    channel.send({"type": "ready"})
    Mounter(channel, mode).serve()
