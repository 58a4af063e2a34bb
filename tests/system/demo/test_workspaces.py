"""The seats of a company on a real server, brought in line through the public API, start after start."""

import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from molecule_core.common.errors import BadSettings
from molecule_core.demo.company import Company
from molecule_core.demo.model import DemoBudget, DemoWorkspace, Topics
from molecule_core.demo.provisioner import (
    STATE_FILE,
    DemoState,
    SavedWorkspace,
    WorkspaceProvisioner,
    read_demo_state,
    write_demo_state,
)
from testing.running_server import Running, running

CRAFT = (Topics(title="T"),)


def seat(name: str, *below: DemoWorkspace, role: str = "r") -> DemoWorkspace:
    """A seat with others below it."""
    return DemoWorkspace(name=name, role=role, behaviour="lead", craft=CRAFT, seat=below)


COMPANY = Company("Ours", (seat("Boss", seat("Left", seat("Hand")), seat("Right")),))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """The seats are made by the same API on every engine: one is enough."""
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as running_server:
        yield running_server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the book is kept."""
    made = tmp_path / "demo"
    made.mkdir()
    return made


async def settled(server: Running, folder: Path, company: Company = COMPANY) -> dict[str, str]:
    """A start: name -> id of each seat."""
    found = await WorkspaceProvisioner(
        server.admin, folder, read_demo_state(folder) or DemoState()
    ).provision_workspaces(company)
    return {place.seat.name: kept.id for place, kept in found}


async def on_server(server: Running) -> dict[str, Any]:
    """The living seats by id."""
    return {row["id"]: row for row in await server.admin.get("/workspaces")}


async def test_the_tree_is_made_and_each_token_opens_its_seat(server: Running, folder: Path) -> None:
    ids = await settled(server, folder)

    rows = await on_server(server)
    parents = {row["name"]: rows[row["parent_id"]]["name"] if row["parent_id"] else None for row in rows.values()}
    assert parents == {"Boss": None, "Left": "Boss", "Hand": "Left", "Right": "Boss"}
    book = read_demo_state(folder)
    assert book is not None
    assert {each.path[-1]: each.id for each in book.seats} == ids
    for kept in book.seats:
        assert (await server.api(kept.token).get(f"/workspaces/{kept.id}"))["id"] == kept.id
    assert stat.S_IMODE((folder / STATE_FILE).stat().st_mode) == 0o600


async def test_a_second_start_keeps_every_seat(server: Running, folder: Path) -> None:
    first = await settled(server, folder)
    before = await on_server(server)
    assert await settled(server, folder) == first
    assert await on_server(server) == before


async def test_a_seat_that_was_removed_is_made_again_with_all_below_it(server: Running, folder: Path) -> None:
    first = await settled(server, folder)
    await server.admin.call("DELETE", f"/workspaces/{first['Left']}", query={"confirm": "true"})

    second = await settled(server, folder)

    assert {name for name in first if first[name] == second[name]} == {"Boss", "Right"}
    assert (await on_server(server))[second["Hand"]]["parent_id"] == second["Left"]


async def test_a_changed_company_gets_what_is_new_and_loses_what_it_has_no_more(server: Running, folder: Path) -> None:
    first = await settled(server, folder)
    changed = Company("Ours", (seat("Boss", seat("Right", seat("Foot")), role="new role"),))

    second = await settled(server, folder, changed)

    rows = await on_server(server)
    assert {row["name"] for row in rows.values()} == {"Boss", "Right", "Foot"}
    assert [second[name] == first[name] for name in ("Boss", "Right")] == [True, True]
    assert rows[second["Boss"]]["role"] == "new role"


async def test_somebody_elses_seat_is_left_alone_and_nobody_asks_above_it(server: Running, folder: Path) -> None:
    first = await settled(server, folder)
    other = await server.seat("Left", parent_id=first["Left"])
    agent = server.api(
        next(kept.token for kept in (read_demo_state(folder) or DemoState()).seats if kept.id == first["Left"])
    )
    await agent.post("/registry/register", {"id": first["Left"], "agent_card": {"skills": [{"id": "x"}]}})

    await settled(server, folder, Company("Ours", (seat("Boss"),)))

    rows = await on_server(server)
    assert set(rows) == {first["Boss"], first["Left"], other.id}
    assert rows[first["Left"]]["agent_card"] == {"name": "Left"}


async def test_a_seat_whose_token_was_lost_in_a_crash_is_replaced(server: Running, folder: Path) -> None:
    first = await settled(server, folder)
    book = read_demo_state(folder)
    assert book is not None
    lost = [kept for kept in book.seats if kept.path[-1] != "Hand"]
    write_demo_state(folder, DemoState(None, tuple(lost)))

    second = await settled(server, folder)

    rows = await on_server(server)
    assert first["Hand"] not in rows
    assert rows[second["Hand"]]["name"] == "Hand"


async def test_a_seat_gets_its_budget_once_and_what_people_change_of_it_stays(server: Running, folder: Path) -> None:
    spender = replace(seat("Boss"), budget=DemoBudget(money=0.03, lease=0.02))
    boss = (await settled(server, folder, Company("Ours", (spender,))))["Boss"]
    found = await server.admin.get(f"/workspaces/{boss}/budgets")
    (budget,) = found["budgets"]
    assert (budget["unit"], budget["period"], budget["limit"]) == ("money", "day", 30_000)
    assert found["turn_lease"]["money"] == 20_000

    org_id = (await server.admin.get("/orgs"))[0]["id"]
    changed = {"limit": 90_000}
    await server.admin.call("PUT", f"/orgs/{org_id}/budgets/{budget['budget_id']}", body=changed)
    await settled(server, folder, Company("Ours", (spender,)))
    (kept,) = (await server.admin.get(f"/workspaces/{boss}/budgets"))["budgets"]
    assert (kept["budget_id"], kept["limit"]) == (budget["budget_id"], 90_000)


def test_the_book_is_read_as_it_was_written(folder: Path) -> None:
    book = DemoState("ours.toml", (SavedWorkspace(("Boss", "Left"), "id", "token"),))
    assert read_demo_state(folder) is None
    write_demo_state(folder, book)
    write_demo_state(folder, book)
    assert read_demo_state(folder) == book
    assert [path.name for path in folder.iterdir()] == [STATE_FILE]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"seats": [1]}', b"\xff"])
def test_a_damaged_book_is_named_with_the_way_out(folder: Path, content: bytes) -> None:
    (folder / STATE_FILE).write_bytes(content)
    with pytest.raises(BadSettings, match=r"demo\.json cannot be read .*--fresh"):
        read_demo_state(folder)
