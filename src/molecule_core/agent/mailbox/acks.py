"""What a workspace's reader has taken and what of it is handled: told to the server, and to the file that outlives a
kill. One object a workspace; only the leader writes with it.

Above: membership, verbs. Below: cursors, client.
"""

import logging
from collections.abc import Collection
from typing import Any

from molecule_core.agent.client.auth_failures import is_workspace_inaccessible
from molecule_core.agent.mailbox.cursors import CursorFile, CursorState
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError, expect_member

_log = logging.getLogger("molecule.agent")
# HTTP's statuses: unknown, handed out again since, or never handed out as was said. None of them gets better.
_FINAL_STATUSES = (404, 409, 410, 422)
# Ids and numbers of rows that are kept to name the cursor; far more than are ever between the floor and the newest.
_MAX_POSITIONS = 20_000


class AckTracker:
    """Holds, acknowledges, remembers."""

    def __init__(self, workspace_id: str, file: CursorFile) -> None:
        self._id = workspace_id
        self._file = file
        self._state = CursorState()
        self._positions: dict[str, int] = {}
        self._unsaved = False

    def take_over(self, fence: int) -> CursorState:
        """Takes over from whoever led before; what they left is returned."""
        self._state = self._file.load()
        self._state.fence = fence
        return self._state

    @property
    def cursor(self) -> str:
        """The message up to which all is handled; empty if not known."""
        return self._state.cursor

    def reset(self) -> None:
        """Forgets everything about this workspace: the server does not know the cursor."""
        self._file.reset()
        self._state = CursorState(fence=self._state.fence)
        self._positions.clear()

    def record_claimed(
        self, attempts: dict[str, int], positions: dict[str, int], already_handled: Collection[str] = ()
    ) -> None:
        """Messages were taken from the server: their attempts and their numbers; `again`: those that are handled, which
        is on the disk at once for all, or the next process would give back what it finds held. Raises Fenced."""
        for id_, attempt in attempts.items():
            self._record(id_, attempt, is_handled=id_ in already_handled)
        self._positions.update(positions)
        while len(self._positions) > _MAX_POSITIONS:
            del self._positions[next(iter(self._positions))]
        self._save()

    def is_pending(self, activity_id: str) -> bool:
        """Whether a message is handled and the server may not know it yet."""
        return activity_id in self._state.handled

    @property
    def pending(self) -> dict[str, int]:
        """What the server may not know to be handled: activity id -> attempt."""
        return dict(self._state.handled)

    def leftover_claims(self, held_here: set[str]) -> dict[str, int]:
        """What an earlier process held and this one has not: activity id -> attempt."""
        return {id_: attempt for id_, attempt in self._state.held.items() if id_ not in held_here}

    def mark_released(self, ids: dict[str, int]) -> None:
        """The server has them back. Raises Fenced."""
        for id_ in ids:
            self._state.held.pop(id_, None)
        self._save()

    def take_notes(self) -> dict[str, int]:
        """What processes that do not lead have handled: activity id -> attempt."""
        return self._file.take_notes()

    def mark_handled(self, activity_id: str, attempt: int) -> None:
        """A message is handled: that is on the disk before the server hears it. Raises Fenced."""
        self._record(activity_id, attempt, is_handled=True)
        self._save()

    def _record(self, activity_id: str, attempt: int, *, is_handled: bool) -> None:
        if is_handled:
            self._state.held.pop(activity_id, None)
            self._state.handled[activity_id] = attempt
        else:
            self._state.held[activity_id] = attempt

    async def confirm_ack(self, api: ApiClient, activity_id: str) -> bool:
        """Tells the server; False if it could not be told now. What it refuses is settled too: it will not get better,
        and comes again if it must."""
        attempt = self._state.handled.get(activity_id)
        if attempt is None:
            return True
        try:
            floor = await acknowledge_message(api, self._id, activity_id, attempt)
        except NoAnswerError:
            return False
        except ApiError as error:
            if error.status not in _FINAL_STATUSES or await is_workspace_inaccessible(error, api, self._id):
                return False
            _log.info("workspace %s: the ack of %s was refused: %s", self._id, activity_id, error)
            floor = -1
        if self._state.handled.get(activity_id) == attempt:  # not handed out again meanwhile
            del self._state.handled[activity_id]
        self._advance_cursor(floor)
        self._save()
        return True

    def _advance_cursor(self, floor: int) -> None:
        """The cursor is the last row that the server says is handled with all before it."""
        passed = {id_: seq for id_, seq in self._positions.items() if seq <= floor}
        if passed:
            self._state.cursor = max(passed, key=passed.__getitem__)
            for id_ in passed:
                del self._positions[id_]

    def _save(self) -> None:
        """A disk that takes nothing stops no mail: without the file a message may be shown once more, after a kill.
        Raises Fenced."""
        try:
            self._file.save(self._state)
        except OSError as error:
            if not self._unsaved:
                _log.error("workspace %s: what is handled cannot be kept on the disk (%s)", self._id, error)
            self._unsaved = True
        else:
            self._unsaved = False


async def acknowledge_message(api: ApiClient, workspace_id: str, activity_id: str, attempt: int) -> int:
    """Tells the server that a message is handled; how far its inbox is handled then. Raises ApiError, NoAnswer."""
    body: dict[str, Any] = {"activity_id": activity_id}
    if attempt:
        body["attempt"] = attempt
    return expect_member(await api.post(f"/workspaces/{workspace_id}/activity/ack", body), "last_acked_seq", int)
