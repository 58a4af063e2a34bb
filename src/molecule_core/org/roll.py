"""Everybody an organisation ever had, and how those who live are shown as JSON, kept until they change.

A list of a hundred thousand is put together from some hundred long pieces: joining as many short ones takes longer than
writing them."""

from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise

from molecule_core.org.model import Workspace

Show = Callable[[Workspace], bytes]

# So many neighbours are one piece, of some 90 kB. A page of a hundred cuts two of them; whoever changes has one of them
# put together anew.
_RUN = 128


class Roll:
    """The workspaces of one organisation, removed ones too, oldest first; each keeps its place for ever."""

    def __init__(self) -> None:
        self.seats: list[Workspace] = []
        self._runs: list[_Run] = []

    def add(self, workspace: Workspace) -> int:
        """A new workspace; returns its place."""
        place = len(self.seats)
        self.seats.append(workspace)
        if place % _RUN == 0:
            self._runs.append(_Run())
        return place

    def replace(self, place: int, workspace: Workspace) -> None:
        """The workspace at a place has changed."""
        self.seats[place] = workspace
        self.forget(place)

    def forget(self, place: int) -> None:
        """How the workspace at a place was shown does not hold any more."""
        self._runs[place // _RUN].forget(place % _RUN)

    def texts(self, first: int, last: int, show: Show) -> Iterator[bytes]:
        """Those that live from one place to another, each as `show` makes it (or made it before, if that still holds)
        and followed by a comma, in long pieces, of which some may be empty."""
        for number in range(first // _RUN, last // _RUN + 1):
            start = number * _RUN
            yield self._run(number, show).cut(max(first - start, 0), min(last - start, _RUN - 1))

    def _run(self, number: int, show: Show) -> "_Run":
        run, start = self._runs[number], number * _RUN
        if run.stale or len(run.ends) < min(_RUN, len(self.seats) - start):
            run.renew(self.seats[start : start + _RUN], show)
        return run


class _Run:
    """Neighbours in one piece. `ends`: where each ends, followed by a comma; of a removed one there is nothing."""

    __slots__ = ("ends", "stale", "text")

    def __init__(self) -> None:
        self.text = b""
        self.ends = array("I")
        self.stale: set[int] = set()

    def cut(self, first: int, last: int) -> bytes:
        """From one to another of them."""
        return self.text[self.ends[first - 1] if first else 0 : self.ends[last]]

    def forget(self, at: int) -> None:
        """One of them changed."""
        if at < len(self.ends):
            self.stale.add(at)

    def renew(self, seats: list[Workspace], show: Show) -> None:
        """Shows those anew that changed, and those that came."""
        rows = [self.text[start:end] for start, end in pairwise((0, *self.ends))]
        known = len(rows)
        rows += [b""] * (len(seats) - known)
        for at in (*self.stale, *range(known, len(seats))):
            rows[at] = b"" if seats[at].removed else show(seats[at]) + b","
        self.text, self.ends = b"".join(rows), array("I", accumulate(map(len, rows)))
        self.stale.clear()
