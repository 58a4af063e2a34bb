"""What goes wrong between the server and an A2A agent: each has its reason, and no work is done twice."""

import json
from collections.abc import Awaitable
from typing import Any

import pytest

from molecule_core.common.errors import FetchFailed
from molecule_core.common.net.safe_fetch import FetchResult
from testing.a2a_agents import V0_3, RpcError, StubAgent, completed
from testing.waits import eventually
from tests.a2a_agents.conftest import A2AWorld


async def respond(status: int, value: Any) -> FetchResult:
    """Answer with JSON."""
    return FetchResult(status, {"content-type": "application/json"}, json.dumps(value).encode())


async def fail(*, sent: bool) -> FetchResult:
    """Break the connection."""
    raise FetchFailed(reason="connection lost", sent=sent, status=None)


NEITHER = {"jsonrpc": "2.0", "id": "1"}
PROTOCOL = {**NEITHER, "error": {"code": -32602, "message": "no such field"}}
INTERNAL = {**NEITHER, "error": {"code": -32603, "message": "it crashed"}}


@pytest.mark.parametrize(
    ("status", "value", "reason", "error"),
    [
        (200, NEITHER, "bad_answer", "neither a task nor a message"),
        (200, {**NEITHER, "result": {"ok": True}}, "bad_answer", "neither a task nor a message"),
        (200, PROTOCOL, "refused", "no such field (error -32602)"),
        (200, INTERNAL, "agent_error", "it crashed"),
        (403, {"error": {"message": "who are you"}}, "refused", "HTTP 403: who are you"),
    ],
)
async def test_each_bad_answer_is_a_failure_of_its_own_and_no_result(
    a2a: A2AWorld, status: int, value: Any, reason: str, error: str
) -> None:
    agent = StubAgent()
    agent.answer_with = lambda _operation: respond(status, value)
    ops = await a2a.hire(agent)
    row = await a2a.until(await a2a.delegate(ops), "failed")
    assert (row.reason and row.reason.value, row.result, error in (row.error or "")) == (reason, None, True)


async def test_an_agent_that_is_not_reached_is_tried_again_and_then_unreachable(a2a: A2AWorld) -> None:
    agent = StubAgent()
    ops = await a2a.hire(agent)
    await a2a.world.rest()
    agent.is_down = True
    delegation_id = await a2a.delegate(ops)

    async def ended() -> str:
        await a2a.later(10)
        return str((await a2a.row(delegation_id)).reason)

    assert await eventually(ended, lambda found: found != "None") == "unreachable"


async def test_a_send_without_a_response_is_looked_for_and_not_repeated(a2a: A2AWorld) -> None:
    agent = StubAgent()

    def lose(operation: str) -> Awaitable[FetchResult] | None:
        if operation != "SendMessage" or agent.tasks:
            return None
        body = {"messageId": delegated[0], "role": "ROLE_USER", "parts": [{"text": "sort"}], "contextId": contexts[0]}
        agent._accept(body)
        return fail(sent=True)

    ops = await a2a.hire(agent)
    await a2a.world.rest()
    delegated, contexts = list[str](), list[str]()
    agent.script = completed("sorted once")
    first = await a2a.until(await a2a.delegate(ops, "warm up"), "completed")
    contexts.append(agent.messages()[0]["contextId"])
    agent.tasks.clear()
    agent.answer_with = lambda operation: lose(operation) if delegated else None
    original = a2a.net._call

    async def remember(found: StubAgent, url: str, headers: dict[str, str], body: bytes | None) -> FetchResult:
        if body is not None and b"SendMessage" in body:
            delegated.append(json.loads(body)["params"]["message"]["messageId"])
        return await original(found, url, headers, body)

    a2a.net._call = remember  # type: ignore[assignment,method-assign]
    row = await a2a.until(await a2a.delegate(ops), "completed")
    assert (first.result, row.result, len(agent.tasks)) == ("sorted once", "sorted once", 1)
    assert agent.operations()[-2:] == ["ListTasks", "GetTask"]  # a list has no artifacts


async def test_a_task_whose_server_is_gone_for_a_while_is_followed_when_it_returns(a2a: A2AWorld) -> None:
    agent = StubAgent()
    ops = await a2a.hire(agent)
    delegation_id = await a2a.delegate(ops)
    await a2a.until_followed(ops, delegation_id)
    agent.is_down = True
    for _ in range(3):
        await a2a.later(20)
        await a2a.world.rest()
    agent.is_down = False
    agent.add_artifact(agent.only_task(), "after the pause")
    agent.set_state(agent.only_task(), "completed")

    async def result() -> str | None:
        await a2a.later(60)
        return (await a2a.row(delegation_id)).result

    assert await eventually(result, bool) == "after the pause"
    assert len(agent.messages()) == 1


async def test_a_task_whose_server_never_returns_fails_as_unreachable(a2a: A2AWorld) -> None:
    agent = StubAgent()
    ops = await a2a.hire(agent)
    delegation_id = await a2a.delegate(ops)
    await a2a.until_followed(ops, delegation_id)
    agent.is_down = True

    async def reason() -> str:
        await a2a.later(310)
        return str((await a2a.row(delegation_id)).reason)

    assert await eventually(reason, lambda found: found != "None") == "unreachable"


@pytest.mark.parametrize("line", ["1.0", V0_3])
async def test_an_agent_that_does_not_stream_after_all_is_polled(a2a: A2AWorld, line: str) -> None:
    agent = StubAgent(line=line, streaming=True, script=completed("polled"))
    ops = await a2a.hire(agent)
    await a2a.world.rest()
    agent.streaming = False
    row = await a2a.until(await a2a.delegate(ops), "completed")
    assert row.result == "polled"


async def test_the_same_question_is_asked_once_and_a_new_one_again(a2a: A2AWorld) -> None:
    agent = StubAgent(script=lambda stub, task, _message: stub.set_state(task, "auth-required", "Log in first"))
    ops = await a2a.hire(agent)
    delegation_id = await a2a.delegate(ops)
    await a2a.until(delegation_id, "asking")
    for _ in range(4):
        await a2a.later(31)
        await a2a.world.rest()
    asked = len(await a2a.world.take(a2a.lead))
    agent.set_state(agent.only_task(), "input-required", "Which mail?")

    async def questions() -> int:
        await a2a.later(31)
        rows = await a2a.world.person.get(f"/workspaces/{a2a.lead.id}/activity", type="a2a_receive", limit=50)
        return sum("waits for your answer" in str(row["request_body"]) for row in rows)

    assert (asked, await eventually(questions, lambda count: count > 1)) == (1, 2)


async def test_a_task_that_is_authorized_elsewhere_goes_on_by_itself(a2a: A2AWorld) -> None:
    agent = StubAgent(script=lambda stub, task, _message: stub.set_state(task, "auth-required", "Log in first"))
    ops = await a2a.hire(agent)
    delegation_id = await a2a.delegate(ops)
    await a2a.until(delegation_id, "asking")
    agent.add_artifact(agent.only_task(), "logged in")
    agent.set_state(agent.only_task(), "completed")
    await a2a.later(31)
    row = await a2a.until(delegation_id, "completed")
    assert row.result == "logged in"


async def test_an_error_of_the_stub_is_an_error_of_its_line() -> None:
    agent = StubAgent()
    with pytest.raises(RpcError) as refused:
        agent.respond(agent.url, {"A2A-Version": "1.0"}, b'{"jsonrpc": "2.0", "id": null, "method": "GetTask"}')
    with pytest.raises(RpcError) as version:
        agent.respond(agent.url, {}, b"{}")
    assert (refused.value.code, version.value.code) == (-32600, -32009)
