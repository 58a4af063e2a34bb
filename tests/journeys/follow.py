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

State = dict[str, Any]


def state_of(snapshot: dict[str, Any]) -> State:
    """A snapshot by ids."""
    return {
        "as_of": snapshot["as_of"],
        "workspaces": {each["id"]: each for each in deepcopy(snapshot["workspaces"])},
        "chats": {each["workspace_id"]: each for each in deepcopy(snapshot["chats"])},
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
    elif event["event"] in ("WORKSPACE_PROVISIONING", "WORKSPACE_UPDATED"):
        heard = {name: (known or {}).get(name) for name in ("current_task", "last_heard_at")}
        workspaces[entity["id"]] = {**payload, **heard}
    elif known is not None:
        told = {name: payload[name] for name in ("delivery_mode", "agent_card", "parent_id", "name") if name in payload}
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


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"


def compared(state: State) -> State:
    """A state without what only heartbeats tell."""
    kept = deepcopy(state)
    for workspace in kept["workspaces"].values():
        for name in TOLD_BY_HEARTBEATS:
            workspace.pop(name, None)
    return kept
