"""How a profile names files of the workspace: paths from its root, with two signs."""

from stockade_daemon.settings import Unfit, text

_LONGEST = 1024  # characters

PATTERN = 'paths below the workspace; `*` within a name, `**` for directories; for example ".env", "**/*.pem"'


def workspace_pattern(value: object) -> str:
    """A path relative to the workspace, in its normal form. `*` stands for any characters of one name, `**` as a whole
    name for any number of directories."""
    pattern = text(_LONGEST)(value)
    if "\n" in pattern or "\t" in pattern:
        raise Unfit("holds a line end or tab; use * in its place")
    if pattern.startswith(("/", "~")):
        raise Unfit(f'is "{pattern}"; paths count from the workspace: write it without {pattern[0]} in front')
    if not pattern.endswith("/") and all(part not in ("", ".", "..") for part in pattern.split("/")):
        for part in pattern.split("/"):
            if "**" in part and part != "**":
                raise Unfit(f'has "{part}": ** is a whole name, as in "**/{part.replace("**", "*")}"')
        return pattern
    kept = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in kept or not kept:
        raise Unfit(f'is "{pattern}"; name something below the workspace, without ..')
    raise Unfit(f'is "{pattern}"; write it in its normal form, "{"/".join(kept)}"')
