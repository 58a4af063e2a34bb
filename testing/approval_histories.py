"""A random history of approvals, and the snapshots that were taken meanwhile."""

import contextlib
import random
from typing import Any

from molecule_core.client.api import ApiError
from testing.approval_world import ACTION, ApprovalWorld, verb
from testing.waits import bounded, eventually

STEPS = 60


ASKING = ("approve", "more_info", "more_info")


async def bustle(world: ApprovalWorld, seed: int) -> list[Any]:
    """Random verbs, and the snapshots that were taken meanwhile."""
    dice, taken = random.Random(seed), list[Any]()
    seats = await world.line("Root", "Lead", "Ops")
    org_id = world.server.server.registry.orgs()[0].id
    items = list[Any]()
    for step in range(STEPS):
        seat = dice.choice(seats)
        item = dice.choice(items[-2:]) if items else None
        with contextlib.suppress(ApiError):
            choice = dice.randrange(9)
            if choice < 2 or item is None:
                items.append(await world.asks(seat, f"{ACTION} {step}", expires_in=dice.choice([60, 600])))
            elif choice == 2:
                await world.person_decides(item, dice.choice([*ASKING, "deny"]), note="why?")
            elif choice < 5:
                await world.decides(seat, item, dice.choice([*ASKING, "escalate"]), note="why?")
            elif choice < 7:
                await verb(next(each for each in seats if each.id == item["workspace_id"]), item, "answer", text="so")
            elif choice == 7:
                owner = next(each for each in seats if each.id == item["workspace_id"])
                found = await world.now(item)
                await verb(owner, item, dice.choice(["withdraw", "use"]), action_hash=found["action_hash"])
            else:
                await world.pass_time(60, *seats)
        if dice.random() < 0.2:
            taken.append(await quiet_snapshot(world, org_id))
    taken.append(await quiet_snapshot(world, org_id))
    return taken


async def quiet_snapshot(world: ApprovalWorld, org_id: str) -> Any:
    """A snapshot in a moment in which no timer is at work: between its place and its reads nothing has happened."""
    taken = [await bounded(world.person.get(f"/orgs/{org_id}/snapshot"))]

    async def look() -> bool:
        taken.append(await bounded(world.person.get(f"/orgs/{org_id}/snapshot")))
        return bool(taken[-1]["as_of"] == taken[-2]["as_of"])

    await eventually(look, bool)
    return taken[-2]
