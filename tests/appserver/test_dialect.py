"""Threads over `/threads/ws`: what a client asks, is told, and is refused."""

import json
from typing import Any

from websockets.exceptions import ConnectionClosed

from tests.appserver.dialect import client
from tests.journeys.patience import bounded
from tests.requirements import requirement
from tests.threads.house import BASE, Engine, House, said

# The item of a collaboration call, as codex.md section 3 lists it.
FIELDS = {
    "type", "id", "tool", "status", "senderThreadId", "receiverThreadIds", "prompt", "model", "reasoningEffort",
    "agentsStates", "startedAtMs", "completedAtMs",
}  # fmt: skip
# A tenth of what a client must be able to miss; a workspace may not spawn many more in the minute that stands still.
_SPAWNS = 50


def rest_of(thread: dict[str, Any]) -> dict[str, Any]:
    """A thread of the dialect as the house's helpers name it."""
    return {"thread_id": thread["id"]}


@requirement("TH1")
async def test_a_client_starts_a_thread_and_hears_its_turn_from_begin_to_end(house: House) -> None:
    ops = await house.server.seat("Ops")
    async with client(house.server, ops.token) as one:
        await one.begins()
        thread = (await one.does("thread/start", baseInstructions=BASE, model="small"))["thread"]
        assert (thread["agentPath"], thread["model"]) == ("root", "small")
        turn = (await one.does("turn/start", threadId=thread["id"], input="Hi"))["turn"]
        engine = Engine(ops.api, rest_of(thread))
        await engine.claim()
        await engine.begin(turn["id"])
        call = {"type": "tool_call", "call_id": "look-1", "tool": "look", "arguments": {"at": 1}}
        await engine.adds(call, {"type": "tool_output", "call_id": "look-1", "text": "seen"}, said("Hello"))
        # Another life of the engine goes on with the turn: it is told once.
        await engine.claim()
        await engine.begin(turn["id"])
        await engine.ends(final="Hello")
        ended = await one.hears("turn/completed")
        assert (ended["turn"]["id"], ended["turn"]["status"], ended["turn"]["final"]) == (
            turn["id"],
            "completed",
            "Hello",
        )
        methods = [each["method"] for each in one.told]
        assert methods[0] == "thread/started"
        assert methods.count("turn/started") == 1
        items = [each["params"]["item"] for each in one.told if each["method"] == "item/completed"]
        assert [each["type"] for each in items] == ["userMessage", "dynamicToolCall", "agentMessage"]
        looked = items[1]
        assert (looked["id"], looked["status"], looked["contentItems"]) == (
            "look-1",
            "completed",
            [{"type": "inputText", "text": "seen"}],
        )
        begun = [each["params"]["item"]["id"] for each in one.told if each["method"] == "item/started"]
        assert begun == [each["id"] for each in items]
        read = await one.does("thread/read", threadId=thread["id"], includeTurns=True)
        assert read["baseInstructions"] == BASE
        told = [each["id"] for found in read["thread"]["turns"] for each in found["items"]]
        assert told == begun


@requirement("TH1")
async def test_a_spawn_is_told_as_one_item_with_the_fields_of_the_dialect(house: House) -> None:
    ops = await house.server.seat("Ops")
    async with client(house.server, ops.token) as one:
        await one.begins()
        thread = (await one.does("thread/start", baseInstructions=BASE))["thread"]
        wish = {"call_id": "spawn-1", "task_name": "look", "message": "Look."}
        await ops.api.post(f"/threads/{thread['id']}/agents/spawn", wish)
        begun, over = (await one.hears("item/started"))["item"], (await one.hears("item/completed"))["item"]
        child = (await one.hears("thread/started", 2))["thread"]
        assert set(begun) >= FIELDS, FIELDS - set(begun)
        assert set(over) >= FIELDS, FIELDS - set(over)
        same = {"type": "collabAgentToolCall", "id": "spawn-1", "tool": "spawnAgent", "prompt": "Look."}
        assert {name: begun[name] for name in same} == same == {name: over[name] for name in same}
        assert (begun["status"], begun["receiverThreadIds"], begun["agentsStates"]) == ("inProgress", [], {})
        assert (over["status"], over["receiverThreadIds"]) == ("completed", [child["id"]])
        assert over["agentsStates"][child["id"]]["status"] == "pendingInit"
        assert begun["senderThreadId"] == over["senderThreadId"] == thread["id"]
        assert (child["parentThreadId"], child["agentPath"], child["callId"]) == (thread["id"], "root/look", "spawn-1")


@requirement("TH1")
async def test_a_client_that_was_away_during_many_spawns_knows_every_thread_before_its_events(house: House) -> None:
    ops, count = await house.server.seat("Ops"), _SPAWNS
    async with client(house.server, ops.token) as one:
        await one.begins()
        roots = [(await one.does("thread/start", baseInstructions=BASE))["thread"]]
        cursor = one.cursor
    wanted = set[str]()
    for number in range(count):
        if number % 10 == 0 and number:  # a tree has a limit of its own
            roots.append({"id": (await house.starts(ops))["thread_id"]})
            wanted.add(roots[-1]["id"])
        wish = {"call_id": f"s{number}", "task_name": f"t{number}", "message": "Go."}
        answer = await ops.api.post(f"/threads/{roots[-1]['id']}/agents/spawn", wish)
        wanted.add(answer["call"]["new_thread_id"])
    async with client(house.server, ops.token) as again:
        await again.begins(cursor=cursor, threads=[each["id"] for each in roots])
        known = {roots[0]["id"]}
        while not wanted <= known:
            frame = await again.frame()
            if frame.get("method") == "thread/started":
                known.add(frame["params"]["thread"]["id"])
            elif "threadId" in frame["params"]:
                assert frame["params"]["threadId"] in known, frame


async def test_what_is_no_request_is_refused_and_the_connection_goes_on(house: House) -> None:
    ops, other = await house.server.seat("Ops"), await house.server.seat("Other")
    foreign = await house.starts(other)
    async with client(house.server, ops.token) as one:
        assert (await one.asks("thread/list"))["error"]["code"] == -32600
        await one.begins()
        for data, code in (("no JSON", -32700), ("[]", -32600), (json.dumps({"id": {}, "method": "x"}), -32600)):
            await one.send(data)
            assert (await one.frame())["error"]["code"] == code
        assert (await one.asks("thread/fly"))["error"]["code"] == -32601
        assert (await one.asks("turn/start", threadId="x", inputs="Hi"))["error"]["code"] == -32602
        refused = (await one.asks("thread/read", threadId=foreign["thread_id"]))["error"]
        missing = (await one.asks("thread/read", threadId="nobody"))["error"]
        assert refused["data"]["code"] == missing["data"]["code"] == "not_found"
        assert (await one.does("thread/list"))["data"] == []
        await one.send("x" * (house.server.server.settings.limits.body_bytes + 1))
        try:
            while True:
                await bounded(one.connection.recv())
        except ConnectionClosed:
            assert one.connection.close_code == 1009
