"""Delegations by A2A `message/send`: only a message that says so is one, and its task has one id everywhere."""

import asyncio
from typing import Any

import pytest

from testing.delegation_steps import row_of
from testing.message_world import MessageWorld, handle, reply
from testing.raw_http import Reply, ask
from testing.running_server import Seat
from testing.waits import bounded, refused, until_waiting
from tests.requirements import requirement

EXTENSION = {"X-A2A-Extensions": "https://example.org/other, https://molecule.dev/ext/delegation/v1"}
DELEGATION = {"delegation": True}


async def pair(world: MessageWorld) -> tuple[Seat, Seat]:
    """Who gives work, and who gets it."""
    return await world.server.seat("Lead"), await world.server.seat("Ops")


def body_of(text: str, metadata: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A request as an A2A client sends it."""
    message = {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}], "messageId": "m-1"}
    params = {"message": {**message, "metadata": metadata or {}}, **more}
    return {"jsonrpc": "2.0", "id": 7, "method": "message/send", "params": params}


async def send(
    world: MessageWorld, token: str, target: Seat, body: dict[str, Any], headers: dict[str, str] | None = None
) -> Reply:
    """One message."""
    path = f"/workspaces/{target.id}/a2a"
    return await bounded(ask(world.server.port, "POST", path, body, token=token, headers=headers or {}))


@requirement("D6", "W1")
@pytest.mark.parametrize(("metadata", "headers"), [(DELEGATION, {}), ({}, EXTENSION)])
async def test_a_message_that_says_so_is_a_delegation_whose_task_is_its_row(
    world: MessageWorld, metadata: dict[str, Any], headers: dict[str, str]
) -> None:
    lead, ops = await pair(world)
    answer = await send(world, lead.token, ops, body_of("sort the mail", metadata), headers)
    task = answer.json["result"]
    assert (answer.status, answer.json["id"], task["kind"], task["status"]["state"]) == (202, 7, "task", "submitted")
    assert (answer.json["status"], answer.json["method"], answer.json["activity_id"]) == (
        "queued",
        "message/send",
        task["id"],
    )
    row = await row_of(world, task["id"])
    assert (row.source_id, row.target_id, row.task) == (lead.id, ops.id, "sort the mail")
    (given,) = await world.take(ops)
    assert (given["id"], given["kind"]) == (task["id"], "delegation")
    assert task["metadata"] == {"delegation_id": row.id, "status": "queued", "phase": "waiting"}


@requirement("D6", "D17")
@pytest.mark.parametrize("metadata", [{}, {"delegation": "true"}, {"delegation": 1}, {"kind": "delegation"}])
async def test_a_message_that_does_not_say_so_is_a_plain_one(world: MessageWorld, metadata: dict[str, Any]) -> None:
    lead, ops = await pair(world)
    answer = await send(world, lead.token, ops, body_of("sort the mail", metadata))
    assert answer.status == 200
    (given,) = await world.take(ops)
    assert given["kind"] == "peer_agent"
    assert await lead.api.get(f"/workspaces/{lead.id}/delegations") == []


@requirement("D9")
async def test_the_clients_message_id_is_the_key_and_never_the_id(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    first = (await send(world, lead.token, ops, body_of("sort the mail", DELEGATION))).json["result"]
    for headers in ({}, {"A2A-Version": "0.3"}):
        again = await send(world, lead.token, ops, body_of("sort the mail", DELEGATION), headers)
        assert again.json["result"]["id"] == first["id"] != "m-1"
        assert again.json["result"]["metadata"]["idempotent_hit"] is True
        assert again.status == (200 if headers else 202)
    other = await send(world, lead.token, ops, body_of("burn the mail", DELEGATION))
    assert (other.status, other.json["error"]["data"][0]["reason"]) == (409, "MESSAGE_ID_REUSED")


@requirement("D7")
async def test_who_sends_with_patience_is_told_the_end(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    body = body_of("sort the mail", DELEGATION, expires_in_seconds=600)
    waiting = asyncio.create_task(send(world, lead.token, ops, body, {"X-Timeout": "60"}))
    await until_waiting(world.server.server, 2)  # for its end, and for an approval that it may need
    (given,) = await world.take(ops)
    await reply(ops, handle(given), "sorted")
    answer = await bounded(waiting)
    task = answer.json["result"]
    assert (answer.status, task["id"], task["status"]["state"]) == (200, given["id"], "completed")
    assert "activity_id" not in answer.json
    row = await row_of(world, task["id"])
    assert row.deadline_at - row.created_at == 600 * 1_000_000
    again = (await send(world, lead.token, ops, body)).json["result"]
    assert again["artifacts"] == [{"artifactId": row.result_id, "parts": [{"kind": "text", "text": "sorted"}]}]


@requirement("D6")
async def test_a_person_writes_a_message_and_no_delegation(world: MessageWorld) -> None:
    _, ops = await pair(world)
    error = await refused(world.person.post(f"/workspaces/{ops.id}/a2a", body_of("sort the mail", DELEGATION)))
    assert (error.status, "only a workspace can delegate" in str(error.problem)) == (400, True)
    assert await world.take(ops) == []


@requirement("D13")
async def test_a_guard_refuses_in_the_language_of_the_request(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    await send(world, lead.token, ops, body_of("sort the mail", DELEGATION))
    await world.take(ops)
    back = await send(world, ops.token, lead, body_of("sort the mail", DELEGATION))
    assert (back.status, back.json["error"]["data"][0]["reason"]) == (409, "DELEGATION_CYCLE")
    own = await send(world, lead.token, lead, body_of("sort the mail", DELEGATION))
    assert (own.status, own.json["error"]["data"][0]["reason"]) == (422, "SELF_DELEGATION")
    strict = await send(
        world, ops.token, lead, {**body_of("sort the mail", DELEGATION), "id": 8}, {"A2A-Version": "0.3"}
    )
    assert (strict.status, strict.json["error"]["code"]) == (200, -32000)


# -- status messages of the target -------------------------------------------------------------------------------------


async def status(world: MessageWorld, ops: Seat, lead: Seat, delegation_id: str, said: Any, **more: Any) -> Reply:
    """What an agent of the A2A world tells of a task that it was given."""
    metadata = {"delegation_id": delegation_id, "status": said, **more}
    message = {"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": f"it is {said}"}]}
    body = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "message/send",
        "params": {"message": {**message, "metadata": metadata}},
    }
    return await send(world, ops.token, lead, body, {"X-Timeout": "0"})


@requirement("D6", "P5")
@pytest.mark.parametrize("by_handle", [False, True])
@pytest.mark.parametrize(
    ("said", "ends"),
    [
        ("completed", ("completed", None)),
        ("failed", ("failed", "rejected")),
        ("rejected", ("failed", "rejected")),
        ("canceled", ("failed", "rejected")),
    ],
)
async def test_a_status_message_of_the_target_ends_it(
    world: MessageWorld, said: str, ends: tuple[str, str | None], *, by_handle: bool
) -> None:
    lead, ops = await pair(world)
    await send(world, lead.token, ops, body_of("sort the mail", DELEGATION))
    (given,) = await world.take(ops)
    more = {"reply_handle": handle(given)} if by_handle else {}
    for _ in range(2):
        assert (await status(world, ops, lead, given["id"], said, **more)).status < 300
    row = await row_of(world, given["id"])
    assert (row.status.value, row.reason) == ends
    assert (row.error or row.result) == f"it is {said}"
    kinds = [each["kind"] for each in await world.take(lead)]
    assert kinds.count("delegation_result") == 1
    await world.pass_time(700)
    assert await world.take(ops) == []


@requirement("D6", "D12", "P5")
@pytest.mark.parametrize("by_handle", [False, True])
@pytest.mark.parametrize("said", ["submitted", "working", "input-required", "queued"])
async def test_a_status_message_that_says_it_is_under_way_ends_nothing(
    world: MessageWorld, said: str, *, by_handle: bool
) -> None:
    lead, ops = await pair(world)
    await send(world, lead.token, ops, body_of("sort the mail", DELEGATION))
    (given,) = await world.take(ops)
    more = {"reply_handle": handle(given)} if by_handle else {}
    assert (await status(world, ops, lead, given["id"], said, **more)).status < 300
    row = await row_of(world, given["id"])
    assert (row.open, row.phase.value) == (1, "working")
    assert [each["kind"] for each in await world.take(lead)] == ["peer_agent"]
    assert (await status(world, ops, lead, given["id"], "completed")).status < 300
    assert (await row_of(world, given["id"])).status.value == "completed"


@requirement("D6", "D17")
@pytest.mark.parametrize("said", ["completed", "failed"])
async def test_a_status_message_of_anybody_else_is_a_plain_message(world: MessageWorld, said: str) -> None:
    lead, ops = await pair(world)
    third = await world.server.seat("Third")
    await send(world, lead.token, ops, body_of("sort the mail", DELEGATION))
    (given,) = await world.take(ops)
    assert (await status(world, third, lead, given["id"], said)).status < 300
    assert (await status(world, lead, ops, given["id"], said)).status < 300
    assert (await row_of(world, given["id"])).open == 1
    assert [each["kind"] for each in await world.take(lead)] == ["peer_agent"]


@pytest.mark.parametrize("said", [7, None, ["failed"], {"state": "failed"}])
async def test_a_status_that_is_no_word_is_no_status(world: MessageWorld, said: Any) -> None:
    lead, ops = await pair(world)
    await send(world, lead.token, ops, body_of("sort the mail", DELEGATION))
    (given,) = await world.take(ops)
    assert (await status(world, ops, lead, given["id"], said)).status < 300
    assert (await row_of(world, given["id"])).status.value == "completed"
