"""Pages of who owes answers: how large they may be, and whom they leave out."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.message_world import REPLY_SECONDS, MessageWorld
from testing.push_agents import PushNetwork
from testing.running_server import UNHURRIED, Seat, running
from testing.waits import refused
from testing.workspaces import remove
from tests.requirements import requirement

DRAFT = "ä" * 500
"""1,000 bytes."""


@pytest.fixture
async def narrow(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """An office in which two drafts and a half fill a page."""
    limits = replace(UNHURRIED, page_bytes=2500)
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        yield MessageWorld(server, await server.person(), clock, PushNetwork())


async def drafted(world: MessageWorld, count: int) -> tuple[Seat, list[str]]:
    """A seat whose agent has said so many things outside; the messages that they were about, newest first."""
    ops = await world.server.seat("Ops")
    asked = [await world.ask(ops, f"question {number}") for number in range(count)]
    for activity_id in asked:
        await ops.api.post(f"/workspaces/{ops.id}/messages/{activity_id}/draft", {"text": DRAFT})
    return ops, asked[::-1]


async def pages(world: MessageWorld, path: str, **query: Any) -> list[list[str]]:
    """All pages of obligations, the ids of each."""
    found: list[list[str]] = []
    reached_end = False
    while not reached_end:
        before = {"before": found[-1][-1]} if found else {}
        page = await world.person.get(path, **query, **before)
        found.append([each["activity_id"] for each in page["obligations"]])
        reached_end = page["reached_end"]
    return found


def org_of(world: MessageWorld) -> str:
    """The organisation of an office."""
    return world.server.server.registry.orgs()[0].id


@requirement("M15", "M26")
@pytest.mark.parametrize("whose", ["workspace", "organisation"])
async def test_a_page_of_obligations_ends_where_its_drafts_are_too_large(narrow: MessageWorld, whose: str) -> None:
    ops, asked = await drafted(narrow, 7)
    path = f"/workspaces/{ops.id}" if whose == "workspace" else f"/orgs/{org_of(narrow)}"
    expected = [asked[:3], asked[3:6], asked[6:]]
    assert await pages(narrow, f"{path}/obligations") == expected
    assert [len(page) for page in await pages(narrow, f"{path}/obligations", limit=2)] == [2, 2, 2, 1]
    if whose == "workspace":
        await narrow.person.post(f"{path}/messages/{asked[1]}/draft/send")
        assert await pages(narrow, f"{path}/obligations", state="all") == [asked[:4], asked[4:]]  # it shows no draft


@requirement("M15", "M35")
async def test_a_page_of_chat_ends_where_its_drafts_are_too_large(narrow: MessageWorld) -> None:
    ops, asked = await drafted(narrow, 5)
    path, lines, query = f"/workspaces/{ops.id}/chat-history", list[str](), dict[str, str]()
    for _ in range(5):
        page = await narrow.person.get(path, **query)
        found = [line["id"] for line in page["messages"]]
        drafts = sum(len(line["obligation"]["draft"].encode()) for line in page["messages"])
        assert 1 <= len(found) <= 2
        assert drafts <= 2 * len(DRAFT.encode())
        lines, query = [*found, *lines], {"before": found[0]}
        if page["reached_end"]:
            break
    assert lines == asked[::-1]
    onward = await narrow.person.get(path, after=lines[0])
    assert [line["id"] for line in onward["messages"]] == lines[1:3]


@requirement("M26", "M28")
async def test_what_a_removed_workspace_owed_is_on_nobodys_list(world: MessageWorld) -> None:
    gone, stays = await world.server.seat("Gone"), await world.server.seat("Stays")
    for seat in (gone, stays):
        for _ in range(3):
            await world.ask(seat, "please")
        await world.take(seat)
    for _ in range(2):
        await world.pass_time(REPLY_SECONDS)
    path = f"/orgs/{org_of(world)}/obligations"
    assert len((await world.person.get(path))["obligations"]) == 6
    await remove(world.server.admin, gone)
    page = await world.person.get(path, limit=3)
    assert [each["workspace_name"] for each in page["obligations"]] == ["Stays"] * 3
    assert page["reached_end"]
    history = await world.person.get(f"/workspaces/{gone.id}/obligations", state="overdue")
    assert [each["workspace_name"] for each in history["obligations"]] == ["Gone"] * 3
    assert (await refused(gone.api.get(f"/workspaces/{gone.id}/obligations"))).status == 410
