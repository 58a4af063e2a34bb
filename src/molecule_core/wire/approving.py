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

from molecule_core.ground.clock import Clock
from molecule_core.ground.text import shorten
from molecule_core.wire import approvaltypes as types
from molecule_core.wire.approvals import Holder, Ruling
from molecule_core.wire.delegating import FIRST_SECONDS, SLICE_SECONDS, Seats, known_seat, those
from molecule_core.wire.inbox import APPROVALS, InboxMessage
from molecule_core.wire.speaks import Speaks
from molecule_core.wire.toolspec import LEAVE, ToolError, unknown_answer
from molecule_core.wire.verbs import Progress, key_headers

NAMES = ("request_approval", "decide_approval")
"""The tools, each of which is one local verb of every host: `run`."""
KIND, _ = APPROVALS
"""The kind of the message by which somebody is asked to decide."""
NEEDS_LEAVE = "approval_needed"
"""The refusal of what a rule has stopped."""
# Between two questions to which the answer was the same: a server that does not hold them is not to be flooded.
_LEAST_SECONDS = 1.0
_MOST_REPEATED = 300
_OPEN = ("pending", "info_requested")
# By what they are refused who come too late: nothing is left to be decided.
_OVER = ("already_decided", "approval_moved_on", "approval_ended")


class Standing(Struct, frozen=True, kw_only=True):
    """As much of an approval as its parties need (`ApprovalItem`)."""

    approval_id: str
    workspace_id: str
    action: str
    details: dict[str, Any]
    edited: dict[str, Any] | None
    status: str
    revision: int
    action_hash: str
    holder: Holder
    decided: Ruling | None
    expires_at: str
    seq: int


class Version(NamedTuple):
    """What is decided about, as it was shown: an approval whose action was changed has another one."""

    revision: int
    action_hash: str


Shown = dict[str, set[Version]]
"""For each workspace, which versions of an approval its agent has seen."""


def shown_in(messages: Iterable[InboxMessage], given: Struct) -> Shown:
    """Which versions of the approval that a call is about stand in these messages, which an agent was shown."""
    found: Shown = {}
    if isinstance(given, types.DecideArguments):
        for each in messages:
            if each.kind == KIND and each.approval_id == given.approval_id:
                version = Version(each.revision, each.action_hash)
                found.setdefault(each.arrival_workspace_id, set()).add(version)
    return found


async def run(
    seats: Seats,
    given: Struct,
    call: str = "",
    *,
    clock: Clock,
    progress: Progress | None = None,
    shown: Shown | None = None,
    thread_id: str = "",
) -> dict[str, Any]:
    """Runs a tool about approvals as the seat that it is for. `call`: the name that the caller's host gives this call,
    which makes a repetition of it harmless. `shown`: what its agent has seen, where that is known. `thread_id`: the
    thread in which leave is asked for. Raises ToolError."""
    match given:
        case types.RequestArguments():
            own, speaks = _requesting(seats, given.via_workspace)
            key = f"{own}:{call}" if call else ""
            return await request(speaks, own, given, key, clock=clock, progress=progress, thread_id=thread_id)
        case types.DecideArguments():
            own, speaks = await _deciding(seats, given.via_workspace, given.approval_id)
            await _check_not_own(seats, own, speaks, given)
            return await decide(speaks, own, given, (shown or {}).get(own, set()))
    raise TypeError(f"{type(given).__name__} is of no tool about approvals")


# -- as whom -----------------------------------------------------------------------------------------------------------


def _requesting(seats: Seats, named: str) -> tuple[str, Speaks]:
    if (known := known_seat(seats, named)) is not None:
        return known
    raise ToolError(
        "you sit in several workspaces; say with via_workspace as which one you want leave: "
        f"{', '.join(id_ for id_, _ in seats)}.",
        "ambiguous_workspace",
    )


async def _deciding(seats: Seats, named: str, approval_id: str) -> tuple[str, Speaks]:
    """The workspace that decides: the named one, the only one, the one that is asked, or one that was. Raises
    ToolError."""
    if (known := known_seat(seats, named)) is not None:
        return known
    held = await those(seats, [_holds(speaks, id_, approval_id) for id_, speaks in seats])
    found = held or await those(seats, [_sees(speaks, id_, approval_id) for id_, speaks in seats])
    if found:
        return found[0]
    raise ToolError(
        f"none of your workspaces was asked about an approval {shorten(approval_id, _MOST_REPEATED)}; yours: "
        f"{', '.join(id_ for id_, _ in seats)}.",
        "unknown_approval",
    )


async def _check_not_own(seats: Seats, own: str, speaks: Speaks, given: types.DecideArguments) -> None:
    """An agent that sits in the requester's seat too decides nothing of it in another one: it would be its own word.
    Only it knows that; the server sees two workspaces. It may pass it on. Raises ToolError."""
    others = [id_ for id_, _ in seats if id_ != own]
    if not others or given.decision == "escalate":
        return
    requester = (await _item(speaks, own, given.approval_id)).workspace_id
    if requester in others:
        raise ToolError(
            f"you have asked for this approval yourself, as {requester}, and decide nothing of your own in another "
            "seat either. Decide escalate: somebody else is asked then.",
            "own_approval",
        )


async def _holds(speaks: Speaks, own: str, approval_id: str) -> bool:
    return (await _item(speaks, own, approval_id)).holder.workspace_id == own


async def _sees(speaks: Speaks, own: str, approval_id: str) -> bool:
    await _item(speaks, own, approval_id)
    return True


# -- asking for leave --------------------------------------------------------------------------------------------------


async def request(
    speaks: Speaks,
    own: str,
    given: types.RequestArguments,
    key: str = "",
    *,
    clock: Clock,
    progress: Progress | None = None,
    thread_id: str = "",
) -> dict[str, Any]:
    """Asks for leave, from a thread or from none, and waits for the decision, slice by slice, also while the server is
    away; if it does not come in that time, the receipt says so. Who stops waiting withdraws nothing: the decision comes
    into the inbox. Raises ToolError if nothing was asked, or if that is not known."""
    begun = clock.monotonic()
    item = item_of(await speaks.call("POST", path_of(own), body=_asked(given, thread_id), headers=key_headers(key)))
    slice_seconds = SLICE_SECONDS if progress is None else FIRST_SECONDS
    note = ""
    while item.status == "pending" and (left := given.wait - (clock.monotonic() - begun)) > 0:
        try:
            item = await waited(speaks, own, item, min(left, slice_seconds), clock)
        except ToolError as error:
            note = f"It is open, but the decision could not be waited for: {error.text}"
            if not error.passes:
                break
            await clock.wait(asyncio.get_running_loop().create_future(), min(left, _LEAST_SECONDS))
            continue
        note = ""
        if progress is not None:
            await progress(min(given.wait, clock.monotonic() - begun), given.wait, _how_far(item))
        slice_seconds = SLICE_SECONDS
    return _receipt(own, item, note)


def _asked(given: types.RequestArguments, thread_id: str) -> dict[str, Any]:
    told: dict[str, Any] = {"action": given.action, "reason": given.reason, "source": "tool"}
    told |= {"details": given.details} if given.details else {}
    told |= {"cost": given.cost} if given.cost is not UNSET else {}  # control: approval-cost
    told |= {"expires_in": given.expires_in} if given.expires_in else {}
    told |= {"thread_id": thread_id} if thread_id else {}
    return {**told, "task_id": given.task_id} if given.task_id else told


async def waited(speaks: Speaks, own: str, item: Standing, seconds: float, clock: Clock) -> Standing:
    """How an approval stands after so many seconds, or as soon as it stands otherwise. Raises ToolError."""
    asked = clock.monotonic()
    query = {"wait": max(1, min(math.ceil(seconds), SLICE_SECONDS)), "seq": item.seq}
    path = path_of(own, item.approval_id)
    news = item_of(await speaks.call("GET", path, query=query))
    rest = min(seconds, _LEAST_SECONDS) - (clock.monotonic() - asked)
    if rest > 0 and news.seq == item.seq and is_open(news):
        await clock.wait(asyncio.get_running_loop().create_future(), rest)
    return news


def waits(path: str, query: Mapping[str, Any] | None) -> bool:
    """Whether a request waits for what becomes of an approval."""
    return "/approvals/" in path and bool(query and query.get("wait"))


def has_ended(answer: Any) -> bool:
    """Whether an answer shows an approval that nobody waits for any more."""
    return not (isinstance(answer, dict) and answer.get("status") in _OPEN)


def is_open(item: Standing) -> bool:
    """Whether nobody has decided yet."""
    return item.status in _OPEN


def _how_far(item: Standing) -> str:
    who = item.holder.name or "a person"
    return {"pending": f"waiting for {who}", "info_requested": "a question was asked"}.get(item.status, item.status)


_ADVICE = {
    "pending": "It is open: do nothing of it yet, and do not ask again. The decision comes into your inbox as a "
    "message of kind approval_decision; go on with other work.",
    "info_requested": "Who decides wants to know more: the question comes into your inbox. Answer that message; what "
    "you wanted to do still waits.",
    "approved": "You may do this, once, and exactly as `details` says.",
    "denied": "Do not do it, and do not try it in another way.",
    "expired": "Nobody has decided in time, which means no: do not do it.",
    "withdrawn": "It was withdrawn: do not do it.",
}
_EDITED = "The details were changed by who decided: what you proposed is not what you may do."


def _receipt(own: str, item: Standing, note: str) -> dict[str, Any]:
    edited = item.edited is not None
    notes = [_ADVICE.get(item.status, ""), _EDITED if edited and item.status == "approved" else "", note]
    return _plain(
        types.ApprovalReceipt(
            approval_id=item.approval_id,
            workspace_id=own,
            action=item.action,
            status=item.status,
            settled=not is_open(item),
            revision=item.revision,
            action_hash=item.action_hash,
            details=item.details,
            edited=edited,
            holder=_holder(item),
            decided_by="" if item.decided is None else item.decided.by.name or item.decided.by.kind,
            said="" if item.decided is None else item.decided.note,
            expires_at=item.expires_at,
            note=" ".join(filter(None, notes)),
        )
    )


def _holder(item: Standing) -> str:
    return item.holder.name or {"person": "a person", "none": ""}.get(item.holder.kind, item.holder.kind)


# -- deciding ----------------------------------------------------------------------------------------------------------


async def decide(speaks: Speaks, own: str, given: types.DecideArguments, shown: set[Version]) -> dict[str, Any]:
    """Decides about what was shown, and nothing else. Raises ToolError."""
    about = await _version(speaks, own, given, shown)
    body: dict[str, Any] = {"decision": given.decision, **about._asdict()}
    body |= {"note": given.note} if given.note else {}
    body |= {"details": given.details} if given.details is not UNSET else {}  # control: approval-details
    told = await speaks.call("POST", path_of(own, given.approval_id, "decide"), body=body)
    item = item_of(told)
    settled = not is_open(item)
    return _plain(
        types.ApprovalDecided(
            approval_id=item.approval_id,
            workspace_id=own,
            action=item.action,
            decision=given.decision,
            status=item.status,
            settled=settled,
            revision=item.revision,
            action_hash=item.action_hash,
            holder=_holder(item),
            note=_FOLLOWS.get(given.decision, "") if not settled else "Who asked is told. Nothing is left to do.",
        )
    )


_FOLLOWS = {
    "escalate": "It is decided above you now. Nothing is left to do.",
    "more_info": "Who asked is asked. The answer comes as a message of its own, which you decide then.",
}


async def _version(speaks: Speaks, own: str, given: types.DecideArguments, shown: set[Version]) -> Version:
    """What a decision is about. Where a call leaves it out, it is what its agent was shown, and never merely what
    stands there now: an action may have been changed since. What was never changed has only one version. Raises
    ToolError."""
    fitting = [each for each in shown if given.revision in (0, each.revision)]
    fitting = [each for each in fitting if given.action_hash in ("", each.action_hash)]
    if given.revision and given.action_hash:
        return Version(given.revision, given.action_hash)
    if len(fitting) == 1:
        return fitting[0]
    if not shown:
        item = await _item(speaks, own, given.approval_id)
        now = Version(item.revision, item.action_hash)
        fits = given.revision in (0, now.revision) and given.action_hash in ("", now.action_hash)
        is_sure = given.action_hash or now.revision == 1 or not is_open(item)  # what has ended is decided by nobody
        if fits and is_sure:
            return now
    raise ToolError(
        f"approval {given.approval_id} has changed since it was first asked for. Give the revision and the action_hash "
        "that stand in the message which you decide about: so no other action than that one can be approved.",
        "approval_changed",
    )


def stopped(problem: Mapping[str, Any]) -> ToolError:
    """What a call is told that a rule of its workspace has stopped: how it goes on."""
    approval = problem.get("approval")
    item = approval if isinstance(approval, dict) else {}
    if not isinstance(item.get("approval_id"), str):
        return ToolError(shorten(str(problem.get("error", "this needs an approval")), _MOST_REPEATED), NEEDS_LEAVE)
    again = f'call the tool again with the very same arguments and {LEAVE} "{item["approval_id"]}"'
    what = f"{shorten(str(item.get('action')), _MOST_REPEATED)} needs an approval, by a rule of your workspace."
    if item.get("status") == "approved":
        return ToolError(f"{what} It is approved: {again}.", NEEDS_LEAVE)
    how = f"It is asked for. Wait for the decision, which comes into your inbox; if it is approved, {again}. If not, do"
    return ToolError(f"{what} {how} not do it.", NEEDS_LEAVE)


def over(error: ToolError) -> bool:
    """Whether a refused decision shows that there is nothing left to be decided."""
    return error.code in _OVER


async def _item(speaks: Speaks, own: str, approval_id: str) -> Standing:
    return item_of(await speaks.call("GET", path_of(own, approval_id)))


def path_of(own: str, approval_id: str = "", verb: str = "") -> str:
    """A route of approvals. Raises ToolError if an id would lead somewhere else."""
    parts = ["workspaces", own, "approvals", *filter(None, [approval_id, verb])]
    if not approval_id.strip(".") and approval_id:
        raise ToolError(f"{approval_id!r} names no approval; give the approval_id of the message.", "bad_arguments")
    return "/" + "/".join(quote(each, safe="") for each in parts)


def item_of(answer: Any) -> Standing:
    """What a route answered. Raises ToolError if it is something else."""
    try:
        return msgspec.convert(answer, Standing)
    except msgspec.ValidationError as error:
        said = shorten(str(error), _MOST_REPEATED)
        raise unknown_answer(said) from None


def _plain(told: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(told)
    return found
