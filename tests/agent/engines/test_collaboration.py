"""Agents that begin agents by the tools of the registry: from hosts that have no thread here, and from our own."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from molecule_core import langchain
from molecule_core.agent.client.retry import BoundedRetry
from molecule_core.client.api import ApiClient, NoAnswerError
from molecule_core.client.claims import ActingWorkspace as CallingSeat
from molecule_core.client.tool_runner import ToolRunner
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator
from molecule_core.tools.registry import find_tool
from molecule_core.tools.runners.collaboration_tools import SESSION_BASE_INSTRUCTIONS
from molecule_core.tools.runners.requester import RetryingRequester
from molecule_core.tools.spec import ToolError
from testing.clocks import SeededRandomness
from testing.mcp_clients import Hosted, hosted, within
from testing.mcp_host import agent as stdio_agent
from testing.mcp_host import environment, single
from testing.running_server import Running, Seat, running
from testing.waits import bounded
from tests.agent.agent_runs import Watcher, keep_drafts, living, long
from tests.requirements import requirement
from tests.tools.tool_callers import Sitting

RULES = """\
rules:
  - when: message
    matches: "lead: (?P<what>[a-z]+)"
    not_called: [spawn_agent]
    do:
      - call: spawn_agent
        with: {task_name: helper, message: "count {what}", fork_turns: "1"}
  - when: message
    matches: "far: (?P<seat>[a-z0-9-]+)"
    not_called: [spawn_agent]
    do:
      - call: spawn_agent
        with: {task_name: helper, message: "count", workspace_id: "{seat}", kind: review, base_instructions: "Judge."}
  - when: result
    tool: spawn_agent
    do:
      - call: wait_agent
        with: {targets: [helper], timeout: 20}
  - when: result
    tool: wait_agent
    do:
      - say: "It says: {result_wait_agent}"
  - when: message
    matches: "count (?P<what>[a-z]+)"
    do:
      - say: "seven {what}"
  - when: message
    do:
      - say: "nothing to count"
"""


def scripted(folder: Path, **more: Any) -> Path:
    """The folder of an agent with a model that counts."""
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text("model: scripted:rules.yaml\nbeat_seconds: 0.1\n")
    (folder / "rules.yaml").write_text(RULES)
    (folder / "system-prompt.md").write_text("You are Ops, who counts things.")
    return folder


@pytest.fixture
async def host(one: Running) -> AsyncIterator[tuple[Running, Seat, Hosted]]:
    """A host of MCP over HTTP, in a seat that no engine drives."""
    seat = await one.seat("Ops")
    async with hosted(one, seat.token, "handshake") as client:
        yield one, seat, client


@requirement("TH10", "TH11")
async def test_a_host_of_mcp_begins_two_agents_which_an_engine_drives_and_waits_for_both(
    host: tuple[Running, Seat, Hosted], tmp_path: Path
) -> None:
    server, seat, client = host
    masts = await client.call("spawn_agent", task_name="masts", message="count masts")
    assert masts["agent"]["path"] == "root/masts" and "No engine drives" in masts["note"]
    assert seat.id in masts["note"]
    alone = await client.call("wait_agent", targets=["masts"], timeout=1)
    assert (alone["timed_out"], alone["agents"][0]["outcome"]) == (True, "timed_out")
    assert "No engine drives" in alone["note"]
    async with living(server, seat, scripted(tmp_path / "ops")):
        await long(lambda: client.call("list_agents"), lambda told: told["agents"][1]["status"] == "completed")
        sails = await client.call("spawn_agent", task_name="sails", message="count sails")
        assert sails["note"] == "" and sails["thread_id"] == masts["thread_id"]
        both = await client.call("wait_agent", targets=["masts", "root/sails"], mode="all", timeout=20)
        assert [each["message"] for each in both["agents"]] == ["seven masts", "seven sails"]
        assert both["status"] == "completed" and both["note"] == ""
        again = await client.call("wait_agent", targets=["masts", "sails"], timeout=20)
        assert [each["outcome"] for each in again["agents"]] == ["ended", "ended"]
        assert not again["timed_out"] and "none of these agents is at work" in again["note"]
        more = await client.call("followup_task", target="masts", message="count ropes")
        assert more["agent"]["status"] in ("pending_init", "running", "completed")
        told = await client.call("wait_agent", targets=["masts"], timeout=20)
        assert told["agents"][0]["message"] == "seven ropes"
        closed = await client.call("close_agent", target="sails")
        assert closed["agent"]["status"] == "completed", "how it stood before"
        assert "closed" in await client.refused("followup_task", target="sails", message="count")
        await client.call("resume_agent", target="sails")
        await client.call("send_message", target="sails", message="for later")
    session = await seat.api.get(f"/threads/{masts['thread_id']}")
    assert (
        session["base_instructions"] == SESSION_BASE_INSTRUCTIONS
        and session["base"]["provenance"]["type"] == "override"
    )
    assert session["turns"] == 0, "what its agents answer begins no turn of a thread that its own runtime drives"


@requirement("TH10")
async def test_every_way_to_call_the_tools_is_one_session_of_a_workspace(
    host: tuple[Running, Seat, Hosted], tmp_path: Path, state: Path
) -> None:
    server, seat, client = host
    first = await client.call("spawn_agent", task_name="first", message="count one")
    async with stdio_agent(state, **single(server, seat)) as stdio:
        await stdio.greet()
        second = await stdio.call("spawn_agent", task_name="second", message="count two")
        assert "another task_name" in await stdio.refused("spawn_agent", task_name="first", message="again")
    with langchain.Toolkit(environment(state, **single(server, seat))) as kit:
        (tool,) = [each for each in kit.tools if each.name == "list_agents"]
        told = await tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": {}})
    assert first["thread_id"] == second["thread_id"] == told.artifact["thread_id"]
    assert [each["path"] for each in told.artifact["agents"]] == ["root", "root/first", "root/second"]
    other = await client.call("list_agents", meta={"threadId": "another-conversation"})
    assert [each["path"] for each in other["agents"]] == ["root"], "a host that names its conversations has one each"
    await seat.api.post(f"/threads/{first['thread_id']}/close", {"descendants": "close"})
    fresh = await client.call("list_agents")
    assert fresh["thread_id"] != first["thread_id"] and len(fresh["agents"]) == 1
    theirs = await server.seat("Other")
    async with hosted(server, theirs.token, "handshake") as stranger:
        await stranger.refused("spawn_agent", task_name="spy", message="look", thread_id=fresh["thread_id"])


class Losing(ApiClient):
    """A client that loses the first answer to each call of a thread: it was done, and nobody hears of it."""

    lost: set[str]

    async def call(self, method: str, path: str, **more: Any) -> Any:
        told = await super().call(method, path, **more)
        if "/agents/" in path and path not in self.lost:
            self.lost.add(path)
            raise NoAnswerError("lost on the way")
        return told


@requirement("TH9", "TH10")
async def test_a_lost_answer_does_nothing_twice_and_so_does_a_repeated_call(one: Running) -> None:
    seat = await one.seat("Ops")
    clock, dice = SystemClock(), SeededRandomness(3)
    api = Losing(one.url, seat.token)
    api.lost = set()
    async with api:
        speaker = RetryingRequester(api, BoundedRetry(clock=clock, randomness=dice))
        ids = IdGenerator(clock, dice)
        caller = ToolRunner([CallingSeat(seat.id, "", speaker)], clock=clock, ids=ids, runtime="test", version="0")

        async def call(tool: str, key: str, **given: Any) -> Any:
            spec = find_tool(tool)
            assert spec is not None
            return await bounded(caller.call(spec, spec.parse_arguments(given), key=key))

        born = await call("spawn_agent", "call-1", task_name="a", message="count a")
        again = await call("spawn_agent", "call-1", task_name="a", message="count a")
        assert born["agent"]["thread_id"] == again["agent"]["thread_id"] and len(api.lost) == 1
        await call("send_message", "call-2", target="a", message="once")
        await call("followup_task", "call-3", target="a", message="and once")
        with pytest.raises(ToolError, match="another task_name"):
            await call("spawn_agent", "call-4", task_name="a", message="count a")
        with pytest.raises(ToolError, match="another task_name"):
            await call("spawn_agent", "call-4", task_name="a", message="count a")
    lines = await Watcher(seat).threads.list_entries(born["thread_id"])
    ends = [each.entry for each in lines if each.type == "collab" and each.entry["status"] != "inProgress"]
    assert [each["call_id"] for each in ends] == ["call-1", "call-2", "call-3", "call-4"]
    assert len(await Watcher(seat).all()) == 2


@requirement("TH10")
async def test_a_wait_longer_than_a_request_is_asked_for_again_and_ends_at_its_deadline(tmp_path: Path) -> None:
    place, limits = str(tmp_path / "molecule.db"), within(wait_seconds=1)
    async with running("sqlite", place, tmp_path, limits=limits) as server:
        seat = await server.seat("Ops")
        ops = Sitting(seat)
        await ops("spawn_agent", task_name="slow", message="count sand")
        spec, heard = find_tool("wait_agent"), list[str]()
        assert spec is not None

        async def hear(done: float, total: float | None, text: str) -> None:
            heard.append(text)

        given = spec.parse_arguments({"targets": ["slow"], "timeout": 2})
        told = await bounded(ops.caller.call(spec, given, key="w-1", progress=hear))
        assert (told["timed_out"], told["agents"][0]["outcome"]) == (True, "timed_out")
        assert heard and all("No engine drives" in each for each in heard)
        with pytest.raises(ToolError, match="more than 0"):
            await ops("wait_agent", targets=["slow"], timeout=0)
        with pytest.raises(ToolError, match="nobody"):
            await ops("wait_agent", targets=["nobody"])
        short = await bounded(ops("wait_agent", targets=["slow"], timeout=0.5))
        assert "was changed to 1 s" in short["note"]


@requirement("TH10", "AR3")
async def test_our_own_agent_begins_a_helper_waits_for_it_and_answers_with_what_it_said(
    one: Running, tmp_path: Path
) -> None:
    seat, person = await one.seat("Ops"), await one.person()
    await keep_drafts(one, seat)
    watch = Watcher(seat)
    sent = str((await person.send(seat.id, "lead: gulls"))["activity_id"])
    async with living(one, seat, scripted(tmp_path / "ops")):
        await long(watch.drafts, lambda found: "seven gulls" in found.get(sent, ("", ""))[1])
        threads = await watch.rests(2)
    helper = next(each for each in threads if each["path"] == "root/helper")
    assert helper["forked_from"] is not None and helper["status"]["message"] == "seven gulls"
    (lead,) = [each for each in threads if each["path"] == "root"]
    assert lead["turns"] == 1, "an end that was waited for wakes nobody once more"


@requirement("TH10", "TH11", "AR3")
async def test_a_stop_ends_the_wait_of_our_own_agent_for_one_that_nobody_drives(one: Running, tmp_path: Path) -> None:
    lead, person = await one.seat("Lead"), await one.person()
    far = await one.seat("Far", parent_id=lead.id)
    watch = Watcher(lead)
    await person.send(lead.id, f"far: {far.id}")

    async def waits() -> dict[str, str]:
        threads = await watch.all()
        lines = await watch.threads.list_entries(threads[0]["thread_id"]) if threads else []
        calls = [each.entry for each in lines if each.type == "collab" and each.entry["tool"] == "wait"]
        return {each["status"]: str(each.get("reason")) for each in calls}

    async with living(one, lead, scripted(tmp_path / "lead")):
        await long(waits, lambda found: "inProgress" in found)
        (root,) = await watch.all()
        tree = (await person.get(f"/threads/{root['thread_id']}/tree"))["threads"]
        assert [(each["workspace_id"], each["kind"]) for each in tree] == [(lead.id, "root"), (far.id, "review")]
        await person.post(f"/threads/{root['thread_id']}/interrupt", {})
        await watch.rests()
    assert "the turn has ended" in (await waits())["interrupted"]
    outputs = [each.entry for each in await watch.threads.list_entries(root["thread_id"]) if each.type == "tool_output"]
    assert "No engine drives" in outputs[0]["text"]


@requirement("TH10", "Q9")
async def test_a_rule_stops_the_tools_and_an_approval_is_good_for_a_whole_wait(tmp_path: Path) -> None:
    place, limits = str(tmp_path / "molecule.db"), within(wait_seconds=1)
    async with running("sqlite", place, tmp_path, limits=limits) as server:
        seat, person = await server.seat("Ops"), await server.person()
        rules = {"rules": [{"action": "tool:spawn_agent"}, {"action": "tool:wait_agent"}]}
        await person.call("PUT", f"/workspaces/{seat.id}/approval-rules", body=rules)
        ops = Sitting(seat)

        async def with_leave(tool: str, **given: Any) -> Any:
            with pytest.raises(ToolError, match=f"tool:{tool} needs an approval"):
                await ops(tool, **given)
            (item,) = (await person.get("/approvals/pending"))["approvals"]
            about = {name: item[name] for name in ("revision", "action_hash")}
            path = f"/workspaces/{seat.id}/approvals/{item['approval_id']}/decide"
            await person.post(path, {"decision": "approve", **about})
            return await bounded(ops(tool, approval_id=item["approval_id"], **given))

        born = await with_leave("spawn_agent", task_name="slow", message="count sand")
        assert born["agent"]["path"] == "root/slow"
        assert (await with_leave("wait_agent", targets=["slow"], timeout=2))["timed_out"]
