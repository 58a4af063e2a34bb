"""The final text of a turn, as the draft of the answer to its message: whether one is due, and whether it is sent at
once, is the server's to say.

Above: the bridge of a command, the mailroom of an engine. Below: the client of one seat.
"""

from typing import Any, Protocol
from urllib.parse import quote

from molecule_core.client.api import ApiClient, ApiError, expect_member
from molecule_core.tools.runners import approval_tools
from molecule_core.tools.spec import APPROVAL_HEADER, ToolError

_APPROVAL_NEEDED, _NOT_APPROVED, _APPROVAL_USED = "approval_needed", "not_approved", "approval_used"
_SENT = "sent"


class DraftTarget(Protocol):
    """Where the drafts of one workspace are told."""

    @property
    def id(self) -> str:
        """The workspace."""

    def api(self) -> ApiClient:
        """A client with the token of this moment."""


class DraftReporter:
    """The drafts of one seat. One that a rule stops is told again, with the approval that was asked for by that, until
    somebody has decided."""

    def __init__(self, target: DraftTarget) -> None:
        self._target = target
        self._approval_ids: dict[str, str] = {}

    async def post_draft(self, activity_id: str, text: str) -> str:
        """What the server does with it; posted twice it is kept once, and sent once. Raises ApiError, NoAnswer."""
        path = f"/workspaces/{self._target.id}/messages/{quote(activity_id, safe='')}/draft"
        approval_id = self._approval_ids.get(activity_id, "")
        headers = {APPROVAL_HEADER: approval_id} if approval_id else None
        try:
            response = await self._target.api().call("POST", path, body={"text": text}, headers=headers)
        except ApiError as error:
            if approval_id and error.code == _APPROVAL_USED:  # by this very text, the answer to which was lost
                del self._approval_ids[activity_id]
                return _SENT
            if is_waiting_for_approval(error):
                self._approval_ids[activity_id] = requested_approval_id(error) or approval_id
            elif not error.is_transient:
                self._approval_ids.pop(activity_id, None)
            raise
        state = expect_member(response, "state", str)
        self._approval_ids.pop(activity_id, None)
        return state


def is_waiting_for_approval(error: ApiError) -> bool:
    """Whether a draft was refused because nobody has decided yet whether it may be sent."""
    if error.code == _APPROVAL_NEEDED:
        return True
    try:
        return error.code == _NOT_APPROVED and approval_tools.is_open(
            approval_tools.parse_approval(error.problem.get("approval"))
        )
    except ToolError:
        return False


def requested_approval_id(error: ApiError) -> str:
    """The approval that was asked for by a call; empty if none was."""
    response: Any = error.problem.get("approval") if error.code == _APPROVAL_NEEDED else None
    found = response.get("approval_id") if isinstance(response, dict) else None
    return found if isinstance(found, str) else ""
