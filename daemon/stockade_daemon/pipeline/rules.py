"""Rules: which directories a session may be opened on, and which profile may be used there."""

import os
from dataclasses import dataclass
from pathlib import Path

from stockade_daemon.errors import RequestError
from stockade_daemon.gate.names import told
from stockade_daemon.gate.tracked import tracked
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import ITSELF, Principal, Profile

_KERNEL = ("/proc", "/sys", "/dev")  # nor is anything in these
# Directories that are no workspace: they are the system, or the kernel's.
_NEVER = ("/", "/proc", "/sys", "/dev", "/run", "/usr", "/etc", "/boot", "/bin", "/sbin", "/lib", "/lib64")


@dataclass(frozen=True, slots=True)
class Rules:
    """Who may open what."""

    private: bool  # started by one client, for itself
    workspaces: tuple[Path, ...]  # the admin's list
    profile_directories: tuple[Path, ...]  # looked through in this order
    own: tuple[Path, ...]  # the daemon's state and socket directories: in no workspace
    policy: tuple[Path, ...] = ()  # where tools and profiles of one's own lie: in no workspace, or an edit makes policy
    owner: str = ITSELF.name  # the principal of the daemon's own uid, whose are sessions that name none

    def check_profile(self, profile: Profile, workspace: str) -> None:
        """Raises RequestError where a session on this workspace must not have this profile; file work."""
        self._check_mounts(profile)
        check_hidden(profile, workspace)
        _check_scratch(profile, workspace)

    def open_workspace(self, path: str, principal: Principal = ITSELF) -> Workspace:
        """The directory, for a session of this principal's; the caller closes it.

        Raises RequestError. The daemon has rights that others have not: whatever is the matter with a directory that is
        not theirs, they get one answer, which tells nothing of what there is.
        """
        if principal is ITSELF or principal.uid == os.geteuid():
            return self._opened(path)
        try:
            workspace = self._opened(path)
        except RequestError as error:
            raise _not_for(principal, path) from error
        if not _is_of(workspace, principal):
            workspace.close()
            raise _not_for(principal, path)
        return workspace

    def _opened(self, path: str) -> Workspace:
        workspace = Workspace.open(path)
        try:
            self.check_workspace(workspace)
        except BaseException:
            workspace.close()
            raise
        return workspace

    def check_workspace(self, workspace: Workspace) -> None:
        """Raises RequestError PERMISSION_DENIED where no session may be opened on this directory."""
        path = Path(workspace.path)
        in_kernel = any(workspace.path.startswith(f"{each}/") for each in _KERNEL)
        if workspace.path in _NEVER or (in_kernel and not workspace.path.startswith("/dev/shm/")):  # noqa: S108
            raise RequestError("PERMISSION_DENIED", f"{path} is no workspace; give a directory of your own")
        for own in self.own:
            if own == path or path in own.parents or own in path.parents:
                elsewhere = (
                    "set TMPDIR to a directory outside it"
                    if self.private
                    else "start the daemon with --state and --socket elsewhere"
                )
                raise RequestError(
                    "PERMISSION_DENIED",
                    f"the daemon keeps its own files in {own}, which a session on {path} would show to its tools; "
                    f"choose another workspace, or {elsewhere}",
                )
        for each in self.policy:
            if each == path or path in each.parents or each in path.parents:
                raise RequestError(
                    "PERMISSION_DENIED",
                    f"the daemon takes tools or profiles from {each}, which a session on {path} could change; choose "
                    "another workspace, or have the admin keep them outside it",
                )
        if any(path == each or each in path.parents for each in self.workspaces):
            return
        uid = os.geteuid()
        if uid == 0:
            if not self.private:
                raise RequestError(
                    "PERMISSION_DENIED",
                    f"{path} is not among the workspaces of this daemon; its admin adds to stockade.toml, below "
                    "[daemon]: "
                    f'workspaces = ["{path}"]',
                )
        elif workspace.uid != uid:
            raise RequestError(
                "PERMISSION_DENIED",
                f"{path} does not belong to uid {uid}, which the daemon runs as; choose a directory of that user, or "
                "have the admin list it in [daemon] workspaces",
            )

    def _check_mounts(self, profile: Profile) -> None:
        for mount in (*profile.mounts, *profile.system):
            real = Path(os.path.realpath(mount))
            for own in self.own:
                if own == real or real in own.parents or own in real.parents:
                    raise RequestError(
                        "PERMISSION_DENIED",
                        f"the daemon keeps its own files in {own}, which the mount {mount} of profile {profile.name} "
                        "would show to tools; mount less, or start the daemon with --state and --socket elsewhere",
                    )


def check_hidden(profile: Profile, workspace: str) -> None:
    """Raises RequestError where a profile hides names of a workspace that workers see a second time, in a tree of the
    host; file work."""
    if not profile.hidden:
        return
    for shown in (*profile.system, *profile.mounts):
        real = os.path.realpath(shown)
        if f"{workspace}/".startswith(f"{real}/") or f"{real}/".startswith(f"{workspace}/"):
            raise RequestError(
                "FAILED_PRECONDITION",
                f"profile {profile.name} hides names of the workspace {workspace} and shows {shown} of the host, where "
                "they could be seen all the same; choose another workspace, or a profile that does not show it",
            )


def _check_scratch(profile: Profile, workspace: str) -> None:
    """Raises RequestError where git tracks what the profile calls scratch; file work."""
    if not profile.scratch:
        return
    with Workspace.open(workspace) as opened:
        found = {path: tracked(opened, path) for path in profile.scratch}
    for path, name in found.items():
        if name is not None:
            raise RequestError(
                "FAILED_PRECONDITION",
                f"git tracks {told(name)} in the workspace {workspace}, and profile {profile.name} calls {path} "
                "scratch: commands would not find it, and git would commit that it is gone; take the path out of "
                "`filesystem.scratch`, or have git forget what is there (git rm -r --cached)",
            )


def _is_of(workspace: Workspace, principal: Principal) -> bool:
    """Whether it is the principal's to use."""
    if not principal.workspaces:
        return workspace.uid == principal.uid
    path = Path(workspace.path)
    return any(path == Path(each) or Path(each) in path.parents for each in principal.workspaces)


def _not_for(principal: Principal, path: str) -> RequestError:
    return RequestError(
        "PERMISSION_DENIED",
        f"{path} is no directory that {principal.name} may work on: "
        + ("its workspaces in stockade.toml" if principal.workspaces else "directories that belong to its uid")
        + ", where they are below those of the daemon; choose one, or have the admin add it to `workspaces` of that "
        "principal",
    )
