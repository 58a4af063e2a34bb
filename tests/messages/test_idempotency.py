"""Nothing is told twice: the same message again is the same answer again, however it is repeated."""

import asyncio
from pathlib import Path
from typing import Any

from molecule_core.client.api import ApiClient
from molecule_core.common.limits import Limits
from testing.engines import Engine
from testing.raw_http import ask
from testing.running_server import Running, Seat, running
from testing.waits import bounded, refused
from tests.requirements import requirement


def body_of(text: str, message_id: str | None, *, part: str = "kind", rpc_id: str = "1", **more: Any) -> dict[str, Any]:
    """A JSON-RPC message, its parts spelled with `kind` or `type`."""
    message: dict[str, Any] = {"role": "user", "parts": [{part: "text", "text": text}], **more}
    if message_id is not None:
        message["messageId"] = message_id
    return {"jsonrpc": "2.0", "id": rpc_id, "method": "message/send", "params": {"message": message}}


async def post(api: ApiClient, seat: Seat, body: dict[str, Any], **headers: str) -> Any:
    """One message; header names with underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await bounded(api.call("POST", f"/workspaces/{seat.id}/a2a", body=body, headers=named))


async def inbox_of(seat: Seat) -> list[str]:
    """The texts in an inbox, oldest first."""
    rows = await bounded(seat.api.get(f"/workspaces/{seat.id}/activity", type="a2a_receive", limit=500))
    return [row["request_body"]["params"]["message"]["parts"][0]["text"] for row in reversed(rows)]


@requirement("P2", "M13")
async def test_the_same_message_again_gets_the_first_answer_again(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()

    answers = [await post(person, ops, body_of("hi", "m-1")) for _ in range(3)]

    assert answers[1:] == answers[:1] * 2
    assert await inbox_of(ops) == ["hi"]


@requirement("P2", "M13")
async def test_the_same_content_in_another_spelling_is_the_same_message(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()

    first = await post(person, ops, body_of("hi", "m-1", part="kind"))
    second = await post(person, ops, body_of("hi", "m-1", part="type"))

    assert second == first
    assert await inbox_of(ops) == ["hi"]


@requirement("P2", "M13")
async def test_a_repetition_is_answered_under_its_own_rpc_id(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()

    first = await post(person, ops, body_of("hi", "m-1", rpc_id="call-1"))
    second = await post(person, ops, body_of("hi", "m-1", rpc_id="call-2"))

    assert (first["id"], second["id"]) == ("call-1", "call-2")
    assert second["activity_id"] == first["activity_id"]


@requirement("P2", "M13")
async def test_other_content_under_a_used_id_is_refused_and_changes_nothing(server: Running) -> None:
    ops, other, person = await server.seat("Ops"), await server.seat("Other"), await server.person()
    await post(person, ops, body_of("hi", "m-1"))

    other_text = await refused(post(person, ops, body_of("ho", "m-1")))
    other_intent = await refused(post(person, ops, body_of("hi", "m-1", metadata={"intent": "inform"})))
    other_receiver = await refused(post(person, other, body_of("hi", "m-1")))

    for error in (other_text, other_intent, other_receiver):
        assert error.status == 409
        rpc_error = error.problem["error"]
        assert rpc_error["code"] == -32602
        assert rpc_error["data"][0]["reason"] == "MESSAGE_ID_REUSED"
        assert "m-1" in rpc_error["message"]
    assert await inbox_of(ops) == ["hi"]
    assert await inbox_of(other) == []


@requirement("P2", "M13")
async def test_a_client_without_an_envelope_reads_the_409_as_plain_text(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()

    def bare(text: str) -> dict[str, Any]:
        return {"params": {"message": {"messageId": "m-1", "content": text}}}

    await post(person, ops, bare("hi"))
    error = await refused(post(person, ops, bare("ho")))

    assert (error.status, error.code) == (409, "message_id_reused")
    assert "m-1" in str(error.problem["error"])


@requirement("P2", "M13")
async def test_ids_belong_to_their_sender(server: Running) -> None:
    ops, lead, peer = await server.seat("Ops"), await server.seat("Lead"), await server.seat("Peer")
    person, another = await server.person(), await server.person()

    senders = (person, another, lead.api, peer.api, server.admin)
    answers = [await post(api, ops, body_of("hi", "m-1")) for api in senders]

    assert len({answer["activity_id"] for answer in answers}) == 5
    assert await inbox_of(ops) == ["hi"] * 5


@requirement("P2", "M13")
async def test_messages_without_an_id_are_all_different(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()

    for _ in range(2):
        await post(person, ops, body_of("hi", None))

    assert await inbox_of(ops) == ["hi", "hi"]


@requirement("P2", "M13")
async def test_an_idempotency_key_tells_repetitions_apart_from_the_message_id(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()

    first = await post(person, ops, body_of("hi", "m-1"), idempotency_key="key-1")
    again = await post(person, ops, body_of("hi", "m-2"), idempotency_key="key-1")
    fresh = await post(person, ops, body_of("hi", "m-1"), idempotency_key="key-2")
    other = await refused(post(person, ops, body_of("ho", "m-1"), idempotency_key="key-1"))

    assert again["activity_id"] == first["activity_id"] != fresh["activity_id"]
    assert other.status == 409
    assert await inbox_of(ops) == ["hi", "hi"]


@requirement("P2", "M13")
async def test_an_idempotency_key_of_strange_characters_or_length_is_refused(server: Running) -> None:
    ops, lead = await server.seat("Ops"), await server.seat("Lead")

    for key in ("a b", "ä", "x" * 129, "", "a/b", "{}"):
        headers = {"Idempotency-Key": key}
        path = f"/workspaces/{ops.id}/a2a"
        reply = await ask(server.port, "POST", path, body_of("hi", "m-1"), token=lead.token, headers=headers)
        assert reply.status == 422, key
        assert "Idempotency-Key" in reply.error
    assert await inbox_of(ops) == []


@requirement("P2", "M10")
async def test_a_notice_with_a_key_is_told_once(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person("viewer")
    headers = {"idempotency-key": "n-1"}

    async def notify(text: str) -> Any:
        return await ops.api.call("POST", f"/workspaces/{ops.id}/notify", body={"message": text}, headers=headers)

    first, second = await notify("done"), await notify("done")
    other = await refused(notify("not done"))

    chat = await person.get(f"/workspaces/{ops.id}/chat-history")
    assert first == second
    assert other.status == 409
    assert [line["content"] for line in chat["messages"]] == ["done"]


@requirement("P2", "M13")
async def test_a_burst_of_one_message_leaves_one_row_and_one_answer(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()

    burst = (post(person, ops, body_of("hi", "m-1")) for _ in range(50))
    answers = await bounded(asyncio.gather(*burst))

    assert all(answer == answers[0] for answer in answers)
    assert await inbox_of(ops) == ["hi"]


@requirement("P2", "M13")
async def test_a_burst_of_several_contents_under_one_id_keeps_exactly_one(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()

    burst = (post(person, ops, body_of(f"content {number % 5}", "m-1")) for number in range(50))
    answers = await bounded(asyncio.gather(*burst, return_exceptions=True))

    kept = [answer for answer in answers if isinstance(answer, dict)]
    assert len(kept) == 10
    assert len({answer["activity_id"] for answer in kept}) == 1
    assert len(await inbox_of(ops)) == 1


@requirement("M16")
async def test_a_burst_of_different_messages_keeps_all_in_a_gap_free_order(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()

    await bounded(asyncio.gather(*(post(person, ops, body_of(str(n), f"m-{n}")) for n in range(50))))

    rows = await ops.api.get(f"/workspaces/{ops.id}/activity", limit=500)
    assert [row["seq"] for row in rows] == list(range(50, 0, -1))
    assert {row["summary"] for row in rows} == {str(n) for n in range(50)}


@requirement("M13", "M12")
async def test_an_a2a_client_may_send_one_message_id_twice(server: Running) -> None:
    """The A2A kit does so on purpose: only its Idempotency-Key makes two requests one."""
    ops, person = await server.seat("Ops"), await server.person()

    for _ in range(2):
        await post(person, ops, body_of("hi", "m-1"), a2a_version="0.3")
    keyed = [await post(person, ops, body_of("ho", "m-1"), a2a_version="0.3", idempotency_key="k") for _ in range(2)]

    assert keyed[0] == keyed[1]
    assert await inbox_of(ops) == ["hi", "hi", "ho"]


@requirement("P2", "M13")
async def test_a_message_that_was_handled_long_ago_still_gets_its_first_answer(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    first = await post(person, ops, body_of("hi", "m-1"))
    (row,) = await ops.api.claim(ops.id)
    await ops.api.ack(ops.id, row)

    again = await post(person, ops, body_of("hi", "m-1"))

    assert again == first
    assert await ops.api.claim(ops.id, wait=0) == []


@requirement("P2", "P1", "M13")
async def test_a_restart_forgets_no_id(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path) as server:
        ops, lead = await server.seat("Ops"), await server.seat("Lead")
        first = await post(lead.api, ops, body_of("hi", "m-1"))

    async with running(engine, place, tmp_path) as server:
        again = await post(server.api(lead.token), ops, body_of("hi", "m-1"))
        other = await refused(post(server.api(lead.token), ops, body_of("ho", "m-1")))
        claimed = await server.api(ops.token).claim(ops.id)

    assert again == first
    assert other.status == 409
    assert [row["id"] for row in claimed] == [first["activity_id"]]


@requirement("P2", "M13")
async def test_a_repetition_is_answered_even_when_the_inbox_is_full(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(inbox_unhandled=1)) as server:
        ops, person = await server.seat("Ops"), await server.person()
        first = await post(person, ops, body_of("hi", "m-1"))

        assert await post(person, ops, body_of("hi", "m-1")) == first
        assert (await refused(post(person, ops, body_of("ho", "m-2")))).status == 429
