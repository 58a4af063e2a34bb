"""Content that is not text reaches its reader, and a question of a pushed agent reaches its delegator."""

import base64
from typing import Any

import pytest

from molecule_core.client.api import ApiError
from molecule_core.delegations.rules import a2a_state
from molecule_core.messages.events import QuestionAsked
from molecule_core.wire.schemas.inbox import message_from_row
from testing.delegation_steps import begin, row_of
from testing.message_world import MessageWorld
from testing.push_agents import plain
from tests.delegations.push_team import URL, team
from tests.requirements import requirement

PDF = b"%PDF-1.7 \x00\xff"
BYTES = base64.b64encode(PDF).decode()


def task(state: str, words: str = "", **more: Any) -> Any:
    """An A2A task as an answer."""
    message = {"message": {"role": "agent", "parts": [{"kind": "text", "text": words}]}} if words else {}
    return plain(200, result={"kind": "task", "id": "t1", "status": {"state": state, **message}, **more})


async def inbox_of(world: MessageWorld, seat: Any) -> list[Any]:
    """What an agent reads."""
    return [message_from_row(row) for row in await world.take(seat)]


async def bytes_of(seat: Any, uri: str) -> bytes:
    """What an agent downloads."""
    found = bytearray()
    await seat.api.download(uri, found.extend)
    return bytes(found)


@requirement("D7")
async def test_an_empty_answer_of_a_polling_agent_is_refused(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    delegation_id = (await begin(world, lead, ops)).row.id
    (task_row,) = await inbox_of(world, ops)
    with pytest.raises(ApiError, match="cannot be empty"):
        await ops.api.post(f"/workspaces/{ops.id}/reply", {"handle": task_row.reply_handle, "text": " \n"})
    assert not (await row_of(world, delegation_id)).status.is_ended


@requirement("D7")
@pytest.mark.parametrize(
    "part",
    [
        {"kind": "file", "file": {"bytes": BYTES, "name": "plan.pdf", "mimeType": "application/pdf"}},
        {"raw": BYTES, "filename": "plan.pdf", "mediaType": "application/pdf"},
    ],
)
async def test_data_and_inline_files_of_a_pushed_agent_reach_its_delegator(
    world: MessageWorld, part: dict[str, Any]
) -> None:
    there = await team(world)
    parts = [{"kind": "data", "data": {"rows": [1, 2]}}, part]
    world.net.answers(URL, task("completed", artifacts=[{"artifactId": "a", "parts": parts}]))
    row = await there.ended(await there.gives())
    assert (row.status, row.result) == ("completed", '{"rows":[1,2]}')
    (result,) = await inbox_of(world, there.lead)
    assert result.body == '{"rows":[1,2]}'
    (file,) = result.attachments
    assert (file["name"], file["mime_type"], file["size"]) == ("plan.pdf", "application/pdf", len(PDF))
    assert await bytes_of(there.lead, file["uri"]) == PDF


@requirement("D7")
async def test_a_delegation_without_content_has_failed_and_says_why(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, task("completed"))
    row = await there.ended(await there.gives())
    assert (row.status, row.reason) == ("failed", "agent_error") and "has no content" in (row.error or "")


@requirement("D7")
@pytest.mark.parametrize(
    "part",
    [
        {"kind": "file", "file": {"bytes": BYTES, "name": "plan.pdf", "mimeType": "application/pdf"}},
        {"raw": BYTES, "filename": "plan.pdf", "mediaType": "application/pdf"},
    ],
)
async def test_data_and_inline_files_of_a_person_reach_an_agent_once(world: MessageWorld, part: dict[str, Any]) -> None:
    ops = await world.server.seat("Ops")
    message = {"role": "ROLE_USER", "messageId": "m1", "parts": [{"data": {"rows": [1]}}, part]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    receipts = [await world.person.call("POST", f"/workspaces/{ops.id}/a2a", body=body) for _ in range(2)]
    assert receipts[0]["activity_id"] == receipts[1]["activity_id"]
    (found,) = await inbox_of(world, ops)
    assert found.body == '{"rows":[1]}'
    (file,) = found.attachments
    assert await bytes_of(ops, file["uri"]) == PDF
    page = await world.person.get(f"/workspaces/{ops.id}/chat-history")
    assert page["messages"][0]["content"] == '{"rows":[1]}'


@requirement("D5")
async def test_a_question_of_a_pushed_agent_reaches_its_delegator_whose_answer_goes_on_with_the_task(
    world: MessageWorld,
) -> None:
    there = await team(world)
    world.net.answers(
        URL, task("input-required", "Which colour?"), task("auth-required"), task("completed", "It is blue.")
    )
    one = await there.gives()
    row = await there.row(one)
    assert (row.status, row.phase, a2a_state(row)) == ("queued", "asking", "input-required")
    (asked,) = there.of(QuestionAsked)
    assert asked.text == "Which colour?"
    for words in ("Which colour?", "needs an authorization"):
        (question,) = await inbox_of(world, there.lead)
        assert (question.peer_id, question.intent, question.kind) == (there.ops.id, "request", "peer_agent")
        assert words in question.body and one in question.body
        reply = {"handle": question.reply_handle, "text": "Blue."}
        await there.lead.api.call("POST", f"/workspaces/{there.lead.id}/reply", body=reply)
        await world.rest()
    ended = await there.ended(one)
    assert (ended.status, ended.result) == ("completed", "It is blue.")
    assert len(there.pushed) == 3 and there.pushed[1].text == "Blue."
    (result,) = await inbox_of(world, there.lead)
    assert (result.kind, result.body) == ("delegation_result", "It is blue.")


@requirement("D5")
async def test_a_remark_about_a_task_without_a_question_does_not_end_it(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, task("working"), task("completed", "Yes, soon."))
    one = await there.gives()
    message = {"role": "user", "contextId": one, "parts": [{"kind": "text", "text": "Please hurry"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    await there.lead.api.call("POST", f"/workspaces/{there.ops.id}/a2a", body=body, headers={"x-timeout": "0"})
    await world.rest()
    assert len(there.pushed) == 2 and not (await there.row(one)).status.is_ended
    assert [each.body for each in await inbox_of(world, there.lead)] == ["Yes, soon."]


@requirement("D5")
@pytest.mark.parametrize(("words", "shown"), [("Which colour?", "Which colour?"), ("", "needs input to continue")])
async def test_a_person_reads_the_question_of_a_pushed_agent(world: MessageWorld, words: str, shown: str) -> None:
    there = await team(world)
    world.net.answers(URL, task("input-required", words))
    await world.ask(there.ops, "Paint it")
    await world.rest()
    page = await world.person.get(f"/workspaces/{there.ops.id}/chat-history")
    assert shown in page["messages"][-1]["content"]
