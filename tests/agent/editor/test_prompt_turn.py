"""When a prompt ends, and what the person reads then."""

from typing import Any

import pytest

from molecule_core.agent.editor.prompt_turn import CANCELLED, END_TURN, PromptTurn, TurnEnding, TurnTimes

TIMES = TurnTimes(wait=600.0)


@pytest.fixture
async def turn() -> PromptTurn:
    """A turn that begins at 0."""
    return PromptTurn("c-1", "Ops", TIMES, 0.0)


def row(delivery: str = "handed_over", **obligation: Any) -> dict[str, Any]:
    """The message on the server."""
    return {"id": "m-1", "delivery": delivery, "obligation": obligation or None}


@pytest.mark.parametrize(
    ("message", "ending"),
    [
        (row(), None),
        (row(state="open"), None),
        (row(state="overdue"), None),
        (row(state="answered"), TurnEnding(END_TURN, "", True)),
        (row(state="declined", reason="not mine"), TurnEnding(END_TURN, "Ops declined: not mine", True)),
        (row(state="open", reason="no key"), TurnEnding(END_TURN, "Ops could not finish: no key")),
        (
            {**row("dead"), "trouble": "expired"},
            TurnEnding(END_TURN, "Your message was not delivered to Ops: expired.", True),
        ),
    ],
)
async def test_the_state_of_the_message_ends_the_turn(
    turn: PromptTurn, message: dict[str, Any], ending: TurnEnding | None
) -> None:
    assert turn.handle_row(message, 1.0) == ending


async def test_a_draft_is_shown_and_its_answer_still_expected(turn: PromptTurn) -> None:
    ending = turn.handle_row(row(state="answered_outside", draft="Maybe"), 1.0)
    assert ending is not None and ending.text.endswith("Maybe") and not ending.is_closed


async def test_an_agent_that_comes_online_in_time_is_waited_for(turn: PromptTurn) -> None:
    turn.handle_row(row("stored"), 0.0)
    assert not turn.needs_status(2.0) and turn.needs_status(3.0)
    offline = {"status": "paused"}
    assert turn.handle_status(offline, 3.0) == "Ops is paused. Your message waits in its inbox."
    assert turn.handle_status(offline, 4.0) == "", "it is named once"
    assert turn.next_ending(22.0) is None
    assert turn.handle_status({"status": "online"}, 22.0) == ""
    assert turn.next_ending(24.0) is None
    turn.handle_status(offline, 25.0)
    ending = turn.next_ending(45.0)
    assert ending == TurnEnding(END_TURN, "The answer appears in this conversation when it comes.")


async def test_a_sign_of_work_postpones_the_end(turn: PromptTurn) -> None:
    turn.handle_row(row(), 1.0)
    turn.note_sign(500.0)
    assert turn.next_ending(1000.0) is None
    ending = turn.next_ending(1100.0)
    assert ending is not None and ending.text.startswith("Ops has not answered for 10 minutes. The answer appears")


async def test_a_cancelled_turn_ends_when_the_agent_stops_or_takes_too_long(turn: PromptTurn) -> None:
    turn.handle_row(row(), 1.0)
    turn.cancel(10.0)
    assert turn.next_ending(14.0) is None
    assert turn.next_ending(15.0) == TurnEnding(CANCELLED)
    turn.view.handle_turn({"started_at": "t", "status": "stopped", "status_text": ""})
    assert turn.handle_live_end(11.0) == TurnEnding(CANCELLED)


async def test_a_failed_turn_waits_a_moment_for_its_reason(turn: PromptTurn) -> None:
    turn.handle_row(row(state="open"), 1.0)
    turn.view.handle_turn({"started_at": "t", "status": "failed", "status_text": "no credit"})
    assert turn.handle_live_end(5.0) is None and turn.next_ending(6.0) is None
    assert turn.next_ending(8.0) == TurnEnding(END_TURN, "Ops could not finish: no credit")
