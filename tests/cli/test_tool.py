"""`molecule tool` and its words as a runtime without MCP calls them: as whom is said by the environment alone."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from molecule_core.cli import COMMANDS
from molecule_core.tools.registry import TOOLS
from testing.processes import MOLECULE, ROOT, environment
from testing.running_server import Running, Seat, running
from testing.waits import PROCESS_START_SECONDS
from tests.other_servers import leading_to, other_server
from tests.requirements import requirement

pytestmark = pytest.mark.parametrize("engine", ["sqlite"])
Said = tuple[int, str, str]


def single(seat: Seat, server: Running) -> dict[str, str]:
    """The environment of an agent with one seat."""
    return {"WORKSPACE_ID": seat.id, "MOLECULE_WORKSPACE_TOKEN": seat.token, "PLATFORM_URL": server.url}


async def molecule(home: Path, *args: str, env: dict[str, str], told: bytes = b"") -> Said:
    """What a command says: exit code, standard output, standard error."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        MOLECULE,
        *args,
        env={**environment(home, 1, HOME=str(home)), **env},
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=ROOT,
    )
    async with asyncio.timeout(PROCESS_START_SECONDS):
        out, err = await process.communicate(told)
    return process.returncode or 0, out.decode().strip(), err.decode().strip()


async def result(home: Path, tool: str, env: dict[str, str], **given: Any) -> Any:
    """What a tool gives."""
    code, out, err = await molecule(home, "tool", tool, "--json", json.dumps(given), env=env)
    assert (code, err) == (0, "")
    return json.loads(out)


@requirement("G1")
async def test_a_runtime_without_mcp_reads_answers_and_is_done(server: Running, tmp_path: Path) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    env = single(ops, server)
    sent = (await person.send(ops.id, "where is the tea?"))["activity_id"]

    message = (await result(tmp_path, "wait_for_message", env, timeout_secs=5))["message"]
    assert (message["activity_id"], message["text"]) == (sent, "where is the tea?")
    answer = {"text": "on the shelf", "activity_id": sent, "attempt": message["attempt"]}
    told = await molecule(
        tmp_path, "tool", "reply_to_workspace", "--json", "-", told=json.dumps(answer).encode(), env=env
    )
    assert json.loads(told[1])["acknowledged"] is True
    assert (await result(tmp_path, "inbox_peek", env))["messages"] == []
    lines = (await result(tmp_path, "chat_history", env))["messages"]
    assert [line["text"] for line in lines] == ["where is the tea?", "on the shelf"]


@requirement("G1")
async def test_the_words_say_the_same_for_people(server: Running, tmp_path: Path) -> None:
    ops = await server.seat("Ops")
    env = single(ops, server)
    assert await molecule(tmp_path, "peers", env=env) == (0, "no peers", "")
    peer = await server.seat("Peer", role="looks after tea")
    assert await molecule(tmp_path, "peers", env=env) == (0, f"{peer.id}  awaiting_agent  Peer  looks after tea", "")
    code, out, _ = await molecule(tmp_path, "info", env=env)
    assert code == 0
    assert {f"id: {ops.id}", "name: Ops", "broadcast_enabled: False"} <= set(out.splitlines())


@requirement("G1", "O3")
async def test_of_several_seats_one_is_named_and_tokens_come_from_the_environment_or_a_file(
    server: Running, tmp_path: Path
) -> None:
    here, there = await server.seat("Here"), await server.seat("There")
    entries = [{"id": seat.id, "token": seat.token, "platform_url": server.url} for seat in (here, there)]
    env = {"MOLECULE_WORKSPACES": json.dumps(entries)}
    code, out, err = await molecule(tmp_path, "info", env=env)
    assert (code, out) == (1, "")
    assert here.id in err and there.id in err
    _, out, _ = await molecule(tmp_path, "info", "--workspace", there.id, env=env)
    assert "name: There" in out
    code, _, err = await molecule(tmp_path, "info", "--workspace", "elsewhere", env=env)
    assert (code, "not one of yours" in err) == (2, True)

    file = tmp_path / "token"
    file.write_text(here.token + "\n")
    by_file = {"WORKSPACE_ID": here.id, "MOLECULE_WORKSPACE_TOKEN_FILE": str(file), "PLATFORM_URL": server.url}
    assert "name: Here" in (await molecule(tmp_path, "info", env=by_file))[1]


@requirement("G1", "M27")
async def test_a_handle_and_words_are_all_that_a_shell_needs_to_answer(tmp_path: Path, engine: str) -> None:
    state = tmp_path / "server"
    state.mkdir()
    place = str(state / "molecule.db")
    async with running("sqlite", place, state, push_instructions_enabled=True) as server:
        ops, person = await server.seat("Ops"), await server.person()
        env = single(ops, server)
        for text in ("tea?", "coffee?"):
            await person.send(ops.id, text)
        handles = []
        for _ in range(2):
            message = (await result(tmp_path, "wait_for_message", env, timeout_secs=5))["message"]
            handles.append(message["instructions"]["reply_handle"])
        begun = await molecule(tmp_path, "reply", handles[0], "--progress", "on it", env=env)
        done = await molecule(tmp_path, "reply", handles[0], told=b"**yes** `$HOME`\n", env=env)
        declined = await molecule(tmp_path, "decline", handles[1], "there is none", env=env)
        unknown = await molecule(tmp_path, "reply", "m9-zzzzz", "hi", env=env)
        nothing = await molecule(tmp_path, "reply", handles[0], env=env)
        left = (await result(tmp_path, "inbox_peek", env))["messages"]
        said = [line["content"] for line in (await person.get(f"/workspaces/{ops.id}/chat-history"))["messages"]]
    assert (begun, done, declined) == ((0, "open", ""), (0, "answered", ""), (0, "declined", ""))
    assert (unknown[0], nothing[0]) == (1, 2)
    assert left == []
    assert [line for line in said if line not in ("tea?", "coffee?")][:2] == ["on it", "**yes** `$HOME`"]


async def test_what_is_called_wrongly_ends_with_2_and_one_line(server: Running, tmp_path: Path) -> None:
    env = single(await server.seat("Ops"), server)
    for args, said in (
        (("tool", "delegate_tusk"), "tool 'delegate_tusk' does not exist. Use one of: reply, decline"),
        (("tool", "inbox_peek", "--json", "{"), "--json is not JSON"),
        (("tool", "inbox_peek", "--json", "[]"), "the arguments must be a JSON object"),
        (("tool", "send_message_to_user", "--json", '{"text": "hi"}'), "Required: message"),
    ):
        code, out, err = await molecule(tmp_path, *args, env=env)
        assert (code, out, said in err, err.count("\n")) == (2, "", True, 0)
    code, _, err = await molecule(tmp_path, "tool", "inbox_peek", "--json", "-", told=b'{"limit": "\xff"}', env=env)
    assert (code, "--json is not JSON" in err, err.count("\n")) == (2, True, 0)
    code, _, err = await molecule(tmp_path, "peers", env={**env, "WORKSPACE_ID": ""})
    assert (code, "WORKSPACE_ID" in err, env["MOLECULE_WORKSPACE_TOKEN"] in err) == (2, True, False)


async def test_what_the_server_refuses_ends_with_1_and_its_words(server: Running, tmp_path: Path) -> None:
    env = single(await server.seat("Ops"), server)
    code, _, err = await molecule(tmp_path, "tool", "broadcast_message", "--json", '{"message": "hi"}', env=env)
    assert (code, err.startswith("molecule: broadcast_disabled")) == (1, True)
    code, _, err = await molecule(tmp_path, "peers", env={**env, "MOLECULE_WORKSPACE_TOKEN": "x" * 43})
    assert (code, "invalid workspace auth token" in err) == (1, True)
    code, _, err = await molecule(tmp_path, "peers", env={**env, "PLATFORM_URL": "http://127.0.0.1:9"})
    assert (code, "did not answer" in err) == (1, True)


@requirement("G1")
async def test_an_answer_that_met_a_redirect_was_not_sent_and_the_place_that_it_leads_to_is_named(
    tmp_path: Path, engine: str
) -> None:
    async with leading_to("https://molecule.example/") as other:
        env = {"WORKSPACE_ID": "w-1", "MOLECULE_WORKSPACE_TOKEN": "a-token", "PLATFORM_URL": other.url}
        code, out, err = await molecule(tmp_path, "reply", "m1-abcde", "hello", env=env)
    assert (code, out) == (1, "")
    assert "redirects to https://molecule.example/, and redirects are not" in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("body", ["<p>We are back soon</p>", '{"hello": "world"}'])
async def test_an_answer_that_a_page_was_shown_for_was_not_sent(tmp_path: Path, engine: str, body: str) -> None:
    async with other_server("200 OK", body=body) as other:
        env = {"WORKSPACE_ID": "w-1", "MOLECULE_WORKSPACE_TOKEN": "a-token", "PLATFORM_URL": other.url}
        code, out, err = await molecule(tmp_path, "reply", "m1-abcde", "hello", env=env)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert ("is not a Molecule server" if body.startswith("<") else "server's response is unknown") in err


async def test_the_list_names_every_tool_and_all_it_takes(tmp_path: Path, engine: str) -> None:
    code, out, _ = await molecule(tmp_path, "tool", "--list", env={})
    assert code == 0
    for spec in TOOLS:
        assert f"{spec.name}: {spec.summary}" in out
        assert all(f"    {name}" in out for name in spec.input_schema["properties"])


@requirement("G5")
def test_every_word_that_the_registry_gives_to_a_tool_is_a_verb_of_the_command(engine: str) -> None:
    words = {spec.cli.split()[0] for spec in TOOLS if spec.cli}
    assert words == {"peers", "info", "reply", "decline", "delegate", "status", "cancel", "approvals"}
    assert words <= set(COMMANDS)


@requirement("AU1")
async def test_a_program_behind_a_bridge_names_its_task_by_the_environment(server: Running, tmp_path: Path) -> None:
    lead, ops = await server.seat("Lead"), await server.seat("Ops")

    async def give(task: str, **more: Any) -> str:
        begun = await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": ops.id, "task": task, **more})
        return str(begun["delegation_id"])

    narrow, wide = await give("read", may={"tools": ["recall_memory"]}), await give("write")
    await ops.api.claim(ops.id, wait=0)
    fact, env = json.dumps({"content": "tea is on the shelf"}), single(ops, server)
    told = [
        await molecule(tmp_path, "tool", "commit_memory", "--json", fact, env={**env, "MOLECULE_TASK_ID": task})
        for task in (narrow, wide)
    ]
    assert [code for code, *_ in told] == [1, 0], told
    assert "the tool commit_memory is outside what this work may do" in told[0][2]
