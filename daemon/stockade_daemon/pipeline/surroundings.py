"""What decides where commands of a session find their programs, as the sandbox makes it."""

from stockade_daemon.policy.executables import Surroundings
from stockade_daemon.sandbox import library, plan
from stockade_daemon.values import Profile, Session


def of_session(session: Session) -> Surroundings:
    return of_profile(session.profile, session.workspace)


def of_profile(profile: Profile, workspace: str) -> Surroundings:
    """`workspace`: absolute, links resolved."""
    shown = (*profile.system, *profile.mounts, *library.trees())
    return Surroundings(workspace, plan.environment(profile), shown)
