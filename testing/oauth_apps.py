"""An app that is connected by OAuth, and the browser of the person who connects it, both written by hand."""

import base64
import hashlib
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from testing.raw_http import Reply, request, wire
from testing.running_server import Running

REDIRECT = "https://app.example/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
STATE = "state of the app"
FORM = "application/x-www-form-urlencoded"


async def send(
    server: Running, method: str, target: str, fields: dict[str, str] | None = None, /, **headers: str
) -> Reply:
    """A request with a form, or without a body."""
    sent = {"Host": f"127.0.0.1:{server.port}", **{name.replace("_", "-"): each for name, each in headers.items()}}
    body = None if fields is None else urlencode(fields).encode()
    if body is not None:
        sent.setdefault("Content-Type", FORM)
    async with wire(server.port) as connection:
        await connection.send(request(method, target, body, headers=sent))
        return await connection.reply()


class PersonsBrowser:
    """A browser with the session of a person. Each of its forms comes from the page of the server."""

    def __init__(self, server: Running, cookie: str = "") -> None:
        self.server = server
        self.cookie = cookie

    async def get(self, target: str) -> Reply:
        """Open a page."""
        return await send(self.server, "GET", target, **self._cookies())

    async def post(self, target: str, fields: dict[str, str], origin: str | None = None) -> Reply:
        """Send a form, and keep the cookie of the response."""
        reply = await send(self.server, "POST", target, fields, Origin=origin or self.server.url, **self._cookies())
        if "set-cookie" in reply.headers:
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
        return reply

    def _cookies(self) -> dict[str, str]:
        return {"Cookie": self.cookie} if self.cookie else {}

    async def log_in(self, person_id: str, org_id: str | None = None) -> None:
        """Log in by a link for a person."""
        org_id = org_id or self.server.server.registry.orgs()[0].id
        link = await self.server.admin.post(f"/orgs/{org_id}/login-links", {"person_id": person_id})
        reply = await self.post("/oauth/login", {"request": "", "link": link["url"]})
        assert (reply.status, reply.headers["location"]) == (303, "/oauth/consent?"), reply


async def browser_of(server: Running, role: str = "operator", org_id: str | None = None) -> tuple[PersonsBrowser, str]:
    """A browser in which a new person is logged in, and the id of the person."""
    org_id = org_id or server.server.registry.orgs()[0].id
    person = await server.admin.post(f"/orgs/{org_id}/people", {"name": f"The {role}", "role": role})
    browser = PersonsBrowser(server)
    await browser.log_in(person["id"], org_id)
    return browser, str(person["id"])


async def registered(server: Running, *redirect_uris: str, name: str = "Test app", org_id: str | None = None) -> str:
    """The id of a client that an owner has registered."""
    org_id = org_id or server.server.registry.orgs()[0].id
    body = {"name": name, "redirect_uris": list(redirect_uris) or [REDIRECT]}
    return str((await server.admin.post(f"/orgs/{org_id}/oauth-clients", body))["client_id"])


def query_of(server: Running, client_id: str, /, **changes: str | None) -> str:
    """The query of an authorization request; a change to None leaves a parameter out."""
    fields: dict[str, str | None] = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "resource": f"{server.url}/mcp",
        "state": STATE,
        **changes,
    }
    return urlencode({name: value for name, value in fields.items() if value is not None})


def hidden_fields(page: Reply) -> dict[str, str]:
    """The hidden fields of the form on a page."""
    found = re.findall(r'<input type=hidden name=(\w+) value="([^"]*)">', page.body.decode())
    return {name: unescape(value) for name, value in found}


async def decided(browser: PersonsBrowser, query: str, workspace_id: str, **changes: str) -> Reply:
    """What the form for consent is answered with."""
    page = await browser.get(f"/oauth/consent?{query}")
    assert page.status == 200, page.body
    fields = {
        **hidden_fields(page),
        "workspace": workspace_id,
        "scope": "molecule:act",
        "days": "30",
        "decision": "connect",
        **changes,
    }
    return await browser.post("/oauth/consent", fields)


def answer_of(reply: Reply) -> dict[str, str]:
    """The parameters with which a browser returns to an app."""
    assert reply.status == 303, reply.body
    return dict(parse_qsl(urlsplit(reply.headers["location"]).query))


async def code_for(
    browser: PersonsBrowser,
    client_id: str,
    workspace_id: str,
    asked: dict[str, str | None] | None = None,
    /,
    **chosen: str,
) -> str:
    """The code that an app gets for a workspace."""
    query = query_of(browser.server, client_id, **(asked or {}))
    return answer_of(await decided(browser, query, workspace_id, **chosen))["code"]


async def exchanged(server: Running, client_id: str, code: str, /, **changes: str) -> Reply:
    """What the token endpoint answers to a code."""
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "code_verifier": VERIFIER,
        "resource": f"{server.url}/mcp",
        **changes,
    }
    return await send(server, "POST", "/oauth/token", fields)


async def refreshed(server: Running, client_id: str, token: str, /, **changes: str) -> Reply:
    """What the token endpoint answers to a refresh token."""
    fields = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client_id, **changes}
    return await send(server, "POST", "/oauth/token", fields)


class ConnectedApp:
    """An app with the tokens for one workspace."""

    def __init__(self, server: Running, client_id: str, workspace_id: str, tokens: dict[str, Any]) -> None:
        self.server = server
        self.client_id = client_id
        self.workspace_id = workspace_id
        self.tokens = tokens

    @property
    def access_token(self) -> str:
        """The token for the endpoint."""
        return str(self.tokens["access_token"])

    async def refresh(self) -> Reply:
        """Exchange the refresh token, and keep what comes."""
        reply = await refreshed(self.server, self.client_id, str(self.tokens["refresh_token"]))
        if reply.status == 200:
            self.tokens = reply.json
        return reply

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, path: str = "/mcp") -> Any:
        """Call a tool without a session, and return the result. The status must be 200."""
        reply = await call_tool(self.server, self.access_token, tool, arguments, path)
        assert reply.status == 200, (reply.status, reply.body)
        return reply.json["result"]

    async def status(self, path: str = "/mcp") -> int:
        """The status with which the endpoint answers."""
        return (await call_tool(self.server, self.access_token, "get_runtime_identity", {}, path)).status


async def call_tool(
    server: Running, token: str, tool: str, arguments: dict[str, Any] | None = None, path: str = "/mcp"
) -> Reply:
    """A tool call in the stateless version."""
    return await call_method(server, token, "tools/call", {"name": tool, "arguments": arguments or {}}, path)


async def call_method(
    server: Running, token: str | None, method: str, params: dict[str, Any], path: str = "/mcp"
) -> Reply:
    """An MCP request in the stateless version."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}})
    headers = {
        "Host": f"127.0.0.1:{server.port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    async with wire(server.port) as connection:
        await connection.send(request("POST", path, body, token=token, headers=headers))
        return await connection.reply()


async def connected(
    server: Running, browser: PersonsBrowser, workspace_id: str, client_id: str | None = None, **chosen: str
) -> ConnectedApp:
    """An app that a person has just connected to a workspace."""
    client_id = client_id or await registered(server)
    code = await code_for(browser, client_id, workspace_id, **chosen)
    reply = await exchanged(server, client_id, code)
    assert reply.status == 200, reply.body
    return ConnectedApp(server, client_id, workspace_id, reply.json)
