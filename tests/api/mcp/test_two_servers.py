"""The journey over HTTP: one agent with a seat on each of two servers, eight senders, every answer at its origin."""

import asyncio
from pathlib import Path

import pytest

from molecule_core.client.api import ApiClient
from testing.clocks import FakeClock
from testing.engines import Engine, place_for
from testing.mcp_clients import Era, calling, hosted, line_of, within
from testing.running_server import Running, Seat, running
from tests.requirements import requirement

MESSAGES, SENDERS, HANDS = 500, 8, 4
# Waits of a second in which nothing came: the senders need none of them but at the end.
MOST_IN_VAIN = 100


async def _converse(server: Running, seat: Seat, era: Era, path: str, count: int) -> None:
    """What the agent does in one seat: several hands, which share its connection, answer until all is answered."""
    left, in_vain = count, 0

    async def work() -> None:
        nonlocal left, in_vain
        while left > 0:
            message = (await host.call("wait_for_message", timeout_secs=1))["message"]
            if message is None:
                in_vain += 1
                assert in_vain < MOST_IN_VAIN, f"{left} messages never came"
                continue
            left -= 1
            await host.call(
                "reply_to_workspace",
                text=f"answer to {message['text']}",
                workspace_id=message["arrival_workspace_id"],
                activity_id=message["activity_id"],
                attempt=message["attempt"],
            )

    async with hosted(server, seat.token, era, path) as host:
        await asyncio.gather(*(work() for _ in range(HANDS)))


async def _send(people: list[ApiClient], seats: list[Seat]) -> None:
    async def work(sender: int) -> None:
        for number in range(sender, MESSAGES, SENDERS):
            at = number % 2
            await people[at].send(seats[at].id, f"{number} from {sender} for {seats[at].name}")

    await asyncio.gather(*(work(sender) for sender in range(SENDERS)))


@pytest.mark.long
@requirement("N1", "G11", "P3")
async def test_500_messages_of_8_senders_in_two_organisations_on_two_servers_are_answered_where_they_came_from(
    tmp_path: Path, postgres: str
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    place = await place_for("postgres", tmp_path, postgres)
    async with (
        running("sqlite", str(folders[0] / "molecule.db"), folders[0]) as one,
        running("postgres", place, folders[1], seed=1) as two,
    ):
        servers = [one, two]
        seats = [await server.seat(f"Seat {n}") for n, server in enumerate(servers)]
        people = [await server.person() for server in servers]
        await asyncio.gather(
            _send(people, seats),
            _converse(one, seats[0], "handshake", "/mcp", MESSAGES // 2),
            _converse(two, seats[1], "stateless", f"/workspaces/{seats[1].id}/mcp", MESSAGES // 2),
        )
        answered = 0
        for person, seat in zip(people, seats, strict=True):
            chat = (await person.get(f"/workspaces/{seat.id}/chat-history", limit=1000))["messages"]
            asked = {each["content"] for each in chat if each["role"] == "user"}
            said = [each["content"].removeprefix("answer to ") for each in chat if each["role"] == "agent"]
            assert len(said) == len(set(said)) == MESSAGES // 2
            assert set(said) == asked
            assert all(text.endswith(seat.name) for text in said)
            answered += len(said)
        assert answered == MESSAGES


@requirement("M18", "N1", "P1")
async def test_an_agent_that_dies_between_receiving_and_answering_gets_its_message_once_more(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=within(mcp_lease_seconds=60)) as server:
        ops, person = await server.seat("Ops"), await server.person()
        sent = await person.send(ops.id, "do not lose me")
        dead, alive = line_of(server, ops), line_of(server, ops)
        await dead.begin()
        await alive.begin()
        take = calling("wait_for_message", {"timeout_secs": 0})
        first = (await dead.post(take)).json["result"]["structuredContent"]["message"]
        assert (await alive.post(calling("wait_for_message", {"timeout_secs": 0}))).json["result"]["structuredContent"][
            "message"
        ] is None
        await clock.advance(61)
        again = (await alive.post(calling("wait_for_message", {"timeout_secs": 0}))).json["result"]
        message = again["structuredContent"]["message"]
        assert first["activity_id"] == message["activity_id"] == sent["activity_id"]
        assert (message["attempt"], message["redelivered"]) == (2, True)
        late = calling("inbox_pop", {"activity_id": sent["activity_id"]})
        assert (await dead.post(late)).json["result"]["_meta"]["molecule/code"] == "stale_attempt"
        done = calling("reply_to_workspace", {"text": "here", "activity_id": sent["activity_id"]})
        assert (await alive.post(done)).json["result"]["structuredContent"]["acknowledged"] is True
        await clock.advance(61)
        nothing = (await alive.post(calling("wait_for_message", {"timeout_secs": 0}))).json["result"]
        assert nothing["structuredContent"]["message"] is None
