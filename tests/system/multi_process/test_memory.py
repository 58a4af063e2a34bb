"""Memory with two processes on one database: what one writes the other knows, and of two that compare one wins."""

import asyncio
from pathlib import Path

from molecule_core.client.api import ApiError
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import knows, servers


@requirement("M36", "M38")
async def test_what_is_remembered_at_one_process_is_recalled_at_the_other_by_whom_the_tree_says(
    place: str, tmp_path: Path
) -> None:
    async with servers(place, tmp_path) as (one, other):
        lead = await one.seat("Lead")
        ops = await one.seat("Ops", parent_id=lead.id)
        apart = await one.seat("Apart", parent_id=ops.id)
        await knows(other, apart.id, bool)
        path = f"/workspaces/{apart.id}/memories"
        reader = other.api(apart.token)
        memory = await one.api(lead.token).post(f"/workspaces/{lead.id}/memories", {"content": "plum", "scope": "TEAM"})
        assert await reader.get(path, q="plum") == []
        await one.admin.call("PATCH", f"/workspaces/{apart.id}", body={"parent_id": lead.id})
        await knows(other, apart.id, lambda seat: seat.parent_id == lead.id)
        assert [row["id"] for row in await reader.get(path, q="plum")] == [memory["id"]]
        await other.api(lead.token).call("DELETE", f"/workspaces/{lead.id}/memories/{memory['id']}")
        assert await reader.get(path) == await one.api(apart.token).get(path) == []


@requirement("M36", "M38", "P2")
async def test_of_those_who_compare_at_both_processes_one_wins_and_counts_go_on(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path) as pair:
        ops = await pair[0].seat("Ops")
        await knows(pair[1], ops.id, bool)
        path, agents = f"/workspaces/{ops.id}/memory", [server.api(ops.token) for server in pair]
        version = 0
        for turn in range(10):
            body = {"key": "turn", "value": turn, "if_match_version": version}
            answers = await asyncio.gather(
                *(agents[number % 2].post(path, body) for number in range(6)), return_exceptions=True
            )
            (won,) = [each for each in answers if not isinstance(each, BaseException)]
            lost = [each for each in answers if isinstance(each, ApiError)]
            assert {(each.code, each.problem["current_version"]) for each in lost} == {("version_mismatch", turn + 1)}
            assert (won["version"], len(lost)) == (turn + 1, 5)
            version = won["version"]
