"""The journey of the issue: the official client of the protocol over stdio, one process, two workspaces in two
organisations on two servers, eight senders, and every answer at its origin."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from molecule_core.client.api import ApiClient
from testing.mcp_host import agent, environment, seated, several, single
from testing.processes import MOLECULE
from testing.running_server import Running, Seat
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.requirements import requirement

MESSAGES = 500
SEED = 20261122


class Place(NamedTuple):
    """A seat of the agent, and who writes to it."""

    server: Running
    seat: Seat
    person: ApiClient
    peers: list[Seat]


async def place(server: Running, org: str) -> Place:
    """A team of four on a server: the agent's seat, three peers; and a person."""
    org_id = await server.org(org)
    lead = await server.seat(f"Agent of {org}", org_id=org_id)
    peers = [await server.seat(f"{name} of {org}", org_id=org_id, parent_id=lead.id) for name in ("Ann", "Ben", "Cid")]
    return Place(server, lead, await server.person(org_id=org_id), peers)


@pytest.fixture
async def places(one: Running, two: Running) -> list[Place]:
    """Two seats, in two organisations, on two servers."""
    return [await place(one, "Company"), await place(two, "Home")]


@asynccontextmanager
async def official_client(state: Path, **env: str) -> AsyncIterator[ClientSession]:
    """The official SDK's client, connected."""
    how = StdioServerParameters(command=MOLECULE, args=["mcp"], env=environment(state, **env))
    async with stdio_client(how) as (read, write), ClientSession(read, write) as session:
        async with asyncio.timeout(PROCESS_START_SECONDS):
            await session.initialize()
        yield session


async def call(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool gives; the client checks it against the output schema."""
    async with asyncio.timeout(PROCESS_START_SECONDS):
        result = await session.call_tool(tool, arguments)
    assert not result.is_error, result
    assert result.structured_content is not None
    return dict(result.structured_content)


async def write_all(places: list[Place]) -> dict[str, tuple[str, str]]:
    """All messages of all eight senders, interleaved by chance: text -> (workspace, peer or nobody)."""
    dice = random.Random(SEED)
    senders: list[tuple[Place, Seat | None]] = [(each, peer) for each in places for peer in (None, *each.peers)]
    assert len(senders) == 8
    wanted: dict[str, tuple[str, str]] = {}
    for number in range(MESSAGES):
        at, peer = dice.choice(senders)
        text = f"question {number}"
        wanted[text] = (at.seat.id, peer.id if peer is not None else "")
        await (peer.api if peer is not None else at.person).send(at.seat.id, text)
    return wanted


async def answers_at(places: list[Place]) -> dict[str, tuple[str, str]]:
    """Where answers have arrived: text -> (workspace they came from, peer they came to, or nobody)."""
    found: dict[str, tuple[str, str]] = {}
    for at in places:
        page = await at.person.get(f"/workspaces/{at.seat.id}/chat-history", limit=1000)
        said = [line["content"] for line in page["messages"] if line["role"] == "agent"]
        rows = [(peer, row) for peer in at.peers for row in await whole_inbox(peer)]
        read = [(text_of(row), (str(row["source_id"]), peer.id)) for peer, row in rows]
        for text, where in [*((text, (at.seat.id, "")) for text in said), *read]:
            assert text not in found, f"{text!r} came twice"
            found[text] = where
    return found


async def whole_inbox(seat: Seat) -> list[dict[str, Any]]:
    """All that came to a seat, without taking it."""
    rows: list[dict[str, Any]] = await seat.api.get(f"/workspaces/{seat.id}/activity", type="a2a_receive", limit=500)
    return rows


def text_of(row: dict[str, Any]) -> str:
    """The text of a row."""
    return str(row["request_body"]["params"]["message"]["parts"][0]["text"])


@pytest.mark.long
@requirement("G7", "G9", "G11")
async def test_500_of_500_answers_are_at_their_origin(places: list[Place], state: Path) -> None:
    env = several(*((each.server, each.seat) for each in places))
    async with official_client(state, **env) as session:
        writing = asyncio.create_task(write_all(places))
        for _ in range(MESSAGES):
            message = (await call(session, "wait_for_message", timeout_secs=30))["message"]
            await call(
                session,
                "reply_to_workspace",
                text=message["text"].replace("question", "answer"),
                workspace_id=message["arrival_workspace_id"],
                peer_id=message.get("peer_id", ""),
                activity_id=message["activity_id"],
            )
        wanted = await writing
        rest = await call(session, "inbox_peek")

    found = await answers_at(places)
    assert rest["messages"] == []
    assert found == {text.replace("question", "answer"): where for text, where in wanted.items()}
    assert len(found) == MESSAGES


@requirement("G11")
async def test_an_ambiguous_reply_is_refused_with_the_choices_and_sends_nothing(
    places: list[Place], state: Path
) -> None:
    company, home = places
    env = several(*((each.server, each.seat) for each in places))
    async with official_client(state, **env) as session:
        await company.person.send(company.seat.id, "the quarterly figures?")
        await home.person.send(home.seat.id, "what is for dinner?")
        await eventually(lambda: call(session, "inbox_peek"), lambda peeked: len(peeked["messages"]) == 2)
        refused = await session.call_tool("reply_to_workspace", {"text": "soup"})
        wrong = await session.call_tool(
            "reply_to_workspace", {"text": "soup", "workspace_id": company.seat.id, "peer_id": home.peers[0].id}
        )

    text = refused.content[0].text  # type: ignore[union-attr]
    assert refused.is_error
    assert all(part in text for part in (company.seat.id, home.seat.id, "quarterly figures", "what is for dinner"))
    assert wrong.is_error
    assert await answers_at(places) == {}


@requirement("G8", "G11")
async def test_an_unknown_workspace_is_an_error_and_never_borrows_a_token(places: list[Place], state: Path) -> None:
    company, home = places
    tools: list[tuple[str, dict[str, Any]]] = [
        ("reply_to_workspace", {"text": "x", "workspace_id": company.peers[0].id}),
        ("send_message_to_user", {"message": "x", "workspace_id": "01900000-0000-7000-8000-00000000beef"}),
        ("broadcast_message", {"message": "x", "workspace_id": "w"}),
        ("list_peers", {"via_workspace": home.peers[0].id}),
        ("update_agent_card", {"card": {"name": "x"}, "_as_workspace": company.peers[1].id}),
        ("chat_history", {"source_workspace_id": company.peers[2].id}),
    ]
    async with official_client(state, **several((company.server, company.seat), (home.server, home.seat))) as session:
        refusals = [await session.call_tool(name, arguments) for name, arguments in tools]
        without = await session.call_tool("send_message_to_user", {"message": "x"})

    assert [each.is_error for each in refusals] == [True] * len(tools)
    assert all("is not one of yours" in each.content[0].text for each in refusals)  # type: ignore[union-attr]
    assert without.is_error
    assert await answers_at(places) == {}


@requirement("G7", "G8")
async def test_every_tool_acts_as_the_seat_that_is_named_and_on_its_server(places: list[Place], state: Path) -> None:
    async with official_client(state, **several(*((each.server, each.seat) for each in places))) as session:
        for each in places:
            peers = await call(session, "list_peers", via_workspace=each.seat.id)
            info = await call(session, "get_workspace_info", via_workspace=each.seat.id)
            await call(session, "send_message_to_user", message=f"from {each.seat.name}", workspace_id=each.seat.id)
            await call(
                session, "update_agent_card", card={"name": f"card of {each.seat.name}"}, via_workspace=each.seat.id
            )

            assert {peer["id"] for peer in peers["peers"]} == {peer.id for peer in each.peers}
            assert info["id"] == each.seat.id
        known = await call(session, "get_runtime_identity")

    assert [(one["workspace_id"], one["platform_url"]) for one in known["workspaces"]] == [
        (each.seat.id, each.server.url) for each in places
    ]
    assert await answers_at(places) == {f"from {each.seat.name}": (each.seat.id, "") for each in places}
    for each in places:
        card = (await each.server.admin.get(f"/workspaces/{each.seat.id}"))["agent_card"]
        assert card["name"] == f"card of {each.seat.name}"


@requirement("G10")
async def test_kill_9_between_receive_and_ack_loses_nothing_and_shows_each_message_once_more(
    places: list[Place], state: Path
) -> None:
    env = several(*((each.server, each.seat) for each in places))
    sent = [
        (await each.person.send(each.seat.id, f"message {number}"))["activity_id"]
        for number, each in itertools.product(range(5), places)
    ]
    async with agent(state, **env) as process:
        await process.greet()
        first = [(await process.next())["activity_id"] for _ in sent]
        for each in first[:3]:
            await process.call("reply_to_workspace", text=f"answer to {each}", activity_id=each)
        await process.kill()

    async with agent(state, **env) as process:
        await process.greet()
        second = [await process.next() for _ in first[3:]]
        for message in second:
            each = message["activity_id"]
            await process.call("reply_to_workspace", text=f"answer to {each}", activity_id=each)
        rest = await process.call("wait_for_message", timeout_secs=0)

    assert sorted(first) == sorted(sent)
    assert sorted(message["activity_id"] for message in second) == sorted(first[3:])
    assert {message["attempt"] for message in second} == {2} and all(message["redelivered"] for message in second)
    assert rest["message"] is None
    assert set(await answers_at(places)) == {f"answer to {each}" for each in sent}


@requirement("G10")
async def test_a_410_resets_one_workspace_only(places: list[Place], state: Path) -> None:
    company, home = places
    env = several(*((each.server, each.seat) for each in places))
    async with agent(state, **env) as process:
        await process.greet()
        for each in places:
            await each.person.send(each.seat.id, "hello")
            message = await process.next()
            await process.call("inbox_pop", activity_id=message["activity_id"])
        process.close()
        await process.ended()
    cursors = {each.seat.id: state / f".mcp_inbox_cursor_{each.seat.id}" for each in places}
    before = {id_: path.read_text() for id_, path in cursors.items()}
    gone = "01900000-0000-7000-8000-00000000dead"
    cursors[company.seat.id].write_text(f"{gone}\nworkspace {company.seat.id}\nhandled 1 {gone}\n")

    async with agent(state, **env) as process:
        await process.greet()
        await process.hears(f"workspace {company.seat.id}: the server does not know the cursor")
        for each in places:
            sent = await each.person.send(each.seat.id, "and now?")
            assert (await process.next())["activity_id"] == sent["activity_id"]
        after = cursors[home.seat.id].read_text()

    assert gone not in cursors[company.seat.id].read_text()
    assert after.splitlines()[0] == before[home.seat.id].splitlines()[0] != ""
    assert f"{home.seat.id}: the server does not know" not in process.said


@requirement("G13")
async def test_a_wait_blocks_nobody_and_can_be_cancelled(places: list[Place], state: Path) -> None:
    (company, _) = places
    async with agent(state, **several((company.server, company.seat))) as process:
        await process.greet()
        await seated(company.server, company.seat)
        arguments = {"name": "wait_for_message", "arguments": {"timeout_secs": 300}}
        number, waiting = process.begin("tools/call", arguments)
        others = [await process.call("list_peers") for _ in range(20)]

        assert len(others) == 20 and not waiting.done()
        process.notify("notifications/cancelled", {"requestId": number})
        await process.call("inbox_peek")
        await company.person.send(company.seat.id, "for the one who still waits")
        assert (await process.next())["text"] == "for the one who still waits"
        assert not waiting.done()
        waiting.cancel()


@requirement("G9")
async def test_a_single_seat_is_never_named_and_a_listed_one_always_is(places: list[Place], state: Path) -> None:
    (company, _) = places
    for env, named in ((single(company.server, company.seat), False), (several((company.server, company.seat)), True)):
        await company.person.send(company.seat.id, "hello")
        async with agent(state, **env, MOLECULE_MCP_CHANNEL_DELAY_SECONDS="0") as process:
            greeting = await process.greet("claude-code")
            await process.until(lambda each: bool(each.notifications))
            peeked = (await process.call("inbox_peek"))["messages"]
            meta = process.notifications[0]["params"]["meta"]
            await process.call("inbox_pop", activity_id=peeked[0]["activity_id"])
            process.close()
            await process.ended()

        assert (peeked[0].get("arrival_workspace_id") == company.seat.id) == named
        assert (meta.get("arrival_workspace_id") == company.seat.id) == named
        assert ("arrival_workspace_id" in greeting["instructions"]) == named
        assert (company.seat.id in process.notifications[0]["params"]["content"]) == named
