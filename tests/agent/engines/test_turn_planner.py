"""What an engine does next, decided from what the log shows; and what a script does about what it sees."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from molecule_core.agent.engines.chat_encoding import to_chat_messages
from molecule_core.agent.engines.mail_loop import turn_input
from molecule_core.agent.engines.scripted_model import (
    ModelScript,
    ScriptAction,
    ScriptRule,
    choose_actions,
    read_script,
)
from molecule_core.agent.engines.settings import Budget
from molecule_core.agent.engines.turn_planner import (
    AbandonStep,
    CompactStep,
    EndStep,
    RunToolsStep,
    SampleStep,
    TokenUsage,
    TurnLimits,
    TurnState,
    next_step,
    unanswered_calls,
)
from molecule_core.demo import engine_agent
from molecule_core.wire.schemas.threads import ModelContext, ModelContextItem
from tests.agent.inbox_messages import letter
from tests.requirements import requirement

BOUNDS = TurnLimits(Budget(turn=1000), samplings=10, compact_at_tokens=500)
TURN = TurnState(turn_id="t1")


def item(ordinal: int, role: Any, text: str = "", *, turn: str = "t1", **more: Any) -> ModelContextItem:
    """A line that a model sees."""
    known = {"item_id": f"i{ordinal}", "type": "", "origin": "", "tokens": 0, "ordinal": ordinal, "turn_id": turn}
    return ModelContextItem(role=role, text=text, **{**known, **more})


def seen(*items: ModelContextItem, tokens: int = 10) -> ModelContext:
    """All of them."""
    return ModelContext(list(items), tokens=tokens, last_ordinal=items[-1].ordinal)


ASKED = item(1, "user", "do it")
CALL = item(2, "assistant", call_id="c1", tool="look", arguments={})
OUT = item(3, "tool", "seen", call_id="c1")
SAID = item(4, "assistant", "done")


@requirement("AR3")
def test_a_turn_samples_runs_what_was_called_and_ends_with_the_last_words() -> None:
    turn = replace(TURN, samplings=1, seen_ordinal=3)
    assert next_step(TURN, seen(ASKED), BOUNDS) == SampleStep()
    assert next_step(turn, seen(ASKED, CALL), BOUNDS) == RunToolsStep((CALL,))
    assert next_step(turn, seen(ASKED, CALL, OUT), BOUNDS) == SampleStep()
    assert next_step(turn, seen(ASKED, CALL, OUT, SAID), BOUNDS) == EndStep("completed", final="done")
    note = item(5, "developer", "peers changed")
    assert next_step(turn, seen(ASKED, CALL, OUT, SAID, note), BOUNDS) == EndStep("completed", final="done")
    assert next_step(replace(turn, is_silent=True), seen(ASKED, CALL, OUT), BOUNDS) == EndStep("completed")


@requirement("AR3")
def test_what_is_said_while_the_model_answers_is_answered_too() -> None:
    late, turn = item(4, "user", "no, otherwise"), replace(TURN, samplings=1, seen_ordinal=3)
    said = replace(SAID, ordinal=5)
    assert next_step(turn, seen(ASKED, CALL, OUT, late, said), BOUNDS) == SampleStep()
    assert next_step(replace(turn, seen_ordinal=4), seen(ASKED, CALL, OUT, late, said), BOUNDS) == EndStep(
        "completed", "done"
    )
    assert next_step(turn, seen(ASKED, CALL, OUT, SAID, replace(late, ordinal=5)), BOUNDS) == SampleStep()


@requirement("AR3")
def test_a_turn_of_an_earlier_life_goes_on_from_its_log_and_says_nothing_twice() -> None:
    assert next_step(TURN, seen(ASKED, CALL, OUT, SAID), BOUNDS) == EndStep("completed", final="done")
    assert next_step(TURN, seen(ASKED, SAID), BOUNDS) == EndStep("completed", final="done")
    late = item(4, "user", "and this?")  # the life before may have shown it or not
    assert next_step(TURN, seen(ASKED, CALL, OUT, late, replace(SAID, ordinal=5)), BOUNDS) == SampleStep()
    before = item(1, "assistant", "done", turn="t0")  # the last words of another turn are not those of this one
    assert next_step(TURN, seen(before, item(2, "user", "next")), BOUNDS) == SampleStep()
    assert next_step(replace(TURN, trigger="wake"), seen(before), BOUNDS) == SampleStep()


@requirement("AR3")
def test_calls_of_a_turn_that_is_over_are_told_off_and_never_run() -> None:
    stale = item(1, "assistant", call_id="c0", tool="look", arguments={}, turn="t0")
    step = next_step(TURN, seen(stale, replace(ASKED, ordinal=2)), BOUNDS)
    assert isinstance(step, AbandonStep) and step.calls == (stale,)
    broken = replace(TURN, failure="no model")
    assert isinstance(next_step(broken, seen(ASKED, CALL), BOUNDS), AbandonStep)
    assert next_step(broken, seen(ASKED, CALL, OUT), BOUNDS) == EndStep("failed", error="no model")


@requirement("AR3")
@pytest.mark.parametrize(
    ("stop", "status"), [("interrupted", "interrupted"), ("closed", "interrupted"), ("budget", "failed")]
)
def test_a_stop_ends_the_turn_whatever_is_open(stop: str, status: str) -> None:
    step = next_step(replace(TURN, stop=stop), seen(ASKED, CALL), BOUNDS)
    assert isinstance(step, EndStep) and step.status == status


@requirement("AR3")
def test_budgets_end_a_turn_before_the_next_sampling_and_what_is_long_is_compacted_once() -> None:
    for spent, word in (
        (TokenUsage(turn=1000), "turn"),
        (TokenUsage(thread=7), "thread"),
        (TokenUsage(tree=8), "tree"),
    ):
        bounds = TurnLimits(Budget(turn=1000, thread=7, tree=8), samplings=10, compact_at_tokens=500)
        step = next_step(replace(TURN, spent=spent), seen(ASKED), bounds)
        assert isinstance(step, EndStep) and step.status == "failed" and word in str(step.error)
    many = next_step(replace(TURN, samplings=10, seen_ordinal=9), seen(ASKED), BOUNDS)
    assert isinstance(many, EndStep) and many.status == "failed"
    long = seen(ASKED, tokens=500)
    assert next_step(TURN, long, BOUNDS) == CompactStep("automatic")
    assert next_step(replace(TURN, is_compacted=True), long, BOUNDS) == SampleStep()
    assert next_step(TURN, long, TurnLimits(Budget(), 10, 0)) == SampleStep()
    manual = replace(TURN, trigger="compact")
    assert next_step(manual, seen(SAID), BOUNDS) == CompactStep("manual")
    assert next_step(replace(manual, is_compacted=True), seen(SAID), BOUNDS) == EndStep("completed")


_ROLES = st.sampled_from(["user", "peer", "said", "call", "out", "note"])


@requirement("AR2", "AR3")
@settings(max_examples=300, deadline=None)
@given(st.lists(_ROLES, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_any_log_becomes_a_chat_in_which_each_output_stands_behind_its_call_and_no_peer_is_the_user(
    kinds: list[str], chance: Any
) -> None:
    items, calls = [item(0, "developer", "base", turn="")], list[str]()
    for number, kind in enumerate(kinds, 1):
        name = f"c{number}"
        if kind == "call":
            calls.append(name)
            items.append(item(number, "assistant", call_id=name, tool="look", arguments={}))
        elif kind == "out" and calls:
            items.append(item(number, "tool", f"out {number}", call_id=calls.pop(chance.randrange(len(calls)))))
        elif kind in ("user", "peer"):
            items.append(item(number, "user" if kind == "user" else "peer", f"{kind} {number}"))
        elif kind == "said":
            items.append(item(number, "assistant", f"said {number}"))
        elif kind == "note":
            items.append(item(number, "developer", f"note {number}"))
    items += [item(100 + number, "tool", "late", call_id=name) for number, name in enumerate(calls)]
    assert not unanswered_calls(items)
    chat = to_chat_messages(items)
    assert chat[0] == {"role": "system", "content": "base"}
    plain = [each for each in chat if each["role"] != "system"]
    assert not plain or plain[0]["role"] == "user"
    waiting: list[str] = []
    for each in chat:
        if each["role"] == "tool":
            waiting.remove(each["tool_call_id"])
        else:
            assert not waiting
            waiting = [call["id"] for call in each.get("tool_calls") or ()]
        assert "peer" not in (each["content"] or "") or each["role"] == "tool"
    assert not waiting
    told = {each["content"] for each in chat}
    assert all(any(each.text in (text or "") for text in told) for each in items if each.text)


@requirement("AR2")
def test_a_provider_gets_its_own_ids_back_and_none_for_two_calls() -> None:
    items = [ASKED]
    for number, name in enumerate(("c1:17", "a:1", "a:2", "b", ":3"), 2):
        items.append(item(number, "assistant", call_id=name, tool="look", arguments={}))
        items.append(item(number, "tool", name, call_id=name))
    chat = to_chat_messages(items)
    outputs = {each["tool_call_id"]: each["content"] for each in chat if each["role"] == "tool"}
    assert outputs == {"c1": "c1:17", "a": "a:1", "a:2": "a:2", "b": "b", ":3": ":3"}
    assert [call["id"] for each in chat for call in each.get("tool_calls") or ()] == list(outputs)


@requirement("AR7")
def test_a_script_does_what_its_first_fitting_rule_says_about_the_newest_thing() -> None:
    script = ModelScript(
        rules=[
            ScriptRule(when="result", tool="look", acts=[ScriptAction(say="{result_look}, and {message}")]),
            ScriptRule(
                matches="at (?P<place>[a-z]+)",
                not_called=["look"],
                acts=[ScriptAction(call="look", arguments={"at": ["{place}"]})],
            ),
            ScriptRule(when="note", matches="summary", acts=[ScriptAction(say="short: {text}")]),
        ]
    )
    ask = item(1, "user", "look at home {here}")
    assert choose_actions(script, [ask]) == [ScriptAction(call="look", arguments={"at": ["home"]})]
    call = item(2, "assistant", call_id="c", tool="look", arguments={})
    out = item(3, "tool", "nothing", call_id="c")
    assert choose_actions(script, [ask, call, out]) == [ScriptAction(say="nothing, and look at home {here}")]
    assert (
        choose_actions(script, [ask, call, out, item(4, "developer", "a summary", origin="compaction")])[0].say
        == "short: a summary"
    )
    assert choose_actions(script, [item(1, "user", "hello")])[0].say == "I have no rule for this."


@requirement("AR7")
def test_a_script_does_something_for_each_thing_that_a_result_or_its_own_calls_name() -> None:
    rows = [{"id": "w2", "name": "Bäcker & Co", "up": "w1"}, {"id": "w3", "name": "Else", "up": "w9"}]
    listed = msgspec.json.encode({"own": "w1", "peers": rows}).decode()
    below = {"up": "^{list.own}$"}
    script = ModelScript(
        rules=[
            ScriptRule(
                when="result",
                tool="ask",
                acts=[ScriptAction(call="again", each="calls.ask", where={"result": "taken"})],
            ),
            ScriptRule(
                when="result",
                tool="ask",
                acts=[ScriptAction(call="wait", arguments={"for": [{"each": "calls.ask", "item": "{name}"}]})],
            ),
            ScriptRule(
                when="result",
                about="(?s)^Ask all: (?P<task>.*)",
                acts=[
                    ScriptAction(
                        call="ask",
                        each="list.peers",
                        where=below,
                        arguments={"name": "{name|slug}", "text": "{task} {id}"},
                    )
                ],
            ),
            ScriptRule(sender="peer", about="^Ask all", acts=[ScriptAction(call="list")]),
            ScriptRule(sender="person", acts=[ScriptAction(say="person: {said}")]),
        ]
    )
    told = item(1, "peer", '<peer_message author="x">Ask all: a &lt;b&gt;</peer_message>')
    look, seen = item(2, "assistant", call_id="c1", tool="list", arguments={}), item(3, "tool", listed, call_id="c1")
    assert choose_actions(script, [told]) == [ScriptAction(call="list")]
    assert choose_actions(
        script, [told, look, seen, item(4, "developer", "peers changed: x", type="context_note")]
    ) == [
        ScriptAction(call="ask", arguments={"name": "b_cker_co", "text": "a <b> w2"}),
    ]
    asks = [
        item(4, "assistant", call_id="c2", tool="ask", arguments={"name": "one"}),
        item(5, "assistant", call_id="c3", tool="ask", arguments={"name": "two"}),
        item(6, "tool", "done", call_id="c2"),
    ]
    assert choose_actions(script, [told, look, seen, *asks, item(7, "tool", "done", call_id="c3")]) == [
        ScriptAction(call="wait", arguments={"for": ["one", "two"]})
    ]
    assert [
        each.call for each in choose_actions(script, [told, look, seen, *asks, item(7, "tool", "taken", call_id="c3")])
    ] == ["again"]
    framed = item(1, "user", "<channel><instructions>x</instructions><body>hi &amp; bye</body></channel>")
    assert choose_actions(script, [framed])[0].say == "person: hi & bye"


@requirement("AR7")
def test_the_demos_lead_asks_its_teams_for_a_request_and_not_for_the_result_of_a_task() -> None:
    script = read_script(Path(engine_agent.__file__).parent, engine_agent.SCRIPT_FILE)
    told = {"peer_id": "w-2", "peer_name": "Theke", "text": "its agent is offline (target_offline). Choose another."}

    def actions(**fields: Any) -> list[str | None]:
        (said,) = turn_input(letter(**{**told, **fields}))
        chosen = choose_actions(script, [item(1, "peer", f'<peer_message author="x">{said["text"]}</peer_message>')])
        return [each.call or each.say for each in chosen]

    assert actions(kind="delegation") == ["spawn_agent", "spawn_agent"]
    assert actions(kind="delegation_result", intent="inform") == ["Noted."]
