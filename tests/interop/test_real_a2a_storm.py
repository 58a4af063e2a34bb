"""Many tasks at real a2a-sdk agents while the server is killed: none is lost, and in 1.0 none is doubled.

In 0.3 a task may be done again if the server was killed before it had recorded the task's id, and only then.

The agent is not killed: those of a2a-sdk keep their tasks in memory, or leave them at work for ever."""

from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiClient
from testing.ports import free_port
from testing.processes import client, serving
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.interop.python_kits import A2A_KITS, Kit
from tests.interop.test_real_a2a_client import ENDED, executions, worker_of
from tests.requirements import requirement

STORMS = [pytest.param((12, 2), id="small"), pytest.param((500, 50), id="large", marks=pytest.mark.exhaustive)]


@pytest.mark.long
@pytest.mark.parametrize("kit", A2A_KITS, ids=[each.name for each in A2A_KITS])
@pytest.mark.parametrize("storm", STORMS)
@requirement("P1", "P2")
async def test_no_task_is_lost_while_the_server_is_killed_again_and_again(
    kit: Kit, storm: tuple[int, int], tmp_path: Path
) -> None:
    (count, kills), port = storm, free_port()
    tasks = [f"slow 1 task {number}" for number in range(count)]
    environment = {
        "MOLECULE_PUSH_NETWORKS": "127.0.0.0/8",
        "MOLECULE_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "MOLECULE_LIMIT_REQUESTS_PER_MINUTE": "1000000",
        "MOLECULE_LIMIT_SENDS_PER_MINUTE": "1000000",
        "MOLECULE_LIMIT_ORG_SENDS_PER_MINUTE": "1000000",
    }
    async with worker_of(kit, "push", tmp_path) as card_url:
        async with serving(tmp_path / "state", port, **environment), client(port) as admin:
            fields = {"name": "Worker", "a2a_card_url": card_url, "max_concurrent_tasks": 64}
            worker, lead = await admin.post("/workspaces", fields), await admin.post("/workspaces", {"name": "Lead"})
        path, token = f"/workspaces/{lead['id']}/delegate", lead["connection"]["auth_token"]
        batches, ids, recorded = _batches(tasks, kills), dict[str, str](), set[str]()
        for number, batch in enumerate(batches):
            async with serving(tmp_path / "state", port, **environment) as server, client(port, token) as own:
                for task in batch:
                    begun = await own.post(path, {"target_id": worker["id"], "task": task, "wait": 0})
                    ids[task] = begun["delegation_id"]
                # Every other kill comes at once, whatever is being sent; the others while a part is known to be there.
                if number % 2:
                    recorded |= await _wait_for_half(own, {task: ids[task] for task in batch})
                await server.kill()
        async with serving(tmp_path / "state", port, **environment), client(port) as admin:

            async def found() -> list[dict[str, Any]]:
                return [await admin.get(f"/delegations/{each}") for each in ids.values()]

            ended = await eventually(
                found, lambda rows: all(each["delegation"]["status"] in ENDED for each in rows), 60 + count
            )
    counts = {task: executions(tmp_path, task) for task in tasks}
    assert {each["delegation"]["status"] for each in ended} == {"completed"}
    assert {each["result"].strip() for each in ended} == {"0"}
    assert min(counts.values()) >= 1
    # Once the id of its task is recorded, a message is never sent again.
    assert {task: counts[task] for task in recorded} == dict.fromkeys(recorded, 1)
    if kit.name == "a2a_1":
        assert max(counts.values()) == 1
    else:  # it cannot be asked for the task of a message: what a kill cut off is sent again, once for each kill
        later_kills = {task: len(batches) - number for number, batch in enumerate(batches) for task in batch}
        assert {task: counts[task] for task in tasks if counts[task] > 1 + later_kills[task]} == {}


def _batches(tasks: list[str], kills: int) -> list[list[str]]:
    """Return the tasks in as many parts as there are servers; each server is killed."""
    size = -(-len(tasks) // (kills + 1))
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]


async def _wait_for_half(own: ApiClient, batch: dict[str, str]) -> set[str]:
    """Wait until the server has recorded the remote tasks of half of a batch; return those it has recorded."""

    async def look() -> set[str]:
        found = {task: await own.get(f"/delegations/{delegation_id}") for task, delegation_id in batch.items()}
        return {task for task, each in found.items() if each["delegation"]["taken_at"] is not None}

    return await eventually(look, lambda recorded: 2 * len(recorded) >= len(batch), PROCESS_START_SECONDS)
