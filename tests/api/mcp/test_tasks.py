"""Tasks of the endpoint: calls that go on after their answer, in both protocols, over connections and restarts."""

from pathlib import Path
from typing import Any

import pytest

from molecule_core.tools import mcp_features
from testing.engines import Engine
from testing.mcp_clients import line_of, listening, rpc, stateless
from testing.running_server import Running, Seat, running
from testing.waits import bounded
from tests.requirements import requirement

TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


class Office:
    """Lead, who delegates, and Desk, who works."""

    def __init__(self, server: Running, lead: Seat, desk: Seat) -> None:
        self.server = server
        self.lead = lead
        self.desk = desk
        self.session = line_of(server, lead)
        self.stateless = line_of(server, lead)

    async def ask(self, method: str, **params: Any) -> Any:
        """The result of a request in a session."""
        reply = (await bounded(self.session.post(rpc(method, params)))).json
        assert "result" in reply, reply
        return reply["result"]

    async def error(self, method: str, **params: Any) -> dict[str, Any]:
        """The error of a request in a session."""
        found: dict[str, Any] = (await bounded(self.session.post(rpc(method, params)))).json["error"]
        return found

    async def extended(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole answer to a request of a client that knows the extension."""
        message = stateless(method, {**params, "_meta": {CAPABILITIES: TASKS}})
        found: dict[str, Any] = (await bounded(self.stateless.post(message))).json
        return found

    async def delegate(self, task: str = "Make tea", **more: Any) -> dict[str, Any]:
        """Delegate as a task."""
        found: dict[str, Any] = await self.ask("tools/call", name="delegate_task", task={}, **self.call(task), **more)
        return found

    def call(self, task: str = "Make tea") -> dict[str, Any]:
        """The arguments of a delegation."""
        return {"arguments": {"workspace_id": self.desk.id, "task": task, "wait": 60}}

    async def end(self, id_: str, status: str = "completed", **more: str) -> None:
        """The desk ends the delegation."""
        path = f"/workspaces/{self.desk.id}/delegations/{id_}/update"
        await self.desk.api.post(path, {"status": status, **more})


async def open_office(server: Running) -> Office:
    """Begin."""
    lead = await server.seat("Lead")
    office = Office(server, lead, await server.seat("Desk", parent_id=lead.id))
    await office.session.begin()
    return office


@pytest.fixture
async def office(server: Running) -> Office:
    """An office whose client has a session."""
    return await open_office(server)


# -- version 2025-11-25 ------------------------------------------------------------------------------------------------


@requirement("N1")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_only_the_version_with_tasks_offers_them(office: Office, version: str) -> None:
    line = line_of(office.server, office.lead)
    capabilities = (await line.begin(version)).json["result"]["capabilities"]
    tools = (await line.post(rpc("tools/list"))).json["result"]["tools"]
    offered = {each["name"]: each["execution"] for each in tools if "execution" in each}
    if version == "2025-11-25":
        assert capabilities["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        names = ["delegate_task", "request_approval", "wait_for_message"]
        assert offered == {each: {"taskSupport": "optional"} for each in names}
    else:
        assert "tasks" not in capabilities and offered == {}
        assert (await line.post(rpc("tasks/get", {"taskId": "x"}))).json["error"]["code"] == -32601


@requirement("N1", "D10")
async def test_a_delegation_is_a_task_from_its_call_to_its_result(office: Office) -> None:
    created = await office.delegate()
    task = created["task"]
    assert (task["status"], task["ttl"]) == ("working", None)
    assert created["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
    (delegation,) = await office.lead.api.get(f"/workspaces/{office.lead.id}/delegations")
    assert task["taskId"] == delegation["delegation_id"]
    assert (await office.ask("tasks/get", taskId=task["taskId"]))["status"] == "working"

    await office.end(task["taskId"], result="Two cups.")
    result = await office.ask("tasks/result", taskId=task["taskId"])
    assert (result["structuredContent"]["status"], result["structuredContent"]["result"]) == ("completed", "Two cups.")
    assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
    again = await office.ask("tasks/result", taskId=task["taskId"])
    assert again["structuredContent"]["result"] == "Two cups."
    ended = await office.ask("tasks/get", taskId=task["taskId"])
    assert ended["status"] == "completed" and ended["lastUpdatedAt"] >= task["createdAt"]
    assert [each["taskId"] for each in (await office.ask("tasks/list"))["tasks"]] == [task["taskId"]]


@requirement("N1")
async def test_the_end_of_a_task_is_notified_on_the_stream_of_its_session(office: Office) -> None:
    async with listening(office.session) as stream:
        task = (await office.delegate())["task"]
        await office.end(task["taskId"], result="Done.")
        while True:
            block = (await bounded(stream.block()))["data"]
            if '"completed"' in block:
                break
    assert '"method":"notifications/tasks/status"' in block and task["taskId"] in block


async def test_a_client_that_follows_too_much_still_gets_its_task(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_features, "MAX_WATCHES", 0)
    assert (await office.delegate())["task"]["status"] == "working"


@requirement("N1")
async def test_a_cancelled_task_stays_cancelled(office: Office) -> None:
    id_ = (await office.delegate())["task"]["taskId"]
    assert (await office.ask("tasks/cancel", taskId=id_))["status"] == "cancelled"
    assert (await office.ask("tasks/get", taskId=id_))["status"] == "cancelled"
    assert (await office.error("tasks/cancel", taskId=id_))["code"] == -32602
    result = await office.ask("tasks/result", taskId=id_)
    assert result["structuredContent"]["status"] == "cancelled"


@requirement("N1")
async def test_a_task_outlives_the_session_and_the_server(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path) as server:
        first = await open_office(server)
        id_ = (await first.delegate())["task"]["taskId"]
    async with running(engine, place, tmp_path, seed=1) as server:
        second = Office(server, first.lead, first.desk)
        second.desk.api = server.api(first.desk.token)
        await second.session.begin()
        assert (await second.ask("tasks/get", taskId=id_))["status"] == "working"
        await second.end(id_, result="After the restart.")
        assert (await second.ask("tasks/result", taskId=id_))["structuredContent"]["result"] == "After the restart."
        extended = await second.extended("tasks/get", taskId=id_)
        assert extended["result"]["result"]["structuredContent"]["result"] == "After the restart."


@requirement("N1")
async def test_tasks_of_others_are_unknown(office: Office) -> None:
    id_ = (await office.delegate())["task"]["taskId"]
    approval = (
        await office.ask(
            "tools/call", name="request_approval", arguments={"action": "deploy", "reason": "due"}, task={}
        )
    )["task"]["taskId"]
    for seat in (office.desk, await office.server.seat("Far", org_id=await office.server.org("Other"))):
        line = line_of(office.server, seat)
        await line.begin()
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            for each in (id_, approval, "none", "../delegations", ""):
                error = (await bounded(line.post(rpc(method, {"taskId": each})))).json["error"]
                assert error["code"] == -32602
        assert (await line.post(rpc("tasks/list"))).json["result"]["tasks"] == []


async def test_an_approval_is_a_task_that_its_decision_completes(office: Office) -> None:
    arguments = {"action": "deploy", "reason": "due", "wait": 60}
    created = await office.ask("tools/call", name="request_approval", arguments=arguments, task={})
    id_ = created["task"]["taskId"]
    assert id_.startswith("approval.") and (await office.ask("tasks/get", taskId=id_))["status"] == "working"
    listed, cursor = [], None
    while True:
        page = await office.ask("tasks/list", **({} if cursor is None else {"cursor": cursor}))
        listed += [each["taskId"] for each in page["tasks"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert listed == [id_]
    person = await office.server.person()
    path = f"/workspaces/{office.lead.id}/approvals/{id_.removeprefix('approval.')}"
    approval = await person.get(path)
    decision = {"decision": "approve", "revision": approval["revision"], "action_hash": approval["action_hash"]}
    await person.post(f"{path}/decide", decision)
    assert (await office.ask("tasks/get", taskId=id_))["status"] == "completed"
    assert (await office.ask("tasks/result", taskId=id_))["structuredContent"]["status"] == "approved"
    other = (await office.ask("tools/call", name="request_approval", arguments=arguments, task={}))["task"]["taskId"]
    assert (await office.ask("tasks/cancel", taskId=other))["status"] == "cancelled"


@requirement("N1")
async def test_a_wait_is_a_task_that_claims_when_its_result_is_read(office: Office) -> None:
    arguments = {"timeout_secs": 60}
    waiting = (await office.ask("tools/call", name="wait_for_message", arguments=arguments, task={}))["task"]
    assert waiting["status"] == "working"
    person = await office.server.person()
    await person.send(office.lead.id, "Is the shop open?")
    assert (await office.ask("tasks/get", taskId=waiting["taskId"]))["status"] == "completed"
    (row,) = await office.lead.api.get(f"/workspaces/{office.lead.id}/activity", waiting="true")
    assert not row.get("attempt")
    message = (await office.ask("tasks/result", taskId=waiting["taskId"]))["structuredContent"]["message"]
    assert message["text"] == "Is the shop open?"
    acknowledged = {"activity_id": message["activity_id"], "attempt": message["attempt"]}
    await office.lead.api.post(f"/workspaces/{office.lead.id}/activity/ack", acknowledged)
    assert (await office.ask("tasks/get", taskId=waiting["taskId"]))["status"] == "completed"

    second = (await office.ask("tools/call", name="wait_for_message", arguments=arguments, task={}))["task"]
    assert (await office.ask("tasks/cancel", taskId=second["taskId"]))["status"] == "cancelled"


async def test_a_call_that_cannot_be_a_task_is_an_error_and_not_begun(office: Office) -> None:
    error = await office.error("tools/call", name="list_peers", arguments={}, task={})
    assert error["code"] == -32601
    error = await office.error("tools/call", name="delegate_task", arguments={"task": "x"}, task={})
    assert error["code"] == -32602 and error["data"]["code"] == "bad_arguments"
    assert await office.lead.api.get(f"/workspaces/{office.lead.id}/delegations") == []


# -- the extension -----------------------------------------------------------------------------------------------------


@requirement("N1", "D10")
async def test_the_server_makes_a_task_of_a_delegation_for_clients_that_know_them(office: Office) -> None:
    answer = await office.extended("tools/call", name="delegate_task", **office.call())
    created = answer["result"]
    assert (created["resultType"], created["status"], created["ttlMs"]) == ("task", "working", None)
    working = (await office.extended("tasks/get", taskId=created["taskId"]))["result"]
    assert (working["resultType"], working["status"]) == ("complete", "working") and "result" not in working
    assert (await office.extended("tasks/update", taskId=created["taskId"], inputResponses={}))["result"][
        "resultType"
    ] == "complete"
    await office.end(created["taskId"], result="Two cups.")
    for _ in range(2):
        done = (await office.extended("tasks/get", taskId=created["taskId"]))["result"]
        assert (done["status"], done["result"]["structuredContent"]["result"]) == ("completed", "Two cups.")
        assert done["result"]["resultType"] == "complete"
    assert (await office.extended("tasks/cancel", taskId=created["taskId"]))["result"]["resultType"] == "complete"
    assert (await office.extended("tasks/list"))["error"]["code"] == -32601


async def test_a_client_that_declares_no_tasks_gets_none(office: Office) -> None:
    call = {"name": "delegate_task", **office.call()}
    call["arguments"] |= {"wait": 0}
    plain = (await office.stateless.post(stateless("tools/call", call))).json["result"]
    assert plain["resultType"] == "complete" and plain["structuredContent"]["status"] != ""
    id_ = plain["structuredContent"]["task_id"]
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        error = (await office.stateless.post(stateless(method, {"taskId": id_}))).json["error"]
        assert error["code"] == -32021
        assert "io.modelcontextprotocol/tasks" in error["data"]["requiredCapabilities"]["extensions"]
    wanted = stateless("subscriptions/listen", {"notifications": {"taskIds": [id_]}})
    assert (await office.stateless.post(wanted)).json["error"]["code"] == -32021


async def test_the_discovery_offers_the_extension_and_no_older_tasks(office: Office) -> None:
    capabilities = (await office.extended("server/discover"))["result"]["capabilities"]
    assert capabilities["extensions"] == TASKS["extensions"] and "tasks" not in capabilities


async def test_a_failed_delegation_is_a_failed_task_and_a_completed_call(office: Office) -> None:
    id_ = (await office.delegate())["task"]["taskId"]
    await office.end(id_, "failed", error="No tea left.")
    failed = await office.ask("tasks/get", taskId=id_)
    assert failed["status"] == "failed" and "No tea left." in failed["statusMessage"]
    done = (await office.extended("tasks/get", taskId=id_))["result"]
    assert (done["status"], done["result"]["structuredContent"]["status"]) == ("completed", "failed")
