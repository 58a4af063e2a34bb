"""Whom a call of an agent means, and whom it may mean: paths, ids, agents of others, agents that nobody knows."""

import pytest

from testing.thread_world import Engine, ThreadWorld, code
from tests.requirements import requirement
from tests.threads.test_agents import act, spawned


@requirement("TH9", "TH10")
async def test_a_target_is_found_from_where_the_caller_stands(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    root = await world.starts(ops, input="Go")
    left = await spawned(world, ops.api, root, "left")
    right = await spawned(world, ops.api, root, "right")
    below = await spawned(world, ops.api, left, "below")

    for number, (caller, target, meant) in enumerate(
        [
            (root, "left", left),
            (root, "left/below", below),
            (root, "root/left/below", below),
            (root, below["thread_id"], below),
            (left, "below", below),
            (left, "../right", right),
            (left, "root/right", right),
            (below, "../../right", right),
            (below, "..", left),
        ]
    ):
        call = await act(ops.api, caller, "send", f"s{number}", target=target, message="Hello")
        assert [each["thread_id"] for each in call["agents"]] == [meant["thread_id"]], target


@requirement("TH9", "S8")
@pytest.mark.parametrize("target", ["../..", "../../../right", "/left", "/etc/passwd", "left/../../..", "nobody", ""])
async def test_a_target_outside_the_tree_is_nobody(world: ThreadWorld, target: str) -> None:
    ops = await world.server.seat("Ops")
    root = await world.starts(ops, input="Go")
    left = await spawned(world, ops.api, root, "left")

    status, name = await code(act(ops.api, left, "send", "s", target=target, message="Hello"))

    assert (status, name) in ((404, "no_such_agent"), (422, "invalid_field"))


@requirement("TH9", "S8")
async def test_an_agent_of_another_organisation_is_nobody(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    root = await world.starts(ops, input="Go")
    org = await world.server.org("Others")
    theirs = await world.starts(await world.server.seat("Ops", org_id=org))
    for verb in ("send", "followup", "interrupt", "close"):
        said = {"message": "Hello"} if verb in ("send", "followup") else {}
        found = await code(act(ops.api, root, verb, f"{verb}-1", target=theirs["thread_id"], **said))
        unknown = await code(act(ops.api, root, verb, f"{verb}-2", target="0" * 36, **said))
        assert found == unknown == (404, "no_such_agent")


@requirement("TH8", "TH9")
async def test_nobody_is_waited_for_in_vain_beside_one_that_works(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    root = await world.starts(ops, input="Go")
    await spawned(world, ops.api, root, "one")

    call = await act(ops.api, root, "wait", "w", targets=["nobody", "one"], timeout=3600)

    assert (call["status"], [each.get("outcome") for each in call["agents"]]) == ("completed", ["unknown", None])


@requirement("TH7", "TH9")
async def test_the_end_comes_to_who_asked_though_another_began_the_agent(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    root = await world.starts(ops, input="Go")
    left = await spawned(world, ops.api, root, "left")
    right = await spawned(world, ops.api, root, "right")
    await Engine(ops.api, root).works("both are begun")
    await Engine(ops.api, right).works("ready")
    await act(ops.api, left, "followup", "f", target="root/right", message="One thing more")

    await Engine(ops.api, right).works("only for left")

    seen = await Engine(ops.api, left).works("thanks")
    assert any("only for left" in each["text"] for each in seen["items"] if each["role"] == "peer")
    seen = await Engine(ops.api, root).works("good")
    assert not any("only for left" in each["text"] for each in seen["items"])


@requirement("TH7")
async def test_a_followup_to_an_agent_at_work_gets_a_turn_behind_the_one_it_is_in(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    root = await world.starts(ops, input="Go")
    one = await spawned(world, ops.api, root, "one")
    worker = Engine(ops.api, one)
    await worker.claim()
    await worker.begin()

    call = await act(ops.api, root, "followup", "f", target="one", message="One thing more")

    assert [each["status"] for each in call["agents"]] == ["running"]
    await worker.ends(final="the first thing is done")
    assert len((await world.reads(one))["queued"]) == 1
    seen = await worker.works("and the other")
    assert [each["role"] for each in seen["items"]][-1] == "peer"
    assert "One thing more" in seen["items"][-1]["text"]
    assert (await world.reads(one))["idle"]
