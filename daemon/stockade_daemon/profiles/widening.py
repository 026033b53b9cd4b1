"""What one profile allows that another refuses: a rule for every key, and nothing that is not a rule.

A rule looks at both profiles as they are in force, so it does not matter by which way they came to be: by `extends`, by
a session's tightening, or by name. A path counts as the same only where it is spelled the same: a name below a tree
may be a link that leads out of it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from stockade_daemon.profiles import keys, limit_keys
from stockade_daemon.profiles.command_rule import covers
from stockade_daemon.values import Decision, Effects, Profile

# What the child allows beyond the parent, as the end of a sentence; empty: nothing.
Rule: TypeAlias = Callable[[Profile, Profile], str]

_NETWORKS: Final = ("none", "loopback", "host")
_EFFECTS: Final[tuple[Effects, ...]] = ("discard", "ask", "commit")
_DECISIONS: Final[tuple[Decision, ...]] = ("deny", "ask", "allow")


@dataclass(frozen=True, slots=True)
class Widening:
    """A key by which a profile allows more than another one."""

    key: str  # dotted
    what: str  # what would be allowed

    def __str__(self) -> str:
        return f"`{self.key}` {self.what}"


def widenings(child: Profile, parent: Profile) -> tuple[Widening, ...]:
    """All that `child` allows and `parent` refuses, by key. Empty: the child is as narrow, or narrower."""
    found = ((key, rule(child, parent)) for key, rule in RULES.items())
    return tuple(Widening(key, what) for key, what in found if what)


def _subset(what: str, of: Callable[[Profile], Iterable[str]]) -> Rule:
    def rule(child: Profile, parent: Profile) -> str:
        known = set(of(parent))
        more = [each for each in of(child) if each not in known]
        return f"{what} {', '.join(more)}" if more else ""

    return rule


def _superset(what: str, of: Callable[[Profile], Iterable[str]]) -> Rule:
    def rule(child: Profile, parent: Profile) -> str:
        kept = set(of(child))
        less = [each for each in of(parent) if each not in kept]
        return f"{what} {', '.join(less)}" if less else ""

    return rule


def _at_most(of: Callable[[Profile], float]) -> Rule:
    def rule(child: Profile, parent: Profile) -> str:
        return f"is {of(child):g}, more than {of(parent):g}" if of(child) > of(parent) else ""

    return rule


def _no_later(words: tuple[str, ...], of: Callable[[Profile], str]) -> Rule:
    """`words` from the strictest to the widest."""

    def rule(child: Profile, parent: Profile) -> str:
        wider = words.index(of(child)) > words.index(of(parent))
        return f'is "{of(child)}", wider than "{of(parent)}"' if wider else ""

    return rule


def _passed(profile: Profile) -> Iterable[str]:
    """Variables whose value comes from the daemon: what is set as well has the profile's value."""
    return [name for name in profile.environment_pass if name not in profile.environment]


def _variables(child: Profile, parent: Profile) -> str:
    """By name alone: an error is no place for a value."""
    more = [name for name, value in child.environment.items() if parent.environment.get(name) != value]
    return f"sets {', '.join(more)}" if more else ""


def _unprotected(child: Profile, parent: Profile) -> str:
    """What is hidden is not changed either."""
    kept = {*child.protected, *child.hidden}
    less = [pattern for pattern in parent.protected if pattern not in kept]
    return f"lets be changed {', '.join(less)}" if less else ""


def _scratch(child: Profile, parent: Profile) -> str:
    """What is kept there nobody is shown. And where a path is scratch no more, it can be changed in the workspace."""
    kept = {*child.scratch, *child.protected, *child.hidden}
    less = [path for path in parent.scratch if path not in kept]
    more = [path for path in child.scratch if path not in parent.scratch]
    said = [f"keeps {', '.join(more)}"] if more else []
    return " and ".join([*said, f"lets be changed in the workspace {', '.join(less)}"] if less else said)


def _secrets(child: Profile, parent: Profile) -> str:
    more = [name for name, file in child.secrets.items() if parent.secrets.get(name) != file]
    return f"gives {', '.join(more)}" if more else ""


def _commands(child: Profile, parent: Profile) -> str:
    """Rules count where commands are asked about; `approval.commands` itself is another key."""
    if child.approval.commands != "ask" or parent.approval.commands != "ask":
        return ""
    more = [rule for rule in child.command_rules if not any(covers(each, rule) for each in parent.command_rules)]
    return f"allows {', '.join(more)}" if more else ""


RULES: Final[dict[str, Rule]] = {
    keys.SYSTEM.name: _subset("shows", lambda profile: profile.system),
    keys.MOUNTS.name: _subset("shows", lambda profile: profile.mounts),
    keys.HIDDEN.name: _superset("shows", lambda profile: profile.hidden),
    keys.PROTECTED.name: _unprotected,
    keys.SCRATCH.name: _scratch,
    keys.WORKSPACE.name: _no_later(("read", "overlay"), lambda profile: profile.workspace),
    keys.TMP_MB.name: _at_most(lambda profile: profile.limits.tmp_mb),
    keys.TMP_INODES.name: _at_most(lambda profile: profile.limits.tmp_inodes),
    keys.SECRETS.name: _secrets,
    keys.MODE.name: _no_later(_NETWORKS, lambda profile: profile.network),
    # A variable is no right, but it steers what a person said yes to.
    keys.SET.name: _variables,
    keys.PASS.name: _subset("passes", _passed),
    limit_keys.WALL_S.name: _at_most(lambda profile: profile.limits.wall_s),
    limit_keys.CPU_S.name: _at_most(lambda profile: profile.limits.cpu_s),
    limit_keys.MEMORY_MB.name: _at_most(lambda profile: profile.limits.memory_mb),
    limit_keys.PROCESSES.name: _at_most(lambda profile: profile.limits.processes),
    limit_keys.OPEN_FILES.name: _at_most(lambda profile: profile.limits.open_files),
    limit_keys.FILE_MB.name: _at_most(lambda profile: profile.limits.file_mb),
    limit_keys.OUTPUT_MB.name: _at_most(lambda profile: profile.limits.output_mb),
    limit_keys.OUTPUT_PAST.name: _no_later(("stop", "truncate"), lambda profile: profile.limits.output_past),
    limit_keys.CPUS.name: _at_most(lambda profile: profile.limits.cpus),
    limit_keys.JOBS.name: _at_most(lambda profile: profile.limits.jobs),
    limit_keys.JOB_S.name: _at_most(lambda profile: profile.limits.job_s),
    limit_keys.CALLS.name: _at_most(lambda profile: profile.budget.calls),
    limit_keys.SECONDS.name: _at_most(lambda profile: profile.budget.seconds),
    limit_keys.RESULTS_MB.name: _at_most(lambda profile: profile.budget.output_mb),
    keys.READS.name: _no_later(_DECISIONS, lambda profile: profile.approval.reads),
    keys.WRITES.name: _no_later(_DECISIONS, lambda profile: profile.approval.writes),
    keys.COMMANDS.name: _no_later(_DECISIONS, lambda profile: profile.approval.commands),
    keys.EFFECTS.name: _no_later(_EFFECTS, lambda profile: profile.approval.effects),
    # Who waits longer may still be answered where the other is refused.
    keys.WAIT_S.name: _at_most(lambda profile: profile.approval.wait_s),
    keys.COMMAND_RULES.name: _commands,
    keys.REQUIRED.name: _superset("does without", lambda profile: profile.required_layers),
    keys.SYSCALLS.name: _subset("lets through", lambda profile: profile.syscalls),
}
# Keys that allow nothing by themselves.
FREE: Final = (keys.DESCRIPTION.name, keys.EXTENDS.name, keys.WIDEN.name)
