"""Everybody an organisation ever had, and how those who live are shown as JSON, kept until they change.

A list of a hundred thousand is put together from some hundred long pieces: joining as many short ones takes longer than
writing them."""

from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise

from molecule_core.org.model import Workspace

WorkspaceEncoder = Callable[[Workspace], bytes]

# So many neighbours are one piece, of some 90 kB. A page of a hundred cuts two of them; whoever changes has one of them
# put together anew.
_SEGMENT_SIZE = 128


class OrgListCache:
    """The workspaces of one organisation, removed ones too, oldest first; each keeps its place for ever."""

    def __init__(self) -> None:
        self.workspaces: list[Workspace] = []
        self._segments: list[_Segment] = []

    def add(self, workspace: Workspace) -> int:
        """A new workspace; returns its place."""
        position = len(self.workspaces)
        self.workspaces.append(workspace)
        if position % _SEGMENT_SIZE == 0:
            self._segments.append(_Segment())
        return position

    def replace(self, position: int, workspace: Workspace) -> None:
        """The workspace at a place has changed."""
        self.workspaces[position] = workspace
        self.invalidate(position)

    def invalidate(self, position: int) -> None:
        """How the workspace at a place was shown does not hold any more."""
        self._segments[position // _SEGMENT_SIZE].mark_stale(position % _SEGMENT_SIZE)

    def encoded_segments(self, first: int, last: int, encode: WorkspaceEncoder) -> Iterator[bytes]:
        """Those that live from one place to another, each as `show` makes it (or made it before, if that still holds)
        and followed by a comma, in long pieces, of which some may be empty."""
        for number in range(first // _SEGMENT_SIZE, last // _SEGMENT_SIZE + 1):
            start = number * _SEGMENT_SIZE
            yield self._current_segment(number, encode).encoded_slice(
                max(first - start, 0), min(last - start, _SEGMENT_SIZE - 1)
            )

    def _current_segment(self, number: int, encode: WorkspaceEncoder) -> "_Segment":
        segment, start = self._segments[number], number * _SEGMENT_SIZE
        if segment.stale or len(segment.ends) < min(_SEGMENT_SIZE, len(self.workspaces) - start):
            segment.refresh(self.workspaces[start : start + _SEGMENT_SIZE], encode)
        return segment


class _Segment:
    """Neighbours in one piece. `ends`: where each ends, followed by a comma; of a removed one there is nothing."""

    __slots__ = ("ends", "stale", "text")

    def __init__(self) -> None:
        self.text = b""
        self.ends = array("I")
        self.stale: set[int] = set()

    def encoded_slice(self, first: int, last: int) -> bytes:
        """From one to another of them."""
        return self.text[self.ends[first - 1] if first else 0 : self.ends[last]]

    def mark_stale(self, index: int) -> None:
        """One of them changed."""
        if index < len(self.ends):
            self.stale.add(index)

    def refresh(self, workspaces: list[Workspace], encode: WorkspaceEncoder) -> None:
        """Shows those anew that changed, and those that came."""
        rows = [self.text[start:end] for start, end in pairwise((0, *self.ends))]
        known = len(rows)
        rows += [b""] * (len(workspaces) - known)
        for index in (*self.stale, *range(known, len(workspaces))):
            rows[index] = b"" if workspaces[index].removed else encode(workspaces[index]) + b","
        self.text, self.ends = b"".join(rows), array("I", accumulate(map(len, rows)))
        self.stale.clear()
