"""Shapes of live turns: what an agent does at the moment. Sent on live channels, and stored nowhere for long."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

TurnStatus = Literal["working", "waiting_for_approval", "retrying", "limited", "ended", "failed", "stopped"]
ToolStatus = Literal["started", "completed", "failed"]
ENDED_STATUSES: frozenset[str] = frozenset(("ended", "failed", "stopped"))
"""With one of these statuses a turn is over."""


class StatusReport(Struct, frozen=True, tag_field="type", tag="status"):
    """The status of the turn. `text`: a short line, such as until when a limit lasts."""

    status: TurnStatus
    text: str = ""


class TextReport(Struct, frozen=True, tag_field="type", tag="text"):
    """Text that continues the text of the turn.

    `at`: characters of the turn's text before it, so that a repeated report adds nothing."""

    text: str
    at: Annotated[int, Meta(ge=0)] | UnsetType = UNSET


class ToolReport(Struct, frozen=True, tag_field="type", tag="tool"):
    """A tool call of the turn. Reports of one `call_id` replace each other. `title`: a short line for people."""

    call_id: str
    tool: str
    status: ToolStatus
    title: str = ""


TurnReport = StatusReport | TextReport | ToolReport


class ReportTurnBody(Struct):
    """What happened in a turn, in order. `activity_id`: the message that the turn answers, or another id of the turn.

    `thread_id`: the thread in which it runs, if there is one."""

    activity_id: str
    events: list[TurnReport]
    thread_id: str = ""


class StopControl(Struct, frozen=True, tag_field="type", tag="stop"):
    """A person wants the turn to stop."""

    activity_id: str


class TurnControls(Struct, frozen=True):
    """What people want of running turns. A request that the turn does not follow is sent again after a while."""

    controls: list[StopControl]


class StopTurnBody(Struct):
    """The turn to stop, by its `activity_id`."""

    activity_id: str


class StopTurnResponse(Struct, frozen=True):
    """The request is with the agent. `status`: `stop_requested`."""

    status: Literal["stop_requested"]


class LiveToolCall(Struct, frozen=True):
    """A tool call of a live turn."""

    call_id: str
    tool: str
    title: str
    status: ToolStatus


class LiveTurnPayload(Struct, frozen=True, kw_only=True):
    """What an agent has done in a turn since the last event about it.

    `text` begins at character `text_at` of the turn's text. `whole`: the event replaces all earlier ones; its text is
    the end of a long one. `tools`: calls that began or changed. `stop_requested_by`: name of the person that wants the
    turn to stop. `status`: also `lost`, if the agent has reported nothing for too long."""

    activity_id: str
    thread_id: str
    status: TurnStatus | Literal["lost"]
    status_text: str
    started_at: str
    text_at: int
    text: str
    tools: list[LiveToolCall]
    whole: bool
    stop_requested_by: str | None
