"""Posts the final text of a turn as the draft answer to its message.

The server decides whether an answer is due and whether the draft is sent at once. Used by the command bridge and by the
engine's mail loop.
"""

from typing import Any, Protocol
from urllib.parse import quote

from molecule_core.client.api import ApiClient, ApiError, expect_member
from molecule_core.tools.runners import approval_tools
from molecule_core.tools.spec import APPROVAL_HEADER, ToolError

_APPROVAL_NEEDED, _NOT_APPROVED, _APPROVAL_USED = "approval_needed", "not_approved", "approval_used"
_SENT = "sent"


class DraftTarget(Protocol):
    """Workspace that drafts are posted for."""

    @property
    def id(self) -> str:
        """Return the workspace id."""

    def api(self) -> ApiClient:
        """Return a client with the current token."""


class DraftReporter:
    """Reporter of one workspace's drafts.

    A draft blocked by an approval rule is posted again with the approval id until the approval is decided.
    """

    def __init__(self, target: DraftTarget) -> None:
        self._target = target
        self._approval_ids: dict[str, str] = {}

    async def post_draft(self, activity_id: str, text: str) -> str:
        """Post a draft and return its state; posting twice stores and sends it once. Raises ApiError, NoAnswerError."""
        path = f"/workspaces/{self._target.id}/messages/{quote(activity_id, safe='')}/draft"
        approval_id = self._approval_ids.get(activity_id, "")
        headers = {APPROVAL_HEADER: approval_id} if approval_id else None
        try:
            response = await self._target.api().call("POST", path, body={"text": text}, headers=headers)
        except ApiError as error:
            if approval_id and error.code == _APPROVAL_USED:  # by this very text, whose response was lost
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
    """Return whether a draft was rejected because its approval is not decided yet."""
    if error.code == _APPROVAL_NEEDED:
        return True
    try:
        return error.code == _NOT_APPROVED and approval_tools.is_open(
            approval_tools.parse_approval(error.problem.get("approval"))
        )
    except ToolError:
        return False


def requested_approval_id(error: ApiError) -> str:
    """Return the id of the approval that a call requested; empty if it requested none."""
    response: Any = error.problem.get("approval") if error.code == _APPROVAL_NEEDED else None
    found = response.get("approval_id") if isinstance(response, dict) else None
    return found if isinstance(found, str) else ""
