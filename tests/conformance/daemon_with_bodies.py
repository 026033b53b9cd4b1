"""`stockaded` with the probes' bodies in place of the built-in tools; everything else is the product's own."""

from pathlib import Path

from stockade_daemon.__main__ import main
from stockade_daemon.pipeline import function
from stockade_daemon.registry import manifests
from stockade_daemon.sandbox import library, plan

BODIES = Path(__file__).parent / "bodies"


def _replace() -> None:
    packages = {**library.packages(), "bodies": str(BODIES)}
    library.packages = lambda: packages  # type: ignore[assignment]
    manifests.built_in = lambda: BODIES
    plan.MODULES = ()  # nothing is imported ahead of need
    function._MODULES = "bodies"


if __name__ == "__main__":
    _replace()
    main()
