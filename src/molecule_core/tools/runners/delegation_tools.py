"""The tools about delegations, as walks over the public API: to give work to a peer and to wait for its result, to look
how it stands, to cancel it, and to say how far one's own work is.

Above: whoever runs tools (agent, command line, LangChain, the server's own MCP endpoint). Below: anything that can make
one request as a workspace. Nothing is kept between two calls: how a task stands is the server's to say.
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
from molecule_core.tools.spec import IDENTITY_ARGUMENT, ToolError
from molecule_core.wire.schemas.delegations import (
    DelegateResponse,
    DelegationDetail,
    DelegationItem,
    DelegationTimelineEntry,
)

TOOL_NAMES = ("delegate_task", "delegate_task_async", "check_task_status", "cancel_task", "report_progress")
"""The tools, each of which is one local verb of every host: `run`."""
SLICE_SECONDS, FIRST_SLICE_SECONDS = 20, 1
"""How long one request waits at most: hosts end a silent call after a minute, proxies a silent request before that; and
the first one of a caller that wants to be told how far it is."""
# Between two questions to which the answer was the same: a server that does not hold them is not to be flooded.
_MIN_POLL_SECONDS = 1.0
_MAX_QUOTED_LENGTH = 300
_DELIVERED_TO_INBOX, _STATUS_UNKNOWN, _PHASE_WAITING = "inbox", "unknown_after_send", "waiting"
SOURCE_FIELD, TARGET_FIELD = "source_id", "target_id"
"""The sides of a task: who delegated it, and who works on it."""

CallerWorkspaces = Sequence[tuple[str, Requester]]
"""The workspaces that a caller sits in, each with what makes requests as it."""
_ResponseT = TypeVar("_ResponseT", bound=Struct)


async def run(
    workspaces: CallerWorkspaces,
    arguments: Struct,
    call: str = "",
    *,
    clock: Clock,
    progress: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Runs a tool about delegations as the seat that it is for. `call`: the name that the caller's host gives this
    call, which makes a repetition of it harmless; where there is none, the server knows the repetition by caller,
    target and task while the first one is open. Raises ToolError."""
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
    """How a host is told of progress; None if it does not ask to be told."""
    return progress if meta.get("progressToken") is not None else None


# -- as whom -----------------------------------------------------------------------------------------------------------


async def workspace_for_target(workspaces: CallerWorkspaces, explicit_id: str, target: str) -> tuple[str, Requester]:
    """As which of its workspaces an agent delegates: the named one, the only one, or the only one that may talk to the
    target. Raises ToolError."""
    if (known := explicit_workspace(workspaces, explicit_id)) is not None:
        return known
    found = await probe_workspaces(workspaces, [_can_talk(requester, id_, target) for id_, requester in workspaces])
    if len(found) == 1:
        return found[0]
    if found:
        raise ToolError(
            f"several of your workspaces may delegate to {truncate_line(target, _MAX_QUOTED_LENGTH)}; say as which one you act "
            f"with {IDENTITY_ARGUMENT}: {_list_ids(found)}.",
            "ambiguous_workspace",
        )
    raise ToolError(
        f"none of your workspaces may talk to {truncate_line(target, _MAX_QUOTED_LENGTH)}. list_peers shows whom each of them "
        f"reaches; yours: {_list_ids(workspaces)}.",
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
    """The workspace through which an agent has to do with a task: the named one, the only one, or the one that stands
    on that side of it. Raises ToolError."""
    if (known := explicit_workspace(workspaces, explicit_id)) is not None:
        return known
    found = await probe_workspaces(
        workspaces, [_is_on_side(requester, id_, task_id, side) for id_, requester in workspaces]
    )
    if found:
        return found[0]
    what = {SOURCE_FIELD: "has delegated", TARGET_FIELD: "works on"}.get(side, "knows")
    raise ToolError(
        f"none of your workspaces {what} a task {truncate_line(task_id, _MAX_QUOTED_LENGTH)}; yours: {_list_ids(workspaces)}.",
        "unknown_task",
    )


async def _is_on_side(requester: Requester, workspace_id: str, task_id: str, side: str) -> bool:
    item = (await _fetch_detail(requester, task_id)).delegation
    return not side or getattr(item, side) == workspace_id


def explicit_workspace(workspaces: CallerWorkspaces, explicit_id: str) -> tuple[str, Requester] | None:
    """The seat that needs no look at the server."""
    if not explicit_id:
        return workspaces[0] if len(workspaces) == 1 else None
    for workspace in workspaces:
        if workspace[0] == explicit_id:
            return workspace
    raise ToolError(
        f"workspace {truncate_line(explicit_id, _MAX_QUOTED_LENGTH)} is none of yours; yours: {_list_ids(workspaces)}",
        "unknown_workspace",
    )


async def probe_workspaces(workspaces: CallerWorkspaces, probes: Sequence[Any]) -> list[tuple[str, Requester]]:
    """The seats for which a look says yes. A seat whose server refuses or is away is no such one, and holds up no
    other; if none is, the first that could not be asked says why, unless it only does not know what was asked for."""
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


# -- giving work -------------------------------------------------------------------------------------------------------


async def delegate_task(
    requester: Requester,
    workspace_id: str,
    arguments: types.DelegateTaskArguments,
    key: str = "",
    *,
    clock: Clock,
    progress: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Gives a peer a task and waits for its result, slice by slice, also while the server is away; if it does not come
    in that time, the receipt says so. Who stops waiting, or cannot ask any more, cancels nothing: the result comes into
    the inbox. Raises ToolError if nothing was begun, or if that is not known."""
    started_at = clock.monotonic()
    # Who wants to be told how far it is, is told soon; the others are answered when it ends.
    slice_seconds = SLICE_SECONDS if progress is None else FIRST_SLICE_SECONDS
    response = first = await _begin_delegation(
        requester, workspace_id, arguments, key, min(arguments.wait, slice_seconds)
    )
    note = ""
    while not response.settled and (remaining := arguments.wait - (clock.monotonic() - started_at)) > 0:
        if progress is not None:
            await progress(arguments.wait - remaining, arguments.wait, await _progress_text(requester, response))
        try:
            response = await _wait_slice(requester, workspace_id, response, remaining, clock)
        except ToolError as error:
            note = f"It goes on, but its result could not be waited for: {error.text}"
            if not error.is_transient:
                break
            await clock.wait(asyncio.get_running_loop().create_future(), min(remaining, _MIN_POLL_SECONDS))
            continue
        note = ""
    return _delegate_result(workspace_id, response, is_duplicate=first.idempotent_hit, warning=first.warning, note=note)


async def delegate_task_async(
    requester: Requester, workspace_id: str, arguments: types.DelegateTaskAsyncArguments, key: str = ""
) -> dict[str, Any]:
    """The same without waiting. Raises ToolError."""
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
    path = f"/workspaces/{_path_segment(workspace_id)}/delegate"
    return _convert_response(
        await requester.call("POST", path, body=body, headers=idempotency_headers(key)), DelegateResponse
    )


async def _wait_slice(
    requester: Requester, workspace_id: str, response: DelegateResponse, remaining: float, clock: Clock
) -> DelegateResponse:
    """How it stands after one more slice, or as soon as it stands otherwise. Raises ToolError."""
    requested_at = clock.monotonic()
    path = f"/workspaces/{_path_segment(workspace_id)}/delegations/{_path_segment(response.delegation_id)}/wait"
    seconds = min(math.ceil(remaining), SLICE_SECONDS)
    updated = _convert_response(await requester.call("POST", path, body={"wait": seconds}), DelegateResponse)
    rest = min(remaining, _MIN_POLL_SECONDS) - (clock.monotonic() - requested_at)
    if rest > 0 and not updated.settled and (updated.state, updated.phase) == (response.state, response.phase):
        await clock.wait(asyncio.get_running_loop().create_future(), rest)
    return updated


async def _progress_text(requester: Requester, response: DelegateResponse) -> str:
    """How far the work is, in a line for the host's person. Looking for it must not cost the wait."""
    try:
        item = (await _fetch_detail(requester, response.delegation_id)).delegation
    except ToolError:
        return _state_text(response.state, response.phase)
    if item.progress is not None and item.progress.current_step:
        percent = "" if item.progress.percent is None else f" ({item.progress.percent} %)"
        return f"{item.progress.current_step}{percent}"
    if item.queue_position:
        return f"queued behind {item.queue_position}"
    return _state_text(item.status, item.phase)


_PHASE_TEXTS = {
    "waiting": "waiting for the peer",
    "sending": "being sent",
    "retrying": "not sent yet; it is tried once more",
    "claimed": "taken by the peer",
    "working": "being worked on",
}


def _state_text(status: str, phase: str) -> str:
    if status == _STATUS_UNKNOWN:
        return "sent, and whether it arrived is not known"
    return _PHASE_TEXTS.get(phase, status)


def _delegate_result(
    workspace_id: str, response: DelegateResponse, *, is_duplicate: bool, warning: str, note: str
) -> dict[str, Any]:
    notes = ["This task was given already; this is how that one stands."] if is_duplicate else []
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
            note=" ".join(each for each in notes if each),
        )
    )


def _advice_text(response: DelegateResponse, warning: str) -> str:
    """What to do while it runs, or where its result is."""
    if response.settled:
        inbox = response.delivered == _DELIVERED_TO_INBOX
        return "Its end is in your inbox, as a message of kind delegation_result." if inbox else ""
    about = f" ({warning})" if warning and response.phase == _PHASE_WAITING else ""
    return (
        f"The task is with {response.target_id}: {_state_text(response.state, response.phase)}{about}. Its result comes into your "
        "inbox as a message of kind delegation_result; go on with other work, or ask check_task_status."
    )


# -- what became of it -------------------------------------------------------------------------------------------------


async def check_task_status(
    requester: Requester, workspace_id: str, arguments: types.CheckTaskStatusArguments
) -> dict[str, Any]:
    """How a task stands, what happened to it, and the whole result. Reading it settles nothing. Raises ToolError."""
    detail = await _fetch_detail(requester, arguments.task_id)
    return _task_status(workspace_id, detail.delegation, detail.result, detail.timeline)


async def cancel_task(requester: Requester, workspace_id: str, arguments: types.CancelTaskArguments) -> dict[str, Any]:
    """Ends a task that one has delegated; one that has ended stays as it is. Raises ToolError."""
    path = f"/workspaces/{_path_segment(workspace_id)}/delegations/{_path_segment(arguments.task_id)}/cancel"
    response = await requester.call("POST", path, body={"reason": arguments.reason} if arguments.reason else {})
    item = _convert_response(response, DelegationItem)
    return _task_status(workspace_id, item, item.result, ())


async def report_progress(
    requester: Requester, workspace_id: str, arguments: types.ReportProgressArguments
) -> dict[str, Any]:
    """Says how far one's work on a task is. Raises ToolError."""
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
    """What the route of progress answers."""

    delegation_status: str
    noted: bool = True


def _task_status(
    workspace_id: str, item: DelegationItem, result: str | None, timeline: Sequence[DelegationTimelineEntry]
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
            current_step="" if reported is None else reported.current_step,
            tools_used=[] if reported is None else reported.tools_used,
            eta_hint="" if reported is None else reported.eta_hint,
            percent=None if reported is None else reported.percent,
            deadline=item.deadline,
            timeline=[_timeline_entry(each) for each in timeline],
        )
    )


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
    """An id as one segment of a path. Raises ToolError if it would lead somewhere else."""
    if not id_.strip("."):
        raise ToolError(f"{id_!r} names no task; give the task_id that delegating gave you.", "bad_arguments")
    return quote(id_, safe="")


def _convert_response(answer: Any, shape: type[_ResponseT]) -> _ResponseT:
    """What a route answered. Raises ToolError if it is something else."""
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        reported = truncate_line(str(error), _MAX_QUOTED_LENGTH)
        raise ToolError(
            f"the server answered something that this version does not know ({reported}). What was asked may have been "
            "done. Tell the person that agent and server differ in version.",
            "unknown_answer",
        ) from None


def _to_builtins(response: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(response)
    return found
