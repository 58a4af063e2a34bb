"""Files and threads as resources of the endpoint: lists, contents, changes, and what others may not see."""

import json
import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiClient
from molecule_core.tools import mcp_resources
from molecule_core.tools.mcp_resources import MAX_FILE_BYTES
from testing.engines import Engine
from testing.exchanged_files import PNG
from testing.mcp_clients import ERAS, Era, Hosted, Line, answering, hosted, line_of, listening, rpc, stateless, until
from testing.running_server import Running, Seat, running
from testing.waits import bounded
from tests.requirements import requirement


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    """Each era of the protocol in turn."""
    chosen: Era = request.param
    return chosen


async def send_file(person: ApiClient, seat: Seat, name: str, data: bytes) -> dict[str, Any]:
    """A person sends a message with a file."""
    uploaded = await person.upload(f"/workspaces/{seat.id}/chat/uploads", name, data, "application/octet-stream")
    file: dict[str, Any] = uploaded["files"][0]
    parts = [{"kind": "text", "text": f"see {name}"}, {"kind": "file", "file": file}]
    params = {"message": {"role": "user", "parts": parts}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
    await person.post(f"/workspaces/{seat.id}/a2a", body)
    return file


async def start_thread(person: ApiClient, seat: Seat, text: str) -> str:
    """A person starts a thread of a workspace."""
    body = {"base_instructions": "Be.", "input": text}
    return str((await person.post(f"/workspaces/{seat.id}/threads", body))["thread_id"])


async def listed(host: Hosted) -> dict[str, Any]:
    """All resources by URI, from all pages."""
    found: dict[str, Any] = {}
    cursor: str | None = None
    while True:
        page = await bounded(host.client.list_resources(cursor=cursor))
        found |= {each.uri: each for each in page.resources}
        cursor = page.next_cursor
        if cursor is None:
            return found


async def code_of(line: Line, message: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The error of a request by hand, without what it quotes of the request."""
    error = (await line.post(message)).json["error"]
    error.pop("data", None)
    return error["code"], error


@requirement("N1")
async def test_files_and_threads_are_listed_and_read(server: Running, era: Era) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    await send_file(person, ops, "notes.txt", "Grüße".encode())
    await send_file(person, ops, "a.png", PNG)
    thread = await start_thread(person, ops, "Count the stock")

    async with hosted(server, ops.token, era) as host:
        assert host.client.server_capabilities.resources is not None
        assert host.client.server_capabilities.resources.subscribe is True
        assert not host.client.server_capabilities.resources.list_changed
        found = await listed(host)
        by_name = {each.name: each for each in found.values()}
        text = (await host.client.read_resource(by_name["notes.txt"].uri)).contents[0]
        image = (await host.client.read_resource(by_name["a.png"].uri)).contents[0]
        log = (await host.client.read_resource(f"molecule://threads/{thread}")).contents[0]
        templates = (await host.client.list_resource_templates()).resource_templates

    assert f"molecule://threads/{thread}" in found and len(found) == 3
    assert (by_name["notes.txt"].size, by_name["notes.txt"].mime_type) == (7, "text/plain")
    assert (text.text, text.mime_type) == ("Grüße", "text/plain")  # type: ignore[union-attr]
    assert image.mime_type == "image/png" and len(image.blob) == 4 * -(-len(PNG) // 3)  # type: ignore[union-attr]
    shown = json.loads(log.text)  # type: ignore[union-attr]
    assert shown["thread_id"] == thread and "base_instructions" not in shown
    assert "Count the stock" in json.dumps(shown["entries"]) and shown["earlier_entries"] == 0
    assert [each.uri_template for each in templates] == [
        "molecule://workspaces/{workspace_id}/files/{file_id}",
        "molecule://threads/{thread_id}",
    ]


async def test_a_list_without_resources_is_one_answer(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    await person.send(ops.id, "no file")
    result = (await line_of(server, ops).post(stateless("resources/list"))).json["result"]
    assert result["resources"] == [] and "nextCursor" not in result


async def test_a_long_log_ends_the_list(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_resources, "MAX_LIST_PAGES", 2)
    monkeypatch.setattr(mcp_resources, "_PAGE", 2)
    ops, person = await server.seat("Ops"), await server.person()
    threads = [await start_thread(person, ops, f"thread {number}") for number in range(6)]
    async with hosted(server, ops.token, "stateless") as host:
        assert list(await listed(host)) == [f"molecule://threads/{each}" for each in reversed(threads[2:])]


@requirement("N1")
async def test_what_belongs_to_others_is_answered_as_unknown(server: Running, era: Era) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    other_org = await server.org("Other")
    far, stranger = await server.seat("Far", org_id=other_org), await server.person(org_id=other_org)
    file, thread = await send_file(stranger, far, "secret.txt", b"secret"), await start_thread(stranger, far, "secret")
    beside, own_peer = await server.seat("Beside"), await start_thread(person, await server.seat("Peer"), "private")
    file_id = file["uri"].rpartition("/")[2]
    uris = [
        f"molecule://workspaces/{far.id}/files/{file_id}",
        f"molecule://workspaces/{ops.id}/files/{file_id}",
        f"molecule://workspaces/{beside.id}/files/{uuid.UUID(int=1)}",
        f"molecule://threads/{thread}",
        f"molecule://threads/{own_peer}",
        f"molecule://threads/{uuid.UUID(int=2)}",
        "molecule://threads/../workspaces",
        "file:///etc/passwd",
        "molecule://",
    ]
    line = line_of(server, ops)
    if era == "handshake":
        await line.begin()
    make = rpc if era == "handshake" else stateless
    methods = ["resources/read", *(["resources/subscribe"] if era == "handshake" else [])]
    errors = [await code_of(line, make(method, {"uri": uri})) for method in methods for uri in uris]
    assert {code for code, _ in errors} == {-32002 if era == "handshake" else -32602}
    assert len({json.dumps(error) for _, error in errors}) == 1


@requirement("N1")
async def test_a_subscribed_thread_notifies_of_each_change_in_a_session(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    thread, other = await start_thread(person, ops, "one"), await start_thread(person, ops, "another")
    uri = f"molecule://threads/{thread}"
    line = line_of(server, ops)
    await line.begin()
    async with listening(line) as stream:
        assert (await line.post(rpc("resources/subscribe", {"uri": uri}))).json["result"] == {}
        await person.post(f"/threads/{other}/turns", {"input": "not followed"})
        await person.post(f"/threads/{thread}/turns", {"input": "two"})
        told = json.loads((await bounded(stream.block()))["data"])
        assert (told["method"], told["params"]) == ("notifications/resources/updated", {"uri": uri})
        assert (await line.post(rpc("resources/unsubscribe", {"uri": uri}))).json["result"] == {}


@requirement("N1")
async def test_a_stream_of_a_stateless_client_notifies_of_what_it_named(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    thread = await start_thread(person, ops, "one")
    uri, unknown = f"molecule://threads/{thread}", f"molecule://threads/{uuid.UUID(int=3)}"
    async with (
        hosted(server, ops.token, "stateless") as host,
        host.client.listen(resource_subscriptions=[uri, unknown], prompts_list_changed=True) as stream,
    ):
        assert stream.honored.resource_subscriptions == [uri]
        assert not stream.honored.prompts_list_changed
        await person.post(f"/threads/{thread}/turns", {"input": "two"})
        event = await bounded(anext(aiter(stream)))
        assert event.uri == uri  # type: ignore[union-attr]


async def test_a_file_that_is_too_large_is_no_answer(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    file = await send_file(person, ops, "large.bin", bytes(MAX_FILE_BYTES + 1))
    uri = f"molecule://workspaces/{ops.id}/files/{file['uri'].rpartition('/')[2]}"
    error = (await line_of(server, ops).post(stateless("resources/read", {"uri": uri}))).json["error"]
    assert error["code"] == -32602 and str(MAX_FILE_BYTES) in error["message"] and "read_file" in error["message"]


@pytest.mark.parametrize("cursor", ["", "x", "bm9uZQ==", "WzksMCwiIl0=", "WzAsOSwiIl0=", "WzAsMCwiYSJd", 7, "é" * 600])
async def test_a_cursor_of_no_list_is_refused(server: Running, cursor: object) -> None:
    reply = await line_of(server, await server.seat("Ops")).post(stateless("resources/list", {"cursor": cursor}))
    assert reply.json["error"]["code"] == -32602


async def test_a_stream_of_notifications_ends_with_an_answer_when_the_server_stops(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    wanted = stateless("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    async with AsyncExitStack() as stack:
        async with running(engine, place, tmp_path) as server:
            line = line_of(server, await server.seat("Ops"))
            stream = await stack.enter_async_context(answering(line, wanted))
            assert (await stream.head()).status == 200
            acknowledged = json.loads((await stream.block())["data"])
            assert acknowledged["params"]["notifications"] == {}
        ended = json.loads((await stream.block())["data"])
    assert ended["id"] == wanted["id"]
    assert ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == wanted["id"]


async def test_subscriptions_end_with_their_credential(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    uri = f"molecule://threads/{await start_thread(person, ops, 'one')}"
    line = line_of(server, ops)
    await line.begin()
    assert (await line.post(rpc("resources/subscribe", {"uri": uri}))).json["result"] == {}
    hub = server.server.live_hub
    await until(lambda: hub.count_subscribers() == 1)
    (token,) = await server.admin.get(f"/workspaces/{ops.id}/tokens")
    await server.admin.call("DELETE", f"/workspaces/{ops.id}/tokens/{token['id']}")
    await until(lambda: hub.count_subscribers() == 0)
    assert hub.disconnects["session ended"] == 1
