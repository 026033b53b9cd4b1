"""A thousand entries in four jobs write one path, and the workers of fifty are killed from outside.

    python -m tests.entries [--count 1000] [--jobs 4] [--kills 50]            make entries

Exit status: 0 every entry saw its own, the workspace is untouched and the reports are right; 1 not; 2 usage.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from stockade_daemon.removing import remove_tree
from tests.entries.campaign import of_kills, of_one_path


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make entries ARGS=…", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="entries that write one path")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--kills", type=int, default=50, help="entries whose workers are killed")
    options = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="entries-"))
    faulty = False
    try:
        for name, campaign, count in (("path", of_one_path, options.count), ("kills", of_kills, options.kills)):
            if count:
                report = campaign(place / name, count, options.jobs)
                print(f"entries: {report}", flush=True)
                for fault in report.faults[:20]:
                    print(f"entries: {fault}", file=sys.stderr, flush=True)
                faulty = faulty or bool(report.faults)
                if report.faults:
                    print((place / name / "log").read_text(errors="replace")[-4000:], file=sys.stderr)
    finally:
        remove_tree(place)
    return int(faulty)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
