"""Tasks of A2A: their ids, states, history and results, and what a message about one does."""

import asyncio
import base64
import contextlib
import json
from typing import Any

import pytest

from molecule_core.client.api import ApiError
from molecule_core.messages.model import UserNotice
from molecule_core.views import a2a_tasks
from testing.a2a_callers import V0_3, V1, A2ACaller, plain_state, texts, token_of
from testing.message_world import MessageWorld, handle, reply
from testing.push_agents import said
from testing.running_server import Seat
from testing.waits import bounded, eventually
from tests.requirements import requirement

LINES = pytest.mark.parametrize("line", [V1, V0_3])
TOOL_APPROVALS = "https://kagent.dev/extensions/hitl/v1"
DELEGATION: dict[str, Any] = {"metadata": {"delegation": True}}


async def team(world: MessageWorld, line: str = V1) -> tuple[Seat, Seat, A2ACaller]:
    """A workspace that calls, one that is called, and the client of the first."""
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    return lead, ops, A2ACaller(world.server, ops.id, lead.token, line)


def person_of(world: MessageWorld, ops: Seat, line: str = V1) -> A2ACaller:
    """A client of a person."""
    return A2ACaller(world.server, ops.id, token_of(world.person), line)


@requirement("A2A3")
@LINES
@pytest.mark.parametrize("delegates", [True, False])
async def test_a_task_goes_from_submitted_over_working_to_its_result(
    world: MessageWorld, line: str, *, delegates: bool
) -> None:
    _, ops, client = await team(world, line)
    task = await client.send(client.message("sort the mail", **(DELEGATION if delegates else {})))
    assert plain_state(task) == "submitted"
    (given,) = await world.take(ops)
    assert (given["id"], given["kind"]) == (task["id"], "delegation" if delegates else "peer_agent")
    assert await client.state(task["id"]) == "working"
    await reply(ops, handle(given), "sorted")
    done = await client.get(task["id"])
    assert (plain_state(done), texts(done["artifacts"][0]["parts"])) == ("completed", "sorted")
    assert [texts(each["parts"]) for each in done["history"]] == ["sort the mail"]
    assert {done["contextId"], done["history"][0]["contextId"]} == {task["contextId"]}
    if line == V0_3:
        assert (done["kind"], done["history"][0]["kind"], done["history"][0]["role"]) == ("task", "message", "user")
    else:
        assert "kind" not in done and done["history"][0]["role"] == "ROLE_USER"


@requirement("A2A3")
@LINES
async def test_a_person_has_tasks_too(world: MessageWorld, line: str) -> None:
    ops = await world.server.seat("Ops")
    client = person_of(world, ops, line)
    task = await client.send(client.message("how many?"))
    (given,) = await world.take(ops)
    assert (given["id"], given["kind"]) == (task["id"], "canvas_user")
    await reply(ops, handle(given), "three")
    done = await client.get(task["id"])
    assert (plain_state(done), texts(done["artifacts"][0]["parts"])) == ("completed", "three")


@requirement("A2A3")
@LINES
async def test_a_push_agents_answer_is_the_result(world: MessageWorld, line: str) -> None:
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", url="https://ops.example/a2a")
    for token in (lead.token, token_of(world.person)):

        async def answer(_pushed: Any) -> Any:
            return said("sorted")

        world.net.agents["https://ops.example/a2a"] = answer
        client = A2ACaller(world.server, ops.id, token, line)
        task = await client.send(client.message("sort the mail"), blocking=True)
        assert (plain_state(task), texts(task["artifacts"][0]["parts"])) == ("completed", "sorted")


@requirement("A2A3")
@LINES
@pytest.mark.parametrize("delegates", [True, False])
async def test_a_blocking_request_returns_at_the_end(world: MessageWorld, line: str, *, delegates: bool) -> None:
    _, ops, client = await team(world, line)
    message = client.message("sort the mail", **(DELEGATION if delegates else {}))
    waiting = asyncio.create_task(client.send(message, {"X-Timeout": "60"}, blocking=True))
    given = (await eventually(lambda: world.take(ops), bool))[0]
    await reply(ops, handle(given), "sorted")
    task = await bounded(waiting)
    assert (task["id"], plain_state(task)) == (given["id"], "completed")


@requirement("A2A3")
async def test_a_blocking_request_ends_at_its_cap_with_the_open_task(world: MessageWorld) -> None:
    _, _, client = await team(world)
    waiting = asyncio.create_task(client.send(client.message("sort the mail"), {"X-Timeout": "5"}, blocking=True))
    for _ in range(20):
        await world.pass_time(1)
        if waiting.done():
            break
    assert plain_state(await bounded(waiting)) == "submitted"


@requirement("A2A3", "W1")
async def test_an_open_task_of_0_3_has_the_members_that_older_clients_read(world: MessageWorld) -> None:
    _, _, client = await team(world, V0_3)
    found = await client.call("message/send", {"message": client.message("hi"), "configuration": {"blocking": False}})
    assert (found["status"], found["delivery_mode"], found["method"]) == ("queued", "poll", "message/send")
    assert found["activity_id"] == found["result"]["id"]


@requirement("A2A3")
async def test_two_messages_with_one_id_are_two_tasks_and_a_key_is_one(world: MessageWorld) -> None:
    _, ops, client = await team(world)
    first = await client.send(client.message("sort the mail"))
    second = await client.send(client.message("sort the mail"))
    assert first["id"] != second["id"]
    keyed = [await client.send(client.message("burn it"), {"Idempotency-Key": "k-1"}) for _ in range(2)]
    named: dict[str, Any] = {"metadata": {"https://molecule.dev/ext/idempotency/v1": {"key": "k-2"}}}
    by_extension = [await client.send(client.message("keep it", **named)) for _ in range(2)]
    assert (keyed[0]["id"], by_extension[0]["id"]) == (keyed[1]["id"], by_extension[1]["id"])
    other = person_of(world, ops)
    assert (await other.send(client.message("burn it"), {"Idempotency-Key": "k-1"}))["id"] != keyed[0]["id"]


@requirement("A2A3")
async def test_metadata_and_data_reach_the_agent_as_they_are(world: MessageWorld) -> None:
    _, ops, client = await team(world)
    file = {"url": "https://files.example/a.txt", "mediaType": "text/plain"}
    parts = [{"text": "see"}, {"data": {"a": [1, 2]}}, file]
    await client.send({**client.message(""), "parts": parts, "metadata": {"https://example.org/x": {"y": 1}}})
    (given,) = await world.take(ops)
    message = given["request_body"]["params"]["message"]
    assert message["metadata"]["https://example.org/x"] == {"y": 1}
    assert [each["kind"] for each in message["parts"]] == ["text", "data", "file"]
    assert message["parts"][1]["data"] == {"a": [1, 2]}
    assert message["parts"][2]["file"]["uri"] == "https://files.example/a.txt"


@requirement("A2A3")
@LINES
async def test_a_file_in_a_message_comes_back_as_an_address(world: MessageWorld, line: str) -> None:
    _, ops, client = await team(world, line)
    part: dict[str, Any] = {"raw": "aGVsbG8=", "filename": "a.txt", "mediaType": "text/plain"}
    if line == V0_3:
        part = {"kind": "file", "file": {"bytes": "aGVsbG8=", "name": "a.txt", "mimeType": "text/plain"}}
    task = await client.send({**client.message(""), "parts": [part]})
    shown = (await client.get(task["id"]))["history"][0]["parts"][0]
    url = shown["url"] if line == V1 else shown["file"]["uri"]
    assert url.startswith("http") and "/files/" in url
    assert (await world.take(ops))[0]["id"] == task["id"]


# -- messages about a task ---------------------------------------------------------------------------------------------


@requirement("A2A4")
@LINES
async def test_a_message_with_only_a_task_id_answers_its_question(world: MessageWorld, line: str) -> None:
    ops = await world.server.seat("Ops")
    client = person_of(world, ops, line)
    task = await client.send(client.message("send it"))
    (given,) = await world.take(ops)
    await _ask(world, ops, given, "which one?", ["red", "blue"])
    asked = await client.get(task["id"])
    assert (plain_state(asked), texts(asked["status"]["message"]["parts"])) == ("input-required", "which one?")
    assert asked["status"]["message"]["metadata"]["options"] == ["red", "blue"]
    went_on = await client.send(client.message("blue", "m-2", taskId=task["id"]))
    assert (went_on["id"], went_on["contextId"], plain_state(went_on)) == (task["id"], task["contextId"], "working")
    (answer,) = await world.take(ops)
    message = answer["request_body"]["params"]["message"]
    assert (message["metadata"]["option"], message["contextId"]) == (1, task["contextId"])
    await reply(ops, handle(answer), "sent")
    done = await client.get(task["id"])
    assert (plain_state(done), texts(done["artifacts"][0]["parts"])) == ("completed", "sent")
    assert [texts(each["parts"]) for each in done["history"]] == ["send it", "which one?", "blue"]


async def _ask(world: MessageWorld, ops: Seat, given: dict[str, Any], text: str, options: list[str]) -> None:
    """Have an agent ask its user with options, as its tool does."""
    metadata = {"in_reply_to": given["id"], "options": options}
    parts = [{"kind": "text", "text": text}]
    await world.server.server.messages.writer.notify_user(ops.id, UserNotice(parts, None, metadata))


@requirement("A2A4")
async def test_another_context_or_an_unknown_task_is_refused(world: MessageWorld) -> None:
    _, _, client = await team(world)
    task = await client.send(client.message("hi"))
    wrong = {"message": client.message("more", taskId=task["id"], contextId="another")}
    unknown = {"message": client.message("more", taskId="none")}
    assert [await client.error("SendMessage", each) for each in (wrong, unknown)] == [-32602, -32001]


@requirement("A2A4")
@LINES
async def test_an_ended_task_takes_nothing_more(world: MessageWorld, line: str) -> None:
    _, ops, client = await team(world, line)
    task = await client.send(client.message("hi"))
    (given,) = await world.take(ops)
    await reply(ops, handle(given), "done")
    send, cancel = ("SendMessage", "CancelTask") if line == V1 else ("message/send", "tasks/cancel")
    subscribe = "SubscribeToTask" if line == V1 else "tasks/resubscribe"
    assert await client.error(send, {"message": client.message("more", taskId=task["id"])}) == -32004
    assert await client.error(cancel, {"id": task["id"]}) == -32002
    assert await client.error(subscribe, {"id": task["id"]}) == -32004


@requirement("A2A4")
@pytest.mark.parametrize("delegates", [True, False])
@pytest.mark.parametrize("taken", [True, False])
async def test_a_cancelled_task_stays_cancelled_and_its_agent_knows(
    world: MessageWorld, *, delegates: bool, taken: bool
) -> None:
    _, ops, client = await team(world)
    task = await client.send(client.message("sort the mail", **(DELEGATION if delegates else {})))
    given = await world.take(ops) if taken else []
    assert plain_state(await client.cancel(task["id"])) == "canceled"
    told = await world.take(ops)
    assert [each["kind"] for each in told] == (["system"] if taken else [])
    for each in given:
        with contextlib.suppress(ApiError):  # the handle of what has ended may be refused
            await reply(ops, handle(each), "sorted all the same")
    ended = await client.get(task["id"])
    assert (plain_state(ended), ended.get("artifacts", [])) == ("canceled", [])
    assert await client.error("CancelTask", {"id": task["id"]}) == -32002


@requirement("A2A4")
async def test_a_task_that_waits_for_its_client_can_be_cancelled(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    client = person_of(world, ops)
    task = await client.send(client.message("send it"))
    (given,) = await world.take(ops)
    await _ask(world, ops, given, "which one?", ["red", "blue"])
    assert plain_state(await client.cancel(task["id"])) == "canceled"
    (told,) = await world.take(ops)
    assert "cancelled" in str(told["request_body"])


@requirement("A2A4", "Q8")
@LINES
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_message_decides_on_the_approval_that_a_task_waits_for(
    world: MessageWorld, line: str, decision: str
) -> None:
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", parent_id=lead.id)
    await lead.api.post("/registry/heartbeat", {"workspace_id": lead.id})
    client = A2ACaller(world.server, ops.id, lead.token, line)
    task = await client.send(client.message("send the invoice", **DELEGATION))
    (given,) = await world.take(ops)
    asked = await ops.api.post(f"/workspaces/{ops.id}/approvals", {"action": "send the invoice", "task_id": task["id"]})
    waiting = await client.get(task["id"])
    approval = waiting["metadata"]["https://molecule.dev/ext/approval/v1"]
    assert (plain_state(waiting), approval["approval_id"]) == ("auth-required", asked["approval_id"])
    said_so = {"https://molecule.dev/ext/approval/v1": {"approval_id": asked["approval_id"], "decision": decision}}
    went_on = await client.send(client.message(decision, "m-2", taskId=task["id"], metadata=said_so))
    assert plain_state(went_on) == "working"
    found = await ops.api.get(f"/workspaces/{ops.id}/approvals/{asked['approval_id']}")
    assert found["status"] == {"approve": "approved", "deny": "denied"}[decision]
    await reply(ops, handle(given), "sent")
    assert await client.state(task["id"]) == "completed"


@requirement("A2A4", "Q8")
@LINES
@pytest.mark.parametrize("approved", [True, False])
async def test_a_client_of_kagents_extension_reads_and_decides_an_approval_in_it(
    world: MessageWorld, line: str, *, approved: bool
) -> None:
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", parent_id=lead.id)
    await lead.api.post("/registry/heartbeat", {"workspace_id": lead.id})
    client, named = A2ACaller(world.server, ops.id, lead.token, line), {"A2A-Extensions": TOOL_APPROVALS}
    task = await client.send(client.message("send the invoice", **DELEGATION))
    await world.take(ops)
    asked = await ops.api.post(f"/workspaces/{ops.id}/approvals", {"action": "send the invoice", "task_id": task["id"]})
    get = {V1: "GetTask", V0_3: "tasks/get"}[line]
    shown = (await client.call(get, {"id": task["id"]}, named))["result"]["status"]["message"]
    unnamed = (await client.get(task["id"]))["status"]["message"]
    request = shown["metadata"][TOOL_APPROVALS]
    id_, verdict = asked["approval_id"], {"approved": approved, "rejection_reason": "" if approved else "not today"}
    response = {TOOL_APPROVALS: {"type": "tool_approval_response", "approvals": [{"id": id_, **verdict}]}}
    decision = client.message("so", "m-2", taskId=task["id"], metadata=response, extensions=[TOOL_APPROVALS])
    went_on = await client.send(decision)
    found = await ops.api.get(f"/workspaces/{ops.id}/approvals/{id_}")
    assert TOOL_APPROVALS not in unnamed.get("metadata", {}) and "extensions" not in unnamed
    assert (request["type"], shown["extensions"]) == ("tool_approval_request", [TOOL_APPROVALS])
    assert [(each["id"], each["args"]["action"]) for each in request["tools"]] == [(id_, "send the invoice")]
    assert "Lead" in texts(shown["parts"]) and request["hint"] == texts(shown["parts"])
    assert (plain_state(went_on), found["status"]) == ("working", "approved" if approved else "denied")


@requirement("A2A4")
@pytest.mark.parametrize("approvals", [None, [], [{"id": "x"}], [{"id": 1, "approved": True}], [{"approved": True}]])
async def test_a_response_of_kagents_extension_without_a_decision_is_refused(
    world: MessageWorld, approvals: Any
) -> None:
    _, ops, client = await team(world)
    task = await client.send(client.message("send the invoice", **DELEGATION))
    (given,) = await world.take(ops)
    response = {TOOL_APPROVALS: {"type": "tool_approval_response", "approvals": approvals}}
    message = client.message("so", "m-2", taskId=task["id"], metadata=response)
    named = {"A2A-Extensions": TOOL_APPROVALS}
    assert await client.error("SendMessage", {"message": message}, named) == -32602
    await reply(ops, handle(given), "sent")
    assert await client.state(task["id"]) == "completed"


@requirement("A2A3")
async def test_a_declined_task_is_rejected_and_an_undelivered_one_failed(world: MessageWorld) -> None:
    _, ops, client = await team(world)
    for more, state in ((DELEGATION, "rejected"), ({}, "rejected")):
        task = await client.send(client.message(f"work {len(more)}", **more))
        (given,) = await world.take(ops)
        await ops.api.post(f"/workspaces/{ops.id}/decline", {"handle": handle(given), "reason": "not my job"})
        ended = await client.get(task["id"])
        assert (plain_state(ended), "not my job" in texts(ended["status"]["message"]["parts"])) == (state, True)


# -- lists and isolation -----------------------------------------------------------------------------------------------


@requirement("A2A3")
@LINES
async def test_tasks_of_others_read_as_unknown(world: MessageWorld, line: str) -> None:
    _, ops, client = await team(world, line)
    other, third = await world.server.seat("Other"), await world.server.seat("Third")
    mine = [await client.send(client.message("hi")), await client.send(client.message("sort", **DELEGATION))]
    strangers = [
        A2ACaller(world.server, ops.id, other.token, line),
        A2ACaller(world.server, ops.id, ops.token, line),
        person_of(world, ops, line),
        A2ACaller(world.server, third.id, str(client._token), line),
    ]
    get, cancel = ("GetTask", "CancelTask") if line == V1 else ("tasks/get", "tasks/cancel")
    subscribe = "SubscribeToTask" if line == V1 else "tasks/resubscribe"
    for stranger in strangers:
        unknown = await stranger.call(get, {"id": "00000000-0000-4000-8000-000000000000"})
        for task in mine:
            for method in (get, cancel, subscribe):
                assert (await stranger.call(method, {"id": task["id"]}))["error"] == unknown["error"]
        if line == V1:
            assert (await stranger.call("ListTasks", {}))["result"]["tasks"] == []


@requirement("A2A3")
async def test_lists_page_and_filter_the_callers_tasks(world: MessageWorld) -> None:
    _, ops, client = await team(world)
    tasks = list[str]()
    for number in range(5):
        more = DELEGATION if number % 2 else {}
        tasks.append((await client.send(client.message(f"work {number}", contextId=f"c-{number % 2}", **more)))["id"])
        await world.pass_time(1)

    async def page(**params: Any) -> dict[str, Any]:
        found: dict[str, Any] = (await client.call("ListTasks", params))["result"]
        return found

    whole = await page()
    assert [each["id"] for each in whole["tasks"]] == tasks[::-1]
    assert whole["nextPageToken"] == ""
    first = await page(pageSize=2)
    await client.send(client.message("a new one"))
    second = await page(pageSize=2, pageToken=first["nextPageToken"])
    third = await page(pageSize=2, pageToken=second["nextPageToken"])
    assert [each["id"] for found in (first, second, third) for each in found["tasks"]] == tasks[::-1]
    assert third["nextPageToken"] == ""
    assert {each["id"] for each in (await page(contextId="c-1"))["tasks"]} == {tasks[1], tasks[3]}
    given = await world.take(ops, limit=1)
    assert [each["id"] for each in (await page(status="TASK_STATE_WORKING"))["tasks"]] == [given[0]["id"]]
    wrong_ones = [{"pageSize": 0}, {"pageSize": 101}, {"status": "BUSY"}, {"pageToken": "??"}]
    for wrong in (*wrong_ones, {"statusTimestampAfter": "x"}):
        assert await client.error("ListTasks", wrong) == -32602


@requirement("A2A3")
@pytest.mark.parametrize("is_person", [False, True], ids=["peer", "person"])
async def test_lists_page_through_all_tasks_part_by_part(
    world: MessageWorld, monkeypatch: pytest.MonkeyPatch, *, is_person: bool
) -> None:
    monkeypatch.setattr(a2a_tasks, "_MAX_LISTED", 4)
    _, ops, client = await team(world)
    if is_person:
        client = person_of(world, ops)
    tasks = list[str]()
    for number in range(10):
        more = DELEGATION if number % 3 == 0 and not is_person else {}
        tasks.append((await client.send(client.message(f"work {number}", **more)))["id"])
        if number % 4:  # else some began in the same moment
            await world.pass_time(1)
    seen, pages, token = list[str](), list[int](), ""
    while True:
        named = {"pageToken": token} if token else {}
        found = (await client.call("ListTasks", {"pageSize": 3, **named}))["result"]
        seen += [each["id"] for each in found["tasks"]]
        pages.append(len(found["tasks"]))
        token = found["nextPageToken"]
        if not token:
            break
        await client.send(client.message("a new one"))
    assert (sorted(seen), pages) == (sorted(tasks), [3, 1, 3, 1, 2])
    assert set(seen[:4]) == set(tasks[6:]) and set(seen[8:]) == set(tasks[:2])
    assert found["totalSize"] == len(tasks)


@requirement("A2A3")
@pytest.mark.parametrize("position", [[[1 << 63, ""], 0, None], [[1, "\x00"], 0, None], [[1, "x"], -1, None], [1], "x"])
async def test_a_page_token_that_the_server_never_made_is_refused(world: MessageWorld, position: Any) -> None:
    _, _, client = await team(world)
    token = base64.urlsafe_b64encode(json.dumps(position).encode()).decode()
    assert await client.error("ListTasks", {"pageToken": token}) == -32602


@requirement("A2A3")
@LINES
async def test_the_length_of_the_history_is_the_callers_choice(world: MessageWorld, line: str) -> None:
    _, _, client = await team(world, line)
    task = await client.send(client.message("one"))
    await client.send(client.message("two", "m-2", taskId=task["id"]))
    found = [await client.get(task["id"], **more) for more in ({}, {"historyLength": 1}, {"historyLength": 0})]
    assert [[texts(each["parts"]) for each in one.get("history", [])] for one in found] == [["one", "two"], ["two"], []]


@requirement("A2A3")
@LINES
async def test_data_of_a_reply_is_a_data_part_of_the_artifact_and_json_in_the_chat(
    world: MessageWorld, line: str
) -> None:
    ops = await world.server.seat("Ops")
    client = person_of(world, ops, line)
    task = await client.send(client.message("how many?"))
    (given,) = await world.take(ops)
    await reply(ops, handle(given), "see", data=[{"count": 3, "by": "*x* ``` <b>"}, [1, None]])
    (artifact,) = (await client.get(task["id"]))["artifacts"]
    told = (await world.chat(ops))[-1]["content"]
    assert [each["data"] for each in artifact["parts"][1:]] == [{"count": 3, "by": "*x* ``` <b>"}, [1, None]]
    assert all(("kind" in each) == (line == V0_3) for each in artifact["parts"])
    assert told.startswith('see\n```json\n{\n  "count": 3,\n  "by": "*x* ``` <b>"\n}\n```\n```json\n[')
    assert [row for row in told.splitlines() if row.startswith("```")] == ["```json", "```"] * 2


@pytest.mark.parametrize("data", [["text"], [None], [{"a": "x" * 300_000}], [{}] * 65, {"count": 3}])
async def test_data_of_a_reply_that_is_no_object_or_too_much_is_refused(world: MessageWorld, data: Any) -> None:
    ops = await world.server.seat("Ops")
    await world.ask(ops, "how many?")
    (given,) = await world.take(ops)
    with pytest.raises(ApiError) as refused:
        await reply(ops, handle(given), "", data=data)
    assert refused.value.status in (400, 422)
