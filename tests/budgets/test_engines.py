"""Turns of threads, and pushes: they lease too, wait in their queue, and go on by themselves."""

from testing.budgets import BudgetWorld
from testing.push_agents import plain
from testing.running_server import Seat
from testing.thread_world import Engine
from testing.waits import eventually, refused
from tests.requirements import requirement

URL = "http://ops.test/a2a"


async def engine_with_turns(world: BudgetWorld, seat: Seat, count: int = 2) -> tuple[Engine, list[str]]:
    """An engine that has claimed a thread with queued turns."""
    body = {"base_instructions": "You are Ops."}
    thread = await seat.api.post(f"/workspaces/{seat.id}/threads", body)
    turns = []
    for number in range(count):
        turn = await world.person.post(
            f"/threads/{thread['thread_id']}/turns", {"input": f"count {number}", "mode": "queue"}
        )
        turns.append(turn["turn_id"])
    engine = Engine(seat.api, thread)
    await engine.claim()
    return engine, turns


@requirement("B2")
async def test_a_turn_over_budget_stays_queued_and_begins_once_it_is_raised(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 100)
    budget = await world.budget(ops, 100)
    engine, (first, second) = await engine_with_turns(world, ops)
    await engine.begin(first)
    assert (await world.now(budget))["leased"] == 100
    await world.report(ops, "u1", 100, thread_id=engine.id)
    await engine.call(f"/turns/{first}/end", {"generation": engine.generation, "status": "completed"})
    assert (await world.now(budget))["leased"] == 0
    error = await refused(engine.begin(second))
    assert (error.status, error.code) == (429, "over_budget")
    thread = await world.person.get(f"/threads/{engine.id}")
    assert thread["queued"] == [second]
    await world.decide(await world.approval(), "approve")
    await engine.begin(second)
    assert (await world.now(budget))["leased"] == 100


@requirement("B1")
async def test_a_turn_that_ends_without_usage_ends_its_lease(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    budget = await world.budget(ops, 100)
    engine, (first, _) = await engine_with_turns(world, ops)
    await engine.begin(first)
    assert (await world.now(budget))["leased"] == 100, "never more than the whole budget"
    await world.person.post(f"/threads/{engine.id}/interrupt", {})
    assert (await world.now(budget))["leased"] == 0


@requirement("B1")
async def test_a_turn_that_uses_more_than_the_budget_is_stopped_at_its_next_step(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    await world.set_lease(ops, 60)
    await world.budget(ops, 100)
    engine, (first, _) = await engine_with_turns(world, ops)
    await engine.begin(first)
    await world.report(ops, "u1", 70, thread_id=engine.id)
    assert (await engine.adds())["stop"] is None, "it has used more than it leased, and the budget has capacity"
    await world.report(ops, "u2", 30, thread_id=engine.id)
    assert (await engine.adds())["stop"] == "budget"


@requirement("B2")
async def test_a_push_over_budget_is_made_once_the_budget_is_raised(world: BudgetWorld) -> None:
    world.net.answers(
        URL,
        plain(
            200,
            jsonrpc="2.0",
            id="1",
            result={"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "seven"}]},
        ),
    )
    ops = await world.server.seat(delivery_mode="push", url=URL)
    await world.set_lease(ops, 100)
    budget = await world.budget(ops, 100)
    await world.report(ops, "earlier", 90)
    sent = await world.send(ops)
    item = await world.approval()
    assert world.net.pushed == []
    await world.decide(item, "approve")
    await eventually(lambda: world.now(budget), lambda found: found["leased"] == 100)
    (pushed,) = world.net.pushed
    assert pushed.body["params"]["message"]["messageId"] == sent


@requirement("B3")
async def test_an_organisation_without_budgets_needs_no_keys_and_no_statements(world: BudgetWorld) -> None:
    ops = await world.server.seat()
    assert not world.server.server.budgets.leases.is_needed(world.org_id)
    assert world.server.server.budgets.leases.lease_keys(world.org_id) == ()
    assert world.server.server.budgets.leases.end_thread_leases(world.org_id, ops.id, "t") == []
