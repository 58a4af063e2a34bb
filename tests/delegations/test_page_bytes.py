"""Long texts in lists of delegations: a page ends where it is full, and where a list shows beginnings, the store hands
out no more than those. And long time lines, of which the end is shown."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from molecule_core.delegations.model import Delegation
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.message_world import MessageWorld
from testing.push_agents import PushNetwork
from testing.running_server import UNHURRIED, Seat, running
from tests.delegations.test_over_http import full, give, pair
from tests.requirements import requirement

LONG = "ä" * 500
"""1,000 bytes; two and a half of it fill a page."""
PAGE = 2500
LINES = 4


@pytest.fixture
async def narrow(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """A world of small pages."""
    limits = replace(UNHURRIED, page_bytes=PAGE, delegation_lines=LINES)
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        yield MessageWorld(server, await server.person(), clock, PushNetwork())


async def done(source: Seat, target: Seat, task: str, text: str = LONG) -> str:
    """A task that is given and done; its id."""
    delegation_id = str((await give(source, target, task))["delegation_id"])
    await ended(target, delegation_id, status="completed", result=text)
    return delegation_id


async def ended(target: Seat, delegation_id: str, **said: str) -> None:
    """How its target says that it has ended."""
    await target.api.post(f"/workspaces/{target.id}/delegations/{delegation_id}/update", said)


async def all_pages(api: Any, path: str, **query: Any) -> list[list[dict[str, Any]]]:
    """All pages of a list, up to the empty one behind the last."""
    found: list[list[dict[str, Any]]] = []
    while True:
        before = {"before": found[-1][-1]["delegation_id"]} if found else {}
        page = await api.get(path, limit=500, **query, **before)
        page = page["delegations"] if isinstance(page, dict) else page
        if not page:
            return found
        found.append(page)


def tasks(pages: list[list[dict[str, Any]]]) -> list[str]:
    """Of all pages, newest first."""
    return [item["summary"] for page in pages for item in page]


# -- whole results -----------------------------------------------------------------------------------------------------


@requirement("D19", "S14")
@pytest.mark.parametrize("direction", ["out", "in", "both"])
async def test_a_list_ends_where_its_results_fill_a_page_and_its_pages_reach_everything(
    narrow: MessageWorld, direction: str
) -> None:
    lead, ops = await pair(narrow)
    wanted: list[str] = []
    for number in range(4):
        await done(lead, ops, f"out {number}")
        await narrow.clock.advance(1)
        await done(ops, lead, f"in {number}", LONG * (number % 2 + 1))
        await narrow.clock.advance(1)
        wanted += [f"out {number}", f"in {number}"]
    found = await all_pages(lead.api, f"/workspaces/{lead.id}/delegations", direction=direction)
    assert tasks(found) == [task for task in wanted[::-1] if direction in ("both", task.split()[0])]
    assert {"out": [3, 1], "in": [2, 2], "both": [2, 3, 3]}[direction] == [len(page) for page in found]
    assert all(item["result"].strip("ä") == "" and len(item["result"]) >= 500 for page in found for item in page)


@requirement("D19", "S14")
@pytest.mark.parametrize("direction", ["out", "in", "both"])
async def test_what_alone_is_more_than_a_page_is_a_page(narrow: MessageWorld, direction: str) -> None:
    lead, ops = await pair(narrow)
    source, target = (ops, lead) if direction == "in" else (lead, ops)
    for number in range(3):
        await done(source, target, f"task {number}", LONG * 4)
    found = await all_pages(lead.api, f"/workspaces/{lead.id}/delegations", direction=direction)
    assert [len(page) for page in found] == [1, 1, 1]
    assert {item["result"] for page in found for item in page} == {LONG * 4}


@requirement("D19", "S14")
async def test_what_went_wrong_fills_pages_too(narrow: MessageWorld) -> None:
    lead, ops = await pair(narrow)
    for number in range(3):
        given = await give(lead, ops, f"task {number}")
        await ended(ops, given["delegation_id"], status="failed", error=LONG)
    found = await all_pages(lead.api, f"/workspaces/{lead.id}/delegations")
    assert [len(page) for page in found] == [2, 1]
    assert {item["error_detail"] for page in found for item in page} == {LONG}


# -- the time line -----------------------------------------------------------------------------------------------------


async def lines(narrow: MessageWorld, seat: Seat) -> list[list[dict[str, Any]]]:
    """All pages of a time line, the oldest first, and its lines too."""
    found: list[list[dict[str, Any]]] = []
    before: dict[str, int] = {}
    while True:
        page = await narrow.person.get(f"/workspaces/{seat.id}/timeline", limit=500, **before)
        found.insert(0, page["items"])
        if page["reached_end"]:
            return found
        before = {"before": page["items"][0]["seq"]}


def words(found: list[list[dict[str, Any]]]) -> list[str]:
    """What its lines are about."""
    return [item["content"][:6] if item["kind"] == "message" else item["summary"] for page in found for item in page]


@requirement("D19", "S14")
@pytest.mark.parametrize("said", ["short", LONG])
async def test_a_time_line_ends_where_its_lines_fill_a_page_and_its_pages_reach_everything(
    narrow: MessageWorld, said: str
) -> None:
    lead, ops = await pair(narrow)
    wanted: list[str] = []
    for number in range(4):
        await narrow.ask(lead, f"ask {number} {said}")
        await done(lead, ops, f"task {number}")
        wanted += [f"ask {number} ", f"task {number}"]
    assert [each.strip() for each in words(await lines(narrow, lead))] == [each.strip() for each in wanted]
    assert all(0 < sum(len(str(item).encode()) for item in page[1:]) < 3 * PAGE for page in await lines(narrow, lead))
    (first, *_), *_ = await lines(narrow, lead)
    assert first["content"].startswith("ask 0")


@requirement("D19", "S14")
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
async def test_a_time_line_of_full_pages_has_its_end_where_nothing_older_is(narrow: MessageWorld, count: int) -> None:
    """Also where the last delegation that a page has room for is the first of all."""
    lead, ops = await pair(narrow)
    for number in range(count):
        await done(lead, ops, f"task {number}")
    found = await lines(narrow, lead)
    assert words(found) == [f"task {number}" for number in range(count)]
    assert all(found)
    assert len(found) == -(-count // 2)


# -- beginnings --------------------------------------------------------------------------------------------------------


@requirement("D19", "S14")
@pytest.mark.parametrize("path", ["/orgs/{org_id}/delegations", "/admin/delegations"])
async def test_the_lists_of_organisations_show_beginnings_and_their_pages_reach_everything(
    narrow: MessageWorld, path: str
) -> None:
    lead, ops = await pair(narrow)
    for number in range(9):
        await done(lead, ops, f"task {number}", "a" + LONG)
        await narrow.clock.advance(1)
    given = await give(lead, ops, "a" + LONG)
    await ended(ops, given["delegation_id"], status="failed", error=f"a{LONG}"[:500])
    org_id = (await lead.api.get(f"/workspaces/{lead.id}"))["org_id"]
    api = narrow.server.admin if path.startswith("/admin") else narrow.person
    found = await all_pages(api, path.format(org_id=org_id))
    assert tasks(found) == ["a" + "ä" * 49, *(f"task {number}" for number in range(8, -1, -1))]
    assert [len(page) for page in found] == [8, 2]
    (failed, *rest) = [item for page in found for item in page]
    assert {item["response_preview"] for item in rest} == {"a" + "ä" * 149}
    assert {item["result"] for item in rest} == {None}
    assert (failed["error"], failed["error_detail"], failed["response_preview"]) == ("a" + "ä" * 149,) * 2 + (None,)


@requirement("D19", "S14")
async def test_the_store_hands_out_no_more_than_what_is_shown(narrow: MessageWorld) -> None:
    lead, ops = await pair(narrow)
    reader, org = narrow.server.server.delegations.reader, narrow.server.server.registry.orgs()[0]
    opened = (await give(lead, ops, LONG))["delegation_id"]
    assert [(row.id, row.task) for row in await reader.list_open(org.id, 10)] == [(opened, LONG[:50])]
    await ended(ops, opened, status="completed", result=LONG)
    for rows in (await reader.list_page(org.id, None, None, None, 10), await reader.load_tree(org.id, opened)):
        assert [(row.task, row.result) for row in rows] == [(LONG[:50], LONG[:150])]
    cuts = {"org_id": org.id, "root_id": opened, "count": 10, "task_most": 7, "text_most": 9}
    (row,) = await narrow.server.server.store.rows("delegations_of_root", cuts)
    assert (Delegation.from_row(row).task, Delegation.from_row(row).result) == (LONG[:7], LONG[:9])
    (whole,) = await reader.sent_by(lead.id, None, None, 10)
    assert (whole.task, whole.result) == (LONG[:100], LONG)
    assert (await reader.received_by(org.id, ops.id, None, None, 10)) == [whole]
    assert (await reader.involving(org.id, ops.id, None, None, 10)) == [whole]


@requirement("D19", "S14")
async def test_one_alone_is_whole_and_the_tree_below_it_is_of_beginnings(narrow: MessageWorld) -> None:
    lead, ops = await pair(narrow)
    below = await narrow.server.seat("Below", parent_id=ops.id)
    first = await give(lead, ops)
    await narrow.take(ops)
    second = (await give(ops, below, "b" + LONG))["delegation_id"]
    await ended(below, second, status="failed", error=f"b{LONG}"[:500])
    (child,) = (await full(lead, first["delegation_id"]))["tree"]["children"]
    assert (child["summary"], child["error"]) == ("b" + "ä" * 49, "b" + "ä" * 149)
    alone = await full(below, second)
    assert (alone["task"], alone["delegation"]["error"], alone["tree"]["error"]) == (
        "b" + LONG,
        f"b{LONG}"[:500],
        "b" + "ä" * 149,
    )


# -- long time lines ---------------------------------------------------------------------------------------------------


@requirement("D19", "S14")
async def test_of_a_long_time_line_the_end_is_shown_and_how_much_stands_before_it(narrow: MessageWorld) -> None:
    lead, ops = await pair(narrow)
    id_ = str((await give(lead, ops))["delegation_id"])
    begun = len((await full(lead, id_))["timeline"])
    for taken in range(1, 4):
        await _taken_and_given_back(narrow, ops)
        found = await full(lead, id_)
        wanted = begun + 2 * taken
        assert (len(found["timeline"]), found["earlier"]) == (min(wanted, LINES), max(0, wanted - LINES))
    line = (await full(lead, id_))["timeline"]
    assert [each["fact"] for each in line] == ["claimed", "returned"] * (LINES // 2)


async def _taken_and_given_back(world: MessageWorld, seat: Seat) -> None:
    (row,) = await world.take(seat)
    claim = {"activity_id": row["id"], "attempt": row["attempt"]}
    await seat.api.post(f"/workspaces/{seat.id}/activity/release", {"claims": [claim]})
