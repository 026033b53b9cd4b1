"""The body's process: waits for its one job, then is the command or the function.

A command replaces this process; descriptors other than 0-2 are close-on-exec. A function answers on the request
channel, where it also asks the gate; its stdout is data like any other output.
"""

import contextlib
import errno
import importlib
import json
import os
import signal
import socket
import sys
from typing import Any, NoReturn

from stockade_toolkit import ToolError, telling
from stockade_worker import custom
from stockade_worker.broker import Broker
from stockade_worker.frames import Channel, Frame
from stockade_worker.plan import WorkerPlan

# One argument of execve(2) may have 128 KiB (MAX_ARG_STRLEN, 32 pages); a longer text goes through a file.
_LONGEST_ARGUMENT = 128 * 1024 - 1
_NOT_FOUND = 127  # what a shell answers, and what `exec` promises
_NOT_EXECUTABLE = 126


def main(requests: int, plan: WorkerPlan) -> NoReturn:
    channel = Channel(socket.socket(fileno=requests))
    frame = channel.receive()
    if frame is None:
        os._exit(0)
    if frame.type == "command":
        _become(channel, frame, plan)
    if frame.type == "describe":
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        custom.describe(channel, frame)
        os._exit(0)
    _answer(channel, frame)


def _become(channel: Channel, frame: Frame, plan: WorkerPlan) -> NoReturn:
    """Executes the job's argument vector.

    Blob: arguments, each ended by NUL, delivered unmodified; then the command's input, where the header has its length.
    """
    border = len(frame.blob) - int(frame.header.get("stdin_bytes", 0))
    arguments = frame.blob[:border].split(b"\0")[:-1]
    if "stdin_bytes" in frame.header:
        _give_input(frame.blob[border:])
    directory = frame.header["directory"]
    if directory:
        _go_to(channel, str(directory), plan.workspace)
    if frame.header["shell"] and len(arguments[-1]) > _LONGEST_ARGUMENT:
        arguments = [arguments[0], _as_file(arguments[-1])]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if not arguments[0]:
        os.write(2, b"stockade: cannot run a program without a name\n")
        os._exit(_NOT_FOUND)
    try:
        os.execvpe(arguments[0], arguments, plan.environment)
    except OSError as error:
        name = os.fsdecode(arguments[0])
        os.write(2, os.fsencode(f"stockade: cannot run {name}: {error.strerror}\n"))
        os._exit(_NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else _NOT_EXECUTABLE)


def _go_to(channel: Channel, directory: str, workspace: str | None) -> None:
    """Makes `directory` the working directory, or reports why not and ends. Where it leads counts, not its name."""
    try:
        if directory == "~" or directory.startswith("~/"):
            raise OSError(errno.EXDEV, "a home directory is not part of the workspace (`~` is not expanded)")
        os.chdir(os.fsencode(directory))
        arrived = os.getcwd()
        if workspace is None or f"{arrived}/".startswith(f"{workspace.rstrip('/')}/"):
            return
        code, why = "FS_OUTSIDE_WORKSPACE", "it is not below the workspace"
    except OSError as error:
        codes = {
            errno.ENOENT: "FS_NOT_FOUND",
            errno.ENOTDIR: "FS_NOT_DIRECTORY",
            errno.EACCES: "FS_PERMISSION_DENIED",
            errno.EXDEV: "FS_OUTSIDE_WORKSPACE",
        }
        code, why = codes.get(error.errno or 0, "FS_IO_ERROR"), str(error.strerror)
    message = f"cannot start in {directory!r}: {why}; give a directory of the workspace as cwd"
    channel.send({"type": "error", "code": code, "message": message})
    os._exit(1)


def _give_input(data: bytes) -> None:
    """Makes `data` the standard input: a file, which needs nobody who writes while the command reads."""
    path = _as_file(data, b"/tmp/.input")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    os.unlink(path)
    os.dup2(descriptor, 0)
    os.close(descriptor)


def _as_file(text: bytes, path: bytes = b"/tmp/.command") -> bytes:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(text)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
    return path


def _answer(channel: Channel, frame: Frame) -> NoReturn:
    """Runs a function tool and sends its value, or its error."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    blob = b""
    status = 1
    try:
        if "modules" in frame.header:
            run, text = custom.body(frame.header, frame.blob)
        else:
            run, text = importlib.import_module(frame.header["module"]).run, frame.blob
        arguments: dict[str, Any] = json.loads(text)
        broker = Broker(channel)
        telling.through(broker.tell)
        answer = run(arguments, broker)
        said = answer.text.encode()
        blob = said + json.dumps(answer.value, ensure_ascii=False, allow_nan=False).encode("utf-8")
        header: dict[str, Any] = {"type": "value", "text_bytes": len(said)}
        status = 0
    except ToolError as error:
        header = {"type": "error", "code": error.code, "message": str(error)}
    except BaseException as error:
        message = f"the tool failed: {type(error).__name__}: {error}"
        header = {"type": "error", "code": "TOOL_FAILED", "message": message[:4000]}
    _flush()
    channel.send(header, blob)
    os._exit(status)


def _flush() -> None:
    """What was printed is in the pipes before the answer is: with the answer, the daemon ends this process."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed by the tool, or nobody reads any more
            stream.flush()
