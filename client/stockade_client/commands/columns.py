"""Rows of short facts in columns as wide as what is in them: to be read, and to be cut apart by a program."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from rich.cells import cell_len

from stockade_client.visible import visible


def in_columns(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> None:
    """Prints one line for each row, two spaces between columns, whatever the terminal's width; nothing hidden stays so.

    right: numbers of columns whose ends stand below one another. The last column is not padded.
    """
    shown = [[visible(" ".join(fact.split())) for fact in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        facts = []
        for number, (fact, width) in enumerate(zip(row, widths, strict=True)):
            gap = " " * (width - cell_len(fact))
            facts.append(f"{gap}{fact}" if number in right else f"{fact}{gap}")
        print("  ".join(facts).rstrip())


def moment(milliseconds: int) -> str:
    """A point in time, milliseconds since 1970, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
