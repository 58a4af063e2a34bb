"""A client of the original system, which knows only the original's wire: bytes over a socket, no library of ours.

Every walk is walked three times: with the instruction layer off, with its JSON form (which such a client ignores), and
with both forms, where the text of what comes in begins with how to answer it.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from testing.engines import Engine
from testing.raw_http import Reply, ask
from testing.running_server import Running, Seat, running
from tests.requirements import requirement

LAYERS: dict[str, dict[str, Any]] = {
    "off": {},
    "json": {"push_instructions_enabled": True, "instruction_shape": "json"},
    "both": {"push_instructions_enabled": True, "instruction_shape": "both"},
}
NIL = "00000000-0000-0000-0000-000000000000"


class Plugin:
    """What the original's channel plugin does, call by call. It sends its own id in a header that
    nobody reads, and an Origin with everything."""

    def __init__(self, server: Running, seat: Seat) -> None:
        self.id = seat.id
        self._token = seat.token
        self._port = server.port
        self._headers = {"Origin": server.url, "X-Source-Workspace-Id": seat.id, "Content-Type": "application/json"}

    async def call(self, method: str, target: str, body: Any = None, **headers: str) -> Reply:
        return await ask(self._port, method, target, body, token=self._token, headers={**self._headers, **headers})

    async def get(self, target: str) -> Any:
        reply = await self.call("GET", target)
        assert reply.status == 200, reply
        return reply.json

    async def post(self, target: str, body: Any) -> Any:
        reply = await self.call("POST", target, body)
        assert reply.status == 200, reply
        return reply.json

    async def poll(self, query: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = await self.get(f"/workspaces/{self.id}/activity?type=a2a_receive&{query}")
        return rows

    async def start(self) -> None:
        await self.post(
            "/registry/register",
            {"id": self.id, "delivery_mode": "poll", "agent_card": {"name": "Channel", "description": "a plugin"}},
        )
        await self.post("/registry/heartbeat", {"workspace_id": self.id})

    async def say(self, peer_id: str, text: str) -> Reply:
        return await self.call("POST", f"/workspaces/{peer_id}/a2a", p1_message(text))


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> str:
    """How the instruction layer is set."""
    return str(request.param)


@pytest.fixture
async def server(engine: Engine, place: str, tmp_path: Path, layer: str) -> AsyncIterator[Running]:
    """A server that listens on a loopback port, with a real clock."""
    async with running(engine, place, tmp_path, **LAYERS[layer]) as running_server:
        yield running_server


def parts_of(row: dict[str, Any], layer: str) -> list[dict[str, Any]]:
    """The parts of a message that came in, as their sender wrote them; checks what stands around its text."""
    parts: list[dict[str, Any]] = row["request_body"]["params"]["message"]["parts"]
    assert "instructions" not in row  # such a client does not ask for them
    if layer != "both":
        return parts
    told = ET.fromstring(f"<channel>{parts[0]['text']}</channel>")
    assert [child.tag for child in told] == ["instructions", "body"]
    assert "reply_to_workspace" in (told[0].text or "")
    return [{**parts[0], "text": told[1].text or ""}, *parts[1:]]


def p1_message(text: str) -> dict[str, Any]:
    """A message as the oldest plugin sends it: `type` for `kind`, no role, no messageId, no jsonrpc."""
    return {"method": "message/send", "params": {"message": {"parts": [{"type": "text", "text": text}]}}}


@pytest.fixture
async def plugin(server: Running) -> Plugin:
    """A plugin in a seat, connected."""
    plugin = Plugin(server, await server.seat("Ops"))
    await plugin.start()
    return plugin


@requirement("W1", "M17")
async def test_the_probe_at_start_finds_no_row_behind_the_zero_uuid(server: Running) -> None:
    plugin = Plugin(server, await server.seat("Ops"))

    reply = await plugin.call("GET", f"/workspaces/{plugin.id}/activity?type=a2a_receive&since_id={NIL}&limit=1")

    assert reply.status == 410
    assert reply.error.startswith("since_id cursor not found")
    assert "Omit since_id to reset" in reply.error


@requirement("W1", "M9")
async def test_register_takes_the_seat_without_a_url_and_gives_no_second_token(server: Running) -> None:
    plugin = Plugin(server, await server.seat("Ops"))

    answer = await plugin.post(
        "/registry/register",
        {"id": plugin.id, "delivery_mode": "poll", "agent_card": {"name": "C", "description": "d"}},
    )

    assert answer == {"status": "registered", "delivery_mode": "poll"}


@requirement("W1")
async def test_a_heartbeat_of_one_field_is_enough(plugin: Plugin) -> None:
    assert await plugin.post("/registry/heartbeat", {"workspace_id": plugin.id}) == {"status": "ok"}
    assert (await plugin.get(f"/workspaces/{plugin.id}"))["status"] == "online"


@requirement("W1", "M7")
@pytest.mark.parametrize("which", ["unknown", "peer", "foreign"])
async def test_a_token_of_another_workspace_ends_the_runtime_and_reads_the_same_for_every_id(
    server: Running, plugin: Plugin, which: str
) -> None:
    """The original's runtime ends on 401 and 403 when it registers; any other status it reports and goes on."""
    foreign = await server.admin.post("/orgs", {"name": "Others"})
    elsewhere = await server.admin.post("/workspaces", {"name": "Ops", "org_id": foreign["id"]})
    id_ = {"unknown": NIL, "peer": (await server.seat("Peer")).id, "foreign": elsewhere["id"]}[which]
    bodies = {
        "/registry/register": {"id": id_, "delivery_mode": "poll", "agent_card": {"name": "C"}, "url": ""},
        "/registry/heartbeat": {"workspace_id": id_},
        "/registry/update-card": {"workspace_id": id_, "agent_card": {"name": "C"}},
    }
    for path, body in bodies.items():
        reply = await plugin.call("POST", path, body)
        assert (reply.status, reply.json["code"]) == (403, "token_of_other_workspace"), path
        assert id_ not in reply.body.decode()
    unknown_token = await ask(server.port, "POST", "/registry/heartbeat", {"workspace_id": plugin.id}, token="no-such")
    assert unknown_token.status == 401


@requirement("W1", "M17")
async def test_what_an_agent_said_to_its_user_is_in_the_response_body(server: Running, plugin: Plugin) -> None:
    await plugin.post(f"/workspaces/{plugin.id}/notify", {"message": "Deployed."})
    # A report of an agent may have any body.
    await plugin.post(
        f"/workspaces/{plugin.id}/activity",
        {"activity_type": "agent_log", "method": "notify", "request_body": {"params": [1]}, "summary": "x"},
    )
    rows = await plugin.get(f"/workspaces/{plugin.id}/activity?limit=10")
    (said,) = [row for row in rows if row["method"] == "notify" and row["activity_type"] != "agent_log"]
    assert said["response_body"] == {"result": "Deployed."}


@requirement("W1", "M17", "I4")
async def test_the_first_page_is_newest_first_and_what_follows_a_cursor_is_oldest_first(
    server: Running, plugin: Plugin
) -> None:
    person = await server.person()
    sent = [(await person.send(plugin.id, f"message {number}"))["activity_id"] for number in range(4)]

    first_page = await plugin.poll("limit=100&since_secs=30")
    behind_cursor = await plugin.poll(f"limit=100&since_id={sent[0]}")

    assert [row["id"] for row in first_page] == sent[::-1]
    assert [row["id"] for row in behind_cursor] == sent[1:]


@requirement("W1", "I3", "I4")
async def test_a_row_has_the_members_that_the_plugin_reads(server: Running, plugin: Plugin, layer: str) -> None:
    person = await server.person()
    await person.send(plugin.id, "are you there?", message_id="m-1")

    (row,) = await plugin.poll("limit=100&since_secs=30")

    assert row["activity_type"] == "a2a_receive"
    assert row["method"] == "message/send"
    assert row["source_id"] is None
    assert row["workspace_id"] == row["target_id"] == plugin.id
    assert row["status"] == "ok"
    assert row["summary"] == "are you there?"
    assert parts_of(row, layer) == [{"kind": "text", "text": "are you there?"}]
    assert row["created_at"].endswith("Z")
    assert isinstance(row["seq"], int)


@requirement("W1", "M17")
async def test_peer_info_names_the_sender_and_unknown_words_are_ignored(server: Running, plugin: Plugin) -> None:
    lead = Plugin(server, await server.seat("Lead", role="leads"))
    await lead.say(plugin.id, "do it")

    (bare,) = await plugin.poll("limit=100&since_secs=30")
    (row,) = await plugin.poll("limit=100&since_secs=30&include=peer_info,moon_phase,instructions,")

    assert (row["peer_name"], row["peer_role"]) == ("Lead", "leads")
    assert row["agent_card_url"].endswith(f"/registry/discover/{lead.id}")
    assert "attachments" not in row
    assert not {"peer_name", "peer_role", "agent_card_url"} & bare.keys()


@requirement("W1", "M17")
async def test_peer_info_lists_the_files_of_a_message(server: Running, plugin: Plugin) -> None:
    lead = Plugin(server, await server.seat("Lead"))
    file = {"uri": "https://files.example/a.png", "name": "a.png", "mimeType": "image/png", "size": 3}
    parts = [{"type": "text", "text": "see"}, {"kind": "file", "file": file}]
    await lead.post(f"/workspaces/{plugin.id}/a2a", {"params": {"message": {"parts": parts}}})

    (row,) = await plugin.poll("since_secs=30&include=peer_info")

    assert row["attachments"] == [
        {"kind": "file", "uri": "https://files.example/a.png", "name": "a.png", "mime_type": "image/png", "size": 3}
    ]


@requirement("W1", "M10")
async def test_notify_reaches_the_user(server: Running, plugin: Plugin) -> None:
    answer = await plugin.post(f"/workspaces/{plugin.id}/notify", {"message": "done"})

    person = await server.person("viewer")
    chat = await person.get(f"/workspaces/{plugin.id}/chat-history")
    assert answer["status"] == "sent"
    assert [(line["role"], line["content"]) for line in chat["messages"]] == [("agent", "done")]


@requirement("W1", "M12")
async def test_the_oldest_message_shape_is_taken_and_stored_in_regular_form(
    server: Running, plugin: Plugin, layer: str
) -> None:
    lead = Plugin(server, await server.seat("Lead"))

    reply = await lead.say(plugin.id, "status?")

    assert reply.status == 200
    (row,) = await plugin.poll("since_secs=30")
    body = row["request_body"]
    message = body["params"]["message"]
    assert (body["jsonrpc"], body["method"]) == ("2.0", "message/send")
    assert parts_of(row, layer) == [{"kind": "text", "text": "status?"}]
    assert message["role"] == "user"
    assert message["messageId"]
    assert (row["source_id"], row["kind"]) == (lead.id, "peer_agent")


@requirement("W1", "M12")
async def test_a_content_string_becomes_a_text_part(server: Running, plugin: Plugin, layer: str) -> None:
    lead = Plugin(server, await server.seat("Lead"))

    await lead.post(f"/workspaces/{plugin.id}/a2a", {"params": {"message": {"content": "plain"}}})

    (row,) = await plugin.poll("since_secs=30")
    assert parts_of(row, layer) == [{"kind": "text", "text": "plain"}]


@requirement("W1", "M14")
async def test_the_queued_answer_is_the_originals_and_a_submitted_task_at_once(server: Running, plugin: Plugin) -> None:
    lead = Plugin(server, await server.seat("Lead"))

    answer = (await lead.call("POST", f"/workspaces/{plugin.id}/a2a", {**p1_message("go"), "id": "rpc-7"})).json

    (row,) = await plugin.poll("since_secs=30")
    assert (answer["status"], answer["delivery_mode"], answer["method"]) == ("queued", "poll", "message/send")
    assert answer["activity_id"] == row["id"]
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", "rpc-7")
    assert "error" not in answer
    task = answer["result"]
    assert (task["kind"], task["id"], task["status"]["state"]) == ("task", row["id"], "submitted")
    assert task["contextId"]
    assert task["status"]["timestamp"].endswith("Z")


@requirement("W1", "M3")
async def test_peers_come_as_an_array_that_q_narrows(server: Running, plugin: Plugin) -> None:
    lead = await server.seat("Lead", role="Quality")
    child = await server.seat("Helper", parent_id=plugin.id)

    everyone = await plugin.get(f"/registry/{plugin.id}/peers")
    by_role = await plugin.get(f"/registry/{plugin.id}/peers?q=qual")
    nobody = await plugin.get(f"/registry/{plugin.id}/peers?q=zzz")

    assert [row["id"] for row in everyone] == [lead.id, child.id]
    assert everyone[0].keys() >= {
        "id",
        "name",
        "role",
        "tier",
        "status",
        "url",
        "parent_id",
        "active_tasks",
        "agent_card",
    }
    assert [row["id"] for row in by_role] == [lead.id]
    assert nobody == []


@requirement("W1", "M3")
async def test_discover_finds_peers_and_nobody_else(server: Running, plugin: Plugin) -> None:
    lead = await server.seat("Lead")
    far = await server.seat("Far", parent_id=lead.id)

    found = await plugin.get(f"/registry/discover/{lead.id}")
    denied = await plugin.call("GET", f"/registry/discover/{far.id}")
    unknown = await plugin.call("GET", f"/registry/discover/{NIL}")

    assert found.keys() >= {"id", "url", "name"}
    assert (found["id"], found["name"]) == (lead.id, "Lead")
    assert (denied.status, unknown.status) == (403, 404)


@requirement("W1", "M3")
async def test_check_access_says_who_may_talk(server: Running, plugin: Plugin) -> None:
    lead = await server.seat("Lead")
    far = await server.seat("Far", parent_id=lead.id)

    async def allowed(target: str) -> Any:
        return await plugin.post("/registry/check-access", {"caller_id": plugin.id, "target_id": target})

    assert await allowed(lead.id) == {"allowed": True}
    assert await allowed(plugin.id) == {"allowed": True}
    assert await allowed(far.id) == {"allowed": False}
    assert await allowed(NIL) == {"allowed": False}


@requirement("W1", "P3", "M8")
async def test_the_sender_is_the_holder_of_the_token_whatever_the_old_header_says(
    server: Running, plugin: Plugin
) -> None:
    lead = Plugin(server, await server.seat("Lead"))

    headers = {"X-Source-Workspace-Id": plugin.id}
    reply = await lead.call("POST", f"/workspaces/{plugin.id}/a2a", p1_message("hi"), **headers)

    assert reply.status == 200
    (row,) = await plugin.poll("since_secs=30")
    assert row["source_id"] == lead.id


@requirement("W1", "M8")
async def test_an_x_workspace_id_that_agrees_is_taken_and_one_that_disagrees_is_refused(
    server: Running, plugin: Plugin
) -> None:
    lead = Plugin(server, await server.seat("Lead"))
    target = f"/workspaces/{plugin.id}/a2a"

    agreeing = await lead.call("POST", target, p1_message("1"), **{"X-Workspace-ID": lead.id})
    disagreeing = await lead.call("POST", target, p1_message("2"), **{"X-Workspace-ID": plugin.id})

    assert (agreeing.status, disagreeing.status) == (200, 403)
    assert disagreeing.error.startswith("invalid caller ID")
    assert [row["summary"] for row in await plugin.poll("since_secs=30")] == ["1"]


@requirement("W1", "M8")
async def test_a_reserved_caller_prefix_is_refused(plugin: Plugin) -> None:
    for prefix in ("system:", "webhook:", "test:", "channel:"):
        headers = {"X-Workspace-ID": prefix + plugin.id}
        reply = await plugin.call("POST", f"/workspaces/{plugin.id}/a2a", p1_message("x"), **headers)
        assert reply.status == 403
        assert reply.error.startswith("invalid caller ID")


@requirement("W1", "M15")
async def test_every_refusal_carries_the_error_text_that_the_plugin_shows(server: Running, plugin: Plugin) -> None:
    lead = await server.seat("Lead")
    far = await server.seat("Far", parent_id=lead.id)
    activity = f"/workspaces/{plugin.id}/activity"

    no_token = await ask(server.port, "GET", activity)
    bad_token = await ask(server.port, "GET", activity, token="wrong")
    not_a_peer = await plugin.say(far.id, "hi")
    unknown = await plugin.say(NIL, "hi")
    not_json = await plugin.call("POST", f"/workspaces/{lead.id}/a2a", b"{")
    no_path = await plugin.call("GET", "/nowhere")

    replies = [no_token, bad_token, not_a_peer, unknown, not_json, no_path]
    assert [reply.status for reply in replies] == [401, 401, 403, 404, 400, 404]
    assert no_token.error.startswith("missing workspace auth token")
    assert bad_token.error.startswith("invalid workspace auth token")
    assert not_a_peer.error.startswith("access denied: workspaces cannot communicate per hierarchy rules")
    assert all(reply.headers["content-type"] == "application/json" for reply in replies)
    assert all(isinstance(reply.json["error"], str) and reply.error for reply in replies)


@requirement("W1", "M17")
async def test_activities_answers_like_activity(server: Running, plugin: Plugin) -> None:
    person = await server.person()
    cursor = (await person.send(plugin.id, "1"))["activity_id"]
    await person.send(plugin.id, "2")

    for query in ("", "?type=a2a_receive&include=peer_info", f"?since_id={cursor}", f"?since_id={NIL}"):
        one = await plugin.call("GET", f"/workspaces/{plugin.id}/activity{query}")
        other = await plugin.call("GET", f"/workspaces/{plugin.id}/activities{query}")
        assert (one.status, one.body) == (other.status, other.body), query


@requirement("W1", "M18")
async def test_the_cursor_of_an_old_client_is_its_ack(server: Running, plugin: Plugin) -> None:
    person = await server.person()
    sent = [(await person.send(plugin.id, str(number)))["activity_id"] for number in range(3)]

    await plugin.poll("limit=100&since_secs=30")
    untouched = await server.admin.get(f"/workspaces/{plugin.id}/activity", since_id=sent[2])
    await plugin.poll(f"limit=100&since_id={sent[1]}")

    claimed = await plugin.get(f"/workspaces/{plugin.id}/activity?claim=60")
    assert untouched == []
    assert [row["id"] for row in claimed] == [sent[2]]


@requirement("W1", "M18")
async def test_a_cursor_acks_only_what_its_own_filters_could_show(server: Running, plugin: Plugin) -> None:
    lead = Plugin(server, await server.seat("Lead"))
    person = await server.person()
    from_person = (await person.send(plugin.id, "from a person"))["activity_id"]
    from_lead = (await lead.say(plugin.id, "from the lead")).json["activity_id"]

    await plugin.poll(f"source=agent&since_id={from_lead}")

    claimed = await plugin.get(f"/workspaces/{plugin.id}/activity?claim=60")
    assert [row["id"] for row in claimed] == [from_person]


@requirement("W1", "M19")
async def test_what_an_agent_reports_is_in_its_log_and_not_in_what_it_polls(plugin: Plugin) -> None:
    answer = await plugin.post(
        f"/workspaces/{plugin.id}/activity",
        {"activity_type": "agent_log", "method": "think", "summary": "hm", "source_id": plugin.id, "duration_ms": 5},
    )

    log = await plugin.get(f"/workspaces/{plugin.id}/activity")
    assert answer["status"] == "logged"
    assert [(row["activity_type"], row["summary"]) for row in log] == [("agent_log", "hm")]
    assert await plugin.poll("since_secs=30") == []


@requirement("W1", "M8")
async def test_an_agent_may_not_report_in_the_name_of_another(server: Running, plugin: Plugin) -> None:
    lead = await server.seat("Lead")

    reply = await plugin.call(
        "POST", f"/workspaces/{plugin.id}/activity", {"activity_type": "agent_log", "source_id": lead.id}
    )

    assert reply.status == 403


@requirement("W1", "M18")
async def test_the_old_ack_settles_everything_up_to_a_number(server: Running, plugin: Plugin) -> None:
    person = await server.person()
    await person.send(plugin.id, "1")
    await person.send(plugin.id, "2")
    newest, _ = await plugin.poll("since_secs=30")

    answer = await plugin.post(f"/workspaces/{plugin.id}/activity/ack", {"acked_seq": newest["seq"]})

    assert answer == {"last_acked_seq": newest["seq"]}
    assert await plugin.get(f"/workspaces/{plugin.id}/activity?claim=60") == []


@requirement("W1")
async def test_numbers_in_bodies_travel_unchanged(server: Running, plugin: Plugin, layer: str) -> None:
    lead = Plugin(server, await server.seat("Lead"))
    data = {"big": 2**53 + 1, "small": -1, "half": 0.5, "text": 'ü\u2028\\"', "nothing": None}
    parts = [{"kind": "data", "data": data}]

    await lead.post(f"/workspaces/{plugin.id}/a2a", {"params": {"message": {"parts": parts}}})

    (row,) = await plugin.poll("since_secs=30")
    # Where there is no text, one comes first: the data as JSON, which a reader of texts would miss otherwise.
    told = {"kind": "text", "text": json.dumps({**data, "text": 'ü \\"'}, ensure_ascii=False, separators=(",", ":"))}
    assert json.loads(json.dumps(parts_of(row, layer))) == ([told, *parts] if layer == "both" else parts)


# -- delegations -------------------------------------------------------------------------------------------------------


async def polled(plugin: Plugin, method: str) -> list[dict[str, Any]]:
    """What comes in under a method."""
    return [row for row in await plugin.poll("limit=100&since_secs=30") if row["method"] == method]


@requirement("W1", "D9")
async def test_a_task_is_delegated_and_the_same_key_again_is_no_error(server: Running, plugin: Plugin) -> None:
    lead = Plugin(server, await server.seat("Lead"))
    body = {"target_id": plugin.id, "task": "sort the mail", "idempotency_key": "k-1"}

    replies = [await lead.call("POST", f"/workspaces/{lead.id}/delegate", body) for _ in range(2)]

    assert [reply.status for reply in replies] == [202, 202]  # the runtime takes a 200 for a failure
    first, again = (reply.json for reply in replies)
    assert (first["status"], first["target_id"]) == ("delegated", plugin.id)
    assert (again["delegation_id"], again["target_id"], again["idempotent_hit"]) == (
        first["delegation_id"],
        plugin.id,
        True,
    )
    (row,) = await lead.get(f"/workspaces/{lead.id}/activity?type=delegation")
    assert (row["method"], row["request_body"]) == (
        "delegate",
        {"task": "sort the mail", "delegation_id": first["delegation_id"]},
    )


@requirement("W1", "D7")
@pytest.mark.parametrize("names_it", [True, False])
async def test_the_answer_of_a_plugin_is_the_result_which_comes_once_and_in_full(
    server: Running, plugin: Plugin, layer: str, *, names_it: bool
) -> None:
    lead, answer = Plugin(server, await server.seat("Lead")), "sorted, all of it " * 60
    task = {"target_id": plugin.id, "task": "sort the mail"}
    given = (await lead.call("POST", f"/workspaces/{lead.id}/delegate", task)).json["delegation_id"]
    (row,) = await plugin.poll("since_secs=30")
    assert (row["source_id"], row["request_body"]["params"]["message"]["metadata"]["delegation_id"]) == (lead.id, given)
    assert parts_of(row, layer) == [{"kind": "text", "text": "sort the mail"}]

    said = p1_message(answer)
    if names_it:
        said["params"]["message"]["metadata"] = {"delegation_id": given}
    assert (await plugin.call("POST", f"/workspaces/{lead.id}/a2a", said)).status == 200

    (result,) = await polled(lead, "delegate_result")
    assert (result["activity_type"], result["source_id"], result["status"]) == ("a2a_receive", plugin.id, "completed")
    assert result["response_body"]["text"] == answer  # the original cut it to 300 bytes
    assert result["response_body"]["delegation_id"] == given
    assert await polled(lead, "message/send") == []


@requirement("W1", "D19")
async def test_the_list_is_an_array_whose_members_the_runtime_reads(server: Running, plugin: Plugin) -> None:
    lead = Plugin(server, await server.seat("Lead"))
    body = {"target_id": plugin.id, "task": "sort the mail"}
    given = [(await lead.call("POST", f"/workspaces/{lead.id}/delegate", body)).json["delegation_id"]]
    update = {"status": "failed", "error": "no access", "response_preview": ""}
    path = f"/workspaces/{plugin.id}/delegations/{given[0]}/update"
    assert (await plugin.post(path, update))["status"] == "failed"
    again = await lead.call("POST", f"/workspaces/{lead.id}/delegate", {**body, "task": "file it"})
    given.append(again.json["delegation_id"])

    newest, oldest = await lead.get(f"/workspaces/{lead.id}/delegations")

    assert [newest["delegation_id"], oldest["delegation_id"]] == given[::-1]
    for item in (newest, oldest):
        assert (item["source_id"], item["target_id"]) == (lead.id, plugin.id)
        assert {"summary", "response_preview", "created_at", "updated_at", "last_heartbeat", "deadline"} <= item.keys()
    assert (newest["status"], newest["summary"], newest["error"]) == ("queued", "file it", None)
    # The runtime reads `error_detail`, the original's server sent `error`.
    assert (oldest["status"], oldest["error"], oldest["error_detail"]) == ("failed", "no access", "no access")
    (result,) = await polled(lead, "delegate_result")
    assert (result["status"], result["error_detail"]) == ("failed", "no access")


@requirement("W1", "D6")
async def test_a_runtime_that_sends_by_itself_records_and_updates_what_it_sent(server: Running, plugin: Plugin) -> None:
    """The runtime of the original makes an id, notes the work under it, sends the message itself, and tells the end."""
    lead, own = Plugin(server, await server.seat("Lead")), "5c1c8a3e-52f4-4d8c-9b3c-0f6c3b0a9f11"
    body = {"target_id": plugin.id, "task": "sort the mail", "delegation_id": own}

    recorded = await lead.call("POST", f"/workspaces/{lead.id}/delegations/record", body)
    message = {"role": "user", "messageId": own, "parts": [{"kind": "text", "text": "sort the mail"}]}
    params = {"message": {**message, "metadata": {"delegation_id": own}}}
    sent = {"jsonrpc": "2.0", "id": own, "method": "message/send", "params": params}
    assert (await lead.call("POST", f"/workspaces/{plugin.id}/a2a", sent)).status == 200
    update = {"status": "completed", "response_preview": "sorted"}
    updated = await lead.post(f"/workspaces/{lead.id}/delegations/{own}/update", update)

    assert (recorded.status, recorded.json) == (202, {"delegation_id": own, "status": "recorded"})
    assert updated == {"delegation_id": own, "status": "completed"}
    (item,) = await lead.get(f"/workspaces/{lead.id}/delegations")
    assert (item["delegation_id"], item["status"], item["response_preview"]) == (own, "completed", "sorted")
    assert [row["kind"] for row in await plugin.poll("since_secs=30")] == ["peer_agent"]  # it was sent once
    assert await polled(lead, "delegate_result") == []  # who told the end itself knows it


@requirement("W1", "D12")
async def test_a_plugin_says_how_far_it_is(server: Running, plugin: Plugin) -> None:
    lead = Plugin(server, await server.seat("Lead"))
    body = {"target_id": plugin.id, "task": "sort the mail"}
    given = (await lead.call("POST", f"/workspaces/{lead.id}/delegate", body)).json["delegation_id"]
    for path in (f"/delegations/{given}/status", f"/workspaces/{plugin.id}/delegations/{given}/status"):
        told = await plugin.post(path, {"current_step": "reading", "tools_used": ["Read"], "eta_hint": "2 min"})
        assert told["status"] == "noted"
    (item,) = await lead.get(f"/workspaces/{lead.id}/delegations")
    assert item["progress"]["current_step"] == "reading"
