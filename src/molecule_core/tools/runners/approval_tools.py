"""Runs the approval tools: request an approval and wait for the decision, and decide on a requested one.

Called by every host of tools (agent, command line, LangChain, the server's MCP endpoint); calls the public API
through a Requester. Keeps no state between calls: the server has the state of an approval.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct

from molecule_core.common.clock import Clock
from molecule_core.common.text import truncate_line
from molecule_core.tools.runners.delegation_tools import (
    FIRST_POLL_SECONDS,
    LONG_POLL_SECONDS,
    PROGRESS_POLL_SECONDS,
    CallerWorkspaces,
    explicit_workspace,
    probe_workspaces,
)
from molecule_core.tools.runners.message_tools import ProgressCallback, idempotency_headers
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.schemas import approvals as types
from molecule_core.tools.spec import APPROVAL_ARGUMENT, ToolError, unknown_answer_error
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.approvals import ApprovalDecision, ApprovalStatus, CurrentApprover
from molecule_core.wire.schemas.inbox import InboxMessage

TOOL_NAMES = ("request_approval", "decide_approval")
"""The tools that `run` runs."""
APPROVAL_NEEDED = "approval_needed"
"""The error code of calls that a rule stopped."""
# At least this long between equal responses, in case the server does not hold the requests.
_MIN_POLL_SECONDS = 1.0
_MAX_QUOTED_LENGTH = 300
_OPEN_STATUSES = (ApprovalStatus.PENDING, ApprovalStatus.INFO)
# Error codes of decisions that come too late: nothing is left to decide.
_MOOT_ERROR_CODES = ("already_decided", "approval_moved_on", "approval_ended")


class ApprovalSummary(Struct, frozen=True, kw_only=True):
    """The parts of an approval (`ApprovalItem`) that its parties need."""

    approval_id: str
    workspace_id: str
    action: str
    details: dict[str, Any]
    edited: dict[str, Any] | None
    status: str
    revision: int
    action_hash: str
    holder: CurrentApprover
    decided: ApprovalDecision | None
    expires_at: str
    seq: int


class ApprovalVersion(NamedTuple):
    """The version of an approval that a decision refers to. It differs once the action has changed."""

    revision: int
    action_hash: str


ShownVersions = dict[str, set[ApprovalVersion]]
"""Versions of an approval that the agent has seen, by workspace."""


def versions_shown(messages: Iterable[InboxMessage], arguments: Struct) -> ShownVersions:
    """Collect, from messages shown to an agent, the versions of the approval that a call decides about."""
    found: ShownVersions = {}
    if isinstance(arguments, types.DecideApprovalArguments):
        for each in messages:
            if each.kind == MessageKind.APPROVAL_REQUEST and each.approval_id == arguments.approval_id:
                version = ApprovalVersion(each.revision, each.action_hash)
                found.setdefault(each.arrival_workspace_id, set()).add(version)
    return found


async def run(
    workspaces: CallerWorkspaces,
    arguments: Struct,
    call: str = "",
    *,
    clock: Clock,
    progress: ProgressCallback | None = None,
    shown_versions: ShownVersions | None = None,
    thread_id: str = "",
) -> dict[str, Any]:
    """Run an approval tool as the workspace that it applies to. Raises ToolError.

    `call`: the host's name for this call, which makes a repetition idempotent. `shown_versions`: what the agent has
    seen, if known. `thread_id`: the requesting thread."""
    match arguments:
        case types.RequestApprovalArguments():
            workspace_id, requester = _requesting_workspace(workspaces, arguments.via_workspace)
            key = f"{workspace_id}:{call}" if call else ""
            return await request_approval(
                requester, workspace_id, arguments, key, clock=clock, progress=progress, thread_id=thread_id
            )
        case types.DecideApprovalArguments():
            workspace_id, requester = await _deciding_workspace(
                workspaces, arguments.via_workspace, arguments.approval_id
            )
            await _check_not_requester(workspaces, workspace_id, requester, arguments)
            return await decide_approval(
                requester, workspace_id, arguments, (shown_versions or {}).get(workspace_id, set())
            )
    raise TypeError(f"{type(arguments).__name__} is of no tool about approvals")


# -- choice of workspace -----------------------------------------------------------------------------------------------


def _requesting_workspace(workspaces: CallerWorkspaces, explicit_id: str) -> tuple[str, Requester]:
    if (workspace := explicit_workspace(workspaces, explicit_id)) is not None:
        return workspace
    raise ToolError(
        "you have several workspaces. Set via_workspace to the one that requests the approval: "
        f"{', '.join(id_ for id_, _ in workspaces)}.",
        "ambiguous_workspace",
    )


async def _deciding_workspace(
    workspaces: CallerWorkspaces, explicit_id: str, approval_id: str
) -> tuple[str, Requester]:
    """Return the workspace that decides. Raises ToolError.

    It is the named one, the only one, the current approver, or a former one."""
    if (workspace := explicit_workspace(workspaces, explicit_id)) is not None:
        return workspace
    approvers = await probe_workspaces(
        workspaces, [_is_current_approver(requester, id_, approval_id) for id_, requester in workspaces]
    )
    found = approvers or await probe_workspaces(
        workspaces, [_can_read(requester, id_, approval_id) for id_, requester in workspaces]
    )
    if found:
        return found[0]
    raise ToolError(
        f"none of your workspaces was asked about an approval {truncate_line(approval_id, _MAX_QUOTED_LENGTH)}. Your "
        f"workspaces: {', '.join(id_ for id_, _ in workspaces)}.",
        "unknown_approval",
    )


async def _check_not_requester(
    workspaces: CallerWorkspaces, workspace_id: str, requester: Requester, arguments: types.DecideApprovalArguments
) -> None:
    """Reject a decision on the agent's own request, made as another of its workspaces. Raises ToolError.

    Only the agent can check this, since the server sees two unrelated workspaces. Escalating is allowed."""
    others = [id_ for id_, _ in workspaces if id_ != workspace_id]
    if not others or arguments.decision == "escalate":
        return
    requester_id = (await _fetch_approval(requester, workspace_id, arguments.approval_id)).workspace_id
    if requester_id in others:
        raise ToolError(
            f"you requested this approval yourself, as {requester_id}, so you cannot decide it as another of your "
            "workspaces. Use decision escalate: another approver then decides.",
            "own_approval",
        )


async def _is_current_approver(requester: Requester, workspace_id: str, approval_id: str) -> bool:
    return (await _fetch_approval(requester, workspace_id, approval_id)).holder.workspace_id == workspace_id


async def _can_read(requester: Requester, workspace_id: str, approval_id: str) -> bool:
    await _fetch_approval(requester, workspace_id, approval_id)
    return True


# -- requesting --------------------------------------------------------------------------------------------------------


async def request_approval(
    requester: Requester,
    workspace_id: str,
    arguments: types.RequestApprovalArguments,
    key: str = "",
    *,
    clock: Clock,
    progress: ProgressCallback | None = None,
    thread_id: str = "",
) -> dict[str, Any]:
    """Request an approval and wait for the decision with repeated requests.

    Waits on while the server is unavailable. If the time is over, the receipt says so. The request is not withdrawn
    when the caller stops waiting: the decision is delivered to the inbox. Raises ToolError if nothing was requested,
    or if that is unknown."""
    started_at = clock.monotonic()
    item = parse_approval(
        await requester.call(
            "POST",
            approval_path(workspace_id),
            body=_request_body(arguments, thread_id),
            headers=idempotency_headers(key),
        )
    )
    poll_seconds = LONG_POLL_SECONDS if progress is None else FIRST_POLL_SECONDS
    note = ""
    while (
        item.status == ApprovalStatus.PENDING and (remaining := arguments.wait - (clock.monotonic() - started_at)) > 0
    ):
        try:
            item = await wait_for_change(requester, workspace_id, item, min(remaining, poll_seconds), clock)
        except ToolError as error:
            note = f"The request is open, but waiting for the decision failed: {error.text}"
            if not error.is_transient:
                break
            await clock.wait(asyncio.get_running_loop().create_future(), min(remaining, _MIN_POLL_SECONDS))
            continue
        note = ""
        if progress is not None:
            await progress(min(arguments.wait, clock.monotonic() - started_at), arguments.wait, _progress_text(item))
            poll_seconds = PROGRESS_POLL_SECONDS
    return _request_result(workspace_id, item, note)


async def fetch_result(
    requester: Requester, workspace_id: str, approval_id: str, *, clock: Clock, seconds: float = 0
) -> dict[str, Any]:
    """Return the result of `request_approval` for an approval that was requested before. Raises ToolError.

    `seconds`: of one waiting request, if it is still open."""
    item = await _fetch_approval(requester, workspace_id, approval_id)
    if seconds and is_open(item):
        item = await wait_for_change(requester, workspace_id, item, seconds, clock)
    return _request_result(workspace_id, item, "")


async def withdraw_approval(requester: Requester, workspace_id: str, approval_id: str) -> None:
    """Withdraw a request of the workspace. Raises ToolError."""
    await requester.call("POST", approval_path(workspace_id, approval_id, "withdraw"), body={})


def _request_body(arguments: types.RequestApprovalArguments, thread_id: str) -> dict[str, Any]:
    payload: dict[str, Any] = {"action": arguments.action, "reason": arguments.reason, "source": "tool"}
    payload |= {"details": arguments.details} if arguments.details else {}
    payload |= {"cost": arguments.cost} if arguments.cost is not UNSET else {}  # control: approval-cost
    payload |= {"expires_in": arguments.expires_in} if arguments.expires_in else {}
    payload |= {"thread_id": thread_id} if thread_id else {}
    return {**payload, "task_id": arguments.task_id} if arguments.task_id else payload


async def wait_for_change(
    requester: Requester, workspace_id: str, item: ApprovalSummary, seconds: float, clock: Clock
) -> ApprovalSummary:
    """Return the approval after `seconds`, or as soon as it has changed. Raises ToolError."""
    requested_at = clock.monotonic()
    query = {"wait": max(1, min(math.ceil(seconds), LONG_POLL_SECONDS)), "seq": item.seq}
    path = approval_path(workspace_id, item.approval_id)
    updated = parse_approval(await requester.call("GET", path, query=query))
    rest = min(seconds, _MIN_POLL_SECONDS) - (clock.monotonic() - requested_at)
    if rest > 0 and updated.seq == item.seq and is_open(updated):
        await clock.wait(asyncio.get_running_loop().create_future(), rest)
    return updated


def is_approval_wait(path: str, query: Mapping[str, Any] | None) -> bool:
    """Return whether a request waits for a change of an approval."""
    return "/approvals/" in path and bool(query and query.get("wait"))


def has_ended(answer: Any) -> bool:
    """Return whether a response shows an approval that needs no more waiting."""
    return not (isinstance(answer, dict) and answer.get("status") in _OPEN_STATUSES)


def is_open(item: ApprovalSummary) -> bool:
    """Return whether the approval is still undecided."""
    return item.status in _OPEN_STATUSES


def _progress_text(item: ApprovalSummary) -> str:
    holder = item.holder.name or "a person"
    return {"pending": f"waiting for {holder}", "info_requested": "the approver asked a question"}.get(
        item.status, item.status
    )


_STATUS_ADVICE: Mapping[str, str] = {
    ApprovalStatus.PENDING: "The request is open. Do not perform the action yet, and do not request it again. The "
    "decision arrives in your inbox as a message of kind approval_decision. Do other work until then.",
    ApprovalStatus.INFO: "The approver needs more information. The question arrives in your inbox: answer that "
    "message. Do not perform the action yet.",
    ApprovalStatus.APPROVED: "You may perform the action once, exactly as `details` says.",
    ApprovalStatus.DENIED: "Do not perform the action, and do not try another way.",
    ApprovalStatus.EXPIRED: "The request expired without a decision. Do not perform the action.",
    ApprovalStatus.WITHDRAWN: "The request was withdrawn. Do not perform the action.",
}
_EDITED_NOTE = "The approver changed the details: only `details` of this result is allowed, not your proposal."


def _request_result(workspace_id: str, item: ApprovalSummary, note: str) -> dict[str, Any]:
    edited = item.edited is not None
    notes = [
        _STATUS_ADVICE.get(item.status, ""),
        _EDITED_NOTE if edited and item.status == ApprovalStatus.APPROVED else "",
        note,
    ]
    return _to_builtins(
        types.RequestApprovalResult(
            approval_id=item.approval_id,
            workspace_id=workspace_id,
            action=item.action,
            status=item.status,
            settled=not is_open(item),
            revision=item.revision,
            action_hash=item.action_hash,
            details=item.details,
            edited=edited,
            holder=_approver_name(item),
            decided_by="" if item.decided is None else item.decided.by.name or item.decided.by.kind,
            said="" if item.decided is None else item.decided.note,
            expires_at=item.expires_at,
            note=" ".join(filter(None, notes)),
        )
    )


def _approver_name(item: ApprovalSummary) -> str:
    return item.holder.name or {"person": "a person", "none": ""}.get(item.holder.kind, item.holder.kind)


# -- deciding ----------------------------------------------------------------------------------------------------------


async def decide_approval(
    requester: Requester,
    workspace_id: str,
    arguments: types.DecideApprovalArguments,
    shown_versions: set[ApprovalVersion],
) -> dict[str, Any]:
    """Decide on exactly the version that was shown. Raises ToolError."""
    version = await _resolve_version(requester, workspace_id, arguments, shown_versions)
    body: dict[str, Any] = {"decision": arguments.decision, **version._asdict()}
    body |= {"note": arguments.note} if arguments.note else {}
    body |= {"details": arguments.details} if arguments.details is not UNSET else {}  # control: approval-details
    payload = await requester.call("POST", approval_path(workspace_id, arguments.approval_id, "decide"), body=body)
    item = parse_approval(payload)
    settled = not is_open(item)
    return _to_builtins(
        types.DecideApprovalResult(
            approval_id=item.approval_id,
            workspace_id=workspace_id,
            action=item.action,
            decision=arguments.decision,
            status=item.status,
            settled=settled,
            revision=item.revision,
            action_hash=item.action_hash,
            holder=_approver_name(item),
            note=_DECISION_NOTES.get(arguments.decision, "")
            if not settled
            else "The requester is notified. You have nothing left to do.",
        )
    )


_DECISION_NOTES = {
    "escalate": "The level above you decides now. You have nothing left to do.",
    "more_info": "The requester receives the question. The answer arrives as a separate message: decide then.",
}


async def _resolve_version(
    requester: Requester,
    workspace_id: str,
    arguments: types.DecideApprovalArguments,
    shown_versions: set[ApprovalVersion],
) -> ApprovalVersion:
    """Return the version that a decision refers to. Raises ToolError.

    If the call omits it, it is the version that the agent was shown, never simply the current one: the action may
    have changed since. An approval at revision 1 has only one version."""
    matching = [each for each in shown_versions if arguments.revision in (0, each.revision)]
    matching = [each for each in matching if arguments.action_hash in ("", each.action_hash)]
    if arguments.revision and arguments.action_hash:
        return ApprovalVersion(arguments.revision, arguments.action_hash)
    if len(matching) == 1:
        return matching[0]
    if not shown_versions:
        item = await _fetch_approval(requester, workspace_id, arguments.approval_id)
        current = ApprovalVersion(item.revision, item.action_hash)
        matches = arguments.revision in (0, current.revision) and arguments.action_hash in ("", current.action_hash)
        # An ended approval rejects the decision anyway.
        is_certain = arguments.action_hash or current.revision == 1 or not is_open(item)
        if matches and is_certain:
            return current
    raise ToolError(
        f"approval {arguments.approval_id} has changed since it was requested. Set revision and action_hash to the "
        "values in the message that you decide, so that only that action can be approved.",
        "approval_changed",
    )


def approval_needed_error(problem: Mapping[str, Any]) -> ToolError:
    """Build the error for a call that an approval rule stopped. It says how to proceed."""
    approval = problem.get("approval")
    item = approval if isinstance(approval, dict) else {}
    if not isinstance(item.get("approval_id"), str):
        return ToolError(
            truncate_line(str(problem.get("error", "this call needs an approval")), _MAX_QUOTED_LENGTH), APPROVAL_NEEDED
        )
    retry_text = f'repeat the same call with the same arguments and {APPROVAL_ARGUMENT} "{item["approval_id"]}"'
    reason_text = (
        f"{truncate_line(str(item.get('action')), _MAX_QUOTED_LENGTH)} needs an approval: a rule of your workspace "
        "requires it."
    )
    if item.get("status") == ApprovalStatus.APPROVED:
        return ToolError(f"{reason_text} It is approved: {retry_text}.", APPROVAL_NEEDED)
    advice = (
        f"The approval was requested, and the decision arrives in your inbox. If it is approved, {retry_text}. "
        "Otherwise do not"
    )
    return ToolError(f"{reason_text} {advice} perform the action.", APPROVAL_NEEDED)


def is_moot(error: ToolError) -> bool:
    """Return whether the error of a decision means that nothing is left to decide."""
    return error.code in _MOOT_ERROR_CODES


async def _fetch_approval(requester: Requester, workspace_id: str, approval_id: str) -> ApprovalSummary:
    return parse_approval(await requester.call("GET", approval_path(workspace_id, approval_id)))


def approval_path(workspace_id: str, approval_id: str = "", verb: str = "") -> str:
    """Return a path of the approval routes. Raises ToolError if an id could change the path."""
    parts = ["workspaces", workspace_id, "approvals", *filter(None, [approval_id, verb])]
    if not approval_id.strip(".") and approval_id:
        raise ToolError(f"approval_id cannot be {approval_id!r}. Use the approval_id of the message.", "bad_arguments")
    return "/" + "/".join(quote(each, safe="") for each in parts)


def parse_approval(answer: Any) -> ApprovalSummary:
    """Convert a route's response. Raises ToolError for an unknown shape."""
    try:
        return msgspec.convert(answer, ApprovalSummary)
    except msgspec.ValidationError as error:
        detail = truncate_line(str(error), _MAX_QUOTED_LENGTH)
        raise unknown_answer_error(detail) from None


def _to_builtins(payload: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(payload)
    return found
