"""The sample team of `molecule up`: real processes that answer, over restarts, until their workspaces are removed."""

import signal
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from molecule_core.cli._sample_team import COMPANY_FILE, TEAM_FILE
from molecule_core.client.api import ApiClient
from molecule_core.demo.company import list_company_workspaces, packaged_company
from testing.ports import free_port
from testing.processes import LISTENS, MOLECULE, Process, client, environment, started
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.requirements import requirement

TEAM = [placed.seat.name for placed in list_company_workspaces(packaged_company(COMPANY_FILE))]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


def up(state: Path, port: int) -> AbstractAsyncContextManager[Process]:
    """A server that a person has started."""
    return started(MOLECULE, "up", "--no-runner", env=environment(state, port))


async def online(api: ApiClient) -> list[str]:
    """The names of the agents, once all are online."""
    rows = await eventually(
        lambda: api.get("/workspaces"),
        lambda rows: rows != [] and {row["status"] for row in rows} == {"online"},
        PROCESS_START_SECONDS,
    )
    return [row["name"] for row in rows]


async def ask(api: ApiClient, root_id: str, text: str, answers: int) -> str:
    """Writes to the lead; its last answer, once it has given so many."""
    await api.send(root_id, text)

    async def said() -> list[str]:
        page = await api.get(f"/workspaces/{root_id}/chat-history")
        lines = [line["content"] for line in page["messages"] if line["role"] == "agent"]
        return [line for line in lines if "Planner" in line and "#" in line]

    found = await eventually(said, lambda lines: len(lines) >= answers, PROCESS_START_SECONDS)
    return str(found[0])


async def add(api: ApiClient) -> str:
    """Adds the team to the first organisation."""
    org_id = (await api.get("/orgs"))[0]["id"]
    return str((await api.post(f"/orgs/{org_id}/sample-team", {}))["workspace_id"])


@requirement("C57")
async def test_a_sample_team_answers_over_restarts_until_it_is_removed(state: Path) -> None:
    port = free_port()
    async with up(state, port) as process, client(port) as api:
        await process.says(LISTENS)
        root_id = await add(api)
        assert await add(api) == root_id, "a second press adds no second team"
        (root,) = [row for row in await api.get("/workspaces") if row["parent_id"] is None]
        assert len(root["agent_card"]["skills"][0]["examples"]) == 3, "offered before its agent has started"
        assert await online(api) == TEAM
        answer = await ask(api, root_id, "Plan a newsletter with sign up", 1)
        assert [name for name in TEAM[1:] if name not in answer] == []
        await end(process)
    assert "mol_ws_" not in (state / TEAM_FILE).read_text(), "no token is kept"
    assert (state / TEAM_FILE).stat().st_mode & 0o777 == 0o600

    async with up(state, port) as process, client(port) as api:
        await process.says(LISTENS)
        assert await add(api) == root_id
        assert await online(api) == TEAM
        await ask(api, root_id, "Estimate a shop with search", 2)
        await api.call("DELETE", f"/workspaces/{root_id}", query={"confirm": "true"})
        other = await add(api)
        assert other != root_id
        assert await online(api) == TEAM
        await end(process)


async def end(process: Process) -> None:
    """Ctrl-C: it ends with all its agents."""
    process.send(signal.SIGINT)
    assert await process.ended() == 0, process.said


@requirement("C57")
async def test_a_damaged_list_of_teams_stops_no_server(state: Path) -> None:
    state.mkdir()
    (state / TEAM_FILE).write_text("{")
    port = free_port()
    async with up(state, port) as process, client(port) as api:
        await process.says(LISTENS)
        ready = await eventually(
            lambda: api.get("/ready"), lambda found: found["status"] == "ready", PROCESS_START_SECONDS
        )
        await process.says("cannot be read")
        assert ready["status"] == "ready"
        await end(process)


@requirement("C57")
async def test_a_server_that_no_person_started_offers_no_sample_team(state: Path) -> None:
    port = free_port()
    async with started(MOLECULE, "serve", env=environment(state, port)) as process, client(port) as api:
        await process.says(LISTENS)
        org_id = (await api.get("/orgs"))[0]["id"]
        assert await api.get(f"/orgs/{org_id}/sample-team") == {"is_available": False, "workspace_id": None}
