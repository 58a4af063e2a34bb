"""Threads over `/threads/ws`: what a client asks, is told, and is refused."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from websockets.exceptions import ConnectionClosed

from molecule_core.client.api import ApiError
from testing.app_server_client import client
from testing.clocks import settle
from testing.engines import Engine as Kind
from testing.live_clients import UPGRADE, hand_made, packed, token_of
from testing.raw_http import ask, request
from testing.running_server import ADMIN_TOKEN, UNHURRIED, running
from testing.thread_world import BASE, Engine, ThreadWorld, said
from testing.waits import bounded
from tests.access.test_sessions import logged_in
from tests.requirements import requirement

# The item of a collaboration call, as the app-server protocol of Codex lists it (docs/reference/app-server.md).
FIELDS = {
    "type", "id", "tool", "status", "senderThreadId", "receiverThreadIds", "prompt", "model", "reasoningEffort",
    "agentsStates", "startedAtMs", "completedAtMs",
}  # fmt: skip
# A tenth of what a client must be able to miss.
_SPAWNS = 50


def rest_of(thread: dict[str, Any]) -> dict[str, Any]:
    """A thread of the dialect as the house's helpers name it."""
    return {"thread_id": thread["id"]}


@requirement("TH13", "A3")
async def test_the_admin_hears_the_organisation_that_it_names(world: ThreadWorld) -> None:
    other = await world.server.org("Elsewhere")
    async with client(world.server, ADMIN_TOKEN, f"?org_id={other}") as one:
        await one.begins()
        seat = await world.server.seat("There", org_id=other)
        thread = await world.starts(seat)
        assert (await one.hears("thread/started"))["thread"]["id"] == thread["thread_id"]
    refusal = await ask(world.server.port, "GET", "/threads/ws?org_id=nobody", token=ADMIN_TOKEN, headers=UPGRADE)
    assert refusal.status == 404


@requirement("TH13")
async def test_a_client_hears_the_text_of_a_followed_thread_while_it_comes(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")

    async def report(text: str, thread_id: str, turn: str = "m") -> None:
        event = {"type": "text", "text": text}
        body = {"activity_id": turn, "thread_id": thread_id, "events": [event]}
        await bounded(ops.api.post(f"/workspaces/{ops.id}/live", body))

    async with client(world.server, ops.token) as one:
        await one.begins()
        other = await world.starts(ops)
        thread = (await one.does("thread/start", baseInstructions=BASE, model="small"))["thread"]
        turn = (await one.does("turn/start", threadId=thread["id"], input="Hi"))["turn"]
        engine = Engine(ops.api, rest_of(thread))
        await engine.claim()
        await engine.begin(turn["id"])
        await one.hears("turn/started")
        await report("not followed", other["thread_id"], "other")
        await settle()
        await world.clock.advance(1)
        await report("Hel", thread["id"])
        delta = await one.hears("item/agentMessage/delta")
        assert (delta["threadId"], delta["turnId"], delta["delta"]) == (thread["id"], turn["id"], "Hel")
        assert one.cursor.rpartition(":")[2] != "0"  # a client that resumes after it misses nothing
        await engine.adds(said("Hello"))
        while (frame := await one.frame()).get("params", {}).get("item", {}).get("id") != delta["itemId"]:
            pass
        assert (frame["method"], frame["params"]["item"]["text"]) == ("item/completed", "Hello")


@requirement("TH13")
async def test_a_client_starts_a_thread_and_hears_its_turn_from_begin_to_end(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    async with client(world.server, ops.token) as one:
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


@requirement("TH13")
async def test_a_repeated_turn_start_says_how_the_turn_has_ended(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    async with client(world.server, ops.token) as one:
        await one.begins()
        thread = (await one.does("thread/start", baseInstructions=BASE))["thread"]
        sent = {"threadId": thread["id"], "input": "Hi", "clientUserMessageId": "act-1"}
        turn = (await one.does("turn/start", **sent))["turn"]
        assert (await one.does("turn/start", **sent))["turn"] == turn
        assert turn["status"] == "inProgress"
        engine = Engine(ops.api, rest_of(thread))
        await engine.claim()
        await engine.begin(turn["id"])
        steering = {**sent, "input": "And?", "clientUserMessageId": "act-2"}
        await one.does("turn/steer", expectedTurnId=turn["id"], **steering)
        await engine.ends(final="Hello")
        for repeated in (sent, steering):
            again = (await one.does("turn/start", **repeated))["turn"]
            assert (again["id"], again["status"]) == (turn["id"], "completed")
        await one.hears("turn/completed")
        users = [each["params"]["item"] for each in one.told if each["method"] == "item/completed"]
        told = [(each["clientId"], each["content"][0]["text"]) for each in users if each["type"] == "userMessage"]
        assert told == [("act-1", "Hi"), ("act-2", "And?")]


# Required members of `Thread` in the JSON schema of Codex 0.169 (`codex app-server generate-json-schema`).
CODEX_THREAD = {
    "cliVersion", "createdAt", "cwd", "ephemeral", "id", "modelProvider", "preview", "projectId", "sessionId",
    "source", "status", "turns", "updatedAt",
}  # fmt: skip


@requirement("TH13")
async def test_a_thread_has_the_members_that_the_schema_of_codex_requires(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    async with client(world.server, ops.token) as one:
        await one.begins()
        thread = (await one.does("thread/start", baseInstructions=BASE, nickname="Vera"))["thread"]
        listed = (await one.does("thread/list"))["data"][0]
        told = (await one.hears("thread/started"))["thread"]
        for each in (thread, listed, told):
            assert set(each) >= CODEX_THREAD, CODEX_THREAD - set(each)
        assert (thread["sessionId"], thread["name"], thread["cwd"]) == (thread["id"], "Vera", "/")
        assert isinstance(thread["cliVersion"], str) and thread["ephemeral"] is False


@requirement("TH13")
async def test_no_account_is_needed_and_a_client_may_ask(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    async with client(world.server, ops.token) as one:
        await one.begins()
        assert await one.does("account/read", refreshToken=False) == {"account": None, "requiresOpenaiAuth": False}


@requirement("TH13")
async def test_explicit_nulls_count_as_missing_at_any_depth(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    async with client(world.server, ops.token) as one:
        await one.begins()
        thread = (await one.does("thread/start", baseInstructions=BASE, nickname=None, cwd=None))["thread"]
        parts = [{"type": "text", "text": "Hi", "text_elements": None}]
        sent = {"threadId": thread["id"], "input": parts, "model": None, "clientUserMessageId": None}
        assert (await one.does("turn/start", **sent))["turn"]["status"] == "inProgress"
        assert (await one.does("thread/list", cursor=None, limit=None, sourceKinds=None))["data"]


@requirement("TH13")
async def test_a_spawn_is_told_as_one_item_with_the_fields_of_the_dialect(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    async with client(world.server, ops.token) as one:
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


@requirement("TH13", "TH6")
async def test_a_client_that_was_away_during_many_spawns_knows_every_thread_before_its_events(
    engine: Kind, place: str, tmp_path: Path
) -> None:
    """A person: for whom the journal is long enough to have to load a snapshot, where there is one."""
    limits = replace(UNHURRIED, thread_spawns_per_minute=10**6, thread_live=10**6, resume_events=20)
    async with running(engine, place, tmp_path, limits=limits) as server:
        ops, token = await server.seat("Ops"), await token_of(server)
        start = f"/workspaces/{ops.id}/threads"
        roots = [await ops.api.post(start, {"base_instructions": BASE}) for _ in range(1 + _SPAWNS // 200)]
        spawned = set[str]()

        async def spawns(first: int, behind: int) -> None:
            for number in range(first, behind):
                wish = {"call_id": f"s{number}", "task_name": f"t{number}", "message": "Go."}
                path = f"/threads/{roots[number // 200]['thread_id']}/agents/spawn"
                spawned.add((await ops.api.post(path, wish))["call"]["new_thread_id"])

        async with client(server, token) as one:
            await one.begins(threads=[each["thread_id"] for each in roots])
            await spawns(0, 5)
            await one.hears("thread/started", 3)
            known = {each["params"]["thread"]["id"] for each in one.told if each["method"] == "thread/started"}
            cursor = one.cursor
        await spawns(5, _SPAWNS // 2)
        known |= {each["thread_id"] for each in roots}
        rest = asyncio.ensure_future(spawns(_SPAWNS // 2, _SPAWNS))
        async with client(server, token) as again:
            await again.begins(cursor=cursor, threads=[each["thread_id"] for each in roots])
            while len(known) < len(roots) + _SPAWNS:
                params = (await again.frame())["params"]
                if "thread" in params:
                    assert params["thread"]["id"] not in known, "told twice"
                    known.add(params["thread"]["id"])
                elif "threadId" in params:
                    assert params["threadId"] in known, params
            await bounded(rest)
        assert spawned == known - {each["thread_id"] for each in roots}


@requirement("TH13")
async def test_what_began_before_a_client_listened_and_what_is_large_is_told_in_full(tmp_path: Path) -> None:
    place, limits = str(tmp_path / "store.db"), replace(UNHURRIED, thread_event_bytes=200)
    async with running("sqlite", place, tmp_path, limits=limits) as server:
        ops = await server.seat("Ops")
        wish = {"base_instructions": BASE, "input": "Go"}
        thread = await ops.api.post(f"/workspaces/{ops.id}/threads", wish)
        driver = Engine(ops.api, thread)
        await driver.claim()
        await driver.begin()
        await driver.adds({"type": "tool_call", "call_id": "c", "tool": "look", "arguments": {"at": 1}})
        async with client(server, ops.token) as one:
            await one.begins(threads=[thread["thread_id"]])
            # Another life of the engine: the turn was told before this client came, and is not told again.
            await driver.claim()
            await driver.begin()
            await driver.adds({"type": "tool_output", "call_id": "c", "text": "s" * 1000}, said("t" * 1000))
            looked = (await one.hears("item/completed"))["item"]
            assert (looked["tool"], looked["arguments"], looked["contentItems"][0]["text"]) == (
                "look",
                {"at": 1},
                "s" * 1000,
            )
            assert looked["startedAtMs"] <= looked["completedAtMs"]
            assert (await one.hears("item/completed", 2))["item"]["text"] == "t" * 1000
            assert "turn/started" not in [each["method"] for each in one.told]


@requirement("TH13")
async def test_turns_are_steered_and_stopped_by_their_ids_and_threads_forked_resumed_and_closed(
    world: ThreadWorld,
) -> None:
    ops = await world.server.seat("Ops")
    viewer = await token_of(world.server, "viewer")
    async with client(world.server, ops.token) as one, client(world.server, viewer) as other:
        await one.begins()
        await other.begins(capabilities={"optOutNotificationMethods": ["thread/status/changed"]})
        thread = (await one.does("thread/start", baseInstructions=BASE))["thread"]["id"]
        none = (await one.asks("turn/steer", threadId=thread, expectedTurnId="t", input="Hi"))["error"]
        assert (none["code"], none["data"]["status"]) == (-32600, 409)
        text = [{"type": "text", "text": "Hi"}]
        turn = (await one.does("turn/start", threadId=thread, input=text, clientUserMessageId="m"))["turn"]["id"]
        same = await one.does("turn/start", threadId=thread, input=text, clientUserMessageId="m")
        assert same["turn"]["id"] == turn
        driver = Engine(ops.api, {"thread_id": thread})
        await driver.claim()
        await driver.begin(turn)
        assert await one.does("turn/steer", threadId=thread, expectedTurnId=turn, input="Wait") == {"turnId": turn}
        stale = (await one.asks("turn/interrupt", threadId=thread, turnId="other"))["error"]
        assert turn in stale["message"]
        refused = (await other.asks("turn/interrupt", threadId=thread, turnId=turn))["error"]
        assert refused["data"]["code"] == "role_too_low"
        await other.does("thread/subscribe", threadId=thread)
        await one.does("turn/interrupt", threadId=thread, turnId=turn)
        assert (await one.hears("turn/completed"))["turn"]["status"] == "interrupted"
        assert (await other.hears("turn/completed"))["turn"]["status"] == "interrupted"
        assert (await one.does("thread/compact/start", threadId=thread))["turnId"]
        fork = await one.does("thread/fork", threadId=thread, baseInstructions="You are Ops too.")
        assert (fork["thread"]["forkedFromId"], fork["baseInstructions"]) == (thread, "You are Ops too.")
        closed = (await one.does("thread/archive", threadId=thread))["thread"]
        assert closed["status"] == {"type": "notLoaded"}
        assert (await one.hears("thread/closed"))["threadId"] == thread
        again = await one.does("thread/resume", threadId=thread, model="large")
        assert (again["model"], again["thread"]["status"]["type"]) == ("large", "idle")
        page = await one.does("thread/list", limit=1)
        behind = await one.does("thread/list", limit=1, cursor=page["nextCursor"])
        assert {each["id"] for each in page["data"] + behind["data"]} == {thread, fork["thread"]["id"]}
        told = {each["method"] for each in other.told}
        assert "thread/status/changed" not in told
        missing = (await other.asks("thread/list"))["error"]
        assert "workspaceId" in missing["message"]


@requirement("TH13")
async def test_a_wait_that_ends_names_those_that_ended_and_says_how_the_others_stand(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops, input="Go")
    lead = Engine(ops.api, thread)
    await lead.claim()
    await lead.begin()
    async with client(world.server, ops.token) as one:
        await one.begins(threads=[thread["thread_id"]])
        path, children = f"/threads/{thread['thread_id']}/agents", []
        for name in ("one", "two"):
            wish = {"call_id": f"spawn-{name}", "task_name": name, "message": "Go.", "nickname": name.title()}
            children.append((await ops.api.post(f"{path}/spawn", wish))["call"]["new_thread_id"])
        await Engine(ops.api, {"thread_id": children[0]}).works("first")
        await ops.api.post(f"{path}/wait", {"call_id": "w", "targets": children, "mode": "any"})
        refused = {"call_id": "bad", "target": "nobody", "message": "Hi"}
        with pytest.raises(ApiError):
            await ops.api.post(f"{path}/send", refused)
        while "bad" not in [each["params"]["item"]["id"] for each in one.told if each["method"] == "item/completed"]:
            await one.frame()
        items = [each["params"]["item"] for each in one.told if each["method"].startswith("item/")]
        begun, over = [each for each in items if each["id"] == "w"]
        assert (begun["status"], begun["receiverThreadIds"]) == ("inProgress", children)
        assert (over["status"], over["receiverThreadIds"], over["timedOut"]) == ("completed", children[:1], False)
        assert over["agentsStates"] == {children[0]: {"status": "completed", "message": "first"}}
        assert [(each["agentNickname"], each["outcome"]) for each in over["receiverAgents"]] == [
            ("One", "ended"),
            ("Two", None),
        ]
        failed = [each for each in items if each["id"] == "bad"]
        assert [each["status"] for each in failed] == ["inProgress", "failed"]
        assert failed[1]["reason"]


@requirement("TH13", "C75")
async def test_the_canvas_own_page_comes_in_with_its_session_and_no_other_page_does(world: ThreadWorld) -> None:
    browser, ops = await logged_in(world.server), await world.server.seat("Ops")
    for origin, status in (("http://evil.example", 403), (browser.origin, 101)):
        async with hand_made(world.server) as opened:
            headers = {**browser.headers, **UPGRADE, "Origin": origin}
            await opened.send(request("GET", "/threads/ws", headers=headers))
            assert (await opened.reply()).status == status
            if status == 101:
                await opened.send(packed(json.dumps({"id": "", "method": "initialize"})))
                assert (await opened.told())["id"] == ""
                wish = {"workspaceId": ops.id, "baseInstructions": BASE}
                await opened.send(packed(json.dumps({"id": 2, "method": "thread/start", "params": wish})))
                answer = await opened.told()
                assert answer["result"]["thread"]["workspaceId"] == ops.id


@requirement("TH13")
async def test_what_is_no_request_is_refused_and_the_connection_goes_on(world: ThreadWorld) -> None:
    ops, other = await world.server.seat("Ops"), await world.server.seat("Other")
    foreign = await world.starts(other)
    async with client(world.server, ops.token) as one:
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
        await one.send("x" * (world.server.server.settings.limits.body_bytes + 1))
        try:
            while True:
                await bounded(one.connection.recv())
        except ConnectionClosed:
            assert one.connection.close_code == 1009


@requirement("TH13", "S14")
async def test_what_began_many_full_pages_before_is_told_in_full_and_turns_are_read_page_by_page(
    tmp_path: Path,
) -> None:
    limits = replace(UNHURRIED, thread_event_bytes=200, page_bytes=2500)
    async with running("sqlite", str(tmp_path / "store.db"), tmp_path, limits=limits) as server:
        ops = await server.seat("Ops")
        wish = {"base_instructions": BASE, "input": "Go"}
        thread = await ops.api.post(f"/workspaces/{ops.id}/threads", wish)
        driver = Engine(ops.api, thread)
        await driver.claim()
        await driver.begin()
        texts = [f"{number} {'t' * 1000}" for number in range(8)]
        await driver.adds(*map(said, texts[:4]))
        await driver.adds({"type": "tool_call", "call_id": "c", "tool": "look", "arguments": {"at": 1}})
        await driver.adds(*map(said, texts[4:]))
        async with client(server, ops.token) as one:
            await one.begins(threads=[thread["thread_id"]])
            await driver.adds({"type": "tool_output", "call_id": "c", "text": "s" * 1000})
            looked = (await one.hears("item/completed"))["item"]
            assert (looked["tool"], looked["arguments"]) == ("look", {"at": 1})
            found, after = list[str](), None
            while True:
                read = await one.does("thread/read", threadId=thread["thread_id"], includeTurns=True, after=after)
                items = [item for turn in read["thread"]["turns"] for item in turn["items"]]
                assert len(items) <= 5
                found += [item["text"] for item in items if item["type"] == "agentMessage"]
                after = read["nextAfter"]
                if after is None:
                    break
            assert found == texts
