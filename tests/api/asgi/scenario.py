"""What an agent and a person do, over any client of the API."""

import asyncio
from typing import Any

import httpx2
from anyio.lowlevel import checkpoint

from testing.running_server import ADMIN_TOKEN
from testing.upload_forms import FORM, form
from testing.waits import IN_PROCESS_SECONDS, bounded

CONTENT = bytes(range(256)) * 1024
BODY_LIMIT = 100_000
SENDS_PER_MINUTE = 4
WORDS = "please count the files"


def client_of(transport: httpx2.AsyncBaseTransport | None, base_url: str) -> httpx2.AsyncClient:
    """A client of the API, as the admin."""
    headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
    timeout = IN_PROCESS_SECONDS * 6
    return httpx2.AsyncClient(transport=transport, base_url=base_url, headers=headers, trust_env=False, timeout=timeout)


def as_agent(seat: dict[str, Any]) -> dict[str, str]:
    """Headers of a workspace's own agent."""
    return {"authorization": f"Bearer {seat['connection']['auth_token']}"}


async def ok(response_of: Any) -> Any:
    """The JSON of a response that must be a success."""
    response = await bounded(response_of)
    assert response.is_success, response.text
    return response.json()


async def seat_of(client: httpx2.AsyncClient, name: str) -> dict[str, Any]:
    """A registered polling agent."""
    seat: dict[str, Any] = await ok(client.post("/workspaces", json={"name": name}))
    registration = {"id": seat["id"], "delivery_mode": "poll", "agent_card": {"name": name}}
    await ok(client.post("/registry/register", json=registration, headers=as_agent(seat)))
    return seat


async def send(client: httpx2.AsyncClient, seat: dict[str, Any], text: str) -> httpx2.Response:
    """Send a message to an agent."""
    message = {"role": "user", "parts": [{"kind": "text", "text": text}], "metadata": {"intent": "request"}}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    return await client.post(f"/workspaces/{seat['id']}/a2a", json=body)


async def claim_while_sending(client: httpx2.AsyncClient, seat: dict[str, Any], text: str) -> dict[str, Any]:
    """Claim by a long-poll that begins before the message is sent."""
    query = {"claim": "60", "wait": "5", "limit": "1", "include": "instructions"}
    claiming = asyncio.create_task(
        client.get(f"/workspaces/{seat['id']}/activity", params=query, headers=as_agent(seat))
    )
    await checkpoint()
    assert (await send(client, seat, text)).is_success
    (row,) = await ok(claiming)
    found: dict[str, Any] = row
    return found


async def exchange_message(client: httpx2.AsyncClient, seat: dict[str, Any]) -> None:
    """A message is sent, claimed with instructions and answered by its handle."""
    row = await claim_while_sending(client, seat, WORDS)
    handle = row["instructions"]["reply_handle"]
    answered = await ok(
        client.post(f"/workspaces/{seat['id']}/reply", json={"handle": handle, "text": "3"}, headers=as_agent(seat))
    )
    assert answered["answers"] == row["id"]
    chat = await ok(client.get(f"/workspaces/{seat['id']}/chat-history"))
    assert [line["content"] for line in chat["messages"]][-2:] == [WORDS, "3"]


async def exchange_file(client: httpx2.AsyncClient, seat: dict[str, Any]) -> None:
    """A file is uploaded in chunks and downloaded."""

    async def chunks() -> Any:
        whole = form(("table.bin", CONTENT))
        for start in range(0, len(whole), 50_000):
            yield whole[start : start + 50_000]

    uploaded = await ok(client.post(f"/workspaces/{seat['id']}/chat/uploads", content=chunks(), headers=FORM))
    file_id = uploaded["files"][0]["uri"].rpartition("/")[2]
    downloaded = await bounded(client.get(f"/workspaces/{seat['id']}/files/{file_id}"))
    assert (downloaded.status_code, downloaded.content) == (200, CONTENT)
    assert downloaded.headers["content-length"] == str(len(CONTENT))
    assert downloaded.headers["x-content-type-options"] == "nosniff"


async def meet_errors(client: httpx2.AsyncClient, seat: dict[str, Any]) -> None:
    """An unknown route, a wrong credential, a body that is too large with and without a length, a wrong method."""
    unknown = await bounded(client.get("/nothing"))
    assert (unknown.status_code, unknown.json()["code"]) == (404, "no_such_route")
    rejected = await bounded(client.get("/orgs", headers={"authorization": "Bearer mol_ad_wrong"}))
    assert (rejected.status_code, rejected.headers["www-authenticate"]) == (401, 'Bearer realm="molecule"')
    wrong_method = await bounded(client.put(f"/workspaces/{seat['id']}/a2a", content=b""))
    assert (wrong_method.status_code, wrong_method.headers["allow"]) == (405, "POST")
    too_large = await send(client, seat, "x" * BODY_LIMIT)
    assert (too_large.status_code, too_large.json()["code"]) == (413, "body_too_large")

    async def chunks() -> Any:
        for _ in range(BODY_LIMIT // 1000 + 1):
            yield b" " * 1000

    without_length = await bounded(client.post(f"/workspaces/{seat['id']}/a2a", content=chunks()))
    assert (without_length.status_code, without_length.json()["code"]) == (413, "body_too_large")


async def exceed_rate(client: httpx2.AsyncClient) -> None:
    """An agent sends until its rate limit is reached."""
    seat, sends = await seat_of(client, "Chatty"), SENDS_PER_MINUTE
    headers = as_agent(seat)
    body = {"message": "hello"}
    path = f"/workspaces/{seat['id']}/notify"
    responses = [await bounded(client.post(path, json=body, headers=headers)) for _ in range(sends + 1)]
    assert [each.status_code for each in responses] == [200] * sends + [429]
    assert int(responses[-1].headers["retry-after"]) > 0
    assert responses[-1].headers["x-ratelimit-remaining"] == "0"


async def walk(client: httpx2.AsyncClient) -> dict[str, Any]:
    """The whole journey; the agent that made it."""
    seat = await seat_of(client, "Ops")
    await exchange_message(client, seat)
    await exchange_file(client, seat)
    await meet_errors(client, seat)
    await exceed_rate(client)
    return seat
