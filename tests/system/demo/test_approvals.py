"""What an agent of the company does about work that needs leave, and about leave that others want."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from molecule_core.demo.api_rows import parse_approval, parse_message_row
from molecule_core.demo.decisions import AgentMemory, Reaction, current_tasks, decide, on_approval, on_approval_rejected
from molecule_core.demo.mcp_agent import message_from_tool
from molecule_core.demo.model import (
    AckAction,
    Action,
    AnswerAction,
    AskApprovalAction,
    DemoApproval,
    DemoMessage,
    EscalateAction,
    ReportAction,
    SayAction,
    UseApprovalAction,
    WithdrawAction,
)
from testing.step_counts import examples
from tests.requirements import requirement
from tests.system.demo.demo_messages import CRAFT, request, seat

KEEPER = seat("specialist", craft=(CRAFT,), asks_before=("deploy", "data base"), progress=True)
DEPLOY = "Deploy the landing page"
WAITS = DemoApproval(id="p-1", status="pending", revision=1, action_hash="abc")
APPROVED = replace(WAITS, status="approved", by="Ada")
DENIED = replace(WAITS, status="denied", by="Ada", note="Not on a Friday")


def asked(sender: str | None = "boss") -> DemoMessage:
    """Work that needs leave."""
    return request(sender=sender, text=DEPLOY)


def asks(reaction: Reaction) -> list[AskApprovalAction]:
    """What leave is asked for."""
    return [action for action in reaction.actions if isinstance(action, AskApprovalAction)]


def waiting() -> AgentMemory:
    """An agent that has asked, and knows which approval it is."""
    begun = decide(KEEPER, AgentMemory(), asked())
    return on_approval(KEEPER, begun.state, asks(begun)[0], WAITS).state


def decision(approval: DemoApproval, **fields: object) -> DemoMessage:
    """What tells of an approval."""
    told = {"id": "p-1.2", "attempt": 1, "text": "Decided", "wants_answer": False, "approval": approval, **fields}
    return DemoMessage(**told)  # type: ignore[arg-type]


def answered(actions: tuple[Action, ...]) -> list[str]:
    """The answers."""
    return [action.text for action in actions if isinstance(action, AnswerAction)]


@pytest.mark.parametrize(
    ("text", "needs"), [(DEPLOY, True), ("It was deployed", True), ("The data base", True), ("The data", False)]
)
def test_work_that_names_what_needs_leave_is_not_begun_without(text: str, needs: bool) -> None:
    reaction = decide(KEEPER, AgentMemory(), request(sender="boss", text=text))
    assert bool(asks(reaction)) is needs
    assert bool(answered(reaction.actions)) is not needs


def test_who_asks_for_leave_says_so_to_whom_it_works_for() -> None:
    for_a_peer, for_a_person = decide(KEEPER, AgentMemory(), asked()), decide(KEEPER, AgentMemory(), asked(None))
    assert [type(each) for each in for_a_peer.actions] == [ReportAction, AskApprovalAction]
    assert [type(each) for each in for_a_person.actions] == [SayAction, AskApprovalAction]
    assert current_tasks(for_a_peer.state) == ["“Deploy the landing page”: waiting for an approval"]


def test_an_approval_is_used_before_the_work_is_done_and_named_in_the_answer() -> None:
    heard = decide(KEEPER, waiting(), decision(APPROVED))
    assert [type(each) for each in heard.actions] == [AskApprovalAction, AckAction]
    done = on_approval(KEEPER, heard.state, asks(heard)[0], APPROVED)
    assert [type(each) for each in done.actions[:1]] == [UseApprovalAction]
    assert answered(done.actions)[0].startswith("**Approved** by Ada (deploy).\n\n")
    assert done.state == AgentMemory()


def test_without_leave_nothing_is_done_and_the_answer_says_who_said_no() -> None:
    heard = decide(KEEPER, waiting(), decision(DENIED))
    done = on_approval(KEEPER, heard.state, asks(heard)[0], DENIED)
    said = "**Not done.** The required approval (deploy) was denied by Ada: Not on a Friday."
    assert answered(done.actions) == [said]
    assert not any(isinstance(each, UseApprovalAction) for each in done.actions)


def test_a_decision_counts_as_the_server_tells_it_and_not_as_a_message_does() -> None:
    heard = decide(KEEPER, waiting(), decision(APPROVED))
    told = on_approval(KEEPER, heard.state, asks(heard)[0], WAITS)
    assert told.actions == ()
    assert current_tasks(told.state) != []


def test_a_question_about_it_is_answered() -> None:
    reaction = decide(KEEPER, waiting(), decision(WAITS, wants_answer=True, handle="h"))
    assert answered(reaction.actions) == ["I only know the original request: “Deploy the landing page”"]


def test_leave_for_work_that_was_taken_back_is_taken_back_too() -> None:
    over = DemoMessage(id="note", attempt=1, text="over", sender="boss", delegation_id="r1", wants_answer=False)
    reaction = decide(KEEPER, waiting(), over)
    assert [type(each) for each in reaction.actions] == [WithdrawAction, AckAction]
    assert reaction.state == AgentMemory()


def test_who_cannot_ask_does_nothing_and_says_why() -> None:
    begun = decide(KEEPER, AgentMemory(), asked())
    done = on_approval_rejected(begun.state, asks(begun)[0], "too many approvals are open")
    assert answered(done.actions) == [
        "**Not done.** This needs an approval (deploy), and the request for it failed: too many approvals are open"
    ]


def test_what_others_want_leave_for_is_passed_on() -> None:
    wanted = decision(WAITS, needs_decision=True, sender="child")
    assert [type(each) for each in decide(seat(), AgentMemory(), wanted).actions] == [EscalateAction]


@requirement("P2", "P5")
@examples(200)
@given(st.data())
def test_wherever_it_is_killed_and_whatever_comes_twice_the_answer_is_one_and_the_leave_is_used_once(
    data: st.DataObject,
) -> None:
    state, item, inbox, effects, used = AgentMemory(), WAITS, [asked()], set[str](), 0
    for _ in range(data.draw(st.integers(1, 6), label="rounds")):
        if item.is_pending and data.draw(st.booleans(), label="decided now"):
            item = data.draw(st.sampled_from([APPROVED, DENIED]), label="as")
            inbox.append(decision(item))
        for message in data.draw(st.permutations(inbox), label="order"):
            todo = list(decide(KEEPER, state, message).actions)
            state = decide(KEEPER, state, message).state
            while todo:
                if data.draw(st.integers(0, 9), label="killed at 0") == 0:
                    state, todo = AgentMemory(), []
                    break
                action = todo.pop(0)
                if isinstance(action, AskApprovalAction):
                    further = on_approval(KEEPER, state, action, item)
                    state, todo = further.state, [*further.actions, *todo]
                used += isinstance(action, UseApprovalAction)
                effects.update([action.text] if isinstance(action, AnswerAction) else [])
                if isinstance(action, AckAction | AnswerAction):
                    inbox = [each for each in inbox if each.id != action.message.id]
    if not item.is_pending:
        for message in list(inbox):
            reaction = decide(KEEPER, state, message)
            state = reaction.state
            for done in [on_approval(KEEPER, state, each, item) for each in asks(reaction)]:
                effects.update(answered(done.actions))
                state = done.state
        assert len(effects) == 1
    assert used == 0 or item.status == "approved"


def test_rows_about_approvals_are_read_whatever_stands_in_them() -> None:
    metadata = {"approval_id": "p-1", "status": "pending", "revision": 1, "action_hash": "abc"}
    said = {"parts": [{"kind": "text", "text": "hi"}], "metadata": metadata}
    row = {"id": "p-1.1", "attempt": 1, "source_id": "child", "request_body": {"params": {"message": said}}}
    wanted = parse_message_row({**row, "kind": "approval_request", "intent": "request"})
    told = parse_message_row({**row, "kind": "approval_decision", "intent": "inform"})
    assert (wanted.approval, wanted.needs_decision, wanted.wants_answer) == (WAITS, True, False)
    assert (told.approval, told.needs_decision, told.wants_answer) == (WAITS, False, False)
    assert parse_approval(
        {**metadata, "decided": {"by": {"name": "Ada"}, "note": "Go"}, "status": "approved"}
    ) == replace(APPROVED, note="Go")
    assert parse_approval({**metadata, "revision": "1"}) is None
    assert parse_approval([metadata]) is None


def test_an_agent_in_a_host_passes_on_what_its_tool_tells_of_an_approval() -> None:
    told = {"activity_id": "p-1.1", "text": "?", "peer_id": "child", "kind": "approval_request", "intent": "request"}
    message = message_from_tool({**told, "approval_id": "p-1", "revision": 1, "action_hash": "abc"})
    assert (message.approval, message.needs_decision, message.wants_answer) == (WAITS, True, False)
