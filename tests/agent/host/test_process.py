"""The real command as a process: what it answers, what cannot end it, how it ends."""

import asyncio
import importlib.metadata
import signal
from pathlib import Path

import pytest

from molecule_core.client.host_context_file import HostContextFile
from molecule_core.common.version import VERSION
from testing.mcp_host import agent, seated, several, single
from testing.running_server import Running
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.requirements import requirement

NO_LIST = {"WORKSPACE_ID": "w-1", "MOLECULE_WORKSPACE_TOKEN": "t" * 40, "PLATFORM_URL": "http://127.0.0.1:9"}
BAD_LISTS = {
    "no JSON": "[{",
    "no array": '{"id": "w-1", "token": "t"}',
    "an empty array": "[]",
    "no object": '["w-1"]',
    "no id": '[{"token": "secret-token"}]',
    "no token": '[{"id": "w-1"}]',
    "an id twice": '[{"id": "w-1", "token": "secret-token"}, {"id": "w-1", "token": "secret-token"}]',
}


@requirement("G6")
@pytest.mark.parametrize("what", BAD_LISTS)
async def test_each_error_of_configuration_is_one_line_and_exit_code_2(what: str, state: Path) -> None:
    async with agent(state, **NO_LIST, MOLECULE_WORKSPACES=BAD_LISTS[what]) as process:
        code = await process.ended()

    assert code == 2
    assert process.said.count("\n") == 1 and process.said.startswith("molecule mcp: MOLECULE_WORKSPACES")
    assert "secret-token" not in process.said


@requirement("G6")
async def test_a_token_that_the_server_does_not_take_ends_an_agent_of_one_seat_with_3(
    one: Running, state: Path
) -> None:
    seat = await one.seat()
    async with agent(state, **{**single(one, seat), "MOLECULE_WORKSPACE_TOKEN": "mol_ws_" + "x" * 51}) as process:
        await process.greet()
        code = await process.ended()

    assert code == 3
    assert "the server rejected the token" in process.said
    assert "mol_ws_" not in process.said


@requirement("G6", "G7")
async def test_a_refused_token_among_several_ends_nothing(one: Running, state: Path) -> None:
    good, bad = await one.seat("Good"), await one.seat("Bad")
    bad.token = "mol_ws_" + "x" * 51
    person = await one.person()
    async with agent(state, **several((one, bad), (one, good))) as process:
        await process.greet()
        sent = await person.send(good.id, "still there?")
        message = await process.next()
        await process.hears("rejected its token")

        assert message["activity_id"] == sent["activity_id"]
        assert f"workspace {bad.id}: the server rejected its token" in (await process.call("inbox_peek"))["note"]


@requirement("G13")
async def test_a_thousand_malformed_lines_end_nothing(one: Running, state: Path) -> None:
    seat = await one.seat()
    lines = [b"", b"no json", b"{", b"[]", b"null", b'{"jsonrpc": "1.0"}', b'{"jsonrpc":"2.0","id":[],"method":5}']
    lines += [b"\xff\xfe\x00", b"Content-Length: 12", b'"' + b"\\ud800" * 9 + b'"', b"[" * 5000, b"\x00" * 300]
    async with agent(state, **single(one, seat), MOLECULE_MCP_LINE_BYTES="100000") as process:
        for number in range(1000):
            process.write(lines[number % len(lines)] + b"\n")
        process.write(b"x" * 3_000_000 + b"\n")
        process.write(b'{"jsonrpc":"2.0","id":"big","method":"' + b"y" * 3_000_000 + b'"}\n')

        assert (await process.greet())["serverInfo"] == {"name": "molecule", "version": VERSION}
        tools = (await process.request("tools/list"))["tools"]

    assert "reply_to_workspace" in [tool["name"] for tool in tools]
    assert "big" not in [each.get("id") for each in process.strange]


@requirement("G13")
async def test_a_host_that_wants_the_channel_finds_the_handshake_only(one: Running, state: Path) -> None:
    seat = await one.seat()
    async with agent(state, **single(one, seat)) as process:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        answer = await process.begin("server/discover", {"_meta": meta})[1]
        greeting = await process.greet("claude-code")

    assert answer["error"]["code"] == -32601
    assert set(greeting["capabilities"]["experimental"]) == {"claude/channel", "claude/channel/permission"}


@requirement("G15")
@pytest.mark.parametrize(
    ("wish", "client", "offered"), [("auto", "other", 0), ("off", "claude-code", 0), ("on", "x", 1)]
)
async def test_the_channel_is_offered_by_handshake_and_by_setting(
    wish: str, client: str, offered: bool, one: Running, state: Path
) -> None:
    seat = await one.seat()
    async with agent(state, **single(one, seat), MOLECULE_MCP_CHANNEL=wish) as process:
        greeting = await process.greet(client)

    assert ("experimental" in greeting["capabilities"]) == bool(offered)


@requirement("G13")
@pytest.mark.parametrize("way", ["eof", "SIGTERM", "SIGINT", "SIGHUP"])
async def test_it_ends_in_order_and_gives_back_what_it_held(way: str, one: Running, state: Path) -> None:
    seat, person = await one.seat(), await one.person()
    async with agent(state, **single(one, seat)) as process:
        await process.greet()
        sent = await person.send(seat.id, "hello")
        await process.next()
        if way == "eof":
            process.close()
        else:
            process.send(signal.Signals[way])
        code = await process.ended()

    (row,) = await seat.api.claim(seat.id, wait=0)  # although the lease is far from its end
    assert (code, row["id"], row["attempt"]) == (0, sent["activity_id"], 2)


@requirement("G13")
async def test_requests_that_were_written_before_the_end_are_answered(one: Running, state: Path) -> None:
    seat = await one.seat()
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    async with agent(state, **single(one, seat)) as process:
        greeting, listing = process.begin("initialize", about)[1], process.begin("tools/list")[1]
        process.close()

        assert "result" in await greeting
        assert "result" in await listing
        assert await process.ended() == 0


@requirement("G6")
async def test_tokens_stand_neither_in_logs_nor_in_arguments_nor_in_the_state_folder(one: Running, state: Path) -> None:
    seat, person = await one.seat(), await one.person()
    async with agent(state, **single(one, seat), MOLECULE_MCP_VERBOSE="1") as process:
        await process.greet()
        await person.send(seat.id, "hello")
        message = await process.next()
        await process.call("reply_to_workspace", text="hi", activity_id=message["activity_id"])
        arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.close()
        await process.ended()

    files = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
    assert seat.token not in process.said
    assert seat.token.encode() not in arguments + files
    assert [path.stat().st_mode & 0o077 for path in state.rglob("*") if "leader" in path.name] == [0]


@requirement("G16")
async def test_a_permission_request_of_the_host_is_shown(one: Running, state: Path) -> None:
    seat = await one.seat()
    async with agent(state, **single(one, seat)) as process:
        await process.greet("claude-code")
        asked = {"request_id": "abcde", "tool_name": "Bash", "description": "run \x1b[31m ls", "input_preview": "ls"}
        process.notify("notifications/claude/channel/permission_request", asked)

        await process.hears("asks for permission abcde:")

    assert "asks for permission abcde: Bash (run ls)" in process.said


def test_the_version_that_is_told_is_the_packages_own() -> None:
    assert importlib.metadata.version("molecule-core") == VERSION


@requirement("G13")
async def test_nothing_but_answers_stands_on_standard_output(one: Running, state: Path) -> None:
    seat = await one.seat()
    async with agent(state, **single(one, seat)) as process:
        await process.greet()
        await process.request("ping")
        process.close()
        await process.ended()

    assert process.strange == []


@requirement("G1")
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_what_a_card_describes_survives_restarts_of_the_host(server: Running, tmp_path: Path) -> None:
    seat = await server.seat()
    skills = [{"id": "tea", "name": "tea", "description": "Makes tea."}]
    described = {"name": "Brewer", "description": "Knows tea.", "skills": skills}
    async with agent(tmp_path, **single(server, seat)) as process:
        await process.greet()
        await process.call("update_agent_card", card=described)
    for _ in range(10):
        async with agent(tmp_path, **single(server, seat)) as process:
            await process.greet()
            await seated(server, seat)
            await process.call("get_workspace_info")
    card = (await server.admin.get(f"/workspaces/{seat.id}"))["agent_card"]
    assert {name: card[name] for name in described} == described
    assert "reply" in card["loaded_mcp_tools"]


@requirement("G9")
async def test_the_next_start_shows_the_peers_and_the_parents_files_without_asking_the_server(
    one: Running, state: Path
) -> None:
    lead = await one.seat("Lead", role="leads")
    ops = await one.seat("Ops", parent_id=lead.id)
    shared = [{"path": "rules.md", "content": "Ship on Friday."}]
    await lead.api.call("PUT", f"/workspaces/{lead.id}/shared-context", body=shared)
    async with agent(state, **single(one, ops)) as process:
        await process.greet()
        copy = HostContextFile.of_workspace(ops.id, None, state)
        await eventually(lambda: asyncio.to_thread(copy.read), bool, PROCESS_START_SECONDS)

    unreachable = {**single(one, ops), "PLATFORM_URL": "http://127.0.0.1:9"}
    async with agent(state, **unreachable, MOLECULE_MCP_INSTRUCTION_LENGTH="5000") as process:
        greeting = await process.greet("claude-code")

    text = greeting["instructions"]
    assert '"name":"Lead","role":"leads"}' in text and "Ship on Friday." in text
    assert "## When a delegation fails" in text and len(text) <= 5000
