"""A figure, the bar it is held against, and how both are shown."""

import enum
from collections.abc import Callable, Iterable

from msgspec import Struct


class Failed(Exception):
    """A measurement that came to nothing; the text says why."""


class Bar(enum.Enum):
    """Which side of a bar is good."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


class Figure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measured figure. Without `must` it is told for information. `beside` is the peer or the limit."""

    row: int
    name: str
    value: float
    unit: str = ""
    bar: Bar = Bar.AT_MOST
    must: float | None = None
    goal: float | None = None
    beside: str = ""

    @property
    def verdict(self) -> str:
        """`goal`, `must` or `MISSED`; `not yet` for a goal alone; empty where nothing is asked."""
        if self._meets(self.goal):
            return "goal"
        if self._meets(self.must):
            return "must"
        if self.must is None:
            return "" if self.goal is None else "not yet"
        return "MISSED"

    def _meets(self, bound: float | None) -> bool:
        if bound is None:
            return False
        return self.value >= bound if self.bar is Bar.AT_LEAST else self.value <= bound


class Options(Struct, frozen=True, kw_only=True):
    """How a run is made."""

    seed: int
    rounds: int
    quick: bool


Say = Callable[[str], None]
"""Tells a person how it goes."""
Row = Callable[[Options, Say], list[Figure]]
"""Measures one row of the table."""


def number(value: float | None) -> str:
    """Three figures that mean something."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}".rstrip("0").rstrip(".")


def bound(figure: Figure, value: float | None) -> str:
    """A bar with its direction."""
    return "–" if value is None else f"{'≥' if figure.bar is Bar.AT_LEAST else '≤'} {number(value)}"


HEADINGS = ("row", "what", "measured", "must", "goal", "met", "beside")


def cells(figure: Figure) -> tuple[str, ...]:
    """One figure as a line of a table."""
    measured = f"{number(figure.value)} {figure.unit}".strip()
    bounds = (bound(figure, figure.must), bound(figure, figure.goal))
    return (str(figure.row), figure.name, measured, *bounds, figure.verdict or "(info)", figure.beside)


def text_table(figures: Iterable[Figure]) -> str:
    """A table for a terminal."""
    lines = [HEADINGS, *(cells(each) for each in figures)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
