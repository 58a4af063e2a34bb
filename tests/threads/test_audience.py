"""Who hears of threads: persons of all; a workspace of its own, and of the trees that begin in it, live and behind a
cursor."""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from testing.live_clients import HandMade, all_live, channel, check_chain, journal_of, streaming, token_of, told
from testing.running_server import Seat
from testing.thread_world import Engine, Item, ThreadWorld, code
from testing.waits import bounded
from tests.requirements import requirement

_NAMES = ("THREAD_", "TURN_")


def about(events: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """The events about threads, by thread."""
    found: dict[str, list[str]] = {}
    for event in events:
        if event.get("event", "").startswith(_NAMES):
            found.setdefault(event["entity"]["id"], []).append(event["event"])
    return found


async def spawn(seat: Seat, thread_id: str, name: str, **asked: object) -> str:
    """A new agent's thread."""
    body = {"call_id": f"spawn-{name}", "task_name": name, "message": "work", **asked}
    answer: Item = await bounded(seat.api.post(f"/threads/{thread_id}/agents/spawn", body))
    return str(answer["call"]["new_thread_id"])


async def blocks(stream: HandMade, name: str) -> list[dict[str, Any]]:
    """What an event stream tells, up to the last word."""
    found: list[dict[str, Any]] = []
    while not found or found[-1].get(name) != "WORKSPACE_UPDATED":
        found.append(msgspec.json.decode((await stream.block()).get("data", "{}")))
    return found


@requirement("TH20", "TH6")
async def test_a_workspace_hears_its_own_threads_and_all_of_the_trees_that_begin_in_it(world: ThreadWorld) -> None:
    server = world.server
    lead = await server.seat("Lead")
    far = await server.seat("Far", parent_id=lead.id)
    near = await server.seat("Near", parent_id=lead.id)
    stranger = await server.seat("Stranger", org_id=await server.org("Other"))
    tokens = {each.id: each.token for each in (lead, far, near, stranger)}
    tokens["person"] = await token_of(server, "viewer")
    async with AsyncExitStack() as stack:
        channels = {name: await stack.enter_async_context(channel(server, token)) for name, token in tokens.items()}
        stream = await stack.enter_async_context(streaming(server, token=lead.token))
        # The older stream of a seat is about the seat alone.
        older = await stack.enter_async_context(streaming(server, f"/workspaces/{lead.id}/events/stream", lead.token))
        await all_live(server)

        root = (await world.starts(lead))["thread_id"]
        child = await spawn(lead, root, "far", workspace_id=far.id)
        grandchild = await spawn(far, child, "sub")
        await Engine(far.api, {"thread_id": grandchild}).works("done")
        other = (await world.starts(far))["thread_id"]
        upward = await spawn(far, other, "up", workspace_id=lead.id)
        for each in (lead, stranger):  # the last word, which all of its organisation hear
            await bounded(server.admin.call("PATCH", f"/workspaces/{each.id}", body={"role": "the last word"}))
        for each in (lead, far, near, stranger):
            await bounded(channels[each.id].event("WORKSPACE_UPDATED"))
        last = await bounded(channels["person"].event("WORKSPACE_UPDATED"))
        heard = {name: about(opened.frames[1:]) for name, opened in channels.items()}
        assert set(heard["person"]) == {root, child, grandchild, other, upward}
        assert heard[lead.id] == {each: heard["person"][each] for each in (root, child, grandchild, upward)}
        assert heard[far.id] == {each: heard["person"][each] for each in (child, grandchild, other, upward)}
        assert heard[near.id] == heard[stranger.id] == {}
        for thread in heard["person"].values():
            assert thread[0] == "THREAD_STARTED"
        assert {"TURN_STARTED", "TURN_COMPLETED", "THREAD_MAIL"} <= set(heard[lead.id][grandchild])

        by_stream, by_older = await blocks(stream, "event"), await blocks(older, "type")
        assert about(by_stream) == heard[lead.id]
        named = {each["data"].get("thread_id") for each in by_older if each.get("type", "").startswith(_NAMES)}
        assert named - {None} == {root, upward}

        # Who has lost its place finds the whole tree again, and who has no part in it finds nothing.
        tree = await bounded(lead.api.get(f"/threads/{root}/tree"))
        assert [each["thread_id"] for each in tree["threads"]] == [root, child, grandchild]
        for each in (near, stranger):
            assert await code(each.api.get(f"/threads/{grandchild}")) == (404, "not_found")

        # Who was away is told the same.
        for each in (lead, far, near):
            again = await journal_of(server, each.token, upto=last["seq"])
            check_chain(again, 0)
            live = [event for event in told(channels[each.id].frames) if "seq" in event]
            assert [event for event in told(again) if event["seq"] >= live[0]["seq"]] == live


@requirement("TH20", "S8")
async def test_who_has_one_agent_in_the_tree_of_another_reads_nothing_but_its_own_part_of_it(
    world: ThreadWorld,
) -> None:
    server = world.server
    lead = await server.seat("Lead")
    far, near = [await server.seat(name, parent_id=lead.id) for name in ("Far", "Near")]
    root = (await world.starts(lead, input="Go"))["thread_id"]
    seats = {"far": far, "near": near}
    spawned = {name: await spawn(lead, root, name, workspace_id=seat.id) for name, seat in seats.items()}
    below = await spawn(far, spawned["far"], "sub", workspace_id=near.id)
    await Engine(near.api, {"thread_id": spawned["near"]}).works("for Lead alone")
    await Engine(near.api, {"thread_id": below}).works("for Far")
    await Engine(lead.api, {"thread_id": root}).works("what Lead thinks")

    tree = await bounded(far.api.get(f"/threads/{spawned['far']}/tree"))
    assert [each["thread_id"] for each in tree["threads"]] == [spawned["far"]]
    assert tree["lifetime"] == 3
    page = await bounded(far.api.get(f"/threads/{spawned['far']}/collab"))
    assert {each["entry"]["call_id"] for each in page["calls"]} == {"spawn-sub"}
    between = {(each["author_thread_id"], each["receiver_thread_id"]) for each in page["mail"]}
    assert between == {(root, spawned["far"]), (spawned["far"], below), (below, spawned["far"])}
    listed = await bounded(far.api.get(f"/workspaces/{far.id}/threads", ancestor=spawned["far"]))
    assert listed["threads"] == []
    # It may address all of them, and knows how those stand that it has asked for something.
    agents = await bounded(far.api.get(f"/threads/{spawned['far']}/agents"))
    told = {each["thread_id"]: each.get("message") for each in agents["agents"]}
    assert told == {root: None, spawned["far"]: None, spawned["near"]: None, below: "for Far"}

    for api, thread in ((lead.api, root), (world.person, spawned["far"])):
        tree = await bounded(api.get(f"/threads/{thread}/tree"))
        assert {each["thread_id"] for each in tree["threads"]} == {root, *spawned.values(), below}
        agents = await bounded(api.get(f"/threads/{thread}/agents"))
        assert "for Lead alone" in [each.get("message") for each in agents["agents"]]
        page = await bounded(api.get(f"/threads/{thread}/collab"))
        assert {each["entry"]["call_id"] for each in page["calls"]} == {"spawn-far", "spawn-near", "spawn-sub"}
    listed = await bounded(world.person.get(f"/workspaces/{far.id}/threads", ancestor=spawned["far"]))
    assert [each["thread_id"] for each in listed["threads"]] == [below]


@requirement("TH20", "S8")
async def test_a_call_tells_its_thread_no_answers_but_those_its_workspace_reads_and_those_that_were_sent_to_it(
    world: ThreadWorld,
) -> None:
    server = world.server
    lead = await server.seat("Lead")
    far, near = [await server.seat(name, parent_id=lead.id) for name in ("Far", "Near")]
    root = (await world.starts(lead, input="Go"))["thread_id"]
    seats = {"far": far, "near": near}
    spawned = {name: await spawn(lead, root, name, workspace_id=seat.id, wake="queue") for name, seat in seats.items()}
    below = await spawn(far, spawned["far"], "sub", workspace_id=near.id)
    own = (await world.starts(far))["thread_id"]
    worker = Engine(near.api, {"thread_id": spawned["near"]})
    await Engine(lead.api, {"thread_id": root}).works("what Lead thinks")
    await worker.works("for Lead alone")
    await Engine(near.api, {"thread_id": below}).works("for Far")

    async def told(seat: Seat, thread_id: str, verb: str, call_id: str, target: str) -> list[tuple[str, str | None]]:
        body = {"call_id": f"{verb}-{call_id}", "target": target, "message": "Hi"}
        call = (await bounded(seat.api.post(f"/threads/{thread_id}/agents/{verb}", body)))["call"]
        return [(each["status"], each.get("message")) for each in call["agents"]]

    answered = {root: "what Lead thinks", spawned["near"]: "for Lead alone", below: "for Far"}
    for verb in ("send", "wait"):
        for caller, target in ((spawned["far"], spawned["near"]), (spawned["far"], root), (own, spawned["near"])):
            assert await told(far, caller, verb, f"{caller}-{target}", target) == [("completed", None)]
        for seat, caller, target in ((far, spawned["far"], below), (far, own, below), (lead, root, spawned["near"])):
            assert await told(seat, caller, verb, target, target) == [("completed", answered[target])]
    for thread_id in (spawned["far"], own):
        said = msgspec.json.encode(await world.log({"thread_id": thread_id})).decode()
        assert "for Far" in said
        assert "for Lead alone" not in said
        assert "what Lead thinks" not in said

    # What it has asked for itself comes to it as a letter, and is no secret.
    more = {"call_id": "more", "target": "../near", "message": "And for me?"}
    await bounded(far.api.post(f"/threads/{spawned['far']}/agents/followup", more))
    await worker.works("for Far too")
    for verb in ("send", "wait"):
        assert await told(far, spawned["far"], verb, "asked", "../near") == [("completed", "for Far too")]
        assert await told(far, own, verb, "not-asked", spawned["near"]) == [("completed", None)]


@requirement("S8", "S13")
async def test_a_page_of_threads_behind_one_of_others_answers_as_behind_one_that_is_not_there(
    world: ThreadWorld,
) -> None:
    server = world.server
    own, beside = await server.seat("Own"), await server.seat("Beside")
    stranger = await server.seat("Stranger", org_id=await server.org("Other"))
    threads = [(await world.starts(own))["thread_id"] for _ in range(2)]
    path, other = f"/workspaces/{own.id}/threads", (await world.starts(beside))["thread_id"]
    begun = await server.admin.call("POST", f"/workspaces/{stranger.id}/threads", body={"base_instructions": "Be."})
    page = await own.api.get(path, before=threads[1])
    assert [each["thread_id"] for each in page["threads"]] == [threads[0]]
    refusals = {await code(own.api.get(path, before=each)) for each in (other, begun["thread_id"], "nothing")}
    assert refusals == {(404, "not_found")}
