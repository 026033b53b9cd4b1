"""stockaded: the daemon's command line."""

import logging
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from stockade_daemon import config as settings
from stockade_daemon.errors import ConfigurationError, Refusal

# Before anything imports grpc: processes are started with exec, never forked from a threaded server.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

_FAULTY = 2  # configuration
_CANNOT = 3  # infrastructure


def _version() -> str:
    try:
        return version("stockade")
    except PackageNotFoundError:
        return "not installed"


@click.version_option(_version(), prog_name="stockaded")
@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """The Stockade daemon: runs the tools that agents call, each in a sandbox of its own."""


@main.command()
@click.option("--socket", type=click.Path(path_type=Path), help="Unix socket to serve on, in a 0700 directory.")
@click.option("--state", type=click.Path(path_type=Path), help="Directory for the ledger and scratch space (0700).")
@click.option("--config", type=click.Path(path_type=Path), help="stockade.toml; flags win over it.")
@click.option("--listen", metavar="HOST:PORT", help="Listen there too: with TLS, or on loopback with tokens.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="The daemon's certificate, PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key, PEM.")
@click.option("--client-ca", type=click.Path(path_type=Path), help="Who signs certificates of clients, PEM.")
@click.option("--private", type=click.Path(path_type=Path), hidden=True, help="Directory to remove at the end.")
@click.option("--lifeline", type=int, hidden=True, help="Descriptor whose end of file ends the daemon.")
@click.option("--verbose", is_flag=True, help="Log what happens inside as well.")
def serve(
    socket: Path | None,
    state: Path | None,
    config: Path | None,
    listen: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    client_ca: Path | None,
    private: Path | None,
    lifeline: int | None,
    verbose: bool,
) -> None:
    """Serve until SIGTERM, which lets calls under way finish for ten seconds; a second one ends it at once.

    One line for each call goes to standard error. Exit status: 0 stopped as asked, 2 the configuration is faulty, 3 the
    host does not let it run.
    """
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    if not verbose:
        logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it tells of every change, and so do we
    # Imported late: `--help` and a faulty configuration need none of it.
    import asyncio

    from stockade_daemon.app import Start
    from stockade_daemon.app import serve as run

    status = 0
    try:
        found = settings.load(
            config,
            socket=socket,
            state=state,
            listen=listen,
            certificate=tls_cert,
            key=tls_key,
            client_ca=client_ca,
        )
        asyncio.run(run(Start(found, private, lifeline)))
    except* ConfigurationError as group:
        _tell(group)
        status = _FAULTY
    except* Refusal as group:
        _tell(group)
        status = status or _CANNOT
    # Not raised above: what is raised in such a handler becomes part of another group, and its status is lost.
    sys.exit(status)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
def token(file: Path) -> None:
    """Make a token, print it once, and write its digest to FILE (0600), for a [[principals]] of stockade.toml.

    Whoever is to have the token keeps it in a file of his own: the daemon has the digest alone. A FILE that exists is
    replaced, and its token counts no more.
    """
    from stockade_daemon.rpc.tokens import make

    try:
        made = make(file)
    except OSError as error:
        click.echo(f"stockaded: {file}: cannot be written: {error.strerror}; choose another file", err=True)
        sys.exit(_FAULTY)
    click.echo(made)


def _tell(group: BaseExceptionGroup[Exception]) -> None:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            _tell(error)
        else:
            click.echo(f"stockaded: {error}", err=True)


if __name__ == "__main__":
    main()
