"""Options that several commands have."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])
_PRIVATE: Final = "stockade.private"  # in click's Context.meta


def named(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A callback for text that names something to the daemon: not empty, and UTF-8 as all text of the protocol is."""
    if value is None:
        return None
    if not value:
        raise click.BadParameter("it is empty; give one, or leave it out", ctx, param)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"{value!r} is not UTF-8; use one that is", ctx, param) from None
    return value


def each_named(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The same for an argument that may be given several times."""
    for value in values:
        named(ctx, param, value)
    return values


def profile(*, required: bool = True) -> Callable[[Function], Function]:
    return click.option(
        "--profile",
        metavar="NAME|FILE",
        callback=named,
        required=required,
        help="Sandbox profile: a name, or a file (with '/' or ending in .toml, 64 KiB at most) that a private daemon "
        "takes.",
    )


def workspace(default: str | None = ".") -> Callable[[Function], Function]:
    """The directory is the daemon's to find: no check here, the client never looks into it."""
    return click.option(
        "--workspace",
        metavar="DIR",
        callback=named,
        default=default,
        help="Directory that the tools work on.  [default: the current one]",
    )


def yes() -> Callable[[Function], Function]:
    return click.option(
        "--yes", "-y", is_flag=True, help="Answer yes to whatever is asked. Without it and without a terminal: no."
    )


def as_json() -> Callable[[Function], Function]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")


def private() -> Callable[[Function], Function]:
    """No argument of the command: whoever looks for a daemon asks `wants_private`."""

    def remember(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        ctx.meta[_PRIVATE] = value

    return click.option(
        "--private",
        is_flag=True,
        expose_value=False,
        callback=remember,
        help="Use a daemon of this command's own, also where another one runs or STOCKADE_ADDRESS is set.",
    )


def wants_private() -> bool:
    """Whether the command that is being run was given --private."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_PRIVATE))
