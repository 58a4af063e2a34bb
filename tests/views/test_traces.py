"""The trace of a request holds everything that the request caused, and nothing else."""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from molecule_core.client.api import ApiClient, ApiError
from testing.engines import Engine as EngineKind
from testing.message_chains import speak, take
from testing.running_server import UNHURRIED, Running, Seat, running
from testing.thread_world import BASE, Engine, turn
from tests.requirements import requirement


class Org(NamedTuple):
    """Lead, Builder below it and Tester below that; a person, and their organisation."""

    lead: Seat
    builder: Seat
    tester: Seat
    person: ApiClient
    org_id: str

    async def trace(self, activity_id: str) -> Any:
        """Read a trace as the person."""
        return await self.person.get(f"/orgs/{self.org_id}/traces/{activity_id}")


@pytest.fixture
async def org(server: Running) -> Org:
    """The organisation of these tests."""
    lead = await server.seat("Lead")
    builder = await server.seat("Builder", parent_id=lead.id)
    tester = await server.seat("Tester", parent_id=builder.id)
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    return Org(lead, builder, tester, await server.person(), org_id)


async def delegate(source: Seat, target: Seat, task: str) -> str:
    """Delegate a task and have the target pick it up."""
    body = {"target_id": target.id, "task": task}
    made = await source.api.post(f"/workspaces/{source.id}/delegate", body)
    await take(target)
    return str(made["delegation_id"])


async def answer(seat: Seat, activity_id: str, text: str) -> None:
    """Answer a message of the inbox."""
    page = await seat.api.get(f"/workspaces/{seat.id}/obligations", state="open")
    (handle,) = [each["handle"] for each in page["obligations"] if each["activity_id"] == activity_id]
    await seat.api.post(f"/workspaces/{seat.id}/reply", {"handle": handle, "text": text})


def outline(nodes: list[Any]) -> list[Any]:
    """Return names and statuses of delegation trees."""
    return [(node["target_name"], node["status"], outline(node["children"])) for node in nodes]


def lines(trace: Any) -> list[tuple[str | None, str, str]]:
    """Return sender, workspace and text of each message."""
    return [(each["source_name"], each["workspace_name"], each["summary"]) for each in trace["messages"]]


@requirement("CT1")
async def test_a_trace_holds_messages_trees_approvals_and_turns_of_one_request(org: Org) -> None:
    asked = (await org.person.send(org.lead.id, "Ship it"))["activity_id"]
    await take(org.lead)
    build = await delegate(org.lead, org.builder, "Build it")
    check = await delegate(org.builder, org.tester, "Test it")
    needs = {"action": "deploy", "reason": "it is ready"}
    approval = await org.tester.api.post(f"/workspaces/{org.tester.id}/approvals", needs)
    usage = {"input_tokens": 100, "output_tokens": 20}
    logged = {"activity_id": check, "run": "r", "usage": usage}
    row = {"activity_type": "agent_log", "method": "bridge", "summary": "used", "duration_ms": 1500}
    await org.tester.api.post(f"/workspaces/{org.tester.id}/activity", {**row, "request_body": logged})
    await speak(org.tester, org.builder.id, "Which version?", intent="request")

    trace = await org.trace(asked)

    assert (trace["root_id"], trace["is_complete"], trace["usage"]) == (asked, True, usage)
    assert lines(trace) == [
        (None, "Lead", "Ship it"),
        ("Lead", "Builder", "Build it"),
        ("Builder", "Tester", "Test it"),
        ("Tester", "Builder", "Which version?"),
    ]
    assert outline(trace["delegations"]) == [("Builder", "queued", [("Tester", "queued", [])])]
    assert [(each["approval_id"], each["status"]) for each in trace["approvals"]] == [
        (approval["approval_id"], "pending")
    ]
    assert [(each["workspace_name"], each["seconds"], each["usage"]) for each in trace["turns"]] == [
        ("Tester", 1.5, usage)
    ]
    assert [each["state"] for each in trace["messages"][:3]] == ["open", "open", "open"]

    await answer(org.tester, check, "It works")
    await answer(org.builder, build, "Done")
    await answer(org.lead, asked, "Shipped")
    ended = await org.trace(asked)
    assert outline(ended["delegations"]) == [("Builder", "completed", [("Tester", "completed", [])])]
    assert [each["state"] for each in ended["messages"][:3]] == ["answered", "answered", "answered"]
    assert lines(ended)[-1] == ("Lead", "Lead", "Shipped")


@requirement("CT1")
async def test_a_turn_of_a_thread_that_a_message_began_is_in_the_trace_with_its_calls_and_tokens(org: Org) -> None:
    asked = (await org.person.send(org.lead.id, "Ship it"))["activity_id"]
    await take(org.lead)
    other = (await org.person.send(org.lead.id, "Something else"))["activity_id"]
    thread = await org.lead.api.post(f"/workspaces/{org.lead.id}/threads", {"base_instructions": BASE})
    engine = Engine(org.lead.api, thread)
    begun = []
    for key in (asked, other):
        await turn(org.lead.api, thread, "in words", key=key, mode="queue")
        await engine.claim()
        await engine.begin()
        call = {"type": "tool_call", "tool": "read_file", "arguments": {}}
        used = {"type": "usage", "record_key": key, "input": 100, "output": 20}
        await engine.adds({**call, "call_id": f"1 {key}"}, {**call, "call_id": f"2 {key}"}, used, used)
        begun.append(await org.trace(key))
        await engine.ends(final="done")

    assert [[(each["seconds"], each["tools"]) for each in trace["turns"]] for trace in begun] == [
        [(None, {"read_file": 2})]
    ] * 2
    for key in (asked, other):
        trace = await org.trace(key)
        (ended,) = trace["turns"]
        assert (ended["activity_id"], ended["thread_id"], ended["workspace_name"]) == (key, engine.id, "Lead")
        assert ended["seconds"] is not None and ended["tools"] == {"read_file": 2}
        assert ended["usage"] == trace["usage"] == {"input_tokens": 100, "output_tokens": 20}


async def spawn(engine: Engine, name: str) -> Engine:
    """Spawn a sub-agent of a running turn; return the engine of its thread, which runs its first turn."""
    body = {"call_id": f"spawn-{name}", "task_name": name, "message": f"Do {name}."}
    made = await engine.call("/agents/spawn", body)
    child = Engine(engine.api, {"thread_id": made["call"]["new_thread_id"]})
    await child.claim()
    await child.begin()
    return child


async def use(engine: Engine, count: int) -> None:
    """Log that the running turn used tokens and called a tool."""
    call = {"type": "tool_call", "call_id": engine.turn_id, "tool": "look", "arguments": {}}
    await engine.adds(call, {"type": "usage", "record_key": engine.turn_id, "input": count, "output": 1})


def turn_tree(trace: Any, parent: str | None = None) -> list[Any]:
    """Return sub-agent, input tokens and caused turns of each turn that a turn caused, by their tokens."""
    turns = [each for each in trace["turns"] if each["parent_turn_id"] == parent]
    found = [(each["agent"], each["usage"].get("input_tokens"), turn_tree(trace, each["turn_id"])) for each in turns]
    return sorted(found, key=lambda each: each[1])


@requirement("CT1")
async def test_turns_of_sub_agents_are_in_the_trace_and_its_sums_and_no_others(org: Org) -> None:
    asked = (await org.person.send(org.lead.id, "Ship it"))["activity_id"]
    other = (await org.person.send(org.lead.id, "Something else"))["activity_id"]
    await take(org.lead)
    thread = await org.lead.api.post(f"/workspaces/{org.lead.id}/threads", {"base_instructions": BASE})
    lead = Engine(org.lead.api, thread)
    for key in (asked, other):  # the second is queued while the first runs
        await turn(org.lead.api, thread, "in words", key=key, mode="queue")
    await lead.claim()
    await lead.begin()
    await use(lead, 1)
    dig = await spawn(lead, "dig")
    await use(dig, 10)
    deep = await spawn(dig, "deep")
    await use(deep, 100)
    await lead.ends(final="asked others")
    await lead.claim()
    await lead.begin()
    await use(lead, 2)
    away = await spawn(lead, "away")
    await use(away, 1000)
    await lead.ends(final="asked another")
    await deep.ends(final="deeper")
    await dig.ends(final="dug")
    await dig.claim()  # reads what the deeper one said
    await dig.begin()
    await use(dig, 20)
    await dig.ends(final="dug deeper")
    await lead.claim()  # reads what the first one said
    await lead.begin()
    await use(lead, 3)
    await lead.ends(final="all said")
    await turn(org.lead.api, thread, "a question of a person")
    await lead.claim()
    await lead.begin()
    await use(lead, 10_000)

    first, second = await org.trace(asked), await org.trace(other)

    assert turn_tree(first) == [(None, 1, [("dig", 10, [(None, 3, []), ("dig/deep", 100, [("dig", 20, [])])])])]
    assert first["usage"] == {"input_tokens": 134, "output_tokens": 5}
    assert [each["tools"] for each in first["turns"]] == [{"look": 1}] * 5
    assert turn_tree(second) == [(None, 2, [("away", 1000, [])])]
    assert second["usage"] == {"input_tokens": 1002, "output_tokens": 2}
    assert first["is_complete"] and second["is_complete"]


@requirement("CT1")
async def test_more_turns_of_sub_agents_than_a_page_are_cut_and_that_is_said(
    engine: EngineKind, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=msgspec.structs.replace(UNHURRIED, page_rows=3)) as server:
        lead, person = await server.seat("Lead"), await server.person()
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        asked = (await person.send(lead.id, "Ship it"))["activity_id"]
        await take(lead)
        thread = await lead.api.post(f"/workspaces/{lead.id}/threads", {"base_instructions": BASE})
        boss = Engine(lead.api, thread)
        await turn(lead.api, thread, "in words", key=asked)
        await boss.claim()
        await boss.begin()
        for name in ("a", "b", "c", "d"):
            await (await spawn(boss, name)).ends(final="done")
        trace = await person.get(f"/orgs/{org_id}/traces/{asked}")
    assert [each["agent"] for each in trace["turns"]].count(None) == 1
    assert len(trace["turns"]) == 4 and not trace["is_complete"]


@requirement("CT1")
async def test_each_message_and_delegation_leads_to_the_trace_of_its_request(org: Org) -> None:
    asked = (await org.person.send(org.lead.id, "Ship it"))["activity_id"]
    await take(org.lead)
    build = await delegate(org.lead, org.builder, "Build it")
    check = await delegate(org.builder, org.tester, "Test it")
    assert [(await org.trace(each))["root_id"] for each in (asked, build, check)] == [asked, asked, asked]


@requirement("CT1")
async def test_another_request_to_the_same_agents_is_not_part_of_the_trace(org: Org) -> None:
    first = (await org.person.send(org.lead.id, "Ship it"))["activity_id"]
    await take(org.lead)
    await delegate(org.lead, org.builder, "Build it")
    second = (await org.person.send(org.lead.id, "Count the users"))["activity_id"]
    (row,) = [each for each in await take(org.lead) if each["id"] == second]
    body = {"target_id": org.builder.id, "task": "Count them", "cause_activity_id": row["id"]}
    await org.lead.api.post(f"/workspaces/{org.lead.id}/delegate", body)

    assert [each["summary"] for each in (await org.trace(first))["messages"]] == ["Ship it", "Build it"]
    assert [each["summary"] for each in (await org.trace(second))["messages"]] == ["Count the users", "Count them"]
    assert [node["summary"] for node in (await org.trace(second))["delegations"]] == ["Count them"]


@requirement("CT1")
async def test_a_message_of_another_organisation_reads_as_unknown(org: Org, server: Running) -> None:
    asked = (await org.person.send(org.lead.id, "Ship it"))["activity_id"]
    other_id = await server.org("Other")
    stranger = await server.person(org_id=other_id)
    for api, org_id, activity_id in ((stranger, other_id, asked), (org.person, org.org_id, "01a00000-unknown")):
        with pytest.raises(ApiError) as refusal:
            await api.get(f"/orgs/{org_id}/traces/{activity_id}")
        assert refusal.value.status == 404
