"""Figures, and tables of them: what is measured, what is printed and what is kept in docs/bench have one shape."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Cell: TypeAlias = str | int | float | None  # None: not measured
Row: TypeAlias = dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with the same keys, which say the unit (`p50 ms`)."""

    title: str
    rows: tuple[Row, ...]


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which `part` of the values lie, by the nearest rank. Raises ValueError for none."""
    if not values:
        raise ValueError("no values")
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(part * len(ranked)))]


def spread(values: Sequence[float], *, most: bool = False) -> Row:
    """p50, p95 and p99 (or the maximum) of milliseconds."""
    last: Row = {"max ms": rounded(max(values))} if most else {"p99 ms": rounded(quantile(values, 0.99))}
    return {
        "n": len(values),
        "p50 ms": rounded(quantile(values, 0.5)),
        "p95 ms": rounded(quantile(values, 0.95)),
        **last,
    }


def rounded(value: float) -> float:
    """Three digits, which is more than a repetition keeps."""
    return float(f"{value:.3g}")


def text(table: Table) -> str:
    """The table as Markdown, columns aligned so that a terminal shows it as well."""
    names = list(table.rows[0])
    lines = [names, *([_cell(row[name]) for name in names] for row in table.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    numbers = [all(not isinstance(row[name], str) for row in table.rows) for name in names]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(cells, widths, numbers, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    rule = "|".join("-" * (width + 1) + (":" if number else "-") for width, number in zip(widths, numbers, strict=True))
    return "\n".join([f"**{table.title}**", "", line(names), f"|{rule}|", *(line(each) for each in lines[1:])])


def _cell(value: Cell) -> str:
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)
