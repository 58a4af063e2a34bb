"""What a page does with a snapshot and the events behind it, written from the wire's words alone."""

from copy import deepcopy
from typing import Any

# Only heartbeats carry these, and they are broadcast, not journaled: who missed one has the older value until the next.
# `last_error_rate` is told when it changes how a workspace stands, and between that by no event at all.
TOLD_BY_HEARTBEATS = ("active_tasks", "uptime_seconds", "current_task", "last_heard_at", "last_error_rate")
_LINE, _MOST_UNREAD = 80, 100
_STATUS = {
    "WORKSPACE_ONLINE": "online",
    "WORKSPACE_DEGRADED": "degraded",
    "WORKSPACE_OFFLINE": "offline",
    "WORKSPACE_AWAITING_AGENT": "awaiting_agent",
    "WORKSPACE_PAUSED": "paused",
    "WORKSPACE_HIBERNATED": "hibernated",
}

_LIMIT = ("limited_until", "limit_reason")
_WAITING = ("overdue", "outside")
_ENDS = ("answered", "declined", "forgotten")

_RANKS = ("pending", "dispatched", "queued", "unknown_after_send")
_OF_SENT = (
    "delegation_id",
    "target_id",
    "task_preview",
    "seq",
    "root_id",
    "depth",
    "deadline_at",
    "parent_id",
    "retry_of",
)
_BEGUN = {"status": "pending", "phase": "waiting", "attempt": 0, "taken_at": None, "error": None, "progress": None}
# Signs of life beside events (progress) are broadcast, not journaled.
TOLD_BY_PROGRESS = ("progress", "life_at")

State = dict[str, Any]


def state_of(snapshot: dict[str, Any]) -> State:
    """A snapshot by ids."""
    return {
        "as_of": snapshot["as_of"],
        "workspaces": {each["id"]: each for each in deepcopy(snapshot["workspaces"])},
        "chats": {each["workspace_id"]: each for each in deepcopy(snapshot["chats"])},
        "unanswered": {
            each["workspace_id"]: {name: set(each[name]) for name in _WAITING} for each in snapshot["unanswered"]
        },
        "delegations": {each["delegation_id"]: each for each in deepcopy(snapshot["delegations"])},
        "approvals": {each["approval_id"]: each for each in deepcopy(snapshot["approvals"])},
    }


def follow(state: State, events: list[dict[str, Any]]) -> State:
    """The state after these events."""
    state = deepcopy(state)
    for event in events:
        apply(state, event)
    return state


def apply(state: State, event: dict[str, Any]) -> None:
    """One journaled event: ignored if the state has it already."""
    if event["seq"] <= state["as_of"]:
        return
    state["as_of"] = event["seq"]
    if event["entity"]["kind"] == "workspace":
        _workspace(state, event)
    elif event["event"] in ("USER_MESSAGE", "AGENT_MESSAGE"):
        _chat(state, event)
    elif event["event"] in ("MESSAGE_TICK", "MESSAGE_OVERDUE", "MESSAGE_DRAFTED"):
        _answering(state, event)
    elif event["entity"]["kind"] == "delegation":
        _delegation(state, event)
    elif event["entity"]["kind"] == "approval":
        known = state["approvals"].get(event["entity"]["id"])
        if known is None or event["entity"]["rev"] > known["seq"]:
            state["approvals"][event["entity"]["id"]] = event["payload"]
    elif event["event"] == "CHAT_PRUNED" and event["workspace_id"] in state["chats"]:
        chat = state["chats"][event["workspace_id"]]
        chat["unread"] = sum(seq > chat["read_seq"] for seq in event["payload"]["kept"])


def _workspace(state: State, event: dict[str, Any]) -> None:
    workspaces, payload, entity = state["workspaces"], event["payload"], event["entity"]
    known = workspaces.get(entity["id"])
    if known is not None and entity["rev"] <= known["rev"]:
        return
    if event["event"] == "WORKSPACE_REMOVED":
        workspaces.pop(entity["id"], None)
        state["chats"].pop(entity["id"], None)
        state["unanswered"].pop(entity["id"], None)
    elif event["event"] in ("WORKSPACE_PROVISIONING", "WORKSPACE_UPDATED"):
        heard = {name: (known or {}).get(name) for name in ("current_task", "last_heard_at")}
        workspaces[entity["id"]] = {**payload, **heard}
    elif known is not None:
        names = ("delivery_mode", "agent_card", "parent_id", "name", *_LIMIT)
        told = {name: payload[name] for name in names if name in payload}
        if event["event"] == "WORKSPACE_LIMIT_ENDED":
            told |= dict.fromkeys(_LIMIT)
        known.update(told, rev=entity["rev"], updated_at=event["timestamp"])
        known["status"] = _STATUS.get(event["event"], known["status"])


def _chat(state: State, event: dict[str, Any]) -> None:
    if event["workspace_id"] not in state["workspaces"]:
        return
    payload, by_agent = event["payload"], event["event"] == "AGENT_MESSAGE"
    chat = state["chats"].setdefault(
        event["workspace_id"], {"workspace_id": event["workspace_id"], "unread": 0, "read_seq": 0}
    )
    chat["unread"] = min(_MOST_UNREAD, chat["unread"] + by_agent)
    chat["last"] = {
        "id": event["entity"]["id"],
        "role": "agent" if by_agent else "user",
        "content": _line(payload["message"]) if by_agent else payload["summary"],
        "timestamp": event["timestamp"],
        "seq": payload["seq"],
    }


def _answering(state: State, event: dict[str, Any]) -> None:
    workspace_id, payload = event["workspace_id"], event["payload"]
    if workspace_id not in state["workspaces"]:
        return
    waiting = state["unanswered"].setdefault(workspace_id, {name: set() for name in _WAITING})
    if event["event"] == "MESSAGE_OVERDUE":
        waiting["overdue"].add(payload["seq"])
    elif event["event"] == "MESSAGE_DRAFTED":
        _put(waiting["outside"], payload["seq"], present=payload["state"] == "kept")
    elif payload["tick"] in _ENDS:
        for seqs in waiting.values():
            seqs.difference_update(range(payload["first_seq"], payload["last_seq"] + 1))
    if not any(waiting.values()):
        del state["unanswered"][workspace_id]


def _delegation(state: State, event: dict[str, Any]) -> None:
    delegations, payload, entity = state["delegations"], event["payload"], event["entity"]
    known = delegations.get(entity["id"])
    if event["event"] == "DELEGATION_SENT":
        whole = {name: payload.get(name) for name in _OF_SENT}
        whole |= {"source_id": event["workspace_id"], "created_at": event["timestamp"], "rev": 0}
        delegations[entity["id"]] = known = {**_BEGUN, **whole}
    elif event["event"] != "DELEGATION_STATUS":
        delegations.pop(entity["id"], None)
        return
    if known is not None and _comes_later(known, payload.get("status", "pending"), entity["rev"]):
        told = {name: payload[name] for name in ("status", "phase", "attempt", "taken_at") if name in payload}
        known.update(told, rev=entity["rev"], life_at=event["timestamp"])


def _comes_later(known: dict[str, Any], status: str, rev: int) -> bool:
    """A status never gives way to one of a lower rank, nor a change to an earlier one."""
    return (_RANKS.index(status), rev) > (_RANKS.index(known["status"]), known["rev"])


def _put(seqs: set[int], seq: int, *, present: bool) -> None:
    if present:
        seqs.add(seq)
    else:
        seqs.discard(seq)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"


def compared(state: State) -> State:
    """A state without what only heartbeats and progress tell."""
    kept = deepcopy(state)
    for workspace in kept["workspaces"].values():
        for name in TOLD_BY_HEARTBEATS:
            workspace.pop(name, None)
    for delegation in kept["delegations"].values():
        for name in TOLD_BY_PROGRESS:
            delegation.pop(name, None)
    return kept
