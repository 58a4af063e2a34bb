"""One budget at three processes: turns that begin at all of them at the same time lease no more than there is."""

import asyncio
from pathlib import Path

from testing.budgets import BudgetWorld
from testing.clocks import FakeClock
from testing.push_agents import PushNetwork
from testing.waits import eventually
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import knows, servers


@requirement("B1")
async def test_turns_at_three_processes_lease_from_one_budget(place: str, tmp_path: Path, clock: FakeClock) -> None:
    async with servers(place, tmp_path, 3, clock=clock) as three:
        org_id = (await three[0].admin.get("/orgs"))[0]["id"]
        world = BudgetWorld(three[0], await three[0].person(), clock, PushNetwork(), org_id)
        lead = await three[0].seat("Lead")
        team = [await three[0].seat(f"Ops {number}", parent_id=lead.id) for number in range(9)]
        for each in team:
            await world.set_lease(each, 100)
        sent = [await world.send(each) for each in team]
        budget = await world.budget(lead, 450, scope="subtree")
        for server in three:
            await knows(server, team[-1].id, bool)
        apis = [three[number % 3].api(each.token) for number, each in enumerate(team)]
        paths = [f"/workspaces/{each.id}/activity" for each in team]
        query = {"claim": 600, "wait": 0}
        claimed = await asyncio.gather(*(api.get(path, **query) for api, path in zip(apis, paths, strict=True)))
        begun = [number for number, rows in enumerate(claimed) if rows]
        assert len(begun) == 4
        assert (await world.now(budget))["leased"] == 400
        for number in begun:
            await world.report(team[number], sent[number], 100)
        waiting = next(number for number, rows in enumerate(claimed) if not rows)
        assert await apis[waiting].get(paths[waiting], **query) == []
        await world.decide(await world.approval(), "approve")
        await eventually(lambda: apis[waiting].get(paths[waiting], **query), bool)
