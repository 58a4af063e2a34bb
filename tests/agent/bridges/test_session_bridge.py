"""A bridge with sessions as a process of its own, with Claude Code's lines: limits, failures, drafts, worktrees."""

import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from testing.processes import MOLECULE, Process, started
from testing.running_server import Running, Seat, running
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.agent.bridges.bridge_process import drafts, failures, settings, waiting
from tests.requirements import requirement

PROGRAM = Path(__file__).resolve().parents[3] / "testing" / "scripted_claude.py"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """A server with instructions."""
    place = tmp_path / "server"
    place.mkdir()
    async with running("sqlite", str(place / "molecule.db"), place, push_instructions_enabled=True) as found:
        yield found


@contextlib.asynccontextmanager
async def bridging(server: Running, seat: Seat, folder: Path, *flags: str, **more: str) -> AsyncIterator[Process]:
    """The bridge, with the scripted program in a folder of its own."""
    state, sessions, program = folder / "bridge", folder / "sessions", folder / "claude"
    for each in (state, sessions):
        each.mkdir(mode=0o700, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {PROGRAM} "$@"\n')
    program.chmod(0o700)
    command = (MOLECULE, "bridge", "claude", "--program", str(program), "--cwd", str(folder), *flags)
    env = settings(server, seat, state, SCRIPTED_CLAUDE=str(sessions), **more)
    async with started(*command, env=env, cwd=folder) as process:
        yield process


async def chat(server: Running, seat: Seat) -> list[dict[str, Any]]:
    """What the agent has sent to people."""
    page = await server.admin.get(f"/workspaces/{seat.id}/chat-history")
    return [line for line in page["messages"] if line["role"] == "agent"]


async def words_of_turns(server: Running, seat: Seat) -> str:
    """What the running turns have written so far."""
    return "".join(each.text for each in await server.server.live_turns.reader.of_workspace(seat.id))


async def seen(look: Any, wanted: Any) -> Any:
    """What is seen at last, by a process that must start first."""
    return await eventually(look, wanted, PROCESS_START_SECONDS)


@requirement("G17", "G20")
async def test_the_final_text_is_the_answer_and_what_the_turn_used_is_in_the_log(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    async with bridging(server, seat, tmp_path):
        sent = (await person.send(seat.id, "write a file"))["activity_id"]
        (line,) = await seen(lambda: chat(server, seat), bool)
        await seen(lambda: waiting(seat), lambda count: count == 0)
        rows = await seat.api.get(f"/workspaces/{seat.id}/activity", type="agent_log", limit=10)
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        (turn,) = (await person.get(f"/orgs/{org_id}/traces/{sent}"))["turns"]
        (logged,) = [row["request_body"] for row in rows if row["method"] == "bridge"]
        find_record = server.server.usage.reader.find_record
        record = await seen(lambda: find_record(seat.id, logged["usage_key"]), bool)
    assert line["content"].startswith("so: ") and "<body>write a file</body>" in line["content"]
    assert logged["usage"] == {"input_tokens": 7, "cached_tokens": 5, "output_tokens": 3, "cost_usd": 0.5}
    assert (turn["usage"], turn["tools"], turn["thread_id"]) == (logged["usage"], {"Write": 1}, None)
    assert (record.root_id, record.model, record.cost_micros) == (sent, "claude-large", 500_000)
    assert (record.input_tokens, record.cached_tokens, record.output_tokens) == (7, 5, 3)


@requirement("G17", "G20")
async def test_a_failed_turn_is_a_line_at_its_message_and_drafts_are_kept_where_set_so(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"send_drafts": False})
    async with bridging(server, seat, tmp_path):
        failed = (await person.send(seat.id, "fail"))["activity_id"]
        kept = (await person.send(seat.id, "say hello"))["activity_id"]
        states = await seen(lambda: drafts(seat), lambda found: found.get(kept, ("", ""))[1])
    (failure,) = await failures(seat)
    assert (failure["activity_id"], "no such model" in failure["detail"]) == (failed, True)
    assert states[kept][0] == "answered_outside" and await chat(server, seat) == []


@requirement("G17")
async def test_a_limit_of_the_vendor_holds_all_turns_and_nothing_fails(server: Running, tmp_path: Path) -> None:
    seat, person = await server.seat(), await server.person()
    for text in ("limit", "say hello"):
        await person.send(seat.id, text)
    async with bridging(server, seat, tmp_path) as bridge:
        await bridge.says("a limit of the vendor was reached")
        await bridge.kill()
    async with bridging(server, seat, tmp_path) as bridge:
        await bridge.says("bridged to Claude Code")
        await person.send(seat.id, "say more")
        with anyio.move_on_after(1.5):  # a turn would have answered by then
            await anyio.Event().wait()
        assert (await chat(server, seat), await failures(seat)) == ([], [])
        assert await waiting(seat) == 3


@requirement("G17", "AR5")
async def test_a_signal_ends_it_while_a_permission_is_waited_for_and_the_server_is_away(tmp_path: Path) -> None:
    place = str(tmp_path / "molecule.db")
    async with contextlib.AsyncExitStack() as stack:
        async with running("sqlite", place, tmp_path, push_instructions_enabled=True) as server:
            seat, person = await server.seat(), await server.person()
            bridge = await stack.enter_async_context(bridging(server, seat, tmp_path))
            await person.send(seat.id, "ask for it")
            await seen(lambda: person.get("/approvals/pending"), lambda page: page["approvals"])
        bridge.send(signal.SIGTERM)
        assert await bridge.ended() == 0, bridge.said


@requirement("G17")
async def test_a_message_sent_into_a_running_turn_is_answered_with_it_and_another_waits(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    path = f"/workspaces/{seat.id}/a2a"

    async def write(text: str, when: str) -> None:
        message = {"role": "user", "parts": [{"kind": "text", "text": text}], "metadata": {"when": when}}
        await person.post(path, {"jsonrpc": "2.0", "method": "message/send", "params": {"message": message}})

    async with bridging(server, seat, tmp_path) as bridge:
        await write("think of a river", "queue")
        await seen(lambda: words_of_turns(server, seat), bool)
        await write("say queued", "queue")
        await write("say steered", "steer")
        lines = await seen(lambda: chat(server, seat), lambda found: len(found) == 2)
        await seen(lambda: waiting(seat), lambda count: count == 0)
        states = {state for state, _ in (await drafts(seat)).values()}
        assert "Traceback" not in bridge.said
    texts = [line["content"] for line in lines]
    assert ["<body>say steered</body>" in texts[0], "<body>say queued</body>" in texts[1]] == [True, True], texts
    assert states == {"answered"}
    assert await failures(seat) == []


@requirement("G17")
async def test_a_limit_is_a_state_of_the_workspace_and_work_goes_on_by_itself_when_it_ends(
    server: Running, tmp_path: Path
) -> None:
    """The vendor says when its limit ends; the bridge is killed meanwhile, and a message arrives."""
    seat, person = await server.seat(), await server.person()

    async def state() -> Any:
        return (await person.get(f"/workspaces/{seat.id}"))["limited_until"]

    await person.send(seat.id, "limit for 6 seconds")
    async with bridging(server, seat, tmp_path) as bridge:
        until = await seen(state, bool)
        await bridge.kill()
    async with bridging(server, seat, tmp_path) as bridge:
        second = (await person.send(seat.id, "say hello"))["activity_id"]
        assert await state() == until
        ticks = await person.get(f"/workspaces/{seat.id}/messages/{second}/ticks")
        assert ticks["stuck"] == {"reason": f"limited until {until}"}
        lines = await seen(lambda: chat(server, seat), lambda found: len(found) == 2)
        await seen(lambda: waiting(seat), lambda count: count == 0)
    assert await state() is None and await failures(seat) == []
    assert ["limit for 6" in line["content"] for line in lines] == [True, False]
    ends_at = datetime.fromisoformat(until).timestamp()
    (tries,) = (tmp_path / "sessions").glob("*.tries")
    first, *later = map(float, tries.read_text().split())
    assert first < ends_at and later and min(later) >= ends_at


@pytest.mark.long
@requirement("G17")
async def test_a_limit_after_which_claude_code_tries_again_by_itself_holds_all_other_work_until_then(
    server: Running, tmp_path: Path
) -> None:
    """`api_retry` with rate_limit: the turn goes on by itself, and no other one asks the vendor meanwhile."""
    seat, person, peer = await server.seat(), await server.person(), await server.seat("Peer")

    async def state() -> Any:
        return await person.get(f"/workspaces/{seat.id}")

    async with bridging(server, seat, tmp_path):
        await person.send(seat.id, "throttle for 8 seconds")
        limited = await seen(state, lambda found: found["limited_until"])
        asked = (await peer.api.send(seat.id, "say hello"))["activity_id"]
        ticks = await person.get(f"/workspaces/{seat.id}/messages/{asked}/ticks")
        assert ticks["stuck"] == {"reason": f"limited until {limited['limited_until']}"}
        assert await chat(server, seat) == []
        (line,) = await seen(lambda: chat(server, seat), bool)
        await seen(lambda: waiting(seat), lambda count: count == 0)
        assert (await state())["limited_until"] is None and await failures(seat) == []
    assert "throttle for 8" in line["content"]
    assert limited["limit_reason"] == "Claude Code tries again by itself: rate_limit, try 1 of 10"


@requirement("G17")
async def test_a_short_wait_for_the_vendor_is_no_limit_of_the_workspace(server: Running, tmp_path: Path) -> None:
    seat, person = await server.seat(), await server.person()
    async with bridging(server, seat, tmp_path) as bridge:
        await person.send(seat.id, "throttle for 1 seconds")
        await seen(lambda: chat(server, seat), bool)
        assert "a limit of the vendor" not in bridge.said
        org = (await person.get(f"/workspaces/{seat.id}"))["org_id"]
        rows = await server.server.store.rows("events_after", {"org_id": org, "seq": 0, "count": 1000})
        assert not [row for row in rows if row[1] == "WORKSPACE_LIMITED"]


@pytest.mark.long
@requirement("G17")
async def test_a_person_ends_the_limit_and_the_bridge_tries_again(server: Running, tmp_path: Path) -> None:
    seat, person = await server.seat(), await server.person()

    async def state() -> Any:
        return (await person.get(f"/workspaces/{seat.id}"))["limited_until"]

    async def tries() -> int:
        return sum(len(each.read_text().split()) for each in (tmp_path / "sessions").glob("*.tries"))

    await person.send(seat.id, "limit for 3600 seconds")
    async with bridging(server, seat, tmp_path):
        until = await seen(state, bool)
        assert await tries() == 1
        await person.call("DELETE", f"/workspaces/{seat.id}/limit")
        await seen(tries, lambda count: count == 2)  # the vendor has not changed its mind
        assert await seen(state, bool) == until


@requirement("G17", "M35")
async def test_a_conversation_works_in_a_worktree_of_its_own_and_its_changes_are_attached(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat(), await server.person()
    for arguments in (
        ("init", "-q"),
        ("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "first"),
    ):
        await anyio.run_process(["git", *arguments], cwd=tmp_path)
    async with bridging(server, seat, tmp_path, "--worktree"):
        await person.send(seat.id, "write it")
        lines = await seen(lambda: chat(server, seat), lambda found: len(found) == 2)
        await person.send(seat.id, "say hello")
        lines = await seen(lambda: chat(server, seat), lambda found: len(found) == 3)
    assert lines[0]["content"] == "Changes of this conversation: 1 file."
    (attachment,) = lines[0]["attachments"]
    assert attachment["name"] == "changes.patch"
    assert (tmp_path / "bridge" / "worktrees" / "person" / "changed.txt").exists()
    assert not (tmp_path / "changed.txt").exists()


async def click(person: Any, seat: Seat, question: dict[str, Any]) -> None:
    """The person chooses Blue."""
    parts = [{"kind": "text", "text": "Blue"}]
    message = {"role": "user", "parts": parts, "metadata": {"option_of": question["id"], "option": 1}}
    body = {"jsonrpc": "2.0", "method": "message/send", "params": {"message": message}}
    await person.post(f"/workspaces/{seat.id}/a2a", body)


async def question_in(server: Running, seat: Seat) -> dict[str, Any]:
    """The open question of the agent."""
    page = await seen(lambda: chat(server, seat), lambda lines: any(each.get("options") for each in lines))
    return dict(next(each for each in reversed(page) if each.get("options")))


@requirement("G17")
async def test_a_question_of_a_turn_for_a_peer_is_answered_by_a_click_of_a_person(
    server: Running, tmp_path: Path
) -> None:
    seat, peer, person = await server.seat("Ops"), await server.seat("Desk"), await server.person()
    async with bridging(server, seat, tmp_path) as bridge:
        sent = (await peer.api.send(seat.id, "quiz please"))["activity_id"]
        await click(person, seat, await question_in(server, seat))
        await seen(lambda: drafts(seat), lambda found: found.get(sent, ("",))[0] == "answered")
        await seen(lambda: waiting(seat), lambda count: count == 0)
        lines = [each["content"] for each in await chat(server, seat)]
    (answer,) = await peer.api.claim(peer.id)
    assert "Blue" in str(answer), bridge.said
    assert lines == ["Which colour?", "Your answer was used in another conversation."]


@requirement("G17")
async def test_a_message_that_waited_before_a_question_is_no_answer_to_it(server: Running, tmp_path: Path) -> None:
    seat, person = await server.seat(), await server.person()
    for text in ("quiz please", "say something else"):
        await person.send(seat.id, text)
    async with bridging(server, seat, tmp_path) as bridge:
        asked = await question_in(server, seat)
        await click(person, seat, asked)
        lines = await seen(lambda: chat(server, seat), lambda found: len(found) == 3)
        assert "Traceback" not in bridge.said
    assert ["Blue" in lines[1]["content"], "<body>say something else</body>" in lines[2]["content"]] == [True, True]


@requirement("AU4", "G17")
async def test_what_a_task_does_not_allow_is_denied_and_no_person_is_asked(server: Running, tmp_path: Path) -> None:
    lead, seat, person = await server.seat("Lead"), await server.seat(), await server.person()

    async def delegate(task: str, **may: Any) -> str:
        body = {"target_id": seat.id, "task": task, "may": may}
        return str((await lead.api.post(f"/workspaces/{lead.id}/delegate", body))["delegation_id"])

    async def result(task: str) -> str:
        detail = await seen(lambda: lead.api.get(f"/delegations/{task}"), lambda found: found["result"])
        return str(detail["result"])

    async with bridging(server, seat, tmp_path):
        for words in ("ask for it", "use the hook"):
            denied = await result(await delegate(words, tools=["Read"]))
            assert "the tool Bash is outside what this work may do" in denied
        assert (await person.get("/approvals/pending"))["approvals"] == []
        assert await result(await delegate("use the hook", tools=["Bash"])) == "{}"
        asked = await delegate("ask for it, which it may", tools=["Bash"])
        (item,) = await seen(lambda: _pending(person), bool)
        path = f"/workspaces/{seat.id}/approvals/{item['approval_id']}/decide"
        await person.post(path, {"decision": "approve"})
        assert '"allow"' in await result(asked)


async def _pending(person: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await person.get("/approvals/pending"))["approvals"]
    return found
