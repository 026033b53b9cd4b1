"""What error codes and events mean, a sentence for each: for the catalog, and for the pages made from it."""

from typing import Final

# Keys: the codes of errors.CODES.
OF_CODES: Final[dict[str, str]] = {
    "INVALID_ARGS": "The arguments are not lossless JSON, or do not fit the tool's schema; every fault is listed.",
    "UNKNOWN_TOOL": "There is no such tool; the nearest is named, and the refused file that may have it.",
    "DENIED": "The profile, a guard or a later stage said no, or the session cannot have its profile's present "
    "version.",
    "APPROVAL_REJECTED": "Somebody said no, or the session is never to ask.",
    "APPROVAL_UNAVAILABLE": "Somebody had to be asked and nobody is there.",
    "APPROVAL_EXPIRED": "Nobody answered within the profile's `wait_s`.",
    "APPROVAL_MISMATCH": "An answer was for another card than the one that is asked about. The ask stays open.",
    "APPROVAL_DECIDED": "An ask was answered before; the first answer counts.",
    "HOOK_FAILED": "A plugin failed, which counts as a refusal: before the body was started, and nothing was run; "
    "or at a change that the body asked for, and it was not made.",
    "TOOL_TIMEOUT": "The tool's time was up and its whole process tree was killed.",
    "TOOL_FAILED": "The body failed.",
    "ABORTED": "The call was taken back, or the session or daemon ended, while the body ran.",
    "ABORTED_BEFORE_DISPATCH": "The same, before the body was started: nothing ran.",
    "TOOL_NOT_STARTED": "The daemon ended before the body was started: nothing ran.",
    "TOOL_OUTCOME_UNKNOWN": "The daemon ended while the body ran, or a plugin failed after it. The message says what "
    "is proven about its effects.",
    "INVALID_TOOL_OUTPUT": "The body answered something that is no answer, or a value that JSON cannot carry.",
    "OUTPUT_LIMIT": "The value is larger than 16 MiB, or more was printed than a profile lets a call print, whose "
    "`limits.output_past` is `stop`.",
    "RESOURCE_LIMIT": "A limit of the profile ended the body; it is named.",
    "SANDBOX_UNAVAILABLE": "The host does not give a layer that the profile requires, or a step of entering the "
    "sandbox fails; it is named, with the reason.",
    "SANDBOX_FAILED": "A worker could not be made, or its sandbox broke.",
    "CODE_RUN_FAILED": "A program of a code tool failed. For a tool that this version does not have.",
    "SEARCH_INVALID_PATTERN": "A search pattern is not valid; the place is given.",
    "FS_NOT_OBSERVED": "The session has not read the file. Read it, then repeat the change.",
    "FS_PARTIAL_OBSERVATION": "The lines to be changed were not shown. Read them, then repeat.",
    "FS_STALE_VERSION": "The file has changed since it was read. Read it again, then repeat.",
    "FS_CONFLICT": "Something else changed the same place at the same time; nothing was lost, nothing was written.",
    "FS_NOT_FOUND": "No such file; near names are given.",
    "FS_EXISTS": "Something of that name exists already.",
    "FS_EDIT_NOT_FOUND": "The text to replace does not occur in the file.",
    "FS_AMBIGUOUS_EDIT": "It occurs more than once. Give more of the lines around it, or `replace_all`.",
    "FS_NOT_TEXT": "The file is binary.",
    "FS_NOT_UTF8": "The file is not UTF-8. Name its encoding.",
    "FS_NOT_REGULAR_FILE": "A device, FIFO or socket.",
    "FS_IS_DIRECTORY": "The path is a directory.",
    "FS_NOT_DIRECTORY": "A part of the path that should be a directory is not.",
    "FS_SYMLINK_LOOP": "Links lead in a circle, or there are too many.",
    "FS_NAME_TOO_LONG": "A name or path is longer than the file system takes.",
    "FS_OUTSIDE_WORKSPACE": "The path, or a link in it, leads out of the workspace.",
    "FS_PROTECTED": "The file is one that no session changes, such as `.git/hooks`.",
    "FS_PERMISSION_DENIED": "The kernel refuses the daemon that file.",
    "FS_TOO_LARGE": "The file is larger than the gate takes (64 MiB).",
    "FS_PATCH_INVALID": "A patch cannot be read. For a tool that this version does not have.",
    "FS_PATCH_CONFLICT": "A patch does not fit the file. For a tool that this version does not have.",
    "FS_IO_ERROR": "The disk or the file system failed.",
}

# Keys: every type of event that the daemon records, in the order in which a session meets them.
OF_EVENTS: Final[dict[str, str]] = {
    "session/opened": "a session begins: workspace, profile and its digest, approval policy, and `tools` where they "
    "are fewer than all, `workspace_view` (`copy`) where it works on a copy, `lease_s` where it has a lease",
    "session/profile": "another version of its profile is in force for the next call: `name`, `digest`, `before`, "
    "`source`",
    "profile/refused": "an edit of its profile is refused: `name`, `reason`, `digest` of what calls are recorded "
    "under, and `calls`: `run` (the last good version stays), `refused` (this session cannot have the present one)",
    "session/closed": "it has ended; with `reason` where its lease has, and nobody asked for it",
    "tool/call": "a call was taken, before anything else happens: tool, arguments as they came, digest, its "
    "`turn` if it has one, the `parent` that has started it, `background` where it is a job, and the pending `card`",
    "call/profile": "pre-execute chose a narrower profile for this call: `digest`, `before`, and the `tightening`",
    "call/arguments": "pre-execute has rewritten the arguments: `arguments`, their `digest`, and the `card` with them",
    "policy/pre-execute": "the rules have decided: `decision`, `reason`",
    "approval/asked": "somebody has to be asked: `ask_id`, `card`, `shown_hash`, `expires_ms`; "
    "`at` arguments or effects, and `wait_s`, with which a later daemon goes on",
    "approval/decided": "the ask is over: `outcome` (allowed, or the code), `reason`; "
    "of an answer `decision_id` and `said`",
    "policy/guards": "the guards have looked: `decision`, how many there are; `background` of a job, which the budget "
    "has counted with its parent",
    "call/dispatched": "a worker is about to get the body: `access`, `layers`",
    "call/attempt": "a listener of tools/execute asked for another attempt: `number`, and `decision` (`run`, "
    "`refused`)",
    "call/signalled": "a running command was sent a signal: `signal`, its name",
    "fs/observed": "a read succeeded: path, digest, lines shown",
    "fs/edit-intent": "a body asked for an edit that fits: path, digests before and after; what the profile and "
    "all listeners say: `decision`, `reason`",
    "fs/write-intent": "the same, for writing a file whole",
    "fs/effects-intent": "a command has ended, and what it changed could be committed as one: the first paths, "
    "`transaction` (SHA-256 of all), how many `effects`, what is `protected`; the same",
    "policy/transaction": "the guards have looked at what is about to be committed: `decision`, `reason`, how many "
    "`guards` and `changes` there are",
    "fs/begun": "a change is about to be made; durable before the first byte",
    "fs/committed": "it was made; of what a command changed all of it, in `parts`, the last of which says so",
    "todo/write": "the list of what is to be done, whole: `todos`, each with `content` and `status`",
    "fs/changed": "somebody else changed a file that the session was shown: path, digests `seen` and `digest`; a hint",
    "policy/execute": "the outcome is not the body's: `outcome` (`answered` without a body, `transformed`), `ok`",
    "policy/post-execute": "the outcome was accepted, blocked (`feedback`), or given other `content` or another "
    "`value`",
    "tool/result": "the call's one result, and the completed `card`",
    "call/resolved": "its outcome was unknown, and somebody has found out: `outcome` (done, not-done), `note`; alone "
    "it may follow session/closed",
    "catalog/changed": "there are other tools: `generation`, and the names `added`, `changed`, `removed`; in the "
    "sessions that are at hand",
    "catalog/refused": "a tool file cannot be used: `reason`, and which of its tools of before were `kept`; in "
    "the sessions that are at hand",
    "context/message": "a body or a stage has something to tell the agent, after the result, or after all of its turn: "
    "`text`",
}
