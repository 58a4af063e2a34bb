"""Per-organisation list of workspaces with their cached JSON.

A list of 100,000 workspaces is joined from some hundred long pieces: joining as many short ones takes longer than
encoding them."""

from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise

from molecule_core.org.model import Workspace

WorkspaceEncoder = Callable[[Workspace], bytes]

# 128: a segment has about 90 kB. A page of 100 workspaces cuts at most two segments; a change re-joins one.
_SEGMENT_SIZE = 128


class OrgListCache:
    """Workspaces of one organisation, removed ones included, oldest first. Positions never change."""

    def __init__(self) -> None:
        self.workspaces: list[Workspace] = []
        self._segments: list[_Segment] = []

    def add(self, workspace: Workspace) -> int:
        """Append a new workspace and return its position."""
        position = len(self.workspaces)
        self.workspaces.append(workspace)
        if position % _SEGMENT_SIZE == 0:
            self._segments.append(_Segment())
        return position

    def replace(self, position: int, workspace: Workspace) -> None:
        """Replace the workspace at a position and invalidate its JSON."""
        self.workspaces[position] = workspace
        self.invalidate(position)

    def invalidate(self, position: int) -> None:
        """Mark the cached JSON of the workspace at a position as stale."""
        self._segments[position // _SEGMENT_SIZE].mark_stale(position % _SEGMENT_SIZE)

    def encoded_segments(self, first: int, last: int, encode: WorkspaceEncoder) -> Iterator[bytes]:
        """Yield the JSON of the active workspaces from position `first` to `last`, both included.

        Each workspace is followed by a comma. Chunks are long; some may be empty. Cached JSON is used where it is still
        valid."""
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
    """JSON of up to 128 neighbouring workspaces.

    `ends` has the end of each, comma included; a removed one has length 0."""

    __slots__ = ("ends", "stale", "text")

    def __init__(self) -> None:
        self.text = b""
        self.ends = array("I")
        self.stale: set[int] = set()

    def encoded_slice(self, first: int, last: int) -> bytes:
        """Return the JSON from index `first` to `last`, both included."""
        return self.text[self.ends[first - 1] if first else 0 : self.ends[last]]

    def mark_stale(self, index: int) -> None:
        """Mark the JSON at an index as stale."""
        if index < len(self.ends):
            self.stale.add(index)

    def refresh(self, workspaces: list[Workspace], encode: WorkspaceEncoder) -> None:
        """Encode stale and new workspaces and re-join the segment."""
        rows = [self.text[start:end] for start, end in pairwise((0, *self.ends))]
        known = len(rows)
        rows += [b""] * (len(workspaces) - known)
        for index in (*self.stale, *range(known, len(workspaces))):
            rows[index] = b"" if workspaces[index].removed else encode(workspaces[index]) + b","
        self.text, self.ends = b"".join(rows), array("I", accumulate(map(len, rows)))
        self.stale.clear()
