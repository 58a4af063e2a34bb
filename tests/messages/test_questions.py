"""Questions with options from agents to people: listed until a person answers, for people only."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.message_world import MessageWorld, notify
from testing.push_agents import PushNetwork
from testing.running_server import UNHURRIED, Seat, running
from testing.waits import refused
from testing.workspaces import remove
from tests.requirements import requirement


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """A server on which a workspace has at most three open questions."""
    limits = replace(UNHURRIED, open_questions=3)
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        yield MessageWorld(server, await server.person(), clock, PushNetwork())


async def present(seat: Seat, question: str, *options: str) -> str:
    """Ask people; the id of the question."""
    sent = await seat.api.post(
        f"/workspaces/{seat.id}/options", {"question": question, "options": options or ["a", "b"]}
    )
    return str(sent["activity_id"])


async def page(world: MessageWorld, **query: Any) -> dict[str, Any]:
    """A page of the open questions."""
    org = (await world.server.admin.get("/orgs"))[0]["id"]
    found: dict[str, Any] = await world.person.get(f"/orgs/{org}/questions", **query)
    return found


async def texts(world: MessageWorld) -> list[str]:
    """The texts of the open questions, oldest first."""
    return [each["text"] for each in (await page(world))["questions"]]


@requirement("CN1")
async def test_a_question_is_open_until_a_person_chooses_one_of_its_options(world: MessageWorld) -> None:
    writer, other = await world.server.seat("Writer"), await world.server.seat("Other")
    first, _ = await present(writer, "Short or long?", "Short", "Long"), await present(other, "Now?")
    shown = (await page(world))["questions"][0]
    assert (shown["activity_id"], shown["workspace_id"], shown["workspace_name"]) == (first, writer.id, "Writer")
    assert (shown["text"], shown["options"], shown["is_cut"]) == ("Short or long?", ["Short", "Long"], False)
    second = await present(writer, "Which colour?")
    await world.ask(writer, "a", option_of=second, option=0)
    assert await texts(world) == ["Short or long?", "Now?"]
    await world.ask(other, "Short", option_of=first, option=0)  # of another agent: no answer to this one
    assert await texts(world) == ["Short or long?", "Now?"]
    await world.ask(writer, "Short", option_of=first, option=0)
    assert await texts(world) == ["Now?"]


@requirement("CN1")
async def test_other_words_of_a_person_answer_what_was_asked_before(world: MessageWorld) -> None:
    writer = await world.server.seat("Writer")
    await present(writer, "Short or long?")
    await notify(writer, "I wait for you.")
    assert await texts(world) == ["Short or long?"]
    await world.ask(writer, "Neither, please.")
    assert await texts(world) == []
    await present(writer, "Really?")
    assert await texts(world) == ["Really?"]


async def test_messages_of_peers_answer_no_question(world: MessageWorld) -> None:
    lead = await world.server.seat("Lead")
    writer = await world.server.seat("Writer", parent_id=lead.id)
    await present(writer, "Short or long?")
    await world.ask(writer, "Hello", by=lead)
    assert await texts(world) == ["Short or long?"]


async def test_pages_go_from_the_oldest_question_on(world: MessageWorld) -> None:
    writer = await world.server.seat("Writer")
    ids = [await present(writer, f"{number}?") for number in range(3)]
    first = await page(world, limit=2)
    assert ([each["activity_id"] for each in first["questions"]], first["reached_end"]) == (ids[:2], False)
    rest = await page(world, limit=2, after=ids[1])
    assert ([each["activity_id"] for each in rest["questions"]], rest["reached_end"]) == (ids[2:], True)
    assert (await refused(page(world, after="unknown"))).status == 410


async def test_long_questions_are_cut_and_old_ones_beyond_the_limit_are_closed(world: MessageWorld) -> None:
    writer = await world.server.seat("Writer")
    for number in range(4):
        await present(writer, f"{number}" + "x" * 3000)
    found = (await page(world))["questions"]
    assert [each["text"][0] for each in found] == ["1", "2", "3"]
    assert {(len(each["text"]), each["is_cut"]) for each in found} == {(2000, True)}


async def test_a_removed_agent_asks_nothing_any_more(world: MessageWorld) -> None:
    writer = await world.server.seat("Writer")
    await present(writer, "Short or long?")
    await remove(world.person, writer)
    assert await texts(world) == []


async def test_an_agent_does_not_read_the_questions_to_people(world: MessageWorld) -> None:
    writer = await world.server.seat("Writer")
    await present(writer, "Short or long?")
    org = (await world.server.admin.get("/orgs"))[0]["id"]
    assert (await refused(writer.api.get(f"/orgs/{org}/questions"))).status == 403
