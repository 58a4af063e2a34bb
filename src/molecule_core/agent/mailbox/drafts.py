"""Posts the final text of a turn as the answer to its message.

The server decides whether an answer is due, and keeps the text as a draft if the workspace is configured so. Used by
the bridges and by the engine's mail loop; hooks of a host only keep drafts.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from molecule_core.agent.mailbox.inbox import EntryKey
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError, expect_member
from molecule_core.tools.runners import approval_tools
from molecule_core.tools.spec import APPROVAL_HEADER, ToolError

_log = logging.getLogger("molecule.agent")
_APPROVAL_NEEDED, _NOT_APPROVED, _APPROVAL_USED = "approval_needed", "not_approved", "approval_used"
_SENT = "sent"
_FINAL_TICKS = ("answered", "declined")
SILENT_TEXT = "the agent ended its work without an answer"
"""The reason of a failure where an answer is due and none was given."""


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

    async def post_draft(self, activity_id: str, text: str, covers: Sequence[str] = ()) -> str:
        """Post a text to send and return the message's state; posting twice sends it once.

        `covers`: other messages that it answers too. Raises ApiError, NoAnswerError."""
        path = _draft_path(self._target.id, activity_id)
        approval_id = self._approval_ids.get(activity_id, "")
        headers = {APPROVAL_HEADER: approval_id} if approval_id else None
        try:
            body = {"text": text, "send": True, "covers": list(covers)}
            response = await self._target.api().call("POST", path, body=body, headers=headers)
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


class DraftKeeper:
    """Keeper of the last words of turns as drafts. `target_of`: returns the workspace with an id."""

    def __init__(self, target_of: Callable[[str], DraftTarget]) -> None:
        self._target_of = target_of

    async def store_draft(self, key: EntryKey, text: str) -> None:
        """Store a text as the draft of the answer to a message; a failure is logged, for a host waits."""
        workspace_id, activity_id = key
        try:
            await self._target_of(workspace_id).api().post(_draft_path(workspace_id, activity_id), {"text": text})
        except (ApiError, NoAnswerError) as error:
            _log.info("the last words about %s are not kept: %s", activity_id, sanitize_line(str(error), 300))


def _draft_path(workspace_id: str, activity_id: str) -> str:
    return f"/workspaces/{workspace_id}/messages/{quote(activity_id, safe='')}/draft"


async def is_answered(target: DraftTarget, activity_id: str) -> bool:
    """Return whether a message was answered or declined. Raises ApiError, NoAnswerError."""
    path = f"/workspaces/{target.id}/messages/{quote(activity_id, safe='')}/ticks"
    ticks = expect_member(await target.api().get(path), "ticks", list)
    return any(isinstance(each, dict) and each.get("tick") in _FINAL_TICKS for each in ticks)


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
