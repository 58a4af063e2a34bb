"""How reports change a live turn. Pure."""

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line
from molecule_core.live_turns.model import LiveTurn
from molecule_core.wire.schemas.live_turns import (
    ENDED_STATUSES,
    LiveToolCall,
    StatusReport,
    TextReport,
    ToolReport,
    TurnReport,
)

# A character has at most this many bytes in UTF-8.
_MAX_CHARACTER_BYTES = 4


def begins_anew(turn: LiveTurn, reports: Sequence[TurnReport]) -> bool:
    """Return whether reports about an ended turn begin another one with its id, as for a reminder."""
    return turn.ended and any(isinstance(each, StatusReport) and each.status not in ENDED_STATUSES for each in reports)


def apply_reports(turn: LiveTurn, reports: Sequence[TurnReport], now: int, limits: Limits) -> LiveTurn:
    """Return the turn after reports. An ended turn stays as it is."""
    for report in reports:
        if turn.ended:
            break
        match report:
            case StatusReport():
                text = truncate_line(report.text, limits.short_text_length)
                turn = replace(turn, status=report.status, status_text=text)
            case TextReport():
                turn = _append_text(turn, report, limits.live_text_bytes)
            case ToolReport():
                turn = replace(turn, tools=_with_call(turn.tools, report, limits))
    return replace(turn, rev=turn.rev + 1, expires_at=expiry_of(turn, now, limits))


def expiry_of(turn: LiveTurn, now: int, limits: Limits) -> int:
    """Return when a turn is forgotten that was reported or polled for at `now`."""
    seconds = limits.live_ended_seconds if turn.ended else limits.live_silence_seconds
    return now + seconds * SECOND


def _append_text(turn: LiveTurn, report: TextReport, max_bytes: int) -> LiveTurn:
    if report.at is not UNSET and report.at > turn.text_end:  # text between them was lost
        turn = replace(turn, text="", text_at=report.at)
    known = 0 if report.at is UNSET else turn.text_end - report.at
    text = turn.text + report.text[known:]
    kept = text
    if len(text) * _MAX_CHARACTER_BYTES > max_bytes:
        kept = text.encode("utf-8", "replace")[-max_bytes:].decode("utf-8", "ignore")
    return replace(turn, text=kept, text_at=turn.text_at + len(text) - len(kept))


def _with_call(tools: tuple[LiveToolCall, ...], report: ToolReport, limits: Limits) -> tuple[LiveToolCall, ...]:
    """Return the calls with a reported one in its place, or last if it is new. The oldest are dropped."""
    length = limits.short_text_length
    known = {each.call_id: each for each in tools}
    call_id = truncate_line(report.call_id, length)
    before = known.get(call_id)
    title = truncate_line(report.title, length) or ("" if before is None else before.title)
    known[call_id] = LiveToolCall(call_id, truncate_line(report.tool, length), title, report.status)
    return tuple(known.values())[-limits.live_tools :]
