"""Turns lease before they begin; usage replaces the lease; what is over budget waits."""

import asyncio

import pytest

from testing.budgets import BudgetWorld
from testing.waits import eventually, refused
from tests.requirements import requirement


@requirement("B1")
async def test_a_claim_leases_and_usage_replaces_the_lease(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    budget = await world.budget(ops, 1000)
    sent = await world.send(ops)
    assert await world.claim(ops) == [sent]
    now = await world.now(budget)
    assert (now["spent"], now["leased"]) == (0, 100)
    await world.report(ops, sent, 30)
    now = await world.now(budget)
    assert (now["spent"], now["leased"]) == (30, 0)


@requirement("B2")
async def test_a_workspace_over_budget_waits_until_an_approval_raises_it(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    budget = await world.budget(ops, 150)
    first, second = await world.send(ops), await world.send(ops)
    assert await world.claim(ops) == [first]
    await world.report(ops, first, 100)
    assert await world.claim(ops) == []
    found = await world.person.get(f"/workspaces/{ops.id}")
    assert "over budget" in found["limit_reason"]
    item = await world.approval()
    assert (item["action"], item["holder"]["kind"]) == ("raise_budget", "person")
    await world.decide(item, "approve")
    assert await world.claim(ops, wait=5) == [second]
    now = await world.now(budget)
    assert (now["spent"], now["leased"], now["raised"], now["state"]) == (100, 100, 75, "ok")


@requirement("B2")
async def test_a_denied_raise_stops_deliveries_and_asks_no_more(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    budget = await world.budget(ops, 100, period="day")
    first, second = await world.send(ops), await world.send(ops)
    assert await world.claim(ops) == [first]
    await world.report(ops, first, 100)
    await world.ack(ops, first)
    assert await world.claim(ops) == []
    await world.decide(await world.approval(), "deny", note="enough for today")
    assert (await world.now(budget))["state"] == "stopped"
    await world.clock.advance(4000)
    assert await world.claim(ops) == []
    assert await world.pending() == []
    await world.clock.advance(86_400)
    assert await world.claim(ops) == [second], "the next day begins with the whole budget"


@requirement("B2")
async def test_an_expired_request_is_made_again_by_the_next_turn_that_waits(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    await world.budget(ops, 100)
    first, _ = await world.send(ops), await world.send(ops)
    await world.claim(ops)
    await world.report(ops, first, 100)
    await world.claim(ops)
    item = await world.approval()
    await world.clock.advance(7300)
    await eventually(world.pending, lambda found: not found)
    await eventually(lambda: world.claim(ops), lambda found: found == [])
    again = await world.approval()
    assert again["approval_id"] != item["approval_id"]


@requirement("B2")
@pytest.mark.parametrize("kind", ["edited", "permanent"])
async def test_people_edit_by_how_much_a_budget_is_raised(world: BudgetWorld, kind: str) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    budget = await world.budget(ops, 100, period="day")
    first, second = await world.send(ops), await world.send(ops)
    await world.claim(ops)
    await world.report(ops, first, 100)
    await world.claim(ops)
    item = await world.approval()
    details = {**item["details"], "raise_by": 400, "permanent": kind == "permanent"}
    await world.decide(item, "approve", details=details)
    assert await world.claim(ops, wait=5) == [second]
    now = await world.now(budget)
    assert (now["limit"], now["raised"]) == ((500, 0) if kind == "permanent" else (100, 400))


@requirement("B2")
async def test_an_edit_that_raises_nothing_is_refused(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    await world.budget(ops, 100)
    first, _ = await world.send(ops), await world.send(ops)
    await world.claim(ops)
    await world.report(ops, first, 100)
    await world.claim(ops)
    item = await world.approval()
    for wrong in (-5, "all"):
        error = await refused(world.decide(item, "approve", details={"raise_by": wrong}))
        assert error.code == "invalid_field"
    assert len(await world.pending()) == 1


@requirement("B2")
async def test_no_agent_above_decides_about_a_budget(world: BudgetWorld) -> None:
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", parent_id=lead.id)
    await lead.api.post("/registry/heartbeat", {"workspace_id": lead.id})
    await world.set_lease(ops, 100)
    await world.budget(ops, 100)
    first, _ = await world.send(ops), await world.send(ops)
    await world.claim(ops)
    await world.report(ops, first, 100)
    await world.claim(ops)
    item = await world.approval()
    assert await world.claim(lead) == []
    path = f"/workspaces/{lead.id}/approvals/{item['approval_id']}/decide"
    error = await refused(lead.api.post(path, {"decision": "approve", "revision": 1}))
    assert error.code == "not_found"


@requirement("B1")
async def test_parallel_children_never_lease_more_than_the_budget_of_their_team(world: BudgetWorld) -> None:
    lead = await world.server.seat("Lead")
    team = [await world.server.seat(f"Ops {number}", parent_id=lead.id) for number in range(6)]
    for each in team:
        await world.set_lease(each, 100)
    budget = await world.budget(lead, 350, scope="subtree")
    sent = [await world.send(each) for each in team]
    claimed = await asyncio.gather(*(world.claim(each) for each in team))
    begun = [each for found in claimed for each in found]
    assert len(begun) == 3
    now = await world.now(budget)
    assert (now["spent"], now["leased"], now["state"]) == (0, 300, "ok"), "leases end, so no approval is needed"
    place = next(place for place, found in enumerate(claimed) if found)
    await world.report(team[place], sent[place], 10)
    waiting = next(place for place, found in enumerate(claimed) if not found)
    assert await world.claim(team[waiting]) == [sent[waiting]]


@requirement("B1")
async def test_a_claim_of_several_messages_leases_for_as_many_as_fit(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    await world.budget(ops, 250)
    sent = [await world.send(ops) for _ in range(4)]
    assert await world.claim(ops) == sent[:2]
    assert await world.claim(ops) == []


@requirement("B1")
async def test_a_message_that_is_delivered_again_keeps_its_lease(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    budget = await world.budget(ops, 100)
    sent = await world.send(ops)
    assert await world.claim(ops) == [sent]
    await world.clock.advance(700)
    assert (await world.now(budget))["unreported"] == 100
    assert await world.claim(ops) == [sent]
    now = await world.now(budget)
    assert (now["leased"], now["unreported"]) == (100, 0)


@requirement("B1")
async def test_a_late_report_replaces_what_its_turn_had_leased(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    budget = await world.budget(ops, 100, period="day")
    sent = await world.send(ops)
    await world.claim(ops)
    await world.clock.advance(2 * 86_400)
    await world.report(ops, sent, 90)
    now = await world.now(budget)
    assert (now["spent"], now["leased"]) == (0, 0), "it counts on the day of its turn"


@requirement("B1")
async def test_a_report_under_another_key_ends_the_first_lease_of_its_workspace(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    budget = await world.budget(ops, 1000)
    await world.send(ops)
    await world.send(ops)
    assert len(await world.claim(ops)) == 2
    await asyncio.gather(world.report(ops, "turn-1", 5), world.report(ops, "turn-2", 6))
    now = await world.now(budget)
    assert (now["spent"], now["leased"]) == (11, 0)


@requirement("B1")
async def test_a_budget_of_money_ignores_usage_without_a_cost(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 1, money=200_000)
    budget = await world.budget(ops, 1_000_000, unit="money")
    sent = await world.send(ops)
    await world.claim(ops)
    await world.report(ops, sent, 10_000)
    assert (await world.now(budget))["leased"] == 200_000
    await world.report(ops, f"{sent}.cost", 10_000, 70_000)
    now = await world.now(budget)
    assert (now["spent"], now["leased"]) == (70_000, 0)


@requirement("B1")
async def test_people_are_notified_once_when_most_of_a_budget_is_spent(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    budget = await world.budget(ops, 1000)
    for key, tokens in (("a", 790), ("b", 20), ("c", 20)):
        await world.report(ops, key, tokens)
    (event,) = await world.events("BUDGET_NOTICED")
    assert event["payload"]["spent"] == 810
    assert (await world.now(budget))["state"] == "noticed"


@requirement("B2")
async def test_a_chain_over_budget_waits_while_others_are_delivered(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    first, second = await world.send(ops), await world.send(ops)
    chain = await world.budget(first, 50, scope="chain")
    await world.report(ops, "earlier", 50, activity_id=first)
    assert await world.claim(ops) == [second]
    item = await world.approval()
    assert (await world.person.get(f"/workspaces/{ops.id}"))["limit_reason"] is None
    await world.decide(item, "approve")
    assert await world.claim(ops, wait=5) == [first]
    assert (await world.now(chain))["leased"] == 100


@requirement("B2")
async def test_a_cursor_does_not_pass_a_message_that_waits(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    budget = await world.budget(ops, 100)
    first, second = await world.send(ops), await world.send(ops)
    path = f"/workspaces/{ops.id}/activity"
    rows = await ops.api.get(path, type="a2a_receive", wait=0)
    assert [row["id"] for row in rows] == [first]
    await world.report(ops, first, 100)
    assert await ops.api.get(path, since_id=first, type="a2a_receive", wait=0) == []
    await world.change(budget, 300)
    rows = await ops.api.get(path, since_id=first, type="a2a_receive", wait=0)
    assert [row["id"] for row in rows] == [second]


@requirement("B1")
async def test_the_request_of_a_removed_budget_changes_nothing(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    budget = await world.budget(ops, 100)
    first, second = await world.send(ops), await world.send(ops)
    await world.claim(ops)
    await world.report(ops, first, 100)
    await world.claim(ops)
    item = await world.approval()
    await world.person.call("DELETE", f"/orgs/{world.org_id}/budgets/{budget['budget_id']}")
    assert await world.claim(ops, wait=5) == [second], "nothing limits it any more"
    decided = await world.decide(item, "approve")
    assert decided["status"] == "approved"
    assert (await world.person.get(f"/orgs/{world.org_id}/budgets"))["budgets"] == []
