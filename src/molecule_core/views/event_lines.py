"""Describes events for people: kind, state, and a line of actor, verb, target and text. Pure.

Each event of `wire/schemas/events.py` has a kind and a row in `_DESCRIBERS`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from molecule_core.common.text import single_line
from molecule_core.wire.schemas.event_log import EventDirection, EventKind, EventLine, EventState

Payload = Mapping[str, Any]
_TEXT_LENGTH = 240
PERSON, SERVER = "A person", "The server"
_PREFIXES: tuple[tuple[str, EventKind], ...] = (
    ("DELEGATION_", "delegations"),
    ("APPROVAL_", "approvals"),
    ("THREAD_", "threads"),
    ("TURN_", "threads"),
    ("MEMORY_", "memory"),
    ("INSTRUCTION_", "instructions"),
    ("MESSAGE_", "delivery"),
    ("CHAIN_", "delivery"),
    ("SHARED_CONTEXT_", "prompts"),
    ("PROMPT_", "prompts"),
    ("PEOPLE_", "people"),
)
_KINDS: dict[str, EventKind] = {
    **dict.fromkeys(("USER_MESSAGE", "AGENT_MESSAGE", "BROADCAST_MESSAGE", "ACTIVITY_LOGGED"), "messages"),
    "CHAT_PRUNED": "delivery",
    **dict.fromkeys(
        (
            *("WORKSPACE_ONLINE", "WORKSPACE_DEGRADED", "WORKSPACE_OFFLINE", "WORKSPACE_AWAITING_AGENT"),
            *("WORKSPACE_PAUSED", "WORKSPACE_HIBERNATED", "WORKSPACE_LIMITED", "WORKSPACE_LIMIT_ENDED"),
            *("BUDGET_CHANGED", "BUDGET_DELETED", "BUDGET_NOTICED", "BUDGET_EXHAUSTED"),
            *("SCHEDULE_CHANGED", "SCHEDULE_DELETED", "SCHEDULE_RAN"),
            "AGENT_CARD_UPDATED",
        ),
        "agents",
    ),
}

_ROW_EVENT = "ACTIVITY_LOGGED"
_OF_ROW: dict[str, EventDirection] = {"a2a_receive": "in", "a2a_send": "out"}
_DIRECTIONS: dict[str, EventDirection] = {
    "USER_MESSAGE": "in",
    "AGENT_MESSAGE": "out",
    "BROADCAST_MESSAGE": "out",
    "DELEGATION_SENT": "out",
    "DELEGATION_COMPLETE": "in",
    "DELEGATION_FAILED": "in",
}


class _Description(NamedTuple):
    """A line before names are looked up, and the state."""

    verb: str
    text: Any = ""
    target_id: str | None = None
    state: EventState | None = None
    actor: str | None = None
    """Who acts, if that is not the workspace of the event. The workspace is the target then, unless there is one."""
    actor_id: str | None = None
    target: str | None = None
    """The name of the target, if it is known, or of a target that is no workspace."""


def kind_of(name: str) -> EventKind:
    """Return the kind of an event by its name."""
    if name in _KINDS:
        return _KINDS[name]
    return next((kind for prefix, kind in _PREFIXES if name.startswith(prefix)), "organisation")


def may_have_state(name: str, state: EventState) -> bool:
    """Return whether events of this name can say this about the work. If so, their payloads say whether they do."""
    return state in _POSSIBLE_STATES.get(name, ())


def direction_of(name: str, payload: Payload) -> EventDirection | None:
    """Return the direction of an event: messages, tasks and their results. None: of no other event."""
    if name == _ROW_EVENT:
        return _OF_ROW.get(str(payload.get("activity_type")))
    return _DIRECTIONS.get(name)


def may_have_direction(name: str, direction: EventDirection) -> bool:
    """Return whether events of this name can have a direction. If so, their payloads say whether they do."""
    return name == _ROW_EVENT or _DIRECTIONS.get(name) == direction


def describe_event(
    name: str, workspace_id: str, payload: Payload, name_of: Callable[[str], str | None]
) -> tuple[EventLine, EventState | None]:
    """Return the line and the state of an event. `name_of`: the name of a workspace by its id."""
    try:
        found = _DESCRIBERS[name](payload)
    except (AttributeError, KeyError, TypeError, ValueError):  # a payload of another version
        found = _Description(name.lower().replace("_", " "))
    target_id = found.target_id
    if found.actor is None and found.actor_id is None:
        actor_id, actor = workspace_id or None, _name(workspace_id, name_of) if workspace_id else SERVER
    else:
        actor_id, actor = found.actor_id, found.actor or _name(found.actor_id, name_of)
        if target_id is None and workspace_id != actor_id:
            target_id = workspace_id
    line = EventLine(
        actor=actor,
        verb=found.verb,
        actor_id=actor_id,
        target=found.target or (_name(target_id, name_of) if target_id else ""),
        target_id=target_id or None,
        text=single_line(str(found.text or ""), _TEXT_LENGTH),
    )
    return line, found.state


def _name(workspace_id: str | None, name_of: Callable[[str], str | None]) -> str:
    return (workspace_id and name_of(workspace_id)) or "an unknown workspace"


# -- messages ----------------------------------------------------------------------------------------------------------

_OWN_ROWS = {
    "task_update": "updated its task",
    "agent_log": "logged",
    "skill_promotion": "added a skill",
    "memory_write": "stored a memory",
    "memory_write_global": "stored a memory for the organisation",
}
_RECEIVED = {
    "delegation": "delegated to",
    "delegation_result": "returned a result to",
    "approval_request": "asked for approval from",
    "approval_decision": "sent a decision to",
    "broadcast": "sent a broadcast to",
    "chat_upload_receive": "sent a file to",
}


def _user_message(payload: Payload) -> _Description:
    return _Description("wrote to", payload.get("summary"), actor=PERSON)


def _agent_message(payload: Payload) -> _Description:
    verb = "asked people" if payload.get("options") else "wrote to people"
    return _Description(verb, payload["message"], state="waiting" if payload.get("options") else None)


def _broadcast(payload: Payload) -> _Description:
    return _Description("sent a broadcast", payload.get("summary"))


def _activity(payload: Payload) -> _Description:
    type_, summary = payload["activity_type"], payload.get("summary")
    state: EventState | None = "failed" if payload.get("status") == "error" or type_ == "error" else None
    if type_ == "a2a_receive":
        verb, source_id = _RECEIVED.get(payload.get("kind") or "", "wrote to"), payload.get("source_id")
        if source_id:
            return _Description(verb, summary, state=state, actor_id=source_id)
        sender = SERVER if payload.get("kind") in ("system", *_RECEIVED) else PERSON
        return _Description(verb, summary, state=state, actor=sender)
    if type_ == "a2a_send":
        target_id = payload.get("target_id")
        return _Description("sent to" if target_id else "sent", summary, target_id, state)
    if type_ == "delegation":
        return _Description("noted a delegation to", summary, payload.get("target_id"), state)
    if type_ == "error":
        return _Description("reported an error", summary or payload.get("error_detail"), state=state)
    return _Description(_OWN_ROWS.get(type_, "logged"), summary or payload.get("error_detail"), state=state)


# -- delivery ----------------------------------------------------------------------------------------------------------

_TICKS: dict[str, tuple[str, EventState | None]] = {
    "wake_asked": ("was asked to wake up for", None),
    "in_inbox": ("has in its inbox", None),
    "handed_over": ("picked up", "working"),
    "acked": ("acknowledged", None),
    "failed": ("failed at", "failed"),
    "answered": ("answered", "done"),
    "declined": ("declined", "done"),
    "answered_outside": ("answered outside of Molecule", "waiting"),
    "overdue": ("has not answered in time:", "failed"),
}
_DRAFTS: dict[str, tuple[str, EventState | None]] = {
    "kept": ("has an unsent answer to", "waiting"),
    "sent": ("had its draft sent for", "done"),
    "discarded": ("had its draft discarded for", None),
}


def _tick(payload: Payload) -> _Description:
    verb, state = _TICKS.get(payload["tick"], (f"{payload['tick']}:", None))
    first, last = payload["first_seq"], payload["last_seq"]
    what = f"message {first}" if first == last else f"messages {first} to {last}"
    return _Description(verb, payload.get("reason"), state=state, target=what)


def _overdue(payload: Payload) -> _Description:
    return _Description("has not answered in time:", state="failed", target=f"message {payload['seq']}")


def _drafted(payload: Payload) -> _Description:
    verb, state = _DRAFTS[payload["state"]]
    return _Description(verb, state=state, target=f"message {payload['seq']}")


def _dead(payload: Payload) -> _Description:
    detail = payload.get("detail") or payload["reason"]
    return _Description("did not receive", detail, state="failed", target=f"message {payload['seq']}")


def _message(verb: str) -> Callable[[Payload], _Description]:
    return lambda payload: _Description(verb, target=f"message {payload['seq']}")


def _chat_pruned(_payload: Payload) -> _Description:
    return _Description("deleted old messages in the chat of", actor=SERVER)


def _chain_frozen(payload: Payload) -> _Description:
    text = f"{payload['reason']}, after {payload['messages']} messages"
    return _Description("reached a limit of messages", text, state="waiting")


def _chain_released(payload: Payload) -> _Description:
    return _Description("released the messages of", f"up to {payload['most_messages']} messages", actor=PERSON)


def _chain_ended(_payload: Payload) -> _Description:
    return _Description("ended the messages of", actor=PERSON)


# -- delegations and approvals -----------------------------------------------------------------------------------------

_PHASES: dict[str, tuple[str, EventState]] = {
    "waiting": ("has work waiting at", "waiting"),
    "sending": ("is sending work to", "working"),
    "retrying": ("is sending work again to", "working"),
    "claimed": ("had its work picked up by", "working"),
    "working": ("has work in progress at", "working"),
    "asking": ("was asked a question by", "waiting"),
}


def _delegation_sent(payload: Payload) -> _Description:
    return _Description("delegated to", payload["task_preview"], payload["target_id"], "working")


def _delegation_status(payload: Payload) -> _Description:
    verb, state = _PHASES.get(payload["phase"], ("has work at", "working"))
    return _Description(verb, payload.get("current_step") or payload.get("error"), payload["target_id"], state)


def _delegation_complete(payload: Payload) -> _Description:
    return _Description("got a result from", payload["response_preview"], payload["target_id"], "done")


def _delegation_failed(payload: Payload) -> _Description:
    is_cancelled = payload["status"] == "cancelled"
    verb = "no longer needs work from" if is_cancelled else "got no result from"
    return _Description(verb, payload["error"], payload["target_id"], "done" if is_cancelled else "failed")


def _delegation_refused(payload: Payload) -> _Description:
    text = f"limit {payload['limit']}: {payload['task_preview']}"
    return _Description("could not delegate to", text, payload["target_id"], "failed")


def _approval(verb: str, state: EventState) -> Callable[[Payload], _Description]:
    """Return what describes an event whose actor is the requester."""
    return lambda payload: _Description(
        verb, _approval_text(payload), state=state, actor=payload["requester_name"], actor_id=payload["workspace_id"]
    )


def _waiting(verb: str) -> Callable[[Payload], _Description]:
    """Return what describes an event after which the current approver has to act."""

    def describe(payload: Payload) -> _Description:
        holder = payload["holder"]
        approver = holder["workspace_id"] or "", holder["name"] or PERSON.lower()
        return _approval(verb, "waiting")(payload)._replace(target_id=approver[0], target=approver[1])

    return describe


def _decided(verb: str, state: EventState) -> Callable[[Payload], _Description]:
    """Return what describes a decision, with the one who took it."""

    def describe(payload: Payload) -> _Description:
        by = (payload.get("decided") or {}).get("by") or {}
        actor_id = by.get("id") if by.get("kind") == "workspace" else None
        return _Description(
            verb, _approval_text(payload), payload["workspace_id"], state, by.get("name") or PERSON, actor_id
        )

    return describe


def _approval_text(payload: Payload) -> str:
    return f"{payload['action']}: {payload['reason']}" if payload.get("reason") else payload["action"]


def _policies(payload: Payload) -> _Description:
    return _Description("has new approval rules", f"{payload['rules']} rules, {payload['grants']} grants")


# -- agents and the organisation ---------------------------------------------------------------------------------------


def _fixed(
    verb: str, state: EventState | None = None, *, actor: str | None = None
) -> Callable[[Payload], _Description]:
    return lambda _payload: _Description(verb, state=state, actor=actor)


def _field(verb: str, field: str, state: EventState | None = None) -> Callable[[Payload], _Description]:
    return lambda payload: _Description(verb, payload.get(field), state=state)


_RAN: dict[str, tuple[str, EventState | None]] = {
    "sent": ("got its scheduled message", None),
    "delegated": ("got its scheduled task", None),
    "queued": ("has a scheduled run that waits", "waiting"),
    "skipped": ("had a scheduled run skipped", None),
    "missed": ("missed a scheduled run", None),
    "failed": ("had a scheduled run fail", "failed"),
}


def _schedule_ran(payload: Payload) -> _Description:
    run = payload["run"]
    verb, state = _RAN[run["outcome"]]
    text = f"{payload['name']}: {run['reason']}" if run["reason"] else payload["name"]
    return _Description(verb, text, state=state)


def _schedule_changed(payload: Payload) -> _Description:
    if payload["reason"]:
        text = f"{payload['name']}: {payload['reason']}"
        return _Description("has a schedule that was paused", text, state="waiting")
    verb = "has a paused schedule" if payload["state"] == "paused" else "has another schedule"
    return _Description(verb, payload["name"])


def _budget_use(verb: str, state: EventState | None = None) -> Callable[[Payload], _Description]:
    def describe(payload: Payload) -> _Description:
        spent, limit, leased = (_budget_amount(payload, name) for name in ("spent", "limit", "leased"))
        return _Description(verb, f"{spent} of {limit} spent, {leased} leased", state=state)

    return describe


def _budget_amount(payload: Payload, name: str) -> str:
    """Return an amount of a budget; money in whole units of the currency."""
    amount = payload[name]
    return f"{amount / 1_000_000:.2f}" if payload.get("unit") == "money" else f"{amount} tokens"


def _moved(payload: Payload) -> _Description:
    parent_id = payload["parent_id"]
    return _Description("was moved below" if parent_id else "was moved to the top", target_id=parent_id)


def _members(verb: str, field: str) -> Callable[[Payload], _Description]:
    return lambda payload: _Description(verb, ", ".join(each["name"] for each in payload[field]))


def _credentials(payload: Payload) -> _Description:
    return _Description("has other tokens", f"{payload['issued']} issued, {payload['ended']} revoked")


def _oauth_grant(payload: Payload) -> _Description:
    return _Description(
        "was connected to an app" if payload["state"] == "granted" else "was disconnected from an app",
        payload["client_name"],
    )


def _created(payload: Payload) -> _Description:
    return _Description("was created", payload.get("role"))


# -- threads, memory, prompts, instructions ----------------------------------------------------------------------------


def _thread_started(payload: Payload) -> _Description:
    return _Description("started a thread", payload.get("task_name") or payload.get("path"), state="working")


_THREAD_STATES: dict[str, EventState] = {"running": "working", "completed": "done", "errored": "failed"}


def _thread_status(payload: Payload) -> _Description:
    type_, flags = payload["status"]["type"], payload["active_flags"]
    state: EventState | None = "waiting" if flags else _THREAD_STATES.get(type_)
    words = [type_, *(each.replace("_", " ") for each in flags)]
    return _Description("has a thread that is", ", ".join(words), state=state)


def _thread_item(payload: Payload) -> _Description:
    entry = payload.get("entry")
    text = entry.get("text") or entry.get("tool") or entry.get("summary") if isinstance(entry, dict) else ""
    type_ = str(payload["type"])
    words = "".join(f" {each.lower()}" if each.isupper() else each for each in type_).replace("_", " ")
    return _Description("logged in a thread", f"{words}: {text}" if text else words)


def _turn_completed(payload: Payload) -> _Description:
    status = payload["status"]
    verb = {"completed": "completed a turn", "failed": "failed in a turn"}.get(status, "was interrupted in a turn")
    state: EventState = "failed" if status == "failed" else "done"
    return _Description(verb, payload.get("error") or payload.get("final"), state=state)


def _thread_mail(payload: Payload) -> _Description:
    kind = str(payload["mail_type"]).lower().replace("_", " ")
    state: EventState | None = "failed" if payload["state"] == "failed" else None
    return _Description("has mail between threads", f"{kind}, {payload['state']}", state=state)


def _template(verb: str) -> Callable[[Payload], _Description]:
    return lambda payload: _Description(verb, f"{payload['template_id']}, version {payload['version']}")


def _template_saved(payload: Payload) -> _Description:
    verb = "saved instructions" if payload["version"] else "deleted instructions"
    return _Description(verb, f"{payload['template_id']}, version {payload['version']}", actor=PERSON)


def _template_failed(payload: Payload) -> _Description:
    text = f"{payload['template_id']}, version {payload['version']}: {payload['reason']}"
    return _Description("could not render instructions for", text, payload["workspace_id"], "failed", actor=SERVER)


_DESCRIBERS: dict[str, Callable[[Payload], _Description]] = {
    "USER_MESSAGE": _user_message,
    "AGENT_MESSAGE": _agent_message,
    "BROADCAST_MESSAGE": _broadcast,
    "ACTIVITY_LOGGED": _activity,
    "MESSAGE_TICK": _tick,
    "MESSAGE_OVERDUE": _overdue,
    "MESSAGE_DRAFTED": _drafted,
    "MESSAGE_DEAD": _dead,
    "MESSAGE_REQUEUED": _message("gets again"),
    "MESSAGE_DISCARDED": _message("no longer gets"),
    "CHAT_PRUNED": _chat_pruned,
    "CHAIN_FROZEN": _chain_frozen,
    "CHAIN_RELEASED": _chain_released,
    "CHAIN_ENDED": _chain_ended,
    "DELEGATION_SENT": _delegation_sent,
    "DELEGATION_STATUS": _delegation_status,
    "DELEGATION_COMPLETE": _delegation_complete,
    "DELEGATION_FAILED": _delegation_failed,
    "DELEGATION_REFUSED": _delegation_refused,
    "APPROVAL_REQUESTED": _waiting("requested approval from"),
    "APPROVAL_ESCALATED": _waiting("waits for approval from"),
    "APPROVAL_INFO_REQUESTED": _approval("was asked about its request", "waiting"),
    "APPROVAL_ANSWERED": _waiting("answered a question about its request to"),
    "APPROVAL_APPROVED": _decided("approved a request of", "done"),
    "APPROVAL_DENIED": _decided("denied a request of", "failed"),
    "APPROVAL_EXPIRED": _approval("got no decision on its request", "failed"),
    "APPROVAL_WITHDRAWN": _approval("withdrew its request", "done"),
    "APPROVAL_USED": _approval("used its approval", "done"),
    "APPROVAL_POLICIES_UPDATED": _policies,
    "WORKSPACE_PROVISIONING": _created,
    "WORKSPACE_UPDATED": _fixed("has other settings"),
    "WORKSPACE_ONLINE": _fixed("is online"),
    "WORKSPACE_DEGRADED": _field("has errors", "sample_error", "failed"),
    "WORKSPACE_OFFLINE": _fixed("is offline"),
    "WORKSPACE_AWAITING_AGENT": _fixed("waits for its agent"),
    "WORKSPACE_REMOVED": _fixed("was removed"),
    "WORKSPACE_PAUSED": _fixed("was paused"),
    "WORKSPACE_HIBERNATED": _fixed("was hibernated"),
    "WORKSPACE_LIMITED": _field("reached a limit", "limit_reason", "waiting"),
    "WORKSPACE_LIMIT_ENDED": _fixed("can work again after a limit"),
    "WORKSPACE_MOVED": _moved,
    "WORKSPACE_EXPANDED": _members("got a team", "children"),
    "WORKSPACE_COLLAPSED": _members("lost its team", "removed_children"),
    "EXTERNAL_CREDENTIALS_ROTATED": _credentials,
    "OAUTH_GRANT_CHANGED": _oauth_grant,
    "PEOPLE_CHANGED": _fixed("changed the people of the organisation", actor=PERSON),
    "RUNNERS_CHANGED": _fixed("changed the machines of the organisation", actor=SERVER),
    "AGENT_CARD_UPDATED": _fixed("updated its card"),
    "BUDGET_CHANGED": _fixed("has another budget"),
    "BUDGET_DELETED": _fixed("lost a budget"),
    "BUDGET_NOTICED": _budget_use("has spent 80 % of a budget"),
    "BUDGET_EXHAUSTED": _budget_use("is over budget", "waiting"),
    "SCHEDULE_CHANGED": _schedule_changed,
    "SCHEDULE_DELETED": lambda payload: _Description("lost a schedule", payload["name"]),
    "SCHEDULE_RAN": _schedule_ran,
    "MEMORY_WRITTEN": _field("stored a memory", "namespace"),
    "MEMORY_FORGOTTEN": _fixed("deleted a memory"),
    "SHARED_CONTEXT_UPDATED": lambda payload: _Description("shares files with its team", f"{payload['files']} files"),
    "PROMPT_BUILT": lambda payload: _Description("rebuilt its prompt", f"about {payload['tokens']:,} tokens"),
    "THREAD_STARTED": _thread_started,
    "THREAD_STATUS_CHANGED": _thread_status,
    "THREAD_ITEM": _thread_item,
    "TURN_STARTED": _fixed("began a turn", "working"),
    "TURN_COMPLETED": _turn_completed,
    "THREAD_CLOSED": _fixed("closed a thread", "done"),
    "THREAD_MAIL": _thread_mail,
    "INSTRUCTION_TEMPLATE_SAVED": _template_saved,
    "INSTRUCTION_TEMPLATE_FAILED": _template_failed,
    "INSTRUCTION_TEMPLATE_ROLLED_BACK": _template("rolled instructions back"),
}
_DONE, _FAILED, _WAITING, _WORKING = (
    frozenset[EventState]((each,)) for each in ("done", "failed", "waiting", "working")
)
_POSSIBLE_STATES: dict[str, frozenset[EventState]] = {
    "AGENT_MESSAGE": _WAITING,
    "ACTIVITY_LOGGED": _FAILED,
    "MESSAGE_TICK": _DONE | _FAILED | _WAITING | _WORKING,
    "MESSAGE_OVERDUE": _FAILED,
    "MESSAGE_DRAFTED": _DONE | _WAITING,
    "MESSAGE_DEAD": _FAILED,
    "CHAIN_FROZEN": _WAITING,
    "DELEGATION_SENT": _WORKING,
    "DELEGATION_STATUS": _WAITING | _WORKING,
    "DELEGATION_COMPLETE": _DONE,
    "DELEGATION_FAILED": _DONE | _FAILED,
    "DELEGATION_REFUSED": _FAILED,
    **dict.fromkeys(
        ("APPROVAL_REQUESTED", "APPROVAL_ESCALATED", "APPROVAL_INFO_REQUESTED", "APPROVAL_ANSWERED"), _WAITING
    ),
    **dict.fromkeys(("APPROVAL_APPROVED", "APPROVAL_WITHDRAWN", "APPROVAL_USED"), _DONE),
    **dict.fromkeys(("APPROVAL_DENIED", "APPROVAL_EXPIRED"), _FAILED),
    "WORKSPACE_DEGRADED": _FAILED,
    "WORKSPACE_LIMITED": _WAITING,
    "BUDGET_EXHAUSTED": _WAITING,
    "SCHEDULE_CHANGED": _WAITING,
    "SCHEDULE_RAN": _FAILED | _WAITING,
    "THREAD_STARTED": _WORKING,
    "THREAD_STATUS_CHANGED": _DONE | _FAILED | _WAITING | _WORKING,
    "TURN_STARTED": _WORKING,
    "TURN_COMPLETED": _DONE | _FAILED,
    "THREAD_CLOSED": _DONE,
    "THREAD_MAIL": _FAILED,
    "INSTRUCTION_TEMPLATE_FAILED": _FAILED,
}
"""States that descriptions of events can have; those of other events have none."""
