"""Every place of the server where somebody may write a url, each as one request about one seat."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from molecule_core.common.errors import UnsafeUrl
from molecule_core.common.net.parsed_url import parse_url
from testing.raw_http import Reply, ask
from testing.running_server import ADMIN_TOKEN, Running, Seat

Sink = Callable[[Running, Seat, str], Awaitable[Reply]]


def without_names(urls: Iterable[str]) -> list[str]:
    """Those that a server may be asked for over JSON, and that ask no name server outside the test about a name."""
    return [url for url in urls if url and url.encode("utf-8", "ignore").decode() == url and not _asks_a_resolver(url)]


def _asks_a_resolver(url: str) -> bool:
    try:
        target = parse_url(url, len(url))
    except UnsafeUrl:
        return False
    return target.address is None and target.host != "localhost"


def card(url: str) -> dict[str, Any]:
    """An agent card with the url wherever a card may hold one."""
    return {
        "name": "Agent",
        "url": url,
        "documentationUrl": url,
        "docs_url": url,
        "iconUrl": url,
        "provider": {"organization": "x", "url": url},
        "additionalInterfaces": [{"transport": "JSONRPC", "url": url}],
        "capabilities": {"extensions": [{"uri": url}]},
    }


async def _create(server: Running, _seat: Seat, url: str) -> Reply:
    body = {"name": "New", "url": url, "delivery_mode": "push"}
    return await ask(server.port, "POST", "/workspaces", body, token=ADMIN_TOKEN)


async def _register(server: Running, seat: Seat, url: str) -> Reply:
    body = {"id": seat.id, "agent_card": {}, "url": url, "delivery_mode": "push"}
    return await ask(server.port, "POST", "/registry/register", body, token=seat.token)


async def _change(server: Running, seat: Seat, url: str) -> Reply:
    return await ask(server.port, "PATCH", f"/workspaces/{seat.id}", {"url": url}, token=ADMIN_TOKEN)


async def _register_card(server: Running, seat: Seat, url: str) -> Reply:
    body = {"id": seat.id, "agent_card": card(url)}
    return await ask(server.port, "POST", "/registry/register", body, token=seat.token)


async def _update_card(server: Running, seat: Seat, url: str) -> Reply:
    body = {"workspace_id": seat.id, "agent_card": card(url)}
    return await ask(server.port, "POST", "/registry/update-card", body, token=seat.token)


async def _message(server: Running, seat: Seat, url: str) -> Reply:
    file = {"name": "report.pdf", "mimeType": "application/pdf", "uri": url}
    parts = [{"kind": "text", "text": url}, {"kind": "file", "file": file}, {"kind": "data", "data": {"url": url}}]
    push = {"url": url, "token": "x"}
    params = {"message": {"parts": parts}, "configuration": {"pushNotificationConfig": push, "blocking": False}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
    return await ask(server.port, "POST", f"/workspaces/{seat.id}/a2a", body, token=ADMIN_TOKEN)


async def _notify(server: Running, seat: Seat, url: str) -> Reply:
    body = {"message": url, "attachments": [{"name": "report.pdf", "uri": url}]}
    return await ask(server.port, "POST", f"/workspaces/{seat.id}/notify", body, token=seat.token)


async def _log(server: Running, seat: Seat, url: str) -> Reply:
    body = {"activity_type": "agent_log", "summary": url, "request_body": {"url": url}}
    return await ask(server.port, "POST", f"/workspaces/{seat.id}/activity", body, token=seat.token)


PUSHED: dict[str, Sink] = {"create": _create, "register": _register, "change": _change}
"""Where a url is said that the server is to call: an unsafe one is refused."""

STORED: dict[str, Sink] = {
    "card at register": _register_card,
    "card": _update_card,
    "message": _message,
    "notify": _notify,
    "log": _log,
}
"""Where a url is only kept and shown: nobody ever follows it."""
