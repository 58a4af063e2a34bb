"""What an agent of the company decides about a message: `react`, without any process or network."""

import json

import pytest
from msgspec.structs import replace

from molecule_core.demo.decisions import (
    AgentMemory,
    Reaction,
    current_tasks,
    decide,
    on_delegated,
    on_delegation_rejected,
)
from molecule_core.demo.model import (
    AckAction,
    Action,
    AnswerAction,
    DelegateAction,
    DemoMessage,
    DemoPeer,
    DemoWorkspace,
    ReportAction,
    ReportCostAction,
    SayAction,
    WorkAction,
)
from tests.system.demo.demo_messages import CRAFT, TEXT, given, peer, request, result, seat

A, B = peer("a"), peer("b")
LEAD = seat()


def told(actions: tuple[Action, ...]) -> list[str]:
    """What goes to the user."""
    return [action.text for action in actions if isinstance(action, SayAction)]


def sent(actions: tuple[Action, ...]) -> list[DelegateAction]:
    """What is delegated to peers."""
    return [action for action in actions if isinstance(action, DelegateAction)]


def answers(actions: tuple[Action, ...]) -> list[AnswerAction]:
    """What goes back to peers."""
    return [action for action in actions if isinstance(action, AnswerAction)]


def reports(actions: tuple[Action, ...]) -> list[tuple[str, int]]:
    """What is said of one's work, and how much is done."""
    return [(action.step, action.percent) for action in actions if isinstance(action, ReportAction)]


def acked(actions: tuple[Action, ...]) -> list[str]:
    """The ids of what is handled."""
    return [action.message.id for action in actions if isinstance(action, AckAction)]


def after(keeper: DemoWorkspace, *messages: DemoMessage, peers: tuple[DemoPeer, ...] = (A, B)) -> Reaction:
    """The reaction to the last of some messages; what is delegated is begun each time."""
    reaction = Reaction(AgentMemory(), ())
    for message in messages:
        reaction = knowing(keeper, decide(keeper, reaction.state, message, peers))
    return reaction


def knowing(keeper: DemoWorkspace, reaction: Reaction) -> Reaction:
    """The same, once all that it delegates is begun, and what comes of that at once."""
    state, actions = reaction.state, list(reaction.actions)
    for action in sent(reaction.actions):
        further = on_delegated(keeper, state, action, f"delegation-{action.key}")
        state = further.state
        actions += further.actions
    return Reaction(state, tuple(actions))


def test_a_lead_tells_the_person_whom_it_asks_and_asks_everybody_below() -> None:
    reaction = after(LEAD, request(), peers=(A, peer("s", "beside"), B, peer("p", "above")))

    assert told(reaction.actions) == ["I am asking A and B. I will answer when all of them have replied."]
    assert [(one.to, one.text, one.about) for one in sent(reaction.actions)] == [("a", TEXT, "r1"), ("b", TEXT, "r1")]
    assert acked(reaction.actions) == []
    assert current_tasks(reaction.state) == [f"“{TEXT}”: waiting for A and B"]


def test_a_lead_says_nothing_more_while_somebody_is_missing() -> None:
    reaction = after(LEAD, request(), result(request(), A))

    assert reaction.actions == ()
    assert current_tasks(reaction.state) == [f"“{TEXT}”: waiting for B"]


def test_a_lead_answers_the_person_when_all_have_answered_in_the_order_of_the_asking() -> None:
    reaction = after(LEAD, request(), result(request(), B, text="## b\n\ntwo"), result(request(), A, text="one"))

    assert told(reaction.actions) == [f"Answers to “{TEXT}” from A and B:\n\n### A\n\none\n\n### B\n\n### b\n\ntwo"]
    assert isinstance(reaction.actions[0], WorkAction)
    assert acked(reaction.actions) == ["r1", "b-on-r1", "a-on-r1"]
    assert reaction.state == AgentMemory()


def test_a_request_is_acknowledged_before_the_results_that_its_answer_was_made_from() -> None:
    """The other way round, a crash in between would leave a request whose results never come again."""
    reaction = after(LEAD, request(), result(request(), A), result(request(), B))
    assert acked(reaction.actions)[0] == "r1"


def test_a_lead_below_a_lead_answers_the_peer_by_the_handle_of_the_question() -> None:
    reaction = after(LEAD, request(sender="boss"), result(request(), A), result(request(), B))

    (answer,) = answers(reaction.actions)
    assert (answer.message.sender, answer.message.handle) == ("boss", "handle-r1")
    assert answer.text == "### A\n\na says\n\n### B\n\nb says"
    assert told(reaction.actions) == []


def test_a_lead_does_not_ask_the_one_who_asks_nor_those_without_skills() -> None:
    reaction = after(LEAD, request(sender="a"), peers=(A, B, peer("c", skilled=False)))
    assert [one.to for one in sent(reaction.actions)] == ["b"]


def test_a_lead_who_has_nobody_to_ask_says_so() -> None:
    reaction = after(LEAD, request(), peers=())

    assert told(reaction.actions) == [f"I have no answer to “{TEXT}”. I am Hub: Knows who knows."]
    assert acked(reaction.actions) == ["r1"]


def test_a_specialist_asks_nobody_and_answers_from_its_crafts() -> None:
    by_person = after(seat("specialist", craft=(CRAFT,)), request())
    by_peer = after(seat("specialist", craft=(CRAFT,)), request(sender="boss"))

    (text,) = told(by_person.actions)
    assert text.startswith("**Topics**\n\n- landing page\n- launch")
    assert [(one.message.sender, one.text) for one in answers(by_peer.actions)] == [("boss", text)]
    assert acked(by_person.actions) == acked(by_peer.actions) == ["r1"]


def test_an_agent_works_for_as_long_as_its_seat_says_and_shows_on_what() -> None:
    (work, *_) = after(seat("specialist", craft=(CRAFT,), seconds=1.5), request()).actions
    assert work == WorkAction(1.5, f"“{TEXT}”")


def test_a_desk_passes_a_question_to_the_one_who_fits_best() -> None:
    writer, tester = peer("w", words="Writes landing pages"), peer("t", "beside", words="Tests any page for a launch")
    reaction = after(seat("desk"), request(text="a landing page before launching pages"), peers=(A, writer, tester))

    assert [one.to for one in sent(reaction.actions)] == ["w"]
    assert told(reaction.actions) == ["I forwarded this to W. I will send you the answer."]


def test_a_desk_passes_what_a_peer_asks_only_down() -> None:
    """Two desks side by side would else pass a question to each other for ever."""
    beside = peer("w", "beside", words="landing page launch")
    assert sent(after(seat("desk"), request(), peers=(beside,)).actions)[0].to == "w"
    of_peer = after(seat("desk"), request(sender="x"), peers=(beside,))
    assert (sent(of_peer.actions), [each.message.sender for each in answers(of_peer.actions)]) == ([], ["x"])


def test_a_desk_without_anybody_who_fits_answers_itself() -> None:
    reaction = after(seat("desk", craft=(CRAFT,)), request(), peers=(A, B))
    assert told(reaction.actions)[0].startswith("**Topics**")


def test_a_message_without_text_is_answered_with_what_can_be_read() -> None:
    reaction = after(seat("specialist", craft=(CRAFT,)), request(text=" \n"))
    assert told(reaction.actions) == ["This message contains no text, and I can only read text."]


@pytest.mark.parametrize("sender", [None, "a"])
def test_what_wants_no_answer_is_only_acknowledged(sender: str | None) -> None:
    note = replace(request(sender=sender), wants_answer=False)
    assert after(LEAD, note).actions == (AckAction(note),)


def test_an_agent_that_waits_says_how_far_it_is_to_whom_it_works_for() -> None:
    keeper, asked = seat(progress=True), request(sender="boss")
    reaction = after(keeper, asked, result(asked, A))

    assert reports(after(keeper, asked).actions) == [("waiting for A and B", 0)]
    assert reports(reaction.actions) == [("waiting for B", 50)]
    assert reports(after(keeper, asked, result(asked, A), result(asked, B)).actions) == []
    assert reports(after(keeper, request(), result(request(), A)).actions) == []
    assert reports(after(seat(), asked, result(asked, A)).actions) == []


def test_a_specialist_that_reports_tells_each_step_as_it_begins_it() -> None:
    keeper = seat("specialist", craft=(CRAFT, CRAFT), seconds=3, progress=True)
    actions = after(keeper, request(sender="boss")).actions

    assert reports(actions) == [("reading the request", 0), ("Topics", 33), ("Topics", 66)]
    assert [type(action) for action in actions[:4]] == [ReportAction, WorkAction, ReportAction, WorkAction]
    assert sum(action.seconds for action in actions if isinstance(action, WorkAction)) == pytest.approx(3)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_what_failed_is_told_as_that_with_its_reason() -> None:
    why = "connection refused (unreachable). Look at its url."
    reaction = after(LEAD, request(), result(request(), A), result(request(), B, text=why, failed=True))

    assert told(reaction.actions) == [
        f"Answers to “{TEXT}” from A, no answer from B:\n\n### A\n\na says\n\n### B\n\n**No answer from B.** {why}"
    ]
    assert acked(reaction.actions) == ["r1", "a-on-r1", "b-on-r1"]


def test_a_lead_whom_nobody_answers_says_so() -> None:
    asked = request()
    reaction = after(LEAD, asked, result(asked, A, failed=True), result(asked, B, failed=True))
    assert told(reaction.actions)[0].startswith(f"No answers to “{TEXT}” from A and B:")


def test_what_the_server_does_not_let_be_delegated_is_told_like_a_failure() -> None:
    waiting = after(LEAD, request(), result(request(), A))
    (_, to_b) = sent(decide(LEAD, AgentMemory(), request(), (A, B)).actions)

    reaction = on_delegation_rejected(LEAD, waiting.state, to_b, "no more levels")

    assert told(reaction.actions)[0].endswith("### B\n\n**No answer from B.** no more levels")
    assert acked(reaction.actions) == ["r1", "a-on-r1"]


def test_work_that_is_over_is_waited_for_no_more() -> None:
    waiting = after(LEAD, request(sender="boss"), request("r2"))
    over = replace(request("note", sender="boss"), delegation_id="r1", wants_answer=False)

    reaction = decide(LEAD, waiting.state, over)

    assert reaction.actions == (AckAction(over),)
    assert list(reaction.state.open_requests) == ["r2"]
    assert set(reaction.state.waiting_keys) == {given(request("r2"), each) for each in (A, B)}


def test_the_same_work_wanted_twice_at_a_time_is_one_delegation_and_answers_both() -> None:
    state = AgentMemory()
    for asked in (request("r1"), request("r2")):
        reaction = decide(LEAD, state, asked, (A,))
        (to_a,) = sent(reaction.actions)
        state = on_delegated(LEAD, reaction.state, to_a, "twin").state
    came = replace(result(request("r1"), A), delegation_id="twin")

    reaction = decide(LEAD, state, came)

    assert len(told(reaction.actions)) == 2
    assert reaction.state == AgentMemory()


def test_a_result_that_another_request_waits_for_is_not_put_away_before_that_is_answered() -> None:
    """Else the other one would wait for ever after a restart: the same delegation does not end twice."""
    state = AgentMemory()
    for asked, peers in ((request("r1"), (A,)), (request("r2"), (A, B))):
        state = decide(LEAD, state, asked, peers).state
        for each in peers:
            action = DelegateAction(each.id, TEXT, f"ask-{asked.id}-{each.id}", asked.id)
            state = on_delegated(LEAD, state, action, f"to-{each.id}").state

    first = decide(LEAD, state, replace(result(request(), A), delegation_id="to-a"))
    second = decide(LEAD, first.state, replace(result(request(), B), delegation_id="to-b"))

    assert acked(first.actions) == ["r1"]
    assert acked(second.actions) == ["r2", "a-on-r1", "b-on-r1"]


# -- handed out again --------------------------------------------------------------------------------------------------


def test_a_request_that_is_handed_out_again_starts_nothing_anew() -> None:
    reaction = after(LEAD, request(), request(attempt=2))
    assert reaction.actions == ()

    done = decide(LEAD, decide(LEAD, reaction.state, result(request(), A)).state, result(request(), B))
    assert [action.message.attempt for action in done.actions if isinstance(action, AckAction)] == [2, 1, 1]


def test_a_result_that_is_handed_out_again_is_acknowledged_by_its_last_hand_over() -> None:
    asked = request(sender="boss")
    reaction = after(seat(progress=True), asked, result(asked, A), result(asked, A, attempt=2))
    assert reaction.actions == ()

    done = decide(LEAD, reaction.state, result(asked, B))
    assert [action.message.attempt for action in done.actions if isinstance(action, AckAction)] == [1, 2, 1]


def test_after_a_restart_results_that_come_before_their_request_are_used() -> None:
    reaction = after(LEAD, result(request(), B, attempt=3), result(request(), A, attempt=2), request(attempt=2))

    assert told(reaction.actions)[-1].endswith("### A\n\na says\n\n### B\n\nb says")
    assert acked(reaction.actions) == ["r1", "a-on-r1", "b-on-r1"]
    assert reaction.state == AgentMemory()


def test_a_result_for_which_nobody_waits_is_put_away_when_it_comes_the_second_time() -> None:
    first = after(LEAD, result(request(), A))
    second = decide(LEAD, first.state, result(request(), A, attempt=2))

    assert first.actions == ()
    assert acked(second.actions) == ["a-on-r1"]
    assert second.state == AgentMemory()


def test_a_long_answer_of_a_peer_leaves_room_for_the_others() -> None:
    reaction = after(LEAD, request(), result(request(), A, text="ä" * 200_000), result(request(), B))
    (text,) = told(reaction.actions)
    assert "### B\n\nb says" in text


# -- results -----------------------------------------------------------------------------------------------------------


def delivered(keeper: DemoWorkspace, asked: DemoMessage) -> dict[str, object] | None:
    """The content of the file that an answer has."""
    (answer,) = answers(after(keeper, asked).actions)
    assert answer.file is None or answer.file.name == "text.json"
    return None if answer.file is None else dict(json.loads(answer.file.content))


def test_a_hasty_agent_completes_its_file_once_the_answer_is_returned() -> None:
    asked = request(sender="a")
    keeper = seat("specialist", craft=(CRAFT,), delivers="text.json", hasty=True)
    unfinished, complete = delivered(keeper, asked), delivered(keeper, replace(asked, id="r2", is_returned=True))

    assert unfinished == {"request": TEXT}
    assert complete is not None and "landing page" in str(complete["parts"])
    assert delivered(replace(keeper, hasty=False), asked) == complete
    assert delivered(replace(keeper, delivers="", hasty=False), asked) is None


def test_what_an_answer_costs_is_reported_before_its_request_is_acknowledged() -> None:
    for asked in (request(), request(sender="a")):
        actions = after(seat("specialist", craft=(CRAFT,), cost=0.02), asked).actions
        assert [type(action) for action in actions[-2:]] == [ReportCostAction, AckAction]
        assert [each.cost for each in actions if isinstance(each, ReportCostAction)] == [0.02]
