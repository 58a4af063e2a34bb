"""Delegations to A2A agents of others: from the message to the end of the task, over both lines and transports."""

import pytest

from testing.a2a_agents import V0_3, V1, StubAgent, completed
from testing.waits import eventually
from tests.a2a_agents.conftest import A2AWorld
from tests.requirements import requirement

LINES = [
    pytest.param((V1, "JSONRPC", True), id="1.0 streaming"),
    pytest.param((V1, "JSONRPC", False), id="1.0 polling"),
    pytest.param((V1, "HTTP+JSON", True), id="1.0 REST streaming"),
    pytest.param((V1, "HTTP+JSON", False), id="1.0 REST polling"),
    pytest.param((V0_3, "JSONRPC", True), id="0.3 streaming"),
    pytest.param((V0_3, "JSONRPC", False), id="0.3 polling"),
]
Kind = tuple[str, str, bool]


def stub(kind: Kind, host: str = "agent.example") -> StubAgent:
    """An agent of one line."""
    line, binding, streaming = kind
    return StubAgent(host, line=line, binding=binding, streaming=streaming)


@pytest.mark.parametrize("kind", LINES)
@requirement("M24", "D2")
async def test_a_task_that_ends_later_completes_its_delegation_once(a2a: A2AWorld, kind: Kind) -> None:
    agent = stub(kind)
    ops = await a2a.hire(agent)
    delegation_id = await a2a.delegate(ops)
    await a2a.until_sent(agent)
    await a2a.until_followed(ops, delegation_id)
    before = (await a2a.row(delegation_id)).taken_at is not None
    task = agent.only_task()
    agent.add_artifact(task, "all ")
    agent.add_artifact(task, "sorted", append=True)
    agent.set_state(task, "completed")
    await a2a.later(60)
    row = await a2a.until(delegation_id, "completed")
    assert (before, row.result) == (True, "all sorted")
    assert len(agent.messages()) == 1
    assert len(await a2a.events("DELEGATION_COMPLETE")) == 1


@pytest.mark.parametrize("kind", LINES)
async def test_a_task_that_ends_at_once_needs_no_poll(a2a: A2AWorld, kind: Kind) -> None:
    agent = stub(kind)
    agent.script = completed("sorted")
    ops = await a2a.hire(agent)
    row = await a2a.until(await a2a.delegate(ops), "completed")
    assert row.result == "sorted"
    assert agent.operations() in (["SendMessage"], ["SendStreamingMessage"])


@pytest.mark.parametrize("kind", LINES)
async def test_the_answer_to_a_question_goes_to_the_same_task(a2a: A2AWorld, kind: Kind) -> None:
    agent = stub(kind)
    agent.script = lambda stub, task, _message: stub.set_state(task, "input-required", "Which mail?")
    ops = await a2a.hire(agent)
    delegation_id = await a2a.delegate(ops)
    await a2a.until(delegation_id, "asking")
    rows = await a2a.world.take(a2a.lead)
    assert "Which mail?" in str(rows[-1]["request_body"])
    agent.script = completed("only the new")
    handle = rows[-1]["instructions"]["reply_handle"]
    await a2a.lead.api.post(f"/workspaces/{a2a.lead.id}/reply", {"handle": handle, "text": "The new one"})
    row = await a2a.until(delegation_id, "completed")
    second = agent.messages()[1]
    assert row.result == "only the new"
    assert (second["taskId"], second["contextId"]) == ("task-1", agent.only_task()["contextId"])


@pytest.mark.parametrize("kind", LINES)
async def test_a_cancelled_delegation_cancels_its_task_once(a2a: A2AWorld, kind: Kind) -> None:
    agent = stub(kind)
    ops = await a2a.hire(agent)
    delegation_id = await a2a.delegate(ops)
    await a2a.until_followed(ops, delegation_id)
    await a2a.lead.api.post(f"/workspaces/{a2a.lead.id}/delegations/{delegation_id}/cancel", {})

    async def state() -> str:
        await a2a.later(0)
        return str(agent.only_task()["status"]["state"])

    await eventually(state, lambda found: found == "canceled")
    await a2a.later(120)
    await a2a.world.rest()
    assert agent.operations().count("CancelTask") == 1
    assert (await a2a.row(delegation_id)).status.value == "cancelled"


async def test_a_task_that_cannot_be_cancelled_any_more_is_no_error(a2a: A2AWorld) -> None:
    agent = StubAgent()
    ops = await a2a.hire(agent)
    delegation_id = await a2a.delegate(ops)
    await a2a.until_followed(ops, delegation_id)
    agent.only_task()["status"] = {"state": "completed"}
    await a2a.lead.api.post(f"/workspaces/{a2a.lead.id}/delegations/{delegation_id}/cancel", {})
    await a2a.world.rest()
    assert agent.operations().count("CancelTask") == 1
    page = await a2a.world.person.get(f"/workspaces/{ops.id}/dead-letters")
    assert page["dead_letters"] == []


@pytest.mark.parametrize(
    ("state", "reason", "error"),
    [("failed", "agent_error", "no disk"), ("rejected", "rejected", "no disk"), ("canceled", "agent_error", "no disk")],
)
async def test_a_task_that_ends_badly_is_a_failure_with_its_reason(
    a2a: A2AWorld, state: str, reason: str, error: str
) -> None:
    agent = StubAgent(script=lambda stub, task, _message: stub.set_state(task, state, "no disk"))
    ops = await a2a.hire(agent)
    row = await a2a.until(await a2a.delegate(ops), "failed")
    assert (row.reason and row.reason.value, row.result) == (reason, None)
    assert error in (row.error or "")


async def test_a_lost_stream_is_opened_again_and_loses_and_doubles_nothing(a2a: A2AWorld) -> None:
    agent = StubAgent(streaming=True)
    ops = await a2a.hire(agent)
    delegation_id = await a2a.delegate(ops)
    await a2a.until_followed(ops, delegation_id)
    task = agent.only_task()
    agent.add_artifact(task, "first")
    agent.streams[0].cut()
    agent.add_artifact(task, "second")

    async def subscribed() -> int:
        await a2a.later(1)
        return agent.operations().count("SubscribeToTask")

    await eventually(subscribed, lambda count: count > 0)
    agent.set_state(task, "completed")
    row = await a2a.until(delegation_id, "completed")
    assert row.result == "first\nsecond"


async def test_an_agent_that_lost_the_task_fails_the_delegation(a2a: A2AWorld) -> None:
    agent = StubAgent()
    ops = await a2a.hire(agent)
    delegation_id = await a2a.delegate(ops)
    await a2a.until_followed(ops, delegation_id)
    agent.tasks.clear()
    await a2a.later(60)
    row = await a2a.until(delegation_id, "failed")
    assert "lost the task" in (row.error or "")
