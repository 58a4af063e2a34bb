"""One message to everybody of the organisation: all in one transaction, each with its own numbers."""

from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiError
from molecule_core.common.limits import Limits
from testing.engines import Engine
from testing.message_chains import events_of, take
from testing.running_server import Running, Seat, running
from testing.workspaces import remove
from tests.requirements import requirement


async def crew(server: Running, count: int = 4) -> list[Seat]:
    """Seats of one organisation; the first may write to all others."""
    lead = await server.seat("Lead")
    await server.let_broadcast(lead.id)
    return [
        lead,
        *[await server.seat(f"Hand {number}", parent_id=lead.id) for number in range(count - 2)],
        (await server.seat("Other root")),
    ]


async def say(seat: Seat, text: str = "All hands", **more: Any) -> Any:
    """A broadcast."""
    headers = {"Idempotency-Key": more.pop("key")} if "key" in more else {}
    return await seat.api.call(
        "POST", f"/workspaces/{seat.id}/broadcast", body={"message": text, **more}, headers=headers
    )


async def log(server: Running, seat: Seat, **query: Any) -> list[dict[str, Any]]:
    """A workspace's log, newest first."""
    rows: list[dict[str, Any]] = await server.admin.get(f"/workspaces/{seat.id}/activity", **query)
    return rows


@requirement("M37", "M11")
async def test_every_other_workspace_of_the_organisation_gets_its_own_row(server: Running) -> None:
    lead, *others = await crew(server)
    gone, foreign = await server.seat("Gone"), await server.seat("Foreign", org_id=await server.org("Elsewhere"))
    await remove(server.admin, gone)

    answer = await say(lead, "x" * 500)

    assert (answer["status"], answer["delivered"], answer["skipped"]) == ("sent", 3, [])
    for seat in others:
        (row,) = await take(seat)
        assert (row["activity_type"], row["kind"], row["intent"]) == ("a2a_receive", "broadcast", "inform")
        assert (row["source_id"], row["target_id"], row["seq"]) == (lead.id, seat.id, 1)
        assert row["request_body"]["params"]["message"]["parts"] == [{"kind": "text", "text": "x" * 500}]
        assert row["request_body"]["params"]["message"]["metadata"] == {"kind": "broadcast", "intent": "inform"}
        assert (row["root_id"], row["hop"]) == (answer["activity_id"], 0)
    assert await log(server, foreign) == []
    (own,) = await log(server, lead)
    assert (own["activity_type"], own["method"], own["id"]) == ("a2a_send", "broadcast_sent", answer["activity_id"])
    assert own["response_body"]["delivered"] == 3
    assert await take(lead) == []
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    assert len(await events_of(server, org_id, "BROADCAST_MESSAGE")) == 1


@requirement("M37")
async def test_only_a_workspace_that_may_can_broadcast(server: Running) -> None:
    seat = await server.seat("Plain")
    with pytest.raises(ApiError) as refused:
        await say(seat)
    assert (refused.value.status, refused.value.problem["error"]) == (403, "broadcast_disabled")
    assert "broadcast_enabled" in refused.value.problem["hint"]
    await server.let_broadcast(seat.id)
    assert (await say(seat))["delivered"] == 0


@requirement("M37", "P2")
async def test_the_same_key_delivers_once_and_answers_the_same(server: Running) -> None:
    lead, *others = await crew(server)
    first = await say(lead, key="k1")
    assert await say(lead, key="k1") == first
    with pytest.raises(ApiError, match="409"):
        await say(lead, "something else", key="k1")
    assert [len(await log(server, seat)) for seat in others] == [1, 1, 1]


@requirement("M37")
async def test_a_full_inbox_is_skipped_by_name_and_the_others_get_it(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=Limits(inbox_unhandled=2)) as server:
        lead, full, *others = await crew(server)
        for _ in range(2):
            await server.admin.send(full.id, "work")
        answer = await say(lead)
        assert (answer["delivered"], answer["skipped"]) == (2, ["Hand 0"])
        assert [len(await log(server, seat)) for seat in (full, *others)] == [2, 1, 1]
        (row, *_) = await take(full)
        await full.api.ack(full.id, row)
        assert (await say(lead))["skipped"] == []
        assert [row["seq"] for row in await log(server, full)] == [3, 2, 1]


@requirement("M37")
async def test_a_broadcast_that_is_too_wide_reaches_nobody(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(broadcast_most=2)) as server:
        lead, *others = await crew(server)
        with pytest.raises(ApiError) as refused:
            await say(lead)
        assert (refused.value.status, refused.value.code) == (422, "broadcast_too_wide")
        assert [await log(server, seat) for seat in (lead, *others)] == [[], [], [], []]


@requirement("M37")
async def test_an_operator_speaks_for_the_workspace_and_is_named(server: Running) -> None:
    lead, *others = await crew(server)
    person = await server.person()
    await person.post(f"/workspaces/{lead.id}/broadcast", {"message": "Fire drill"})
    for seat in others:
        (row,) = await take(seat)
        assert row["source_id"] == lead.id
        assert row["request_body"]["params"]["metadata"]["username"] == "A operator"


@requirement("M37", "M30")
async def test_broadcasts_that_answer_broadcasts_end_like_any_loop(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(chain_hops=3)) as server:
        one, other = await server.seat("One"), await server.seat("Other")
        for seat in (one, other):
            await server.let_broadcast(seat.id)
        root = (await say(one))["activity_id"]
        turn, sent = (other, one), 0
        with pytest.raises(ApiError) as refused:
            for _ in range(10):
                (row,) = await take(turn[0])
                await say(turn[0])
                await turn[0].api.ack(turn[0].id, row)
                turn, sent = (turn[1], turn[0]), sent + 1
        assert (sent, refused.value.problem["root_id"], refused.value.problem["reason"]) == (3, root, "hops")


@requirement("M37", "M30")
async def test_a_broadcast_takes_as_many_of_its_chain_as_it_has_copies(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=Limits(chain_messages=7)) as server:
        lead, *_ = await crew(server)
        await server.admin.send(lead.id, "tell them")
        await take(lead)
        assert [(await say(lead))["delivered"] for _ in range(2)] == [3, 3]
        with pytest.raises(ApiError) as refused:
            await say(lead)
        assert refused.value.problem["reason"] == "messages"
