"""How reports change a live turn."""

import pytest

from molecule_core.common.limits import Limits
from molecule_core.live_turns.model import LiveTurn
from molecule_core.live_turns.rules import apply_reports
from molecule_core.wire.schemas.live_turns import StatusReport, TextReport, ToolReport, TurnReport

LIMITS = Limits(live_text_bytes=12, live_tools=2, short_text_length=8)
SECOND = 1_000_000


def _turn() -> LiveTurn:
    return LiveTurn(org_id="o", workspace_id="w", activity_id="a", started_at=5, expires_at=5, rev=5)


def _after(*reports: TurnReport, turn: LiveTurn | None = None) -> LiveTurn:
    return apply_reports(turn or _turn(), reports, 7, LIMITS)


def test_text_continues_and_a_repeated_report_adds_nothing() -> None:
    turn = _after(TextReport("Hel", at=0), TextReport("lo", at=3), TextReport("llo", at=2), TextReport("!"))
    assert (turn.text, turn.text_at, turn.rev) == ("Hello!", 0, 6)


def test_text_after_a_gap_replaces_what_was_before() -> None:
    turn = _after(TextReport("Hel", at=0), TextReport("you", at=6), TextReport("you!", at=6))
    assert (turn.text, turn.text_at, turn.text_end) == ("you!", 6, 10)


@pytest.mark.parametrize(
    "text, kept, dropped", [("a" * 20, "a" * 12, 8), ("ä" * 10, "ä" * 6, 4), ("aä🙂b🙂c🙂", "b🙂c🙂", 3)]
)
def test_of_a_long_text_the_end_is_kept(text: str, kept: str, dropped: int) -> None:
    turn = _after(TextReport(text))
    # 🙂 has 4 bytes: what is cut within a character leaves it out.
    assert (turn.text, turn.text_at) == (kept, dropped)
    assert turn.text_end == len(text)


def test_reports_of_one_call_replace_each_other_and_the_oldest_calls_are_dropped() -> None:
    turn = _after(
        ToolReport("1", "Bash", "started", "list   files\nhere"),
        ToolReport("1", "Bash", "completed"),
        ToolReport("2", "Read", "started"),
    )
    assert [(each.call_id, each.title, each.status) for each in turn.tools] == [
        ("1", "list fi…", "completed"),
        ("2", "", "started"),
    ]
    assert [each.call_id for each in _after(ToolReport("3", "Read", "started"), turn=turn).tools] == ["2", "3"]


def test_an_ended_turn_changes_no_more_and_is_kept_for_a_short_time() -> None:
    turn = _after(StatusReport("stopped", "by Ada"), TextReport("late"))
    assert (turn.status, turn.status_text, turn.text) == ("stopped", "by Ada", "")
    assert turn.expires_at == 7 + LIMITS.live_ended_seconds * SECOND
    assert _turn().expires_at < _after(TextReport("x")).expires_at == 7 + LIMITS.live_silence_seconds * SECOND
