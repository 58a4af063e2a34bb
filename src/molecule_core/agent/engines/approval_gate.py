"""Enforces `approval_rules`: a call that needs an approval is run only with it, and at most once.

The approval is for exactly these arguments; if the decision edited them, the edited ones are used. Requests are made
through a requester that retries, since a transient error is no decision.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from molecule_core.agent.engines.approval_cache import DecisionCache
from molecule_core.agent.engines.toolbox import ThreadToolCall, ToolOutput
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.clock import Clock
from molecule_core.tools.runners import approval_tools
from molecule_core.tools.runners.message_tools import idempotency_headers
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.schemas.approvals import RequestApprovalArguments
from molecule_core.tools.spec import APPROVAL_ARGUMENT, ToolError
from molecule_core.wire.schemas.approvals import ApprovalRule, ApprovalStatus

ACTION_PREFIX = "call:"
"""Prefix of the action of a tool call; the tool's name follows."""
TOOL_PREFIX = "tool:"
"""Alternative prefix in rules, used by the server's own approval rules; both spellings apply."""
_EXEMPT_TOOLS = ("request_approval", "decide_approval")
"""Tools exempt from the agent's own rules: they request and decide approvals."""
_APPROVAL_USED = "approval_used"
_HISTORY_LIMIT = 100


class ToolApprovalGate:
    """Gate that allows calls or stops them.

    `rules` may be replaced at any time. `on_pending`: called with each undecided approval and its thread.
    """

    def __init__(
        self,
        rules: Sequence[ApprovalRule],
        requester: Requester,
        workspace_id: str,
        *,
        clock: Clock,
        wait_seconds: int,
        on_pending: Callable[[str, str], None],
        decisions: DecisionCache,
    ) -> None:
        self.rules = list(rules)
        self._requester = requester
        self._workspace_id = workspace_id
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._on_pending = on_pending
        self._decisions = decisions

    async def authorize_call(
        self,
        call: ThreadToolCall,
        *,
        set_waiting: Callable[[bool], Awaitable[None]],
        is_repeat: bool = False,
        extra_rules: Sequence[ApprovalRule] = (),
    ) -> ThreadToolCall | ToolOutput:
        """Return the call to run, or the output that the model gets instead.

        `set_waiting`: called when the wait for a decision starts and ends. `is_repeat`: an earlier process may have
        used the approval for this very call. `extra_rules`: apply to this call too. Never raises for a server error:
        without a known approval the call is not run.
        """
        try:
            rule = await self._rule_for(call, (*self.rules, *extra_rules))
            if rule is None:
                return call
            await set_waiting(True)
            try:
                return await self._require_approval(call, rule, is_repeat)
            finally:
                await set_waiting(False)
        except ToolError as error:
            return ToolOutput(f"not done: {call.tool} needs an approval, but requesting it failed: {error.text}", True)

    async def _rule_for(self, call: ThreadToolCall, rules: Sequence[ApprovalRule]) -> ApprovalRule | None:
        """Return the first rule that stops a call."""
        if call.tool in _EXEMPT_TOOLS:
            return None
        names, cost = (f"{ACTION_PREFIX}{call.tool}", f"{TOOL_PREFIX}{call.tool}"), _cost(call.arguments)
        for rule in rules:
            is_cheap = rule.cost_above is not None and cost is not None and cost <= rule.cost_above
            is_matching = any(matches_pattern(rule.action, name) for name in names) and not is_cheap
            if is_matching and not (rule.first_time and await self._was_used_before(names[0])):
                return rule
        return None

    async def _was_used_before(self, action: str) -> bool:
        path = approval_tools.approval_path(self._workspace_id)
        page = await self._requester.call("GET", path, query={"role": "requester", "limit": _HISTORY_LIMIT})
        rows = page.get("approvals") if isinstance(page, dict) else None
        return any(row.get("action") == action and row.get("used_at") for row in rows or () if isinstance(row, dict))

    async def _require_approval(
        self, call: ThreadToolCall, rule: ApprovalRule, is_repeat: bool
    ) -> ThreadToolCall | ToolOutput:
        arguments = dict(call.arguments) if isinstance(call.arguments, dict) else {}
        named_id = arguments.pop(APPROVAL_ARGUMENT, "")
        plain_call = replace(call, arguments=arguments)
        named_approval = await self._find_named_approval(str(named_id), plain_call) if named_id else None
        approval = named_approval or await self._request_approval(plain_call, rule)
        if approval.status != ApprovalStatus.APPROVED:
            return ToolOutput(_stopped_text(call.tool, approval), True)
        try:
            path = approval_tools.approval_path(self._workspace_id, approval.approval_id, "use")
            # With the same key, a retry after a lost response counts as the same use.
            body, key_headers = {"action_hash": approval.action_hash}, idempotency_headers(_idempotency_key(call))
            await self._requester.call("POST", path, body=body, headers=key_headers)
        except ToolError as error:
            if not (is_repeat and error.code == _APPROVAL_USED):
                raise
        return _approved_call(plain_call, approval)

    async def _find_named_approval(
        self, approval_id: str, call: ThreadToolCall
    ) -> approval_tools.ApprovalSummary | None:
        """Return the approval that a call names, if it is for exactly this action."""
        path = approval_tools.approval_path(self._workspace_id, approval_id)
        response = await self._requester.call("GET", path)
        approval = approval_tools.parse_approval(response)
        is_same = approval.action == f"{ACTION_PREFIX}{call.tool}" and response.get("proposed") == _action_details(call)
        return approval if is_same else None

    async def _request_approval(self, call: ThreadToolCall, rule: ApprovalRule) -> approval_tools.ApprovalSummary:
        cost = _cost(call.arguments)
        arguments = RequestApprovalArguments(
            action=f"{ACTION_PREFIX}{call.tool}",
            reason=f"The agent wants to call {call.tool}. One of its own rules requires an approval"
            + (f": {sanitize_line(rule.note, 300)}" if rule.note else "."),
            details=_action_details(call),
            cost=UNSET if cost is None else cost,
            wait=self._wait_seconds,
        )
        with self._decisions.track_call():
            response = await approval_tools.request_approval(
                self._requester,
                self._workspace_id,
                arguments,
                _idempotency_key(call),
                clock=self._clock,
                thread_id=call.thread_id,
            )
            self._decisions.record_call(response["approval_id"], settled=response["settled"])
        if not response["settled"]:
            self._on_pending(response["approval_id"], call.thread_id)
        path = approval_tools.approval_path(self._workspace_id, response["approval_id"])
        return approval_tools.parse_approval(await self._requester.call("GET", path))


def matches_pattern(pattern: str, action: str) -> bool:
    """Return whether an action matches a pattern, in which `*` is any text."""
    return re.fullmatch(".*".join(re.escape(each) for each in pattern.split("*")), action, re.DOTALL) is not None


def _action_details(call: ThreadToolCall) -> dict[str, Any]:
    return {"tool": call.tool, "arguments": call.arguments}


def _cost(arguments: Any) -> float | None:
    cost = arguments.get("cost") if isinstance(arguments, dict) else None
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0 else None


def _idempotency_key(call: ThreadToolCall) -> str:
    """Return the key of a call, so that retries create only one approval."""
    return f"leave:{call.thread_id}:{call.call_id}"[:128]


def _approved_call(call: ThreadToolCall, approval: approval_tools.ApprovalSummary) -> ThreadToolCall | ToolOutput:
    """Return the approved call, which may differ from the requested one."""
    if approval.edited is None:
        return call
    arguments = approval.details.get("arguments")
    if approval.details.get("tool") != call.tool or not isinstance(arguments, dict):
        return ToolOutput(
            "not done: the approval changed the call into something that is not a call of this tool. Report this to "
            "the requester.",
            True,
        )
    return replace(call, arguments=arguments)


def _stopped_text(tool: str, approval: approval_tools.ApprovalSummary) -> str:
    decision_note = (
        f" The approver's comment: {sanitize_line(approval.decided.note, 500)}"
        if approval.decided is not None and approval.decided.note
        else ""
    )
    if approval_tools.is_open(approval):
        return (
            f"not done: {tool} needs an approval ({approval.approval_id}), which was requested. The decision arrives "
            f"as a message. If it is approved, repeat the same call of {tool} with the same arguments and "
            f'{APPROVAL_ARGUMENT} "{approval.approval_id}". Until then, do not perform any part of '
            f"it.{decision_note}"
        )
    return f"not done: the approval for {tool} is {approval.status}. Do not try another way.{decision_note}"


def edited_note(original: ThreadToolCall, executed: ThreadToolCall) -> str:
    """Return the note for the model if other than its own arguments were used."""
    if executed is original:  # no approval was needed, and `approval_id` may be an argument of the tool itself
        return ""
    own_arguments = original.arguments
    if isinstance(own_arguments, dict) and APPROVAL_ARGUMENT in own_arguments:
        own_arguments = {name: value for name, value in own_arguments.items() if name != APPROVAL_ARGUMENT}
    if own_arguments == executed.arguments:
        return ""
    return f"(approved and executed with changed arguments: {msgspec.json.encode(executed.arguments).decode()})\n"
