"""Decides whether an event carries a text into the agent that it is about, or out of it. Pure."""

from collections.abc import Mapping
from typing import Any

from molecule_core.wire.schemas.event_log import EventDirection

_ROWS = "ACTIVITY_LOGGED"
_OF_ROW: dict[str, EventDirection] = {"a2a_receive": "in", "a2a_send": "out"}
_DIRECTIONS: dict[str, EventDirection] = {
    "USER_MESSAGE": "in",
    "AGENT_MESSAGE": "out",
    "BROADCAST_MESSAGE": "out",
    "DELEGATION_SENT": "out",
    "DELEGATION_COMPLETE": "in",
    "DELEGATION_FAILED": "in",
}


def direction_of(name: str, payload: Mapping[str, Any]) -> EventDirection | None:
    """Return the direction of an event: messages, tasks and their results. None: of no other event."""
    if name == _ROWS:
        return _OF_ROW.get(str(payload.get("activity_type")))
    return _DIRECTIONS.get(name)


def may_have_direction(name: str, direction: EventDirection) -> bool:
    """Return whether events of this name can have a direction. If so, their payloads say whether they do."""
    return name == _ROWS or _DIRECTIONS.get(name) == direction
