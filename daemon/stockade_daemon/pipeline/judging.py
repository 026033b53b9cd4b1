"""What a profile says about a command, without running it."""

from collections.abc import Mapping
from dataclasses import dataclass

from stockade_daemon.pipeline.surroundings import of_profile
from stockade_daemon.policy.command_rules import Verdict, judge, unruled
from stockade_daemon.policy.profile_rules import asked_because, denied_because
from stockade_daemon.values import Decision, Json, Kind, Profile


@dataclass(frozen=True, slots=True)
class Judgement:
    decision: Decision
    reason: str  # empty: it is allowed
    verdicts: tuple[Verdict, ...]  # of the rules, which count where the profile asks about commands


def judge_command(profile: Profile, workspace: str, arguments: Mapping[str, Json]) -> Judgement:
    """`arguments`: a `shell` call's; `workspace`: absolute, links resolved. Computes, and asks the file system."""
    verdicts = judge(arguments, profile.command_rules, of_profile(profile, workspace))
    match profile.approval.commands:
        case "allow":
            return Judgement("allow", "", verdicts)
        case "deny":
            return Judgement("deny", denied_because(profile, Kind.COMMAND, "shell"), verdicts)
    because = unruled(verdicts)
    if not because:
        return Judgement("allow", "", verdicts)
    return Judgement("ask", asked_because(profile, Kind.COMMAND, because if profile.command_rules else ""), verdicts)
