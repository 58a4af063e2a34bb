"""Tracks claimed and handled messages of one workspace.

Acknowledges them to the server, and persists them to the cursor file, which survives a kill. One tracker per workspace;
only the leader writes with it.
"""

import logging
from collections.abc import Collection
from typing import Any

from molecule_core.agent.client.auth_failures import is_workspace_inaccessible
from molecule_core.agent.mailbox.cursors import CursorFile, CursorState
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError, expect_member

_log = logging.getLogger("molecule.agent")
# HTTP statuses: unknown, delivered again since, or never delivered as claimed. None of them is worth a retry.
_FINAL_STATUSES = (404, 409, 410, 422)
# Message positions kept to name the cursor; far more than are ever between the ack floor and the newest message.
_MAX_POSITIONS = 20_000


class AckTracker:
    """Claimed and handled messages of one workspace."""

    def __init__(self, workspace_id: str, file: CursorFile) -> None:
        self._id = workspace_id
        self._file = file
        self._state = CursorState()
        self._positions: dict[str, int] = {}
        self._unsaved = False

    def take_over(self, fence: int) -> CursorState:
        """Load the state that the previous leader left, under the new fence."""
        self._state = self._file.load()
        self._state.fence = fence
        return self._state

    @property
    def cursor(self) -> str:
        """Return the id of the message up to which all are handled; empty if not known."""
        return self._state.cursor

    def reset(self) -> None:
        """Delete the cursor state of this workspace: the server does not know the cursor."""
        self._file.reset()
        self._state = CursorState(fence=self._state.fence)
        self._positions.clear()

    def record_claimed(
        self, attempts: dict[str, int], positions: dict[str, int], already_handled: Collection[str] = ()
    ) -> None:
        """Store the attempts and positions of newly claimed messages. Raises LeaderFenced.

        Messages in `already_handled` are stored as handled in the same write; otherwise the next process would release
        them as leftover claims.
        """
        for id_, attempt in attempts.items():
            self._record(id_, attempt, is_handled=id_ in already_handled)
        self._positions.update(positions)
        while len(self._positions) > _MAX_POSITIONS:
            del self._positions[next(iter(self._positions))]
        self._save()

    def is_pending(self, activity_id: str) -> bool:
        """Return whether a message is handled and not yet known to be acknowledged."""
        return activity_id in self._state.handled

    @property
    def pending(self) -> dict[str, int]:
        """Return messages whose ack is not confirmed: activity id -> attempt."""
        return dict(self._state.handled)

    def leftover_claims(self, held_here: set[str]) -> dict[str, int]:
        """Return claims of an earlier process that this one does not hold: activity id -> attempt."""
        return {id_: attempt for id_, attempt in self._state.held.items() if id_ not in held_here}

    def mark_released(self, ids: dict[str, int]) -> None:
        """Remove released claims. Raises LeaderFenced."""
        for id_ in ids:
            self._state.held.pop(id_, None)
        self._save()

    def take_notes(self) -> dict[str, int]:
        """Return and clear what processes that do not lead have handled: activity id -> attempt."""
        return self._file.take_notes()

    def mark_handled(self, activity_id: str, attempt: int) -> None:
        """Store a message as handled, on disk before the server is notified. Raises LeaderFenced."""
        self._record(activity_id, attempt, is_handled=True)
        self._save()

    def _record(self, activity_id: str, attempt: int, *, is_handled: bool) -> None:
        if is_handled:
            self._state.held.pop(activity_id, None)
            self._state.handled[activity_id] = attempt
        else:
            self._state.held[activity_id] = attempt

    async def confirm_ack(self, api: ApiClient, activity_id: str) -> bool:
        """Acknowledge a handled message; return False if the server could not be reached.

        A final rejection counts as done: a retry cannot succeed, and the server delivers the message again if needed.
        """
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
            _log.info("workspace %s: the ack of %s was rejected: %s", self._id, activity_id, error)
            floor = -1
        if self._state.handled.get(activity_id) == attempt:  # not delivered again meanwhile
            del self._state.handled[activity_id]
        self._advance_cursor(floor)
        self._save()
        return True

    def _advance_cursor(self, floor: int) -> None:
        """Move the cursor to the last message at or below the server's ack floor."""
        acked = {id_: seq for id_, seq in self._positions.items() if seq <= floor}
        if acked:
            self._state.cursor = max(acked, key=acked.__getitem__)
            for id_ in acked:
                del self._positions[id_]

    def _save(self) -> None:
        """Write the state to disk. Raises LeaderFenced.

        A failing disk does not stop delivery: without the file a message may be shown once more, after a kill.
        """
        try:
            self._file.save(self._state)
        except OSError as error:
            if not self._unsaved:
                _log.error("workspace %s: handled messages cannot be stored on disk (%s)", self._id, error)
            self._unsaved = True
        else:
            self._unsaved = False


async def acknowledge_message(api: ApiClient, workspace_id: str, activity_id: str, attempt: int) -> int:
    """Acknowledge a message to the server; return the inbox's ack floor. Raises ApiError, NoAnswerError."""
    body: dict[str, Any] = {"activity_id": activity_id}
    if attempt:
        body["attempt"] = attempt
    return expect_member(await api.post(f"/workspaces/{workspace_id}/activity/ack", body), "last_acked_seq", int)
