"""Approvals for permission requests of a host: requested, waited for, used up, withdrawn.

Called by the relays of the channel and of the hooks, and by bridges; calls the public API through a Requester.
"""

import logging
from typing import Any, Literal

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.tools.runners import approval_tools
from molecule_core.tools.runners.message_tools import idempotency_headers
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.spec import ToolError

ACTION_PREFIX = "permission:"
"""Prefix of the action of such an approval; the name of the host's tool follows."""
_WAIT_SECONDS = 20
# Error codes of the server for an approval that allows nothing, or nothing more.
_DENYING_CODES = ("not_approved", "approval_mismatch", "approval_used")
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_log = logging.getLogger("molecule.agent")


class HostApprovals:
    """Requester of approvals for one workspace. Names and keys of requests are the caller's.

    `requester`: gives up after a while, since a withdrawal must not hold up the end of a host."""

    def __init__(self, workspace_id: str, requester: Requester, *, clock: Clock, randomness: Randomness) -> None:
        self._workspace_id = workspace_id
        self._requester = requester
        self._clock = clock
        self._randomness = randomness

    async def request(
        self, key: str, *, source: Literal["relay", "host"], tool: str, reason: str, details: dict[str, Any]
    ) -> approval_tools.ApprovalSummary:
        """Request an approval; a repetition under the same key returns the same one. Raises ToolError."""
        body = {"action": f"{ACTION_PREFIX}{tool or 'unknown'}", "reason": reason, "details": details, "source": source}
        path = approval_tools.approval_path(self._workspace_id)
        return approval_tools.parse_approval(
            await self._requester.call("POST", path, body=body, headers=idempotency_headers(key))
        )

    async def wait_for_decision(
        self, name: str, approval: approval_tools.ApprovalSummary
    ) -> approval_tools.ApprovalSummary:
        """Wait for the decision, also while the server is away. Raises ToolError."""
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        while approval_tools.is_open(approval):
            try:
                approval = await approval_tools.wait_for_change(
                    self._requester, self._workspace_id, approval, _WAIT_SECONDS, self._clock
                )
                back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
            except ToolError as error:
                if not error.is_transient:
                    raise
                reason = sanitize_line(error.text, 300)
                _log.warning("permission %s: the decision cannot be requested now: %s", name, reason)
                await sleep(self._clock, back_off.next_delay())
        return approval

    async def use(self, key: str, approval: approval_tools.ApprovalSummary) -> bool:
        """Use up an approval; return whether it still allows the action. Raises ToolError if that is not known."""
        path = approval_tools.approval_path(self._workspace_id, approval.approval_id, "use")
        back_off, was_tried = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness), False
        while True:
            try:
                use_body = {"action_hash": approval.action_hash}
                await self._requester.call("POST", path, body=use_body, headers=idempotency_headers(key))
                return True
            except ToolError as error:
                _log.warning("approval %s cannot be used: %s", approval.approval_id, sanitize_line(error.text, 300))
                # An earlier try may have used it up; no other rejection says anything about the decision.
                if error.code in _DENYING_CODES and not was_tried:
                    return False
                if not error.is_transient:
                    raise
            was_tried = True
            await sleep(self._clock, back_off.next_delay())

    async def withdraw(self, approval_id: str, note: str) -> bool:
        """Withdraw an approval that needs no decision any more; return False if the server does not respond."""
        path = approval_tools.approval_path(self._workspace_id, approval_id, "withdraw")
        try:
            await self._requester.call("POST", path, body={"note": note})
        except ToolError as error:
            _log.info("approval %s is not withdrawn: %s", approval_id, sanitize_line(error.text, 300))
            return not error.is_transient
        return True
