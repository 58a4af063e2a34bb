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

from molecule_core.ground.clock import Clock
from molecule_core.ground.text import shorten
from molecule_core.wire import delegationtypes as types
from molecule_core.wire.delegations import Delegated, DelegationFact, DelegationFull, DelegationItem
from molecule_core.wire.speaks import Speaks, allowed
from molecule_core.wire.toolspec import IDENTITY, ToolError
from molecule_core.wire.verbs import Progress, key_headers

NAMES = ("delegate_task", "delegate_task_async", "check_task_status", "cancel_task", "report_progress")
"""The tools, each of which is one local verb of every host: `run`."""
SLICE_SECONDS, FIRST_SECONDS = 20, 1
"""How long one request waits at most: hosts end a silent call after a minute, proxies a silent request before that; and
the first one of a caller that wants to be told how far it is."""
# Between two questions to which the answer was the same: a server that does not hold them is not to be flooded.
_LEAST_SECONDS = 1.0
_MOST_REPEATED = 300
_INBOX, _UNKNOWN, _WAITING = "inbox", "unknown_after_send", "waiting"
SOURCE, TARGET = "source_id", "target_id"
"""The sides of a task: who delegated it, and who works on it."""

Seats = Sequence[tuple[str, Speaks]]
"""The workspaces that a caller sits in, each with what makes requests as it."""
_Shape = TypeVar("_Shape", bound=Struct)


async def run(
    seats: Seats, given: Struct, call: str = "", *, clock: Clock, progress: Progress | None = None
) -> dict[str, Any]:
    """Runs a tool about delegations as the seat that it is for. `call`: the name that the caller's host gives this
    call, which makes a repetition of it harmless; where there is none, the server knows the repetition by caller,
    target and task while the first one is open. Raises ToolError."""
    match given:
        case types.DelegateArguments():
            own, speaks = await seat_for(seats, given.via_workspace, given.workspace_id)
            return await delegate(allowed(speaks, given), own, given, _key(own, call), clock=clock, progress=progress)
        case types.DelegateAsyncArguments():
            own, speaks = await seat_for(seats, given.via_workspace, given.workspace_id)
            return await delegate_async(allowed(speaks, given), own, given, _key(own, call))
        case types.CheckArguments():
            own, speaks = await seat_of_task(seats, given.via_workspace, given.task_id)
            return await check(allowed(speaks, given, reads=True), own, given)
        case types.CancelArguments():
            own, speaks = await seat_of_task(seats, given.via_workspace, given.task_id, SOURCE)
            return await cancel(allowed(speaks, given), own, given)
        case types.ReportArguments():
            own, speaks = await seat_of_task(seats, given.via_workspace, given.task_id, TARGET)
            return await note(allowed(speaks, given), own, given)
    raise TypeError(f"{type(given).__name__} is of no tool about delegations")


def _key(own: str, call: str) -> str:
    return f"{own}:{call}" if call else ""  # control: host-call-name


def progress_of(progress: Progress, meta: Mapping[str, Any]) -> Progress | None:
    """How a host is told of progress; None if it does not ask to be told."""
    return progress if meta.get("progressToken") is not None else None


# -- as whom -----------------------------------------------------------------------------------------------------------


async def seat_for(seats: Seats, named: str, target: str) -> tuple[str, Speaks]:
    """As which of its workspaces an agent delegates: the named one, the only one, or the only one that may talk to the
    target. Raises ToolError."""
    if (known := known_seat(seats, named)) is not None:
        return known
    found = await those(seats, [_may_talk(speaks, id_, target) for id_, speaks in seats])
    if len(found) == 1:
        return found[0]
    if found:
        raise ToolError(
            f"several of your workspaces may delegate to {shorten(target, _MOST_REPEATED)}; say as which one you act "
            f"with {IDENTITY}: {_choices(found)}.",
            "ambiguous_workspace",
        )
    raise ToolError(
        f"none of your workspaces may talk to {shorten(target, _MOST_REPEATED)}. list_peers shows whom each of them "
        f"reaches; yours: {_choices(seats)}.",
        "unknown_workspace",
    )


async def _may_talk(speaks: Speaks, own: str, target: str) -> bool:
    if own == target:
        return False
    told = await speaks.call("POST", "/registry/check-access", body={"caller_id": own, "target_id": target})
    return isinstance(told, dict) and told.get("allowed") is True


async def seat_of_task(seats: Seats, named: str, task_id: str, side: str = "") -> tuple[str, Speaks]:
    """The workspace through which an agent has to do with a task: the named one, the only one, or the one that stands
    on that side of it. Raises ToolError."""
    if (known := known_seat(seats, named)) is not None:
        return known
    found = await those(seats, [_stands(speaks, id_, task_id, side) for id_, speaks in seats])
    if found:
        return found[0]
    what = {SOURCE: "has delegated", TARGET: "works on"}.get(side, "knows")
    raise ToolError(
        f"none of your workspaces {what} a task {shorten(task_id, _MOST_REPEATED)}; yours: {_choices(seats)}.",
        "unknown_task",
    )


async def _stands(speaks: Speaks, own: str, task_id: str, side: str) -> bool:
    item = (await _full(speaks, task_id)).delegation
    return not side or getattr(item, side) == own


def known_seat(seats: Seats, named: str) -> tuple[str, Speaks] | None:
    """The seat that needs no look at the server."""
    if not named:
        return seats[0] if len(seats) == 1 else None
    for seat in seats:
        if seat[0] == named:
            return seat
    raise ToolError(
        f"workspace {shorten(named, _MOST_REPEATED)} is none of yours; yours: {_choices(seats)}", "unknown_workspace"
    )


async def those(seats: Seats, looks: Sequence[Any]) -> list[tuple[str, Speaks]]:
    """The seats for which a look says yes. A seat whose server refuses or is away is no such one, and holds up no
    other; if none is, the first that could not be asked says why, unless it only does not know what was asked for."""
    answers = await asyncio.gather(*looks, return_exceptions=True)
    found = [seat for seat, answer in zip(seats, answers, strict=True) if answer is True]
    for answer in answers:
        unknown = isinstance(answer, ToolError) and answer.code == "not_found"
        if isinstance(answer, BaseException) and not isinstance(answer, ToolError):
            raise answer
        if isinstance(answer, ToolError) and not found and not unknown:
            raise answer
    return found


def _choices(seats: Seats) -> str:
    return ", ".join(id_ for id_, _ in seats)


# -- giving work -------------------------------------------------------------------------------------------------------


async def delegate(
    speaks: Speaks,
    own: str,
    given: types.DelegateArguments,
    key: str = "",
    *,
    clock: Clock,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Gives a peer a task and waits for its result, slice by slice, also while the server is away; if it does not come
    in that time, the receipt says so. Who stops waiting, or cannot ask any more, cancels nothing: the result comes into
    the inbox. Raises ToolError if nothing was begun, or if that is not known."""
    begun = clock.monotonic()
    # Who wants to be told how far it is, is told soon; the others are answered when it ends.
    slice_seconds = SLICE_SECONDS if progress is None else FIRST_SECONDS
    told = first = await _begin(speaks, own, given, key, min(given.wait, slice_seconds))
    note = ""
    while not told.settled and (left := given.wait - (clock.monotonic() - begun)) > 0:
        if progress is not None:
            await progress(given.wait - left, given.wait, await _how_far(speaks, told))
        try:
            told = await _next(speaks, own, told, left, clock)
        except ToolError as error:
            note = f"It goes on, but its result could not be waited for: {error.text}"
            if not error.passes:
                break
            await clock.wait(asyncio.get_running_loop().create_future(), min(left, _LEAST_SECONDS))
            continue
        note = ""
    return _receipt(own, told, hit=first.idempotent_hit, warning=first.warning, note=note)


async def delegate_async(
    speaks: Speaks, own: str, given: types.DelegateAsyncArguments, key: str = ""
) -> dict[str, Any]:
    """The same without waiting. Raises ToolError."""
    told = await _begin(speaks, own, given, key, 0)
    return _receipt(own, told, hit=told.idempotent_hit, warning=told.warning, note="")


async def _begin(
    speaks: Speaks, own: str, given: types.DelegateArguments | types.DelegateAsyncArguments, key: str, wait: int
) -> Delegated:
    body: dict[str, Any] = {"target_id": given.workspace_id, "task": given.task}
    if wait:
        body["wait"] = wait
    if given.deadline_seconds:
        body["deadline_seconds"] = given.deadline_seconds  # control: tool-deadline
    path = f"/workspaces/{_part(own)}/delegate"
    return _shaped(await speaks.call("POST", path, body=body, headers=key_headers(key)), Delegated)


async def _next(speaks: Speaks, own: str, told: Delegated, left: float, clock: Clock) -> Delegated:
    """How it stands after one more slice, or as soon as it stands otherwise. Raises ToolError."""
    asked = clock.monotonic()
    path = f"/workspaces/{_part(own)}/delegations/{_part(told.delegation_id)}/wait"
    seconds = min(math.ceil(left), SLICE_SECONDS)
    news = _shaped(await speaks.call("POST", path, body={"wait": seconds}), Delegated)
    rest = min(left, _LEAST_SECONDS) - (clock.monotonic() - asked)
    if rest > 0 and not news.settled and (news.state, news.phase) == (told.state, told.phase):
        await clock.wait(asyncio.get_running_loop().create_future(), rest)
    return news


async def _how_far(speaks: Speaks, told: Delegated) -> str:
    """How far the work is, in a line for the host's person. Looking for it must not cost the wait."""
    try:
        item = (await _full(speaks, told.delegation_id)).delegation
    except ToolError:
        return _standing(told.state, told.phase)
    if item.progress is not None and item.progress.current_step:
        percent = "" if item.progress.percent is None else f" ({item.progress.percent} %)"
        return f"{item.progress.current_step}{percent}"
    if item.queue_position:
        return f"queued behind {item.queue_position}"
    return _standing(item.status, item.phase)


_PHASES = {
    "waiting": "waiting for the peer",
    "sending": "being sent",
    "retrying": "not sent yet; it is tried once more",
    "claimed": "taken by the peer",
    "working": "being worked on",
}


def _standing(status: str, phase: str) -> str:
    if status == _UNKNOWN:
        return "sent, and whether it arrived is not known"
    return _PHASES.get(phase, status)


def _receipt(own: str, told: Delegated, *, hit: bool, warning: str, note: str) -> dict[str, Any]:
    notes = ["This task was given already; this is how that one stands."] if hit else []
    notes += [note, _advised(told, told.warning or warning)]
    return _plain(
        types.DelegationReceipt(
            task_id=told.delegation_id,
            delegation_id=told.delegation_id,
            workspace_id=own,
            target_id=told.target_id,
            status=told.state,
            phase=told.phase,
            settled=told.settled,
            result=told.result,
            delivered=told.delivered,
            error=told.error,
            reason=told.reason,
            advice=told.advice,
            idempotent_hit=hit,
            note=" ".join(each for each in notes if each),
        )
    )


def _advised(told: Delegated, warning: str) -> str:
    """What to do while it runs, or where its result is."""
    if told.settled:
        inbox = told.delivered == _INBOX
        return "Its end is in your inbox, as a message of kind delegation_result." if inbox else ""
    about = f" ({warning})" if warning and told.phase == _WAITING else ""
    return (
        f"The task is with {told.target_id}: {_standing(told.state, told.phase)}{about}. Its result comes into your "
        "inbox as a message of kind delegation_result; go on with other work, or ask check_task_status."
    )


# -- what became of it -------------------------------------------------------------------------------------------------


async def check(speaks: Speaks, own: str, given: types.CheckArguments) -> dict[str, Any]:
    """How a task stands, what happened to it, and the whole result. Reading it settles nothing. Raises ToolError."""
    full = await _full(speaks, given.task_id)
    return _status(own, full.delegation, full.result, full.timeline)


async def cancel(speaks: Speaks, own: str, given: types.CancelArguments) -> dict[str, Any]:
    """Ends a task that one has delegated; one that has ended stays as it is. Raises ToolError."""
    path = f"/workspaces/{_part(own)}/delegations/{_part(given.task_id)}/cancel"
    told = await speaks.call("POST", path, body={"reason": given.reason} if given.reason else {})
    item = _shaped(told, DelegationItem)
    return _status(own, item, item.result, ())


async def note(speaks: Speaks, own: str, given: types.ReportArguments) -> dict[str, Any]:
    """Says how far one's work on a task is. Raises ToolError."""
    said = {"current_step": given.current_step, "tools_used": given.tools_used, "eta_hint": given.eta_hint}
    body: dict[str, Any] = {name: value for name, value in said.items() if value}
    if given.percent >= 0:
        body["percent"] = given.percent
    path = f"/workspaces/{_part(own)}/delegations/{_part(given.task_id)}/status"
    told = _shaped(await speaks.call("POST", path, body=body), _Taken)
    return _plain(types.Noted(task_id=given.task_id, noted=told.noted, status=told.delegation_status))


class _Taken(Struct, frozen=True):
    """What the route of progress answers."""

    delegation_status: str
    noted: bool = True


def _status(own: str, item: DelegationItem, result: str | None, timeline: Sequence[DelegationFact]) -> dict[str, Any]:
    said = item.progress
    return _plain(
        types.TaskStatus(
            task_id=item.delegation_id,
            workspace_id=own,
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
            current_step="" if said is None else said.current_step,
            tools_used=[] if said is None else said.tools_used,
            eta_hint="" if said is None else said.eta_hint,
            percent=None if said is None else said.percent,
            deadline=item.deadline,
            timeline=[_entry(each) for each in timeline],
        )
    )


def _entry(fact: DelegationFact) -> types.TimelineEntry:
    return types.TimelineEntry(
        at=fact.at,
        fact=fact.fact,
        status=fact.status,
        phase=fact.phase,
        attempt=fact.attempt,
        late=fact.late,
        detail=fact.detail or "",
    )


async def _full(speaks: Speaks, task_id: str) -> DelegationFull:
    return _shaped(await speaks.call("GET", f"/delegations/{_part(task_id)}"), DelegationFull)


def _part(id_: str) -> str:
    """An id as one segment of a path. Raises ToolError if it would lead somewhere else."""
    if not id_.strip("."):
        raise ToolError(f"{id_!r} names no task; give the task_id that delegating gave you.", "bad_arguments")
    return quote(id_, safe="")


def _shaped(answer: Any, shape: type[_Shape]) -> _Shape:
    """What a route answered. Raises ToolError if it is something else."""
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        said = shorten(str(error), _MOST_REPEATED)
        raise ToolError(
            f"the server answered something that this version does not know ({said}). What was asked may have been "
            "done. Tell the person that agent and server differ in version.",
            "unknown_answer",
        ) from None


def _plain(told: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(told)
    return found
