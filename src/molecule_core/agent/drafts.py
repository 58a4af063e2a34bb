"""The final text of a turn, as the draft of the answer to its message: whether one is due, and whether it is sent at
once, is the server's to say.

Above: the bridge of a command, the mailroom of an engine. Below: the client of one seat.
"""

from typing import Any, Protocol
from urllib.parse import quote

from molecule_core.client.api import Api, ApiError, member
from molecule_core.wire import approving
from molecule_core.wire.toolspec import LEAVE_HEADER, ToolError

_NEEDED, _NOT_YET, _USED = "approval_needed", "not_approved", "approval_used"
_SENT = "sent"


class Sits(Protocol):
    """Where the drafts of one workspace are told."""

    @property
    def id(self) -> str:
        """The workspace."""

    def api(self) -> Api:
        """A client with the token of this moment."""


class Drafts:
    """The drafts of one seat. One that a rule stops is told again, with the approval that was asked for by that, until
    somebody has decided."""

    def __init__(self, seat: Sits) -> None:
        self._seat = seat
        self._leave: dict[str, str] = {}

    async def post(self, activity_id: str, text: str) -> str:
        """What the server does with it; posted twice it is kept once, and sent once. Raises ApiError, NoAnswer."""
        path = f"/workspaces/{self._seat.id}/messages/{quote(activity_id, safe='')}/draft"
        leave = self._leave.get(activity_id, "")
        headers = {LEAVE_HEADER: leave} if leave else None
        try:
            told = await self._seat.api().call("POST", path, body={"text": text}, headers=headers)
        except ApiError as error:
            if leave and error.code == _USED:  # by this very text, the answer to which was lost
                del self._leave[activity_id]
                return _SENT
            if waits(error):
                self._leave[activity_id] = leave_of(error) or leave
            elif not error.passes:
                self._leave.pop(activity_id, None)
            raise
        state = member(told, "state", str)
        self._leave.pop(activity_id, None)
        return state


def waits(error: ApiError) -> bool:
    """Whether a draft was refused because nobody has decided yet whether it may be sent."""
    if error.code == _NEEDED:
        return True
    try:
        return error.code == _NOT_YET and approving.is_open(approving.item_of(error.problem.get("approval")))
    except ToolError:
        return False


def leave_of(error: ApiError) -> str:
    """The approval that was asked for by a call; empty if none was."""
    told: Any = error.problem.get("approval") if error.code == _NEEDED else None
    found = told.get("approval_id") if isinstance(told, dict) else None
    return found if isinstance(found, str) else ""
