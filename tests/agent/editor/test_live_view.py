"""What the live events of a turn add to a session."""

from typing import Any

from molecule_core.agent.editor.live_view import LiveTurnView


def event(text: str = "", at: int = 0, **more: Any) -> dict[str, Any]:
    """An event about a turn."""
    return {
        "started_at": "t0",
        "text": text,
        "text_at": at,
        "tools": [],
        "status": "working",
        "status_text": "",
        **more,
    }


def texts(updates: list[dict[str, Any]]) -> list[str]:
    """The texts of updates."""
    return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]


def call(status: str) -> dict[str, str]:
    """A call of a tool."""
    return {"call_id": "1", "tool": "Read", "title": "a.py", "status": status}


def test_text_that_was_shown_is_not_repeated() -> None:
    view = LiveTurnView("m")
    assert texts(view.handle_turn(event("Hel"))) == ["Hel"]
    assert texts(view.handle_turn(event("Hello", whole=True))) == ["lo"]
    assert texts(view.handle_turn(event("lo", 3))) == []


def test_text_that_was_missed_is_marked() -> None:
    view = LiveTurnView("m")
    view.handle_turn(event("Hel"))
    assert texts(view.handle_turn(event("end", 90))) == ["\n\n[...]\n\nend"]


def test_a_turn_that_begins_again_is_shown_again() -> None:
    view = LiveTurnView("m")
    view.handle_turn(event("Hello"))
    assert texts(view.handle_turn(event("Hi", started_at="t1"))) == ["\n\nHi"]


def test_an_answer_adds_only_what_was_not_shown() -> None:
    view = LiveTurnView("m")
    view.handle_turn(event("I look."))
    view.handle_turn(event("", 7, tools=[call("started")]))
    view.handle_turn(event("It is ", 7))
    assert view.rest_of_answer("It is done.") == "done."
    whole = LiveTurnView("m")
    whole.handle_turn(event("I look.\n\nIt is done."))
    assert whole.rest_of_answer("It is done.") == ""
    other = LiveTurnView("m")
    other.handle_turn(event("I look."))
    assert other.rest_of_answer("Done.") == "\n\nDone."
    assert LiveTurnView("m").rest_of_answer("Done.") == "Done."


def test_calls_without_an_end_end_with_the_turn() -> None:
    view = LiveTurnView("m")
    view.handle_turn(event(tools=[call("started")]))
    assert view.handle_turn(event(tools=[call("started")])) == []
    assert [each["status"] for each in view.end_calls()] == ["completed"]
    assert view.end_calls() == []
