"""What an agent of the company decides about a message: `react`, without any process or network."""

import pytest
from msgspec.structs import replace

from molecule_core.demo.mind import Reaction, State, react, tasks
from molecule_core.demo.model import Ack, Action, Message, Peer, Say, Seat, Send, Work
from tests.demo.minds import CRAFT, TEXT, peer, reply, request, seat

A, B = peer("a"), peer("b")
LEAD = seat()


def told(actions: tuple[Action, ...]) -> list[str]:
    """What goes to the user."""
    return [action.text for action in actions if isinstance(action, Say)]


def sent(actions: tuple[Action, ...]) -> list[Send]:
    """What goes to peers."""
    return [action for action in actions if isinstance(action, Send)]


def acked(actions: tuple[Action, ...]) -> list[str]:
    """The ids of what is handled."""
    return [action.message.id for action in actions if isinstance(action, Ack)]


def after(keeper: Seat, *messages: Message, peers: tuple[Peer, ...] = (A, B)) -> Reaction:
    """The reaction to the last of some messages."""
    reaction = Reaction(State(), ())
    for message in messages:
        reaction = react(keeper, reaction.state, message, peers)
    return reaction


def test_a_lead_tells_the_person_whom_it_asks_and_asks_everybody_below() -> None:
    reaction = after(LEAD, request(), peers=(A, peer("s", "beside"), B, peer("p", "above")))

    assert told(reaction.actions) == ["I am asking A and B, and come back when all of them have answered."]
    assert [(one.to, one.text, one.intent) for one in sent(reaction.actions)] == [
        ("a", TEXT, "request"),
        ("b", TEXT, "request"),
    ]
    assert acked(reaction.actions) == []
    assert tasks(reaction.state) == [f"“{TEXT}”: waiting for A and B"]


def test_a_lead_says_nothing_more_while_somebody_is_missing() -> None:
    reaction = after(LEAD, request(), reply(request(), A))

    assert reaction.actions == ()
    assert tasks(reaction.state) == [f"“{TEXT}”: waiting for B"]


def test_a_lead_answers_the_person_when_all_have_answered_in_the_order_of_the_asking() -> None:
    reaction = after(LEAD, request(), reply(request(), B, text="## b\n\ntwo"), reply(request(), A, text="one"))

    assert told(reaction.actions) == [f"On “{TEXT}”, from A and B:\n\n### A\n\none\n\n### B\n\n### b\n\ntwo"]
    assert isinstance(reaction.actions[0], Work)
    assert acked(reaction.actions) == ["r1", "b-on-r1", "a-on-r1"]
    assert reaction.state == State()


def test_a_request_is_acknowledged_before_the_answers_it_was_made_from() -> None:
    """The other way round, a crash in between would leave a request whose answers never come again."""
    reaction = after(LEAD, request(), reply(request(), A), reply(request(), B))
    assert acked(reaction.actions)[0] == "r1"


def test_a_lead_below_a_lead_answers_the_peer_and_names_the_question() -> None:
    reaction = after(LEAD, request(sender="boss"), reply(request(), A), reply(request(), B))

    (answer,) = sent(reaction.actions)
    assert (answer.to, answer.intent, answer.in_reply_to) == ("boss", "inform", "name-r1")
    assert answer.text == "### A\n\na says\n\n### B\n\nb says"
    assert told(reaction.actions) == []


def test_a_lead_does_not_ask_the_one_who_asks_nor_those_without_skills() -> None:
    reaction = after(LEAD, request(sender="a"), peers=(A, B, peer("c", skilled=False)))
    assert [one.to for one in sent(reaction.actions)] == ["b"]


def test_a_lead_who_has_nobody_to_ask_says_so() -> None:
    reaction = after(LEAD, request(), peers=())

    assert told(reaction.actions) == [f"Nobody whom I may ask knows about “{TEXT}”. I am Hub: Knows who knows."]
    assert acked(reaction.actions) == ["r1"]


def test_a_specialist_asks_nobody_and_answers_from_its_crafts() -> None:
    by_person = after(seat("specialist", craft=(CRAFT,)), request())
    by_peer = after(seat("specialist", craft=(CRAFT,)), request(sender="boss"))

    (text,) = told(by_person.actions)
    assert text.startswith("**Topics**\n\n- landing page\n- launch")
    assert [(one.to, one.text) for one in sent(by_peer.actions)] == [("boss", text)]
    assert acked(by_person.actions) == acked(by_peer.actions) == ["r1"]


def test_an_agent_works_for_as_long_as_its_seat_says_and_shows_on_what() -> None:
    (work, *_) = after(seat("specialist", craft=(CRAFT,), seconds=1.5), request()).actions
    assert work == Work(1.5, f"“{TEXT}”")


def test_a_desk_passes_a_question_to_the_one_who_fits_best() -> None:
    writer, tester = peer("w", words="Writes landing pages"), peer("t", "beside", words="Tests any page for a launch")
    reaction = after(seat("desk"), request(text="a landing page before launching pages"), peers=(A, writer, tester))

    assert [one.to for one in sent(reaction.actions)] == ["w"]
    assert told(reaction.actions) == ["I am passing this to W, and come back with the answer."]


def test_a_desk_passes_what_a_peer_asks_only_down() -> None:
    """Two desks side by side would else pass a question to each other for ever."""
    beside = peer("w", "beside", words="landing page launch")
    assert sent(after(seat("desk"), request(), peers=(beside,)).actions)[0].to == "w"
    assert [one.to for one in sent(after(seat("desk"), request(sender="x"), peers=(beside,)).actions)] == ["x"]


def test_a_desk_without_anybody_who_fits_answers_itself() -> None:
    reaction = after(seat("desk", craft=(CRAFT,)), request(), peers=(A, B))
    assert told(reaction.actions)[0].startswith("**Topics**")


def test_a_message_without_text_is_answered_with_what_can_be_read() -> None:
    reaction = after(seat("specialist", craft=(CRAFT,)), request(text=" \n"))
    assert told(reaction.actions) == ["There is no text in this message, and text is all that I can read."]


@pytest.mark.parametrize("sender", [None, "a"])
def test_what_wants_no_answer_is_only_acknowledged(sender: str | None) -> None:
    note = replace(request(sender=sender), wants_answer=False)
    assert after(LEAD, note).actions == (Ack(note),)


# -- handed out again --------------------------------------------------------------------------------------------------


def test_a_request_that_is_handed_out_again_starts_nothing_anew() -> None:
    reaction = after(LEAD, request(), request(attempt=2))
    assert reaction.actions == ()

    done = react(LEAD, react(LEAD, reaction.state, reply(request(), A)).state, reply(request(), B))
    assert [action.message.attempt for action in done.actions if isinstance(action, Ack)] == [2, 1, 1]


def test_an_answer_that_is_handed_out_again_is_acknowledged_by_its_last_hand_over() -> None:
    reaction = after(LEAD, request(), reply(request(), A), reply(request(), A, attempt=2), reply(request(), B))
    assert [action.message.attempt for action in reaction.actions if isinstance(action, Ack)] == [1, 2, 1]


def test_nobody_waits_for_a_peer_that_was_removed() -> None:
    waiting = after(LEAD, request(), reply(request(), A))
    done = react(LEAD, waiting.state, request(attempt=2), (A,))
    assert told(done.actions) == [f"On “{TEXT}”, from A:\n\n### A\n\na says"]


def test_a_peer_that_answered_before_it_was_removed_is_heard() -> None:
    waiting = after(LEAD, request(), reply(request(), A))
    again = react(LEAD, waiting.state, request(attempt=2), (B,))
    assert again.actions == ()
    assert "### A" in told(react(LEAD, again.state, reply(request(), B)).actions)[0]


def test_a_second_answer_of_the_same_peer_is_put_away() -> None:
    reaction = after(LEAD, request(), reply(request(), A), reply(request(), A, id_="other", text="no, wait"))
    assert acked(reaction.actions) == ["other"]
    assert "a says" in told(react(LEAD, reaction.state, reply(request(), B)).actions)[0]


def test_an_answer_counts_only_from_the_one_who_was_asked() -> None:
    forged = replace(reply(request(), A), sender="b", id="forged")
    reaction = after(LEAD, request(), forged, reply(request(), B))
    assert reaction.actions == ()
    assert tasks(reaction.state) == [f"“{TEXT}”: waiting for A"]


def test_after_a_restart_answers_that_come_before_their_request_are_used() -> None:
    reaction = after(LEAD, reply(request(), B, attempt=3), reply(request(), A, attempt=2), request(attempt=2))

    assert told(reaction.actions)[-1].endswith("### A\n\na says\n\n### B\n\nb says")
    assert acked(reaction.actions) == ["r1", "a-on-r1", "b-on-r1"]
    assert reaction.state == State()


def test_an_answer_for_which_nobody_waits_is_put_away_when_it_comes_the_second_time() -> None:
    first = after(LEAD, reply(request(), A))
    second = react(LEAD, first.state, reply(request(), A, attempt=2))

    assert first.actions == ()
    assert acked(second.actions) == ["a-on-r1"]
    assert second.state == State()


def test_a_long_answer_of_a_peer_leaves_room_for_the_others() -> None:
    reaction = after(LEAD, request(), reply(request(), A, text="ä" * 200_000), reply(request(), B))
    (text,) = told(reaction.actions)
    assert "### B\n\nb says" in text
    assert len(text.encode()) < 256 << 10
