"""What two workspaces wrote to each other, as people read it: who the peers are, and every page of it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from molecule_core.client.api import ApiClient
from molecule_core.common.limits import Limits
from molecule_core.store.queries import load_queries, load_schema
from testing.clocks import FakeClock
from testing.delegation_steps import begin
from testing.engines import Engine
from testing.message_world import MessageWorld, handle, reply
from testing.push_agents import PushNetwork
from testing.running_server import Seat, running
from testing.waits import refused
from tests.requirements import requirement

PAGE_BYTES = 30_000


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """A server with small pages."""
    net, limits = PushNetwork(), Limits(page_bytes=PAGE_BYTES)
    more: dict[str, Any] = {"push_instructions_enabled": True}
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, limits=limits, **more) as server:
        yield MessageWorld(server, await server.person(), clock, net)


async def peers(world: MessageWorld, seat: Seat, **query: Any) -> dict[str, Any]:
    """The list of peers."""
    found: dict[str, Any] = await world.person.get(f"/workspaces/{seat.id}/conversations", **query)
    return found


async def page(world: MessageWorld, seat: Seat, peer: Seat, **query: Any) -> dict[str, Any]:
    """A page of the conversation."""
    found: dict[str, Any] = await world.person.get(f"/workspaces/{seat.id}/conversations/{peer.id}", **query)
    return found


def words(found: dict[str, Any]) -> list[str]:
    """The texts of a page, in order."""
    return [item["content"] if item["kind"] == "message" else item["summary"] for item in found["items"]]


def id_of(item: dict[str, Any]) -> str:
    """What names an item as a cursor."""
    return str(item["id"] if item["kind"] == "message" else item["delegation_id"])


async def team(world: MessageWorld) -> tuple[Seat, Seat, Seat]:
    """A lead and two below it."""
    lead = await world.server.seat("Lead")
    return lead, await world.server.seat("Ops", parent_id=lead.id), await world.server.seat("Legal", parent_id=lead.id)


@requirement("C97")
async def test_peers_are_listed_newest_first_with_counts_and_the_last_message(world: MessageWorld) -> None:
    lead, ops, legal = await team(world)
    assert await peers(world, lead) == {"peers": [], "reached_end": True}
    for number in range(3):
        await world.ask(ops, f"to ops {number}", by=lead)
        await world.clock.advance(1)
    await world.ask(lead, "from legal", by=legal)
    await world.clock.advance(1)
    await world.ask(ops, "a person's", by=None)
    found = await peers(world, lead)
    rows = [(each["name"], each["messages"], each["more"], each["last"]["summary"]) for each in found["peers"]]
    assert (rows, found["reached_end"]) == ([("Legal", 1, False, "from legal"), ("Ops", 3, False, "to ops 2")], True)
    last = found["peers"][1]["last"]
    assert (last["source_id"], last["message_kind"]) == (lead.id, "peer_agent")
    assert [each["name"] for each in (await peers(world, ops))["peers"]] == ["Lead"]
    first = await peers(world, lead, limit=1)
    assert ([each["name"] for each in first["peers"]], first["reached_end"]) == (["Legal"], False)
    rest = await peers(world, lead, limit=1, before=first["peers"][0]["workspace_id"])
    assert ([each["name"] for each in rest["peers"]], rest["reached_end"]) == (["Ops"], True)
    assert (await refused(peers(world, lead, before="nobody"))).code == "cursor_gone"


@requirement("C97")
@pytest.mark.parametrize("limit", [1, 2, 3, 50])
async def test_pages_both_ways_are_the_whole_conversation_in_order(world: MessageWorld, limit: int) -> None:
    lead, ops, legal = await team(world)
    said = list[str]()
    for number in range(7):
        one, other = ((lead, ops), (ops, lead))[number % 3 == 0]
        said.append(f"line {number}")
        await world.ask(other, said[-1], by=one)
        if number % 2:
            await world.clock.advance(1)
    await world.ask(legal, "not of this one", by=lead)
    await world.ask(ops, "nor this", by=None)
    whole = await page(world, lead, ops)
    assert (sorted(words(whole)), whole["reached_end"]) == (sorted(said), True)
    assert (await page(world, ops, lead))["items"] == whole["items"]

    read, cursor = list[dict[str, Any]](), dict[str, str]()
    while not (found := await page(world, lead, ops, limit=limit, **cursor))["reached_end"]:
        assert len(found["items"]) == limit
        read, cursor = found["items"] + read, {"before": id_of(found["items"][0])}
    assert found["items"] + read == whole["items"]

    read, cursor = whole["items"][:1], {"after": id_of(whole["items"][0])}
    while not (found := await page(world, lead, ops, limit=limit, **cursor))["reached_end"]:
        read, cursor = read + found["items"], {"after": id_of(found["items"][-1])}
    assert read + found["items"] == whole["items"]


@requirement("C97")
async def test_a_delegation_with_its_result_is_one_item_and_messages_have_ticks(world: MessageWorld) -> None:
    lead, ops, _ = await team(world)
    delegation = (await begin(world, lead, ops)).row
    asked = await world.ask(ops, "how far is it?", by=lead)
    first, _ = await world.take(ops)
    await reply(ops, handle(first), "sorted")
    item, message = (await page(world, ops, lead))["items"]
    assert (item["kind"], item["delegation_id"], item["status"], item["response_preview"]) == (
        *("delegation", delegation.id, "completed", "sorted"),
    )
    assert (message["id"], message["source_id"], message["target_id"]) == (asked, lead.id, ops.id)
    assert (message["delivery"], message["obligation"]["state"], message["seq"]) == ("handed_over", "open", 2)
    assert (await peers(world, ops))["peers"][0]["messages"] == 3  # the result is a message too


async def test_a_page_ends_where_its_bytes_end_and_the_next_one_goes_on(world: MessageWorld) -> None:
    lead, ops, _ = await team(world)
    size = PAGE_BYTES // 3
    said = [str(number) * size for number in range(5)]
    for number, text in enumerate(said):
        one, other = ((lead, ops), (ops, lead))[number % 2]
        await world.ask(other, text, by=one)
        await world.clock.advance(1)
    read, cursor, pages = list[str](), dict[str, str](), 0
    while True:
        found = await page(world, lead, ops, **cursor)
        read, pages = words(found) + read, pages + 1
        if found["reached_end"]:
            break
        cursor = {"before": id_of(found["items"][0])}
    assert (read, pages > 1) == (said, True)


@requirement("C97")
async def test_viewers_read_conversations_and_agents_and_other_organisations_do_not(world: MessageWorld) -> None:
    lead, ops, _ = await team(world)
    asked = await world.ask(ops, "between us", by=lead)
    viewer: ApiClient = await world.server.person(role="viewer")
    assert len((await viewer.get(f"/workspaces/{lead.id}/conversations/{ops.id}"))["items"]) == 1
    assert (await refused(lead.api.get(f"/workspaces/{lead.id}/conversations"))).status == 403
    assert (await refused(page(world, lead, lead))).code == "not_found"
    assert (await refused(page(world, lead, ops, before="nothing"))).code == "cursor_gone"
    legal = (await page(world, lead, await world.server.seat("Other", parent_id=lead.id)))["items"]
    assert legal == []
    assert (
        await refused(page(world, ops, await world.server.seat("Third", parent_id=lead.id), after=asked))
    ).code == "cursor_gone"


@requirement("C97")
async def test_a_conversation_with_a_removed_workspace_can_still_be_read(world: MessageWorld) -> None:
    lead, ops, _ = await team(world)
    await world.ask(ops, "before you go", by=lead)
    await world.server.admin.call("DELETE", f"/workspaces/{ops.id}", query={"confirm": "true", "name": "Ops"})
    (row,) = (await peers(world, lead))["peers"]
    assert (row["name"], row["messages"], row["last"]["message_kind"]) == ("Ops", 2, "system")  # no answer will come
    asked, notice = (await page(world, lead, ops))["items"]
    assert (asked["content"], notice["message_kind"]) == ("before you go", "system")


@requirement("C97")
async def test_a_broadcast_is_in_the_conversation_with_each_of_its_recipients(world: MessageWorld) -> None:
    lead, ops, legal = await team(world)
    await world.server.let_broadcast(lead.id)
    await lead.api.post(f"/workspaces/{lead.id}/broadcast", {"message": "lunch"})
    for seat in (ops, legal):
        (message,) = (await page(world, seat, lead))["items"]
        assert (message["message_kind"], message["content"]) == ("broadcast", "lunch")


@pytest.mark.parametrize(
    "name", ["peers_of_workspace", "peer_head", "peer_message_position", "peer_messages_before", "peer_messages_after"]
)
def test_statements_of_conversations_search_an_index_and_never_scan_the_log(name: str) -> None:
    connection, query = apsw.Connection(":memory:"), load_queries("sqlite")[name]
    for _ in connection.execute(load_schema("sqlite")):
        pass
    plan = connection.execute(f"EXPLAIN QUERY PLAN {query.sql}", [None] * len(query.param_names)).fetchall()
    steps = [str(row[3]) for row in plan]
    assert any("activities_by_peer" in step or "(id=?)" in step for step in steps)
    assert [
        step for step in steps if step.startswith(("SCAN activities", "SCAN a", "SCAN f", "SCAN n", "SCAN c"))
    ] == []
