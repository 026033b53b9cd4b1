"""Options that several commands have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def profile(*, required: bool = True) -> Callable[[Function], Function]:
    return click.option(
        "--profile",
        metavar="NAME|FILE",
        required=required,
        help="Sandbox profile: a name, or a file (with '/' or ending in .toml) that a private daemon takes.",
    )


def workspace(default: str | None = ".") -> Callable[[Function], Function]:
    """The directory is the daemon's to find: no check here, the client never looks into it."""
    return click.option(
        "--workspace",
        metavar="DIR",
        default=default,
        help="Directory that the tools work on.  [default: the current one]",
    )


def yes() -> Callable[[Function], Function]:
    return click.option(
        "--yes", "-y", is_flag=True, help="Answer yes to whatever is asked. Without it and without a terminal: no."
    )


def as_json() -> Callable[[Function], Function]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
