"""The tools about approvals, as walks over the public API: to ask for leave and to wait for the decision, and to decide
what one is asked.

Above: whoever runs tools (agent, command line, LangChain, the server's own MCP endpoint). Below: anything that can make
one request as a workspace. Nothing is kept between two calls: how an approval stands is the server's to say.
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
    FIRST_SLICE_SECONDS,
    SLICE_SECONDS,
    CallerWorkspaces,
    explicit_workspace,
    probe_workspaces,
)
from molecule_core.tools.runners.message_tools import ProgressCallback, idempotency_headers
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.schemas import approvals as types
from molecule_core.tools.spec import APPROVAL_ARGUMENT, ToolError, unknown_answer_error
from molecule_core.wire.schemas.approvals import ApprovalDecision, CurrentApprover
from molecule_core.wire.schemas.inbox import APPROVAL_KINDS, InboxMessage

TOOL_NAMES = ("request_approval", "decide_approval")
"""The tools, each of which is one local verb of every host: `run`."""
REQUEST_KIND, _ = APPROVAL_KINDS
"""The kind of the message by which somebody is asked to decide."""
APPROVAL_NEEDED = "approval_needed"
"""The refusal of what a rule has stopped."""
# Between two questions to which the answer was the same: a server that does not hold them is not to be flooded.
_MIN_POLL_SECONDS = 1.0
_MAX_QUOTED_LENGTH = 300
_OPEN_STATUSES = ("pending", "info_requested")
# By what they are refused who come too late: nothing is left to be decided.
_MOOT_ERROR_CODES = ("already_decided", "approval_moved_on", "approval_ended")


class ApprovalSummary(Struct, frozen=True, kw_only=True):
    """As much of an approval as its parties need (`ApprovalItem`)."""

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
    """What is decided about, as it was shown: an approval whose action was changed has another one."""

    revision: int
    action_hash: str


ShownVersions = dict[str, set[ApprovalVersion]]
"""For each workspace, which versions of an approval its agent has seen."""


def versions_shown(messages: Iterable[InboxMessage], arguments: Struct) -> ShownVersions:
    """Which versions of the approval that a call is about stand in these messages, which an agent was shown."""
    found: ShownVersions = {}
    if isinstance(arguments, types.DecideApprovalArguments):
        for each in messages:
            if each.kind == REQUEST_KIND and each.approval_id == arguments.approval_id:
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
    """Runs a tool about approvals as the seat that it is for. `call`: the name that the caller's host gives this call,
    which makes a repetition of it harmless. `shown`: what its agent has seen, where that is known. `thread_id`: the
    thread in which leave is asked for. Raises ToolError."""
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


# -- as whom -----------------------------------------------------------------------------------------------------------


def _requesting_workspace(workspaces: CallerWorkspaces, explicit_id: str) -> tuple[str, Requester]:
    if (known := explicit_workspace(workspaces, explicit_id)) is not None:
        return known
    raise ToolError(
        "you sit in several workspaces; say with via_workspace as which one you want leave: "
        f"{', '.join(id_ for id_, _ in workspaces)}.",
        "ambiguous_workspace",
    )


async def _deciding_workspace(
    workspaces: CallerWorkspaces, explicit_id: str, approval_id: str
) -> tuple[str, Requester]:
    """The workspace that decides: the named one, the only one, the one that is asked, or one that was. Raises
    ToolError."""
    if (known := explicit_workspace(workspaces, explicit_id)) is not None:
        return known
    approvers = await probe_workspaces(
        workspaces, [_is_current_approver(requester, id_, approval_id) for id_, requester in workspaces]
    )
    found = approvers or await probe_workspaces(
        workspaces, [_can_read(requester, id_, approval_id) for id_, requester in workspaces]
    )
    if found:
        return found[0]
    raise ToolError(
        f"none of your workspaces was asked about an approval {truncate_line(approval_id, _MAX_QUOTED_LENGTH)}; yours: "
        f"{', '.join(id_ for id_, _ in workspaces)}.",
        "unknown_approval",
    )


async def _check_not_requester(
    workspaces: CallerWorkspaces, workspace_id: str, speaks: Requester, arguments: types.DecideApprovalArguments
) -> None:
    """An agent that sits in the requester's seat too decides nothing of it in another one: it would be its own word.
    Only it knows that; the server sees two workspaces. It may pass it on. Raises ToolError."""
    others = [id_ for id_, _ in workspaces if id_ != workspace_id]
    if not others or arguments.decision == "escalate":
        return
    requester = (await _fetch_approval(speaks, workspace_id, arguments.approval_id)).workspace_id
    if requester in others:
        raise ToolError(
            f"you have asked for this approval yourself, as {requester}, and decide nothing of your own in another "
            "seat either. Decide escalate: somebody else is asked then.",
            "own_approval",
        )


async def _is_current_approver(requester: Requester, workspace_id: str, approval_id: str) -> bool:
    return (await _fetch_approval(requester, workspace_id, approval_id)).holder.workspace_id == workspace_id


async def _can_read(requester: Requester, workspace_id: str, approval_id: str) -> bool:
    await _fetch_approval(requester, workspace_id, approval_id)
    return True


# -- asking for leave --------------------------------------------------------------------------------------------------


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
    """Asks for leave, from a thread or from none, and waits for the decision, slice by slice, also while the server is
    away; if it does not come in that time, the receipt says so. Who stops waiting withdraws nothing: the decision comes
    into the inbox. Raises ToolError if nothing was asked, or if that is not known."""
    started_at = clock.monotonic()
    item = parse_approval(
        await requester.call(
            "POST",
            approval_path(workspace_id),
            body=_request_body(arguments, thread_id),
            headers=idempotency_headers(key),
        )
    )
    slice_seconds = SLICE_SECONDS if progress is None else FIRST_SLICE_SECONDS
    note = ""
    while item.status == "pending" and (remaining := arguments.wait - (clock.monotonic() - started_at)) > 0:
        try:
            item = await wait_for_change(requester, workspace_id, item, min(remaining, slice_seconds), clock)
        except ToolError as error:
            note = f"It is open, but the decision could not be waited for: {error.text}"
            if not error.is_transient:
                break
            await clock.wait(asyncio.get_running_loop().create_future(), min(remaining, _MIN_POLL_SECONDS))
            continue
        note = ""
        if progress is not None:
            await progress(min(arguments.wait, clock.monotonic() - started_at), arguments.wait, _progress_text(item))
        slice_seconds = SLICE_SECONDS
    return _request_result(workspace_id, item, note)


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
    """How an approval stands after so many seconds, or as soon as it stands otherwise. Raises ToolError."""
    requested_at = clock.monotonic()
    query = {"wait": max(1, min(math.ceil(seconds), SLICE_SECONDS)), "seq": item.seq}
    path = approval_path(workspace_id, item.approval_id)
    updated = parse_approval(await requester.call("GET", path, query=query))
    rest = min(seconds, _MIN_POLL_SECONDS) - (clock.monotonic() - requested_at)
    if rest > 0 and updated.seq == item.seq and is_open(updated):
        await clock.wait(asyncio.get_running_loop().create_future(), rest)
    return updated


def is_approval_wait(path: str, query: Mapping[str, Any] | None) -> bool:
    """Whether a request waits for what becomes of an approval."""
    return "/approvals/" in path and bool(query and query.get("wait"))


def has_ended(answer: Any) -> bool:
    """Whether an answer shows an approval that nobody waits for any more."""
    return not (isinstance(answer, dict) and answer.get("status") in _OPEN_STATUSES)


def is_open(item: ApprovalSummary) -> bool:
    """Whether nobody has decided yet."""
    return item.status in _OPEN_STATUSES


def _progress_text(item: ApprovalSummary) -> str:
    who = item.holder.name or "a person"
    return {"pending": f"waiting for {who}", "info_requested": "a question was asked"}.get(item.status, item.status)


_STATUS_ADVICE = {
    "pending": "It is open: do nothing of it yet, and do not ask again. The decision comes into your inbox as a "
    "message of kind approval_decision; go on with other work.",
    "info_requested": "Who decides wants to know more: the question comes into your inbox. Answer that message; what "
    "you wanted to do still waits.",
    "approved": "You may do this, once, and exactly as `details` says.",
    "denied": "Do not do it, and do not try it in another way.",
    "expired": "Nobody has decided in time, which means no: do not do it.",
    "withdrawn": "It was withdrawn: do not do it.",
}
_EDITED_NOTE = "The details were changed by who decided: what you proposed is not what you may do."


def _request_result(workspace_id: str, item: ApprovalSummary, note: str) -> dict[str, Any]:
    edited = item.edited is not None
    notes = [_STATUS_ADVICE.get(item.status, ""), _EDITED_NOTE if edited and item.status == "approved" else "", note]
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
    """Decides about what was shown, and nothing else. Raises ToolError."""
    about = await _resolve_version(requester, workspace_id, arguments, shown_versions)
    body: dict[str, Any] = {"decision": arguments.decision, **about._asdict()}
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
            else "Who asked is told. Nothing is left to do.",
        )
    )


_DECISION_NOTES = {
    "escalate": "It is decided above you now. Nothing is left to do.",
    "more_info": "Who asked is asked. The answer comes as a message of its own, which you decide then.",
}


async def _resolve_version(
    requester: Requester,
    workspace_id: str,
    arguments: types.DecideApprovalArguments,
    shown_versions: set[ApprovalVersion],
) -> ApprovalVersion:
    """What a decision is about. Where a call leaves it out, it is what its agent was shown, and never merely what
    stands there now: an action may have been changed since. What was never changed has only one version. Raises
    ToolError."""
    matching = [each for each in shown_versions if arguments.revision in (0, each.revision)]
    matching = [each for each in matching if arguments.action_hash in ("", each.action_hash)]
    if arguments.revision and arguments.action_hash:
        return ApprovalVersion(arguments.revision, arguments.action_hash)
    if len(matching) == 1:
        return matching[0]
    if not shown_versions:
        item = await _fetch_approval(requester, workspace_id, arguments.approval_id)
        now = ApprovalVersion(item.revision, item.action_hash)
        fits = arguments.revision in (0, now.revision) and arguments.action_hash in ("", now.action_hash)
        is_sure = arguments.action_hash or now.revision == 1 or not is_open(item)  # what has ended is decided by nobody
        if fits and is_sure:
            return now
    raise ToolError(
        f"approval {arguments.approval_id} has changed since it was first asked for. Give the revision and the action_hash "
        "that stand in the message which you decide about: so no other action than that one can be approved.",
        "approval_changed",
    )


def approval_needed_error(problem: Mapping[str, Any]) -> ToolError:
    """What a call is told that a rule of its workspace has stopped: how it goes on."""
    approval = problem.get("approval")
    item = approval if isinstance(approval, dict) else {}
    if not isinstance(item.get("approval_id"), str):
        return ToolError(
            truncate_line(str(problem.get("error", "this needs an approval")), _MAX_QUOTED_LENGTH), APPROVAL_NEEDED
        )
    again = f'call the tool again with the very same arguments and {APPROVAL_ARGUMENT} "{item["approval_id"]}"'
    what = (
        f"{truncate_line(str(item.get('action')), _MAX_QUOTED_LENGTH)} needs an approval, by a rule of your workspace."
    )
    if item.get("status") == "approved":
        return ToolError(f"{what} It is approved: {again}.", APPROVAL_NEEDED)
    how = f"It is asked for. Wait for the decision, which comes into your inbox; if it is approved, {again}. If not, do"
    return ToolError(f"{what} {how} not do it.", APPROVAL_NEEDED)


def is_moot(error: ToolError) -> bool:
    """Whether a refused decision shows that there is nothing left to be decided."""
    return error.code in _MOOT_ERROR_CODES


async def _fetch_approval(requester: Requester, workspace_id: str, approval_id: str) -> ApprovalSummary:
    return parse_approval(await requester.call("GET", approval_path(workspace_id, approval_id)))


def approval_path(workspace_id: str, approval_id: str = "", verb: str = "") -> str:
    """A route of approvals. Raises ToolError if an id would lead somewhere else."""
    parts = ["workspaces", workspace_id, "approvals", *filter(None, [approval_id, verb])]
    if not approval_id.strip(".") and approval_id:
        raise ToolError(f"{approval_id!r} names no approval; give the approval_id of the message.", "bad_arguments")
    return "/" + "/".join(quote(each, safe="") for each in parts)


def parse_approval(answer: Any) -> ApprovalSummary:
    """What a route answered. Raises ToolError if it is something else."""
    try:
        return msgspec.convert(answer, ApprovalSummary)
    except msgspec.ValidationError as error:
        detail = truncate_line(str(error), _MAX_QUOTED_LENGTH)
        raise unknown_answer_error(detail) from None


def _to_builtins(payload: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(payload)
    return found
