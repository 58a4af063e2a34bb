"""Codex starts a process of `molecule mcp` for each thread, children's too: one workspace, two processes."""

import pytest

from tests.interop.hosts import CODEX_CLI
from tests.interop.model_scripts import Act, Asked, Call, Step
from tests.interop.scene import Scene, answer_to, answers, peeks
from tests.requirements import requirement

QUESTION = "Which river flows through Ulm?"
TASK = "You are the child: look who is there."


def parent_or_child(parent: Step, child: Step) -> Step:
    """A step for whoever asks: only the child was told its task."""

    def step(asked: Asked) -> Act:
        return child(asked) if TASK in asked.said else parent(asked)

    return step


def spawns(_asked: Asked) -> Call:
    return Call("multi_agent_v1.spawn_agent", {"message": TASK})


def waits_for_the_child(asked: Asked) -> Call:
    return Call("multi_agent_v1.wait_agent", {"targets": [asked.last["agent_id"]], "timeout_ms": 60_000})


def answers_at_last(asked: Asked) -> Call:
    return answers(asked._replace(results=asked.results[:1]))


def is_done(_asked: Asked) -> str:
    return "Nobody is there."


@requirement("X1", "G14")
@pytest.mark.parametrize("host", [CODEX_CLI], ids=[CODEX_CLI.name], indirect=True)
async def test_a_child_of_a_real_host_uses_the_seat_beside_its_parent_and_takes_nothing_from_it(scene: Scene) -> None:
    activity_id = await scene.ops.writes(QUESTION)
    scene.configure(before=scene.tap)

    def looks_around(_asked: Asked) -> Call:
        return Call("list_peers", {})

    visit = await scene.run(
        parent_or_child(peeks, looks_around),
        parent_or_child(spawns, peeks),
        parent_or_child(waits_for_the_child, is_done),
        answers_at_last,
    )

    assert visit.went_well, visit.told
    assert len(visit.to_us("initialize")) == 2
    called = [call["params"]["name"] for call in visit.to_us("tools/call")]
    assert sorted(called) == ["inbox_peek", "inbox_peek", "list_peers", "reply_to_workspace"]
    (shown_to_child,) = [
        each.results[1].value for each in visit.mind.asked if TASK in each.said and len(each.results) == 2
    ]
    assert shown_to_child["messages"] == []
    assert await scene.ops.chat() == [("user", QUESTION), ("agent", answer_to(QUESTION))], visit.told
    assert await scene.ops.became(activity_id) == ["stored", "in_inbox", "answered", "acked"]
