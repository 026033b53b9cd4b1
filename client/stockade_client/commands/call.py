"""`stockade call`: one tool, its arguments as JSON, its result."""

import asyncio
import json
import sys
from typing import Final

import click

import stockade_client as client
from stockade_client.addresses import running_daemon
from stockade_client.commands import options
from stockade_client.commands.running import FAILED, OK, a_daemon, allowed, run, the_running_daemon
from stockade_client.streams import complain
from stockade_client.terminal import approver
from stockade_client.visible import visible

_UNSEEN: Final = frozenset({"FS_NOT_OBSERVED", "FS_PARTIAL_OBSERVATION"})
_OF_ITS_OWN: Final = (
    "each `stockade call` without --session is a session of its own; use --session NAME with a running daemon"
)
_WITHOUT_ITS_OWN: Final = (
    "a private daemon answered, which has no tools of your own; set STOCKADE_ADDRESS to the address of the daemon "
    "that has them (unix:PATH of its --socket)"
)


@click.command()
@click.argument("tool", callback=options.named)
@click.argument("arguments", metavar="JSON", default="{}")
@options.profile(required=False)
@options.workspace(default=None)
@click.option(
    "--session",
    "session_id",
    metavar="NAME",
    callback=options.named,
    help="Go on in this session of a running daemon, or open it; it stays open.",
)
@options.as_json()
@options.yes()
@options.private()
def command(
    tool: str,
    arguments: str,
    profile: str | None,
    workspace: str | None,
    session_id: str | None,
    as_json: bool,
    yes: bool,
) -> None:
    """Run one tool and print its result.

    JSON is the tool's arguments as one object; "-" reads them from standard input, and it may be left out where a tool
    needs none. `stockade catalog` lists the tools.

    Each `stockade call` without --session is a session of its own: what one has read, the next one has not seen, so
    that an edit is refused. To go on from call to call, use --session NAME with a running daemon (`stockaded serve`).

    Exit status: 0 the call is ok, 1 it failed or was refused, 2 usage, 3 daemon or infrastructure, 130 interrupted.
    A command that ends with a status other than 0 is ok: its status is in the result.
    """
    if session_id is not None and options.wants_private():
        raise click.UsageError(
            "give --session or --private, not both: a private daemon and its sessions end with the command"
        )
    if profile is None and session_id is None:
        raise click.UsageError("give --profile NAME|FILE, or --session NAME to go on in a session")
    text = sys.stdin.buffer.read() if arguments == "-" else arguments.encode("utf-8", "surrogateescape")
    if session_id is None and _starts_a_job(tool, text):
        raise click.UsageError(
            "a job in the background ends with its session, and without --session that is when this command ends: use "
            "--session NAME with a running daemon (`stockaded serve`)"
        )

    async def body() -> int:
        source = a_daemon() if session_id is None else the_running_daemon("--session")
        async with source as daemon:
            place, rules = await _where(daemon, session_id, workspace, profile)
            async with daemon.session(
                place, rules, id=session_id, approve=allowed(daemon, approver(yes=yes))
            ) as session:
                call = await session.start_json(tool, text)
                try:
                    result = await call.result()
                except asyncio.CancelledError:
                    # Interrupted: what it came to is still worth telling.
                    taken_back = await call.withdraw()
                    if taken_back is not None:
                        show(taken_back, as_json=as_json)
                    raise
        show(result, as_json=as_json)
        if not as_json:
            _tell_what_is_cut(result, stays=not options.wants_private() and running_daemon() is not None)
        if session_id is None and result.error is not None and result.error.code in _UNSEEN:
            complain(_OF_ITS_OWN)
        if daemon.info.private and result.error is not None and result.error.code == "UNKNOWN_TOOL":
            complain(_WITHOUT_ITS_OWN)
        return OK if result.ok else FAILED

    run(body)


async def _where(
    daemon: "client.Daemon", session_id: str | None, workspace: str | None, profile: str | None
) -> tuple[str | None, str | None]:
    """Workspace and profile to open with: those given, else the session's own, else the current directory."""
    if session_id is None:
        return workspace or ".", profile
    try:
        found = await daemon.get_session(session_id)
    except client.NotFound:
        if profile is None:
            raise client.InvalidRequest(
                f"there is no session {session_id!r} yet; give --profile (and --workspace) to open it"
            ) from None
        return workspace or ".", profile
    if found.state == "closed":
        raise client.InvalidRequest(
            f"session {session_id!r} is closed, and no call goes on in it; name another one, with --profile to open it"
        )
    return workspace, profile


def _starts_a_job(tool: str, text: bytes) -> bool:
    """Whether a command is to go on in the background. What is no JSON the daemon refuses, with reasons."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return tool == "shell" and isinstance(value, dict) and value.get("background") is True


def show(result: "client.CallResult", *, as_json: bool) -> None:
    """The result on stdout, a failure on stderr and only there. At a terminal, a tool's text cannot steer it."""
    if as_json:
        print(json.dumps(result.as_json(), ensure_ascii=False), flush=True)
        return
    text = "\n".join(block for block in result.content if not _is_the_error(block, result.error))
    if sys.stdout.isatty():
        _show_a_person(result, text)
    elif text.strip():
        print(text, flush=True)
    if result.error is not None:
        complain(str(result.error))


def _tell_what_is_cut(result: "client.CallResult", *, stays: bool) -> None:
    """What the model is shown of a command is shorter than its output may be; a person can read all that is kept."""
    if result.card.get("view") != "terminal":
        return
    for part in ("stdout", "stderr"):
        whole = result.field(part)
        if isinstance(whole, str) and whole not in result.text:
            option = "" if part == "stdout" else f" --part {part}"
            all_of_it = f"`stockade output {result.call_id}{option}` prints all of it that was kept"
            if not stays:
                all_of_it = "`stockade exec` prints all of it, and so does `stockade output` of a daemon that stays"
            complain(f"{part} is cut here; {all_of_it}")


def _show_a_person(result: "client.CallResult", content: str) -> None:
    from stockade_client.completed import heading
    from stockade_client.shown_text import difference
    from stockade_client.terminal import console

    shown_on = console()
    shown_on.print(heading(result.card))
    if content.strip():
        if result.card.get("view") == "diff":
            shown_on.print(difference(content))
        else:
            print(visible(content), flush=True)


def _is_the_error(block: str, error: "client.Failure | None") -> bool:
    """Whether a block of the content tells the model what stderr tells the person."""
    return error is not None and block.strip() in (error.message, f"Error: {error.message}", str(error))
