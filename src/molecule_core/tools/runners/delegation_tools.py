"""Runs the delegation tools: delegate a task and wait for its result, check it, cancel it, report progress on one's
own.

Called by every host of tools (agent, command line, LangChain, the server's MCP endpoint); calls the public API
through a Requester. Keeps no state between calls: the server has the state of a task.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from molecule_core.common.clock import Clock
from molecule_core.common.text import truncate_line
from molecule_core.tools.runners.message_tools import ProgressCallback, idempotency_headers
from molecule_core.tools.runners.requester import Requester, with_approval
from molecule_core.tools.schemas import delegations as types
from molecule_core.tools.spec import IDENTITY_ARGUMENT, ToolError, unknown_answer_error
from molecule_core.wire.schemas.acceptance import AcceptanceReport, CheckEvidence
from molecule_core.wire.schemas.delegations import (
    DelegateResponse,
    DelegationDetail,
    DelegationItem,
    DelegationStatus,
    DelegationTimelineEntry,
)

TOOL_NAMES = ("delegate_task", "delegate_task_async", "check_task_status", "cancel_task", "report_progress")
"""The tools that `run` runs."""
LONG_POLL_SECONDS, FIRST_POLL_SECONDS = 20, 1
PROGRESS_POLL_SECONDS = 10
"""Clients give up a call after 20 s without progress at the earliest."""
"""Maximum wait of one request: hosts abort silent calls after a minute, proxies silent requests earlier. The first
request is shorter for callers that want progress."""
# At least this long between equal responses, in case the server does not hold the requests.
_MIN_POLL_SECONDS = 1.0
_MAX_QUOTED_LENGTH = 300
_OUTPUT_LENGTH = 500
_NOT_VERIFIED = "Answered, not verified."
_DELIVERED_TO_INBOX, _PHASE_WAITING = "inbox", "waiting"
SOURCE_FIELD, TARGET_FIELD = "source_id", "target_id"
"""The fields of the two sides of a task: its source delegated it, its target works on it."""

CallerWorkspaces = Sequence[tuple[str, Requester]]
"""The caller's workspaces, each with its Requester."""
_ResponseT = TypeVar("_ResponseT", bound=Struct)


async def run(
    workspaces: CallerWorkspaces,
    arguments: Struct,
    call: str = "",
    *,
    clock: Clock,
    progress: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Run a delegation tool as the workspace that it applies to. Raises ToolError.

    `call`: the host's name for this call, which makes a repetition idempotent. Without it, the server detects a
    repetition by caller, target and task while the first task is open."""
    match arguments:
        case types.DelegateTaskArguments():
            workspace_id, requester = await workspace_for_target(
                workspaces, arguments.via_workspace, arguments.workspace_id
            )
            return await delegate_task(
                with_approval(requester, arguments),
                workspace_id,
                arguments,
                _idempotency_key(workspace_id, call),
                clock=clock,
                progress=progress,
            )
        case types.DelegateTaskAsyncArguments():
            workspace_id, requester = await workspace_for_target(
                workspaces, arguments.via_workspace, arguments.workspace_id
            )
            return await delegate_task_async(
                with_approval(requester, arguments), workspace_id, arguments, _idempotency_key(workspace_id, call)
            )
        case types.CheckTaskStatusArguments():
            workspace_id, requester = await workspace_for_task(workspaces, arguments.via_workspace, arguments.task_id)
            return await check_task_status(with_approval(requester, arguments, read_only=True), workspace_id, arguments)
        case types.CancelTaskArguments():
            workspace_id, requester = await workspace_for_task(
                workspaces, arguments.via_workspace, arguments.task_id, SOURCE_FIELD
            )
            return await cancel_task(with_approval(requester, arguments), workspace_id, arguments)
        case types.ReportProgressArguments():
            workspace_id, requester = await workspace_for_task(
                workspaces, arguments.via_workspace, arguments.task_id, TARGET_FIELD
            )
            return await report_progress(with_approval(requester, arguments), workspace_id, arguments)
    raise TypeError(f"{type(arguments).__name__} is of no tool about delegations")


def _idempotency_key(workspace_id: str, call: str) -> str:
    return f"{workspace_id}:{call}" if call else ""  # control: host-call-name


def requested_progress(progress: ProgressCallback, meta: Mapping[str, Any]) -> ProgressCallback | None:
    """Return the progress callback, or None if the host did not ask for progress."""
    return progress if meta.get("progressToken") is not None else None


# -- choice of workspace -----------------------------------------------------------------------------------------------


async def workspace_for_target(workspaces: CallerWorkspaces, explicit_id: str, target: str) -> tuple[str, Requester]:
    """Return the workspace to delegate as. Raises ToolError.

    It is the named one, the only one, or the only one that may talk to the target."""
    if (workspace := explicit_workspace(workspaces, explicit_id)) is not None:
        return workspace
    found = await probe_workspaces(workspaces, [_can_talk(requester, id_, target) for id_, requester in workspaces])
    if len(found) == 1:
        return found[0]
    if found:
        raise ToolError(
            f"several of your workspaces may delegate to {truncate_line(target, _MAX_QUOTED_LENGTH)}. Set "
            f"{IDENTITY_ARGUMENT} to one of them: {_list_ids(found)}.",
            "ambiguous_workspace",
        )
    raise ToolError(
        f"none of your workspaces may message {truncate_line(target, _MAX_QUOTED_LENGTH)}. list_peers shows the "
        f"peers of each workspace. Your workspaces: {_list_ids(workspaces)}.",
        "unknown_workspace",
    )


async def _can_talk(requester: Requester, workspace_id: str, target: str) -> bool:
    if workspace_id == target:
        return False
    response = await requester.call(
        "POST", "/registry/check-access", body={"caller_id": workspace_id, "target_id": target}
    )
    return isinstance(response, dict) and response.get("allowed") is True


async def workspace_for_task(
    workspaces: CallerWorkspaces, explicit_id: str, task_id: str, side: str = ""
) -> tuple[str, Requester]:
    """Return the workspace that has access to a task. Raises ToolError.

    It is the named one, the only one, or one on the given side of the task."""
    if (workspace := explicit_workspace(workspaces, explicit_id)) is not None:
        return workspace
    found = await probe_workspaces(
        workspaces, [_is_on_side(requester, id_, task_id, side) for id_, requester in workspaces]
    )
    if found:
        return found[0]
    relation = {SOURCE_FIELD: "delegated", TARGET_FIELD: "works on"}.get(side, "has access to")
    raise ToolError(
        f"none of your workspaces {relation} a task {truncate_line(task_id, _MAX_QUOTED_LENGTH)}. Your workspaces: "
        f"{_list_ids(workspaces)}.",
        "unknown_task",
    )


async def _is_on_side(requester: Requester, workspace_id: str, task_id: str, side: str) -> bool:
    item = (await _fetch_detail(requester, task_id)).delegation
    return not side or getattr(item, side) == workspace_id


def explicit_workspace(workspaces: CallerWorkspaces, explicit_id: str) -> tuple[str, Requester] | None:
    """Return the workspace that needs no request to find: the named or the only one.

    Raises ToolError if the named one is not among the caller's."""
    if not explicit_id:
        return workspaces[0] if len(workspaces) == 1 else None
    for workspace in workspaces:
        if workspace[0] == explicit_id:
            return workspace
    raise ToolError(
        f"workspace {truncate_line(explicit_id, _MAX_QUOTED_LENGTH)} is not one of yours. Your workspaces: "
        f"{_list_ids(workspaces)}.",
        "unknown_workspace",
    )


async def probe_workspaces(workspaces: CallerWorkspaces, probes: Sequence[Any]) -> list[tuple[str, Requester]]:
    """Return the workspaces whose probe returns True.

    A workspace whose server fails is left out and does not block the others. If none is found, raises the first
    error other than `not_found`."""
    answers = await asyncio.gather(*probes, return_exceptions=True)
    found = [workspace for workspace, answer in zip(workspaces, answers, strict=True) if answer is True]
    for answer in answers:
        unknown = isinstance(answer, ToolError) and answer.code == "not_found"
        if isinstance(answer, BaseException) and not isinstance(answer, ToolError):
            raise answer
        if isinstance(answer, ToolError) and not found and not unknown:
            raise answer
    return found


def _list_ids(workspaces: CallerWorkspaces) -> str:
    return ", ".join(id_ for id_, _ in workspaces)


# -- delegating --------------------------------------------------------------------------------------------------------


async def delegate_task(
    requester: Requester,
    workspace_id: str,
    arguments: types.DelegateTaskArguments,
    key: str = "",
    *,
    clock: Clock,
    progress: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Delegate a task to a peer and wait for its result with repeated requests.

    Waits on while the server is unavailable. If the time is over, the receipt says so. The task is not cancelled
    when the caller stops waiting or can no longer poll: the result is delivered to the inbox. Raises ToolError if
    nothing was begun, or if that is unknown."""
    started_at = clock.monotonic()
    # Callers that want progress get it early; others get one response at the end.
    poll_seconds = LONG_POLL_SECONDS if progress is None else FIRST_POLL_SECONDS
    response = first = await _begin_delegation(
        requester, workspace_id, arguments, key, min(arguments.wait, poll_seconds)
    )
    note = ""
    while not response.settled and (remaining := arguments.wait - (clock.monotonic() - started_at)) > 0:
        if progress is not None:
            await progress(arguments.wait - remaining, arguments.wait, await _progress_text(requester, response))
        try:
            longest = remaining if progress is None else min(remaining, PROGRESS_POLL_SECONDS)
            response = await _poll_delegation(requester, workspace_id, response, longest, clock)
        except ToolError as error:
            note = f"The task continues, but waiting for its result failed: {error.text}"
            if not error.is_transient:
                break
            await clock.wait(asyncio.get_running_loop().create_future(), min(remaining, _MIN_POLL_SECONDS))
            continue
        note = ""
    return _delegate_result(workspace_id, response, is_duplicate=first.idempotent_hit, warning=first.warning, note=note)


async def fetch_delegation(requester: Requester, task_id: str) -> DelegationItem:
    """Return a delegation. Raises ToolError."""
    return (await _fetch_detail(requester, task_id)).delegation


async def wait_for_result(
    requester: Requester, workspace_id: str, task_id: str, seconds: int = LONG_POLL_SECONDS
) -> dict[str, Any]:
    """Return the result of `delegate_task` for a task that was delegated before, after one waiting request.

    It has the answer also if that is in the inbox already: a task gives the same result each time. Raises ToolError."""
    path = f"/workspaces/{_path_segment(workspace_id)}/delegations/{_path_segment(task_id)}/wait"
    response = _convert_response(await requester.call("POST", path, body={"wait": seconds}), DelegateResponse)
    if response.settled and not response.result:
        answer = (await _fetch_detail(requester, task_id)).result
        response = msgspec.structs.replace(response, result=answer or "")
    return _delegate_result(workspace_id, response, is_duplicate=False, warning="", note="")


async def delegate_task_async(
    requester: Requester, workspace_id: str, arguments: types.DelegateTaskAsyncArguments, key: str = ""
) -> dict[str, Any]:
    """Delegate a task without waiting. Raises ToolError."""
    response = await _begin_delegation(requester, workspace_id, arguments, key, 0)
    return _delegate_result(
        workspace_id, response, is_duplicate=response.idempotent_hit, warning=response.warning, note=""
    )


async def _begin_delegation(
    requester: Requester,
    workspace_id: str,
    arguments: types.DelegateTaskArguments | types.DelegateTaskAsyncArguments,
    key: str,
    wait: int,
) -> DelegateResponse:
    body: dict[str, Any] = {"target_id": arguments.workspace_id, "task": arguments.task}
    if wait:
        body["wait"] = wait
    if arguments.deadline_seconds:
        body["deadline_seconds"] = arguments.deadline_seconds  # control: tool-deadline
    if arguments.accept:
        body["accept"] = arguments.accept
    if arguments.rounds >= 0:
        body["rounds"] = arguments.rounds
    if arguments.may:
        body["may"] = arguments.may
    path = f"/workspaces/{_path_segment(workspace_id)}/delegate"
    return _convert_response(
        await requester.call("POST", path, body=body, headers=idempotency_headers(key)), DelegateResponse
    )


async def _poll_delegation(
    requester: Requester, workspace_id: str, response: DelegateResponse, remaining: float, clock: Clock
) -> DelegateResponse:
    """Return the delegation after one more waiting request, or as soon as it has changed. Raises ToolError."""
    requested_at = clock.monotonic()
    path = f"/workspaces/{_path_segment(workspace_id)}/delegations/{_path_segment(response.delegation_id)}/wait"
    seconds = min(math.ceil(remaining), LONG_POLL_SECONDS)
    updated = _convert_response(await requester.call("POST", path, body={"wait": seconds}), DelegateResponse)
    rest = min(remaining, _MIN_POLL_SECONDS) - (clock.monotonic() - requested_at)
    if rest > 0 and not updated.settled and (updated.state, updated.phase) == (response.state, response.phase):
        await clock.wait(asyncio.get_running_loop().create_future(), rest)
    return updated


async def _progress_text(requester: Requester, response: DelegateResponse) -> str:
    """Return the progress as one line for the host's user. A failed lookup does not end the wait."""
    try:
        item = (await _fetch_detail(requester, response.delegation_id)).delegation
    except ToolError:
        return _state_text(response.state, response.phase)
    return progress_of(item)


def progress_of(item: DelegationItem) -> str:
    """Return the progress of a delegation as one line."""
    if item.progress is not None and item.progress.current_step:
        percent = "" if item.progress.percent is None else f" ({item.progress.percent} %)"
        return f"{item.progress.current_step}{percent}"
    if item.target_limited_until:
        return f"the peer is limited until {item.target_limited_until}"
    if item.queue_position:
        return f"queued behind {item.queue_position}"
    return _state_text(item.status, item.phase)


_PHASE_TEXTS = {
    "waiting": "waiting for the peer",
    "sending": "sending",
    "retrying": "not sent yet, retrying",
    "claimed": "picked up by the peer",
    "working": "in progress",
    "checking": "answered; the answer is being checked",
    "needs_work": "answered; a check failed, and the peer works on it again",
    "asking": "waits for your answer: the peer's question is in your inbox",
}


def _state_text(status: str, phase: str) -> str:
    if status == DelegationStatus.UNKNOWN:
        return "sent; whether it arrived is unknown"
    return _PHASE_TEXTS.get(phase, status)


def _delegate_result(
    workspace_id: str, response: DelegateResponse, *, is_duplicate: bool, warning: str, note: str
) -> dict[str, Any]:
    notes = ["This task was already delegated; this is its current state."] if is_duplicate else []
    notes += [note, _advice_text(response, response.warning or warning)]
    return _to_builtins(
        types.DelegateTaskResult(
            task_id=response.delegation_id,
            delegation_id=response.delegation_id,
            workspace_id=workspace_id,
            target_id=response.target_id,
            status=response.state,
            phase=response.phase,
            settled=response.settled,
            result=response.result,
            delivered=response.delivered,
            error=response.error,
            reason=response.reason,
            advice=response.advice,
            idempotent_hit=is_duplicate,
            verified=response.verified,
            note=" ".join(each for each in notes if each),
        )
    )


def _advice_text(response: DelegateResponse, warning: str) -> str:
    """Return what to do while the task runs, or where its result is."""
    if response.settled:
        is_in_inbox = response.delivered == _DELIVERED_TO_INBOX
        place = "The result or failure is in your inbox, as a message of kind delegation_result." if is_in_inbox else ""
        is_unverified = response.state == DelegationStatus.COMPLETED and not response.verified
        return " ".join(filter(None, (place, _NOT_VERIFIED if is_unverified else "")))
    warning_text = f" ({warning})" if warning and response.phase == _PHASE_WAITING else ""
    return (
        f"The task is with {response.target_id}: {_state_text(response.state, response.phase)}{warning_text}. The "
        "result arrives in your inbox as a message of kind delegation_result. Do other work until then, or call "
        "check_task_status."
    )


# -- status and progress -----------------------------------------------------------------------------------------------


async def check_task_status(
    requester: Requester, workspace_id: str, arguments: types.CheckTaskStatusArguments
) -> dict[str, Any]:
    """Return a task's state, timeline and complete result, without side effects on the task. Raises ToolError."""
    detail = await _fetch_detail(requester, arguments.task_id)
    return _task_status(workspace_id, detail.delegation, detail.result, detail.timeline, detail.acceptance)


async def cancel_task(requester: Requester, workspace_id: str, arguments: types.CancelTaskArguments) -> dict[str, Any]:
    """Cancel a delegated task. A task that has ended is unchanged. Raises ToolError."""
    path = f"/workspaces/{_path_segment(workspace_id)}/delegations/{_path_segment(arguments.task_id)}/cancel"
    response = await requester.call("POST", path, body={"reason": arguments.reason} if arguments.reason else {})
    item = _convert_response(response, DelegationItem)
    return _task_status(workspace_id, item, item.result, ())


async def report_progress(
    requester: Requester, workspace_id: str, arguments: types.ReportProgressArguments
) -> dict[str, Any]:
    """Report progress on a task. Raises ToolError."""
    reported = {
        "current_step": arguments.current_step,
        "tools_used": arguments.tools_used,
        "eta_hint": arguments.eta_hint,
    }
    body: dict[str, Any] = {name: value for name, value in reported.items() if value}
    if arguments.percent >= 0:
        body["percent"] = arguments.percent
    path = f"/workspaces/{_path_segment(workspace_id)}/delegations/{_path_segment(arguments.task_id)}/status"
    response = _convert_response(await requester.call("POST", path, body=body), _ReportResponse)
    return _to_builtins(
        types.ReportProgressResult(task_id=arguments.task_id, noted=response.noted, status=response.delegation_status)
    )


class _ReportResponse(Struct, frozen=True):
    """The response of the progress route."""

    delegation_status: str
    noted: bool = True


def _task_status(
    workspace_id: str,
    item: DelegationItem,
    result: str | None,
    timeline: Sequence[DelegationTimelineEntry],
    acceptance: AcceptanceReport | None = None,
) -> dict[str, Any]:
    reported = item.progress
    return _to_builtins(
        types.TaskStatusResult(
            task_id=item.delegation_id,
            workspace_id=workspace_id,
            source_id=item.source_id,
            target_id=item.target_id,
            status=item.status,
            phase=item.phase,
            attempt=item.attempt,
            result=result or "",
            error=item.error or "",
            reason=item.reason or "",
            advice=item.advice or "",
            stuck=item.stuck,
            limited_until=item.target_limited_until or "",
            current_step="" if reported is None else reported.current_step,
            tools_used=[] if reported is None else reported.tools_used,
            eta_hint="" if reported is None else reported.eta_hint,
            percent=None if reported is None else reported.percent,
            deadline=item.deadline,
            timeline=[_timeline_entry(each) for each in timeline],
            verified=item.verified,
            evidence=[] if acceptance is None else [_evidence_line(each) for each in acceptance.evidence],
        )
    )


def _evidence_line(evidence: CheckEvidence) -> str:
    """Return what a check found as one line."""
    about = [evidence.file, "" if evidence.size is None else f"{evidence.size} bytes", evidence.sha256]
    found = f"answer {evidence.answer}, check {evidence.check} ({evidence.type}): {evidence.outcome}"
    reason = f": {evidence.detail}" if evidence.detail else ""
    reason += f", output: {truncate_line(evidence.output[-_OUTPUT_LENGTH:], _OUTPUT_LENGTH)}" if evidence.output else ""
    return f"{found}{reason} [{', '.join(filter(None, (*about, evidence.ran_by, evidence.by, evidence.at)))}]"


def _timeline_entry(entry: DelegationTimelineEntry) -> types.TaskTimelineEntry:
    return types.TaskTimelineEntry(
        at=entry.at,
        fact=entry.fact,
        status=entry.status,
        phase=entry.phase,
        attempt=entry.attempt,
        late=entry.late,
        detail=entry.detail or "",
    )


async def _fetch_detail(requester: Requester, task_id: str) -> DelegationDetail:
    return _convert_response(await requester.call("GET", f"/delegations/{_path_segment(task_id)}"), DelegationDetail)


def _path_segment(id_: str) -> str:
    """Quote an id as one path segment. Raises ToolError if it could change the path."""
    if not id_.strip("."):
        raise ToolError(f"task_id cannot be {id_!r}. Use the task_id that delegate_task returned.", "bad_arguments")
    return quote(id_, safe="")


def _convert_response(answer: Any, shape: type[_ResponseT]) -> _ResponseT:
    """Convert a route's response. Raises ToolError for an unknown shape."""
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        reported = truncate_line(str(error), _MAX_QUOTED_LENGTH)
        raise unknown_answer_error(reported) from None


def _to_builtins(response: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(response)
    return found
