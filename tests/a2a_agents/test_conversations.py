"""People and peers who write to an A2A agent: contexts, questions in a chat, files, and restarts of the server."""

import base64
from pathlib import Path
from typing import Any

import pytest

from testing.a2a_agents import V0_3, V1, A2ANetwork, StubAgent, completed
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.running_server import running
from testing.waits import eventually
from tests.a2a_agents.conftest import A2AWorld


async def chat(a2a: A2AWorld, seat: Any) -> list[str]:
    """The texts of a chat."""
    await a2a.later(0)
    return [str(each) for each in await a2a.world.chat(seat)]


async def until_chat(a2a: A2AWorld, seat: Any, text: str) -> None:
    """Wait until a text is in the chat."""
    await eventually(lambda: chat(a2a, seat), lambda found: any(text in each for each in found))


@pytest.mark.parametrize("line", [V1, V0_3])
async def test_a_person_asks_and_answers_in_one_context_and_task(a2a: A2AWorld, line: str) -> None:
    agent = StubAgent(line=line, script=lambda stub, task, _m: stub.set_state(task, "input-required", "Which one?"))
    ops = await a2a.hire(agent)
    await a2a.world.ask(ops, "Sort it")
    await until_chat(a2a, ops, "Which one?")
    agent.script = completed("sorted")
    await a2a.world.ask(ops, "The first")
    await until_chat(a2a, ops, "sorted")
    await a2a.world.ask(ops, "Again")
    await a2a.until_sent(agent, 3)
    first, second, third = agent.messages()
    assert (first.get("taskId"), second["taskId"], third.get("taskId")) == (None, "task-1", None)
    assert first["contextId"] == second["contextId"] == third["contextId"]
    assert all("instructions" not in each["metadata"] for each in agent.messages())


async def test_a_late_answer_reaches_the_chat_once(a2a: A2AWorld) -> None:
    agent = StubAgent()
    ops = await a2a.hire(agent)
    activity_id = await a2a.world.ask(ops, "Sort it")
    await a2a.until_followed(ops, activity_id)
    await a2a.later(300)  # past the due time of an answer: a reminder is not sent to the agent as another task
    await a2a.world.rest()
    agent.add_artifact(agent.only_task(), "sorted at last")
    agent.set_state(agent.only_task(), "completed")
    await a2a.later(60)
    await until_chat(a2a, ops, "sorted at last")
    await a2a.later(600)
    await a2a.world.rest()
    texts = [each for each in await chat(a2a, ops) if "sorted at last" in each]
    assert (len(texts), len(agent.messages())) == (1, 1)


@pytest.mark.parametrize("line", [V1, V0_3])
async def test_files_are_sent_with_their_bytes_and_come_back_as_files(a2a: A2AWorld, line: str) -> None:
    def answer(stub: StubAgent, task: dict[str, Any], message: dict[str, Any]) -> None:
        part = next(each for each in message["parts"] if "raw" in each or each.get("kind") == "file")
        received.append(base64.b64decode(part.get("raw") or part["file"]["bytes"]))
        content = base64.b64encode(b"answer").decode()
        file = {"kind": "file", "file": {"name": "back.txt", "mimeType": "text/plain", "bytes": content}}
        stub.add_artifact(task, "", parts=[{"kind": "text", "text": "here"}, file])
        stub.set_state(task, "completed")

    received: list[bytes] = []
    ops = await a2a.hire(StubAgent(line=line, script=answer))
    file = {"name": "in.txt", "mimeType": "text/plain", "bytes": base64.b64encode(b"question").decode()}
    parts = [{"kind": "text", "text": "read it"}, {"kind": "file", "file": file}]
    message = {"role": "user", "parts": parts}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    await a2a.world.person.call("POST", f"/workspaces/{ops.id}/a2a", body=body, headers={"x-timeout": "0"})
    await until_chat(a2a, ops, "back.txt")
    assert received == [b"question"]


async def test_a_new_server_process_follows_the_tasks_of_the_one_before(
    place: str, tmp_path: Path, clock: FakeClock, engine: Engine
) -> None:
    agent = StubAgent(streaming=True)
    net = A2ANetwork(agent)
    async with running(engine, place, tmp_path, clock=clock, fetcher=net) as server:
        person = await server.person()
        ops = await server.seat("Ops", a2a_card_url=agent.card_url)
        message = {"role": "user", "parts": [{"kind": "text", "text": "Sort it"}]}
        body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
        sent = await person.call("POST", f"/workspaces/{ops.id}/a2a", body=body, headers={"x-timeout": "0"})
        reader = server.server.a2a_agents.reader

        async def followed() -> bool:
            await clock.advance(0)
            task = await reader.task(ops.id, sent["activity_id"])
            return task is not None and task.claim > 0

        await eventually(followed, bool)
    assert agent.streams[0].is_closed
    agent.add_artifact(agent.only_task(), "done meanwhile")
    agent.set_state(agent.only_task(), "completed")
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, seed=1) as server:
        admin = server.admin

        async def texts() -> str:
            await clock.advance(1)
            return str((await admin.get(f"/workspaces/{ops.id}/chat-history"))["messages"])

        await eventually(texts, lambda found: "done meanwhile" in found)
    assert len(agent.messages()) == 1
