"""Games of `prove simulate` in which the server dies at one named point, at one of the times at which it passes there.

A seed is played once without a death, and it is counted how often each point is passed. Then it is played again for
each point, with the same course up to there. Deaths apart, all goes wrong that the seed has drawn.
"""

import shutil
from collections import Counter
from pathlib import Path
from random import Random

import msgspec

from molecule_core.common.crash_points import POINTS
from proofs.harness.children import setting_of_this_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.simulate.company import Company, founded
from proofs.simulate.game import Game, Outcome
from proofs.simulate.seeds import PLAYED, Played, both

NOT_DIED = "deaths that did not come"
# A point that no seed passes is told in the end; nobody looks for it for ever.
_MOST_SEEDS_EACH = 3


class Falling:
    """`setting.size` deaths at each of the points of `setting`'s half."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._template = setting.folder / "template"
        self._template.mkdir()
        self._company: Company = founded(self._template)
        self.played = Played()

    def run(self, points: tuple[str, ...]) -> Played:
        """All of them."""
        left = Counter(dict.fromkeys(points, self._setting.size))
        for number in range(self._setting.size * _MOST_SEEDS_EACH):
            wanted = [point for point in points if left[point]]
            if not wanted:
                break
            name = f"{self._setting.seed}/{number}"
            passed = self._play(name, ("", 0)).points
            dice = Random(f"{name} passes")
            for point in wanted:
                if passed[point]:
                    left[point] -= 1
                    self._fall(name, point, dice.randint(1, passed[point]))
        self.played.every_point = list(points)
        return self.played

    def _fall(self, name: str, point: str, which: int) -> None:
        outcome = self._play(name, (point, which))
        self.played.add(f"{name} at {point} {which}", outcome)
        if not outcome.died_at[point]:
            self.played.faults = both(self.played.faults, {NOT_DIED: 1})

    def _play(self, name: str, falls: tuple[str, int]) -> Outcome:
        folder = self._setting.folder / "game"
        try:
            return Game(name, self._company, self._template, folder, falls=falls).play()
        finally:
            shutil.rmtree(folder)


def half(seed: int) -> tuple[str, ...]:
    """The points of one of two processes: those at even or at odd places."""
    return POINTS[seed % 2 :: 2]


if __name__ == "__main__":
    import warnings

    # A process that dies leaves calls behind that had not begun.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    given = setting_of_this_child()
    found = Falling(given).run(half(given.seed))
    Path(given.folder, PLAYED).write_bytes(msgspec.json.encode(found))
    print(msgspec.json.encode(Verdict()).decode())
