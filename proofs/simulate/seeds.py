"""Plays one seed after the other in a process of its own: what `prove simulate` starts, once for each core."""

import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, field

from molecule_core.common import crash_points
from proofs.harness.children import setting_of_this_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.simulate.cells import Cells, every_cell
from proofs.simulate.company import founded
from proofs.simulate.game import Game, Outcome

# The first seeds, and then each of so many, are played once more, and must come to the same journal. Chance that is not
# handed in changes two courses in five: the few games of a control have enough of them to see it every time.
_TWICE_FIRST, _TWICE_EVERY = 6, 25
_MOST_NOTES = 12
PLAYED = "played.json"


class Played(Struct):
    """What all games of a process came to. `least`: messages delivered in the game that had the fewest."""

    seeds: int = 0
    twice: int = 0
    least: int = 1 << 30
    counts: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)
    died_at: dict[str, int] = field(default_factory=dict)
    cells: dict[str, int] = field(default_factory=dict)
    every_cell: list[str] = []
    every_point: list[str] = []
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, outcome: Outcome) -> None:
        """One more game."""
        self.seeds += 1
        self.least = min(self.least, outcome.counts["messages delivered"])
        self.counts = both(self.counts, outcome.counts)
        self.faults = both(self.faults, outcome.faults)
        self.points = both(self.points, outcome.points)
        self.died_at = both(self.died_at, outcome.died_at)
        self.notes += [f"seed {name}: {note}" for note in outcome.notes[: _MOST_NOTES - len(self.notes)]]


def both(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Two counts as one."""
    return dict(Counter(one) + Counter(other))


def play(setting: Setting) -> Played:
    """`setting.size` seeds."""
    template = setting.folder / "template"
    template.mkdir()
    company = founded(template)
    played, cells = Played(), Cells()
    for number in range(setting.size):
        name = f"{setting.seed}/{number}"
        outcome = _one(setting.folder / "game", template, name, company, cells)
        played.add(name, outcome)
        if number < _TWICE_FIRST or number % _TWICE_EVERY == 0:
            again = _one(setting.folder / "game", template, name, company, cells)
            played.twice += 1
            if again.journal != outcome.journal:
                played.faults = both(played.faults, {"same seed, another journal": 1})
                played.notes.append(f"seed {name} had another course the second time")
    played.cells = dict(cells.reached)
    played.every_cell = sorted(every_cell())
    played.every_point = sorted(getattr(crash_points, "POINTS", ()))
    return played


def _one(folder: Path, template: Path, name: str, company: object, cells: Cells) -> Outcome:
    try:
        return Game(name, company, template, folder, cells).play()  # type: ignore[arg-type]
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    if not sys.warnoptions:
        import warnings

        # A process that dies leaves calls behind that had not begun.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    given = setting_of_this_child()
    Path(given.folder, PLAYED).write_bytes(msgspec.json.encode(play(given)))
    print(msgspec.json.encode(Verdict()).decode())
