"""The profile that a case runs under: `ci`, and what its config items change of it."""

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.cases.filling import Places
from tests.conformance.cases.reading import Case, calls_of, label
from tests.conformance.cases.verdicts import Missing

_HELD: Final = {"root_is_symlink", "umask", "pause", "fault_injection"}  # said elsewhere than in a profile
_HOOKS: Final = {"pre_hook", "post_hook", "hook_timeout_s", "on_failure", "deny_outside"}
_COMMANDS: Final = {"shell", "run_code"}
# Words for a change of policy, and what it changes in the case's profile.
TIGHTENED: Final = {"set policy deny shell": ('commands = "ask"', 'commands = "deny"')}
_WAIT_S: Final = 60.0  # of an ask that will be answered; a hang detector


def name_of(case: Case) -> str:
    return f"case-{label(case.id)}"


def asking(case: Case) -> set[str]:
    """What is asked about: `writes`, `commands`. Where nothing says so, it follows from the answers that are given."""
    word = str(case.config().get("approval", "")).split(" ", 1)[0]
    named = {"write": {"writes"}, "patch": {"writes"}, "shell": {"commands"}, "all": {"writes", "commands"}}.get(word)
    if named is not None:
        return named
    if word:
        raise Missing(f"the approval {word!r}")
    answered = [call["tool"] for item in case.calls for call in calls_of(item) if "then" in call]
    if not answered and "approval_required" in str(case.expect):
        answered = [call["tool"] for item in case.calls for call in calls_of(item)]
    return {"commands" if tool in _COMMANDS else "writes" for tool in answered}


def text_for(case: Case, places: Places) -> str | None:
    """The text of a profile of the case's own; None: `ci` is enough. Raises Missing for what no key says."""
    widen: list[str] = []
    tables: dict[str, dict[str, str]] = {"filesystem": {}, "limits": {}, "approval": {}, "commands": {}}
    asked = asking(case)
    for what in asked:
        tables["approval"][what] = '"ask"'
    if asked:
        widen.append("approval.wait_s")
        tables["approval"]["wait_s"] = str(_WAIT_S)
    for key, value in case.config().items():
        if key in _HELD or key == "approval":
            continue
        if key in _HOOKS:
            raise Missing("hooks")
        _one(key, value, places, tables, widen)
    if not any(tables.values()):
        return None
    head = f'extends = "ci"\nwiden = [{", ".join(map(_quoted, widen))}]\n'
    return head + "".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
        for name, keys in tables.items()
        if keys
    )


def _one(key: str, value: Any, places: Places, tables: Mapping[str, dict[str, str]], widen: list[str]) -> None:
    match key:
        case "approval_timeout_s":
            if "approval.wait_s" not in widen:
                widen.append("approval.wait_s")
            tables["approval"]["wait_s"] = str(float(value))
        case "allow":
            tables["commands"]["allow"] = f"[{', '.join(_quoted(each) for each in value)}]"
            tables["approval"]["commands"] = '"ask"'
            tables["approval"]["wait_s"] = str(_WAIT_S)
            widen += [each for each in ("approval.wait_s", "commands.allow") if each not in widen]
        case "deny":
            tables["filesystem"]["protected"] = f"[{', '.join(_quoted(each) for each in value)}]"
        case "allow_read":
            given = [value] if isinstance(value, str) else value
            mounts = ", ".join(f'{{path = {_quoted(places.fill(each))}, mode = "ro"}}' for each in given)
            widen.append("filesystem.mounts")
            tables["filesystem"]["mounts"] = f"[{mounts}]"
        case "memory_limit_mb":
            tables["limits"]["memory_mb"] = str(int(value))
        case "process_limit":
            tables["limits"]["processes"] = str(int(value))
        case "intent" if value == "fs/read only":
            tables["approval"]["writes"] = '"deny"'
            tables["filesystem"]["workspace"] = '"read"'
        case "intent" if value == "fs/write":
            tables["approval"]["effects"] = '"commit"'
        case _:
            raise Missing(f"a meaning for the config {key} = {value!r}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
