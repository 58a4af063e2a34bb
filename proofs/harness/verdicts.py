"""What a run counted: figures that say how much was done, and zeros that must be zero."""

import itertools
from collections.abc import Mapping

from msgspec import Struct, field

Figure = int | float | str
SHORT = "demanded and not done"
"""The zero of a full run that counts what it did too little of."""


class Verdict(Struct):
    """The outcome of one run. Names are read by people, in the order they were put in."""

    figures: dict[str, Figure] = field(default_factory=dict)
    zeros: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """A few examples of what went wrong, for whoever looks for the reason."""
    told: list[str] = field(default_factory=list)
    """What is said above the closing line, whatever came out."""

    @property
    def broken(self) -> dict[str, int]:
        """The zeros that are not zero."""
        return {name: count for name, count in self.zeros.items() if count}

    def line(self) -> str:
        """The closing line: what was done, then every zero."""
        done = ", ".join(f"{name} {_shown(figure)}" for name, figure in self.figures.items())
        return f"{done} | " + ", ".join(f"{name} {count:,}" for name, count in self.zeros.items())


def demand(verdict: Verdict, least: Mapping[str, int]) -> None:
    """Counts what is missing to the least that these figures must come to."""
    missing = {name: max(0, count - int(verdict.figures.get(name, 0))) for name, count in least.items()}
    verdict.zeros[SHORT] = sum(missing.values())
    verdict.notes += [f"{name}: {count:,} of {least[name]:,} are missing" for name, count in missing.items() if count]


def _shown(figure: Figure) -> str:
    return figure if isinstance(figure, str) else f"{figure:,}"


def gaps(numbers: list[int]) -> int:
    """How many of 1, 2, 3, ... are missing or doubled in a list that should count without a gap."""
    missing = len(set(range(1, max(numbers, default=0) + 1)) - set(numbers))
    return missing + len(numbers) - len(set(numbers))


def descents(numbers: list[int]) -> int:
    """How often a number is not greater than the one before it."""
    return sum(later <= earlier for earlier, later in itertools.pairwise(numbers))
