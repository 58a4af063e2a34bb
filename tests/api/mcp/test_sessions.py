"""Sessions of the first era, byte by byte: who has one, who may use it, how it ends, what it outlives."""

import asyncio
from pathlib import Path

import pytest

from molecule_core.tools.mcp_dispatcher import HANDSHAKE_VERSIONS
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.mcp_clients import (
    answering,
    calling,
    greeting,
    line_of,
    listening,
    path_of,
    rpc,
    told,
    until_answering,
    until_kept,
    within,
)
from testing.running_server import Running, running
from testing.waits import until_waiting
from tests.requirements import requirement


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_each_version_of_the_first_era_gets_a_session(plain: Running, version: str) -> None:
    line = line_of(plain, await plain.seat())
    reply = await line.begin(version)
    assert reply.json["result"]["protocolVersion"] == version
    assert reply.headers["content-type"] == "application/json"
    answer = await line.post(rpc("tools/list"), MCP_Protocol_Version=version)
    assert answer.status == 200
    assert "mcp-session-id" not in answer.headers


async def test_a_version_that_nobody_knows_is_answered_with_the_newest_of_the_era(plain: Running) -> None:
    line = line_of(plain, await plain.seat())
    assert (await line.begin("1999-01-01")).json["result"]["protocolVersion"] == HANDSHAKE_VERSIONS[-1]


async def test_a_greeting_that_is_refused_opens_no_session(plain: Running) -> None:
    line = line_of(plain, await plain.seat())
    reply = await line.post(rpc("initialize", {"protocolVersion": 7}))
    assert (reply.status, reply.json["error"]["code"]) == (200, -32602)
    assert "mcp-session-id" not in reply.headers
    assert len(plain.server.mcp_routes.sessions) == 0


async def test_without_a_session_only_a_greeting_is_answered(plain: Running) -> None:
    line = line_of(plain, await plain.seat())
    for message in (rpc("tools/list"), told("notifications/initialized"), rpc("ping")):
        assert (await line.post(message)).status == 400
    assert (await line.ask("GET")).status == 400
    assert (await line.ask("DELETE")).status == 400


@requirement("P6", "N1")
async def test_a_session_is_used_only_with_the_credential_that_opened_it(server: Running) -> None:
    ops, peer = await server.seat("Ops"), await server.seat("Peer")
    line = line_of(server, ops, "/mcp")
    await line.begin()
    second = await server.admin.post(f"/workspaces/{ops.id}/tokens")

    for token in (peer.token, second["auth_token"]):
        thief = line_of(server, peer, "/mcp")
        thief.token, thief.session = token, line.session
        for reply in (await thief.post(rpc("tools/list")), await thief.ask("GET"), await thief.ask("DELETE")):
            assert (reply.status, reply.json["error"]["code"]) == (404, -32001)
    assert (await line.post(rpc("tools/list"))).status == 200


@pytest.mark.parametrize(
    "forged", ["", "x", "a.b.c", "2025-11-25..", "é", "2025-11-25.0.0", "." * 500, "2026-07-28.a.b"]
)
async def test_an_id_that_was_never_given_out_is_unknown(plain: Running, forged: str) -> None:
    line = line_of(plain, await plain.seat())
    await line.begin()
    own = line.session or ""
    line.session = forged or f"{own[:-1]}{'0' if own[-1] != '0' else '1'}"
    assert (await line.post(rpc("tools/list"))).status == 404
    version, nonce, sealed = own.split(".")
    line.session = f"2024-11-05.{nonce}.{sealed}"
    assert version != "2024-11-05"
    assert (await line.post(rpc("tools/list"))).status == 404


@requirement("N1")
async def test_an_ended_session_is_over_and_so_is_what_was_under_way_in_it(server: Running) -> None:
    ops = await server.seat("Ops")
    line = line_of(server, ops)
    await line.begin()
    async with answering(line, calling("wait_for_message", {"timeout_secs": 60})) as waiting:
        await until_waiting(server.server, 1)
        assert (await line.ask("DELETE")).status == 200
        reply = await waiting.reply()
        assert reply.status == 404
    for reply in (await line.post(rpc("tools/list")), await line.ask("GET"), await line.ask("DELETE")):
        assert reply.status == 404
    await until_waiting(server.server, 0)


@requirement("N1", "M38")
async def test_a_session_outlives_its_server_process(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path) as first:
        ops, person = await first.seat("Ops"), await first.person()
        line = line_of(first, ops)
        await line.begin()
        await person.send(ops.id, "still there?")
    async with running(engine, place, tmp_path, seed=1) as second:
        line.server = second
        reply = await line.post(calling("wait_for_message", {"timeout_secs": 1}))
        assert reply.json["result"]["structuredContent"]["message"]["text"] == "still there?"
        assert second.server.mcp_routes.sessions.restored == 1


async def test_an_unused_session_is_forgotten_after_a_while_and_taken_up_again(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits = within(mcp_idle_seconds=100)
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        ops = await server.seat("Ops")
        used, unused = line_of(server, ops), line_of(server, ops)
        await used.begin()
        await unused.begin()
        await clock.advance(60)
        await used.post(rpc("ping"))
        await clock.advance(60)
        await until_kept(server, 1)
        assert (await unused.post(rpc("ping"))).status == 200
        await until_kept(server, 2)
        await clock.advance(101)
        await until_kept(server, 0)
        await used.post(rpc("ping"))
        await unused.post(rpc("ping"))
        assert sum("McpSessionStore._expire_unused" in repr(each) for each in asyncio.all_tasks()) == 1


async def test_a_session_with_an_open_stream_is_in_use(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=within(mcp_idle_seconds=20)) as server:
        line = line_of(server, await server.seat("Ops"))
        await line.begin()
        async with listening(line):
            await clock.advance(30)
            await clock.advance(30)
            assert len(server.server.mcp_routes.sessions) == 1
        await until_answering(server, 0)
        await clock.advance(21)
        await until_kept(server, 0)


async def test_of_too_many_sessions_the_longest_unused_gives_way_unnoticed(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=within(mcp_sessions=2)) as server:
        ops, peer = await server.seat("Ops"), await server.seat("Peer")
        lines = [line_of(server, ops) for _ in range(3)]
        for line in lines:
            await line.begin()
        assert len(server.server.mcp_routes.sessions) == 2
        assert (await lines[0].post(rpc("ping"))).status == 200
        assert len(server.server.mcp_routes.sessions) == 2
        other = line_of(server, peer)
        await other.begin()  # a limit of each workspace
        assert len(server.server.mcp_routes.sessions) == 3
        async with listening(lines[0]), listening(lines[1]):
            reply = await lines[2].post(greeting())
            assert (reply.status, reply.json["code"]) == (429, "too_many_open")


@requirement("N1", "P6")
async def test_a_revoked_token_ends_its_streams_and_calls_at_once(server: Running) -> None:
    ops = await server.seat("Ops")
    line = line_of(server, ops)
    await line.begin()
    (token,) = await server.admin.get(f"/workspaces/{ops.id}/tokens")
    stateless = line_of(server, ops, "/mcp")
    waiting = calling("wait_for_message", {"timeout_secs": 60})
    async with listening(line) as stream, answering(line, waiting) as call:
        await until_waiting(server.server, 1)
        await server.admin.call("DELETE", f"/workspaces/{ops.id}/tokens/{token['id']}")
        assert (await call.reply()).status == 401
        await stream.hung_up()
    assert (await line.post(rpc("ping"))).status == 401
    assert (await stateless.post(greeting())).status == 401
    assert server.server.mcp_routes.open_responses.disconnects["credential ended"] == 2
    await until_waiting(server.server, 0)


async def test_a_removed_workspace_speaks_to_nobody_any_more(server: Running) -> None:
    ops = await server.seat("Ops")
    for path in ("/mcp", path_of(ops)):
        line = line_of(server, ops, path)
        await line.begin()
    await server.admin.call("DELETE", f"/workspaces/{ops.id}", query={"confirm": "true"})
    for path in ("/mcp", path_of(ops)):
        line = line_of(server, ops, path)
        reply = await line.post(greeting())
        assert reply.status in (401, 410)


@requirement("G13")
async def test_a_cancelled_call_ends_without_an_answer_and_takes_nothing(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    line = line_of(server, ops)
    await line.begin()
    waiting = calling("wait_for_message", {"timeout_secs": 60})
    async with answering(line, waiting) as call:
        await until_waiting(server.server, 1)
        cancel = told("notifications/cancelled", {"requestId": waiting["id"]})
        assert (await line.post(cancel)).status == 202
        reply = await call.reply()
        assert (reply.status, reply.body) == (202, b"")
    await until_waiting(server.server, 0)
    await person.send(ops.id, "who takes this?")
    answer = await line.post(calling("wait_for_message", {"timeout_secs": 1}))
    message = answer.json["result"]["structuredContent"]["message"]
    assert (message["text"], message["attempt"]) == ("who takes this?", 1)


async def test_a_client_that_hangs_up_has_given_up(server: Running) -> None:
    ops = await server.seat("Ops")
    for line in (line_of(server, ops), line_of(server, ops, "/mcp")):
        await line.begin()
        async with answering(line, calling("wait_for_message", {"timeout_secs": 60})):
            await until_waiting(server.server, 1)
        await until_waiting(server.server, 0)
    assert len(server.server.mcp_routes.open_responses) == 0


async def test_calls_of_one_session_run_side_by_side_up_to_the_limit(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=within(mcp_calls=2)) as server:
        line = line_of(server, await server.seat("Ops"))
        await line.begin()
        waiting = [calling("wait_for_message", {"timeout_secs": 60}) for _ in range(2)]
        async with answering(line, waiting[0]) as one, answering(line, waiting[1]) as two:
            await until_waiting(server.server, 2)
            assert (await line.post(rpc("ping"))).json["result"] == {}
            refused = (await line.post(calling("list_peers"))).json["result"]
            assert refused["isError"] is True
            for each in waiting:
                await line.post(told("notifications/cancelled", {"requestId": each["id"]}))
            replies = await asyncio.gather(one.reply(), two.reply())
            assert [reply.status for reply in replies] == [202, 202]


async def test_a_batch_is_answered_with_a_list(plain: Running) -> None:
    line = line_of(plain, await plain.seat())
    await line.begin("2025-03-26")
    asked = [rpc("ping"), rpc("tools/list"), told("notifications/x")]
    answers = (await line.post(asked)).json
    assert sorted(each["id"] for each in answers) == sorted(each["id"] for each in asked if "id" in each)
    assert (await line.post([told("notifications/x")])).status == 202
    for wrong in ([], [rpc("ping")] * 2, [rpc("ping"), 7], [greeting(), rpc("ping")], [rpc("ping") for _ in range(51)]):
        assert (await line.post(wrong)).status == 400
