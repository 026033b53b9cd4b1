"""`job`: the session's background jobs, as the daemon knows them."""

from collections.abc import Mapping
from typing import Any

from stockade_toolkit import Answer, ToolError
from stockade_worker.broker import Broker


def run(arguments: Mapping[str, Any], broker: Broker) -> Answer:
    action = arguments["action"]
    if action != "list" and "job" not in arguments:
        raise ToolError("INVALID_ARGS", f'{action} needs job, the name of one; action "list" tells them')
    found = broker.job(
        action,
        job=arguments.get("job", ""),
        stream=arguments.get("stream", "stdout"),
        offset=arguments.get("offset", 0),
        limit=arguments.get("limit", 16384),
        signal=arguments.get("signal", "SIGTERM"),
        wait_s=arguments.get("wait_s", 30),
    )
    lines = [_line(each) for each in found["jobs"]]
    if action == "list" and not lines:
        lines = ["The session has no background job."]
    if "text" in found:
        more = "no more will come" if found["end"] else f"read on from offset {found['next']}"
        return Answer(found, f"{found['text']}\n[{lines[0]}; {more}]")
    return Answer(found, "\n".join(lines))


def _line(job: Mapping[str, Any]) -> str:
    if job["state"] == "running":
        how = "running"
    elif job.get("error"):
        how = f"ended: {job['error']}"
    elif job.get("signal") is not None:
        how = f"ended by signal {job['signal']}"
    else:
        how = f"ended with status {job.get('exit_code')}"
    return f"{job['job']} ({job['title']}): {how}"
