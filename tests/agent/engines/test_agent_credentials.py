"""`molecule agent run` and what happens to its seat: its token is replaced, is taken away, the workspace is removed."""

import asyncio
import contextlib
import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.engines.runner import EngineAgent
from testing.engines import Engine
from testing.processes import Process
from testing.running_server import Running, Seat, running
from testing.waits import PROCESS_START_SECONDS
from tests.agent.agent_runs import Watcher, command, home, keep_drafts, living, long
from tests.agent.model_endpoint import Reply, endpoint
from tests.requirements import requirement

pytestmark = pytest.mark.parametrize("engine", ["sqlite"])
SPEAK: tuple[tuple[str, str, dict[str, Any]], ...] = (("c1", "send_message_to_user", {"message": "The ship is late"}),)
RULES = [{"action": "call:send_message_*"}]
DONE = Reply("done")


def by_file(seat: Seat, file: Path) -> dict[str, str]:
    """The token of a seat, in a file."""
    file.write_text(seat.token)
    return {"MOLECULE_WORKSPACE_TOKEN": "", "MOLECULE_WORKSPACE_TOKEN_FILE": str(file)}


async def rotate(server: Running, seat: Seat) -> None:
    """A new token instead of all others; whoever tests has it at once."""
    told = await server.admin.post(f"/workspaces/{seat.id}/external/rotate", {})
    seat.token = told["connection"]["auth_token"]
    seat.api = server.api(seat.token)


async def approve(person: Any) -> None:
    """A person approves what waits for it."""
    page = await long(lambda: person.get("/approvals/pending"), lambda found: found["approvals"])
    item = page["approvals"][0]
    path = f"/workspaces/{item['workspace_id']}/approvals/{item['approval_id']}/decide"
    about = {"revision": item["revision"], "action_hash": item["action_hash"]}
    await person.post(path, {"decision": "approve", **about})


@requirement("G6", "AR3", "AR5")
async def test_it_goes_on_with_a_renewed_token_file_although_the_old_token_was_refused_in_the_middle_of_a_wait(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    await keep_drafts(server, seat)
    watch, file = Watcher(seat), tmp_path / "token"
    own = by_file(seat, file)
    async with endpoint() as at:
        at.answers = [Reply("", SPEAK), DONE, DONE]
        one = (await person.send(seat.id, "Tell me"))["activity_id"]
        async with living(server, seat, home(tmp_path / "ops", at, approval_rules=RULES), **own) as agent:
            await long(lambda: person.get("/approvals/pending"), lambda page: page["approvals"])
            await rotate(server, seat)
            file.write_text(seat.token)
            await approve(person)
            await long(watch.drafts, lambda found: found.get(one, ("",))[0] == "answered")
            two = (await person.send(seat.id, "And now?"))["activity_id"]
            await long(watch.drafts, lambda found: found.get(two, ("", ""))[1] == "done")
            await long(watch.waiting, lambda count: count == 0)
            assert agent._membership.state == "leading"
        said = await person.get(f"/workspaces/{seat.id}/chat-history")
        assert [each["content"] for each in said["messages"] if each["role"] == "agent"] == ["The ship is late"]


async def state_of(agent: EngineAgent) -> str:
    """How its seat stands."""
    return agent._membership.state


@requirement("G6", "AR3", "AR5")
async def test_leave_is_still_waited_for_while_the_token_is_refused_and_its_file_is_not_renewed_yet(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    await keep_drafts(server, seat)
    watch, file = Watcher(seat), tmp_path / "token"
    own = by_file(seat, file)
    async with endpoint() as at:
        at.answers = [Reply("", SPEAK), DONE]
        one = (await person.send(seat.id, "Tell me"))["activity_id"]
        async with living(server, seat, home(tmp_path / "ops", at, approval_rules=RULES), **own) as agent:
            await long(lambda: person.get("/approvals/pending"), lambda page: page["approvals"])
            await rotate(server, seat)
            await long(partial(state_of, agent), lambda found: found == "refused")
            await approve(person)
            file.write_text(seat.token)
            await long(watch.drafts, lambda found: found.get(one, ("",))[0] == "answered")
        said = await person.get(f"/workspaces/{seat.id}/chat-history")
        assert [each["content"] for each in said["messages"] if each["role"] == "agent"] == ["The ship is late"]


@pytest.mark.long
@requirement("G6", "AR3", "AR4")
async def test_nothing_is_settled_while_the_token_file_holds_the_token_of_another_workspace(
    server: Running, tmp_path: Path
) -> None:
    seat, other, person = await server.seat("Ops"), await server.seat("Other"), await server.person()
    await keep_drafts(server, seat)
    watch, file = Watcher(seat), tmp_path / "token"
    own = by_file(seat, file)
    async with endpoint() as at:
        at.answers, at.gate = [DONE, DONE], asyncio.Event()
        one = (await person.send(seat.id, "hi"))["activity_id"]
        async with living(server, seat, home(tmp_path / "ops", at), **own) as agent:
            async with asyncio.timeout(PROCESS_START_SECONDS):
                await at.came.wait()
            await rotate(server, seat)
            file.write_text(other.token)
            await long(partial(state_of, agent), lambda found: found == "refused")
            at.gate.set()
            await long(partial(trouble_of, agent), lambda found: "belongs to another workspace" in found)
            two = (await person.send(seat.id, "And now?"))["activity_id"]
            assert await watch.waiting() == 2
            file.write_text(seat.token)
            for each in (one, two):
                await long(watch.drafts, lambda found, id_=each: found.get(id_, ("", ""))[1] == "done")
            await long(watch.waiting, lambda count: count == 0)
    assert not await seat.api.get(f"/workspaces/{seat.id}/activity", type="error", limit=10)


async def said_by(life: Process) -> str:
    """What the command has said so far."""
    return life.said


async def trouble_of(agent: EngineAgent) -> str:
    """What is wrong with its seat."""
    return agent._membership.problem


@pytest.mark.long
@requirement("G6", "AR3", "AR4")
async def test_nothing_is_acknowledged_or_dropped_while_the_token_is_refused(server: Running, tmp_path: Path) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    await keep_drafts(server, seat)
    watch, file = Watcher(seat), tmp_path / "token"
    own = by_file(seat, file)
    async with endpoint() as at:
        at.answers, at.gate = [DONE, DONE], asyncio.Event()
        one = (await person.send(seat.id, "hi"))["activity_id"]
        async with living(server, seat, home(tmp_path / "ops", at), **own) as agent:
            async with asyncio.timeout(PROCESS_START_SECONDS):
                await at.came.wait()
            await rotate(server, seat)
            at.gate.set()
            await long(partial(state_of, agent), lambda found: found == "refused")
            two = (await person.send(seat.id, "And now?"))["activity_id"]
            assert await watch.waiting() == 2
            file.write_text(seat.token)
            for each in (one, two):
                await long(watch.drafts, lambda found, id_=each: found.get(id_, ("", ""))[1] == "done")
            await long(watch.waiting, lambda count: count == 0)


@requirement("AR3", "AR5")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_while_leave_is_waited_for_and_the_server_is_away(
    number: signal.Signals, engine: Engine, place: str, tmp_path: Path
) -> None:
    async with endpoint() as at, contextlib.AsyncExitStack() as stack:
        at.answers = [Reply("", SPEAK)]
        async with running(engine, place, tmp_path) as server:
            seat, person = await server.seat("Ops"), await server.person()
            await person.send(seat.id, "Tell me")
            own = home(tmp_path / "ops", at, approval_rules=RULES)
            life = await stack.enter_async_context(command(server, seat, own))
            await long(lambda: person.get("/approvals/pending"), lambda page: page["approvals"])
        life.send(number)
        assert await life.ended() == 0, life.said


def by_list(server: Running, seat: Seat, token: str) -> dict[str, str]:
    """A list of one seat."""
    return {"MOLECULE_WORKSPACES": json.dumps([{"id": seat.id, "token": token, "platform_url": server.url}])}


@requirement("G6", "AR7")
@pytest.mark.parametrize(
    "what",
    ["a removed workspace", "a removed workspace of a list", "a refused token of a list", "another one's token"],
)
async def test_an_agent_that_finds_no_seat_ends_with_3_and_says_why(what: str, server: Running, tmp_path: Path) -> None:
    seat = await server.seat("Ops")
    token, said = seat.token, "was removed by its operator"
    if "removed" in what:
        await server.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true"})
    elif "another" in what:
        seat.token = token = (await server.seat("Other")).token
        said = "the token belongs to another workspace, or the workspace does not exist"
    else:
        token, said = "mol_ws_" + "x" * 51, "the server rejected the token"
    own = by_list(server, seat, token) if "list" in what else {}
    async with endpoint() as at, command(server, seat, home(tmp_path / "ops", at), "--once", **own) as life:
        assert await life.ended() == 3, life.said
    assert life.said.count(said) == 1 and "Traceback" not in life.said and token not in life.said


@requirement("G6", "AR7")
@pytest.mark.parametrize(
    "what", ["removed", pytest.param("refused", marks=pytest.mark.long), "refused without an inbox"]
)
async def test_an_agent_whose_seat_is_gone_while_it_works_ends_with_3(
    what: str, server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    await keep_drafts(server, seat)
    async with endpoint() as at:
        at.answers, no_inbox = [DONE], "without" in what
        own = {"MOLECULE_MCP_DISABLE_INBOX": "1", "MOLECULE_MCP_HEARTBEAT_SECONDS": "0.5"} if no_inbox else {}
        message = (await person.send(seat.id, "hi"))["activity_id"]
        async with command(server, seat, home(tmp_path / "ops", at), **own) as life:
            if no_inbox:
                await long(partial(said_by, life), lambda found: "working with" in found)
            else:
                await long(Watcher(seat).drafts, lambda found: found.get(message, ("", ""))[1] == "done")
            if what == "removed":
                await server.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true"})
            else:
                await rotate(server, seat)
            assert await life.ended() == 3, life.said
    said = "was removed by its operator" if what == "removed" else "the server rejected the token"
    assert life.said.count(said) == 1 and "Traceback" not in life.said
