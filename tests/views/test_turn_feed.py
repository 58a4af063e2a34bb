"""What a subscriber with an older version of a live turn is sent."""

from molecule_core.common.limits import Limits
from molecule_core.live_turns.model import LiveTurn
from molecule_core.live_turns.rules import apply_reports
from molecule_core.views.turn_feed import turn_payload
from molecule_core.wire.schemas.live_turns import TextReport, ToolReport, TurnReport

_LIMITS = Limits(live_text_bytes=12)
_NEW = LiveTurn(org_id="o", workspace_id="w", activity_id="a", started_at=5, expires_at=5, rev=5)


def _after(*reports: TurnReport, turn: LiveTurn = _NEW) -> LiveTurn:
    return apply_reports(turn, reports, 7, _LIMITS)


def test_a_subscriber_is_sent_only_what_it_lacks() -> None:
    known = _after(TextReport("Hello"), ToolReport("1", "Bash", "started"))
    turn = _after(TextReport(" you"), ToolReport("2", "Read", "started"), turn=known)
    sent = turn_payload(turn, known)
    assert (sent.text, sent.text_at, [each.call_id for each in sent.tools], sent.whole) == (" you", 5, ["2"], False)
    whole = turn_payload(turn, None)
    assert (whole.text, whole.text_at, len(whole.tools), whole.whole) == ("Hello you", 0, 2, True)


def test_a_subscriber_that_lacks_dropped_text_is_sent_the_whole_turn() -> None:
    known = _after(TextReport("Hello"))
    sent = turn_payload(_after(TextReport("x" * 30), turn=known), known)
    assert (sent.text, sent.text_at, sent.whole) == ("x" * 12, 23, True)
