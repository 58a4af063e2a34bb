"""The official SDK with OAuth: it finds the server, is connected by a person, refreshes, and keeps its session."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from testing.engines import Engine, place_for
from testing.mcp_clients import ERAS, Era, Line, answering, calling, listening, rpc
from testing.oauth_apps import (
    ConnectedApp,
    PersonsBrowser,
    answer_of,
    browser_of,
    call_tool,
    code_for,
    connected,
    decided,
    exchanged,
    refreshed,
    registered,
)
from testing.running_server import Running, Seat, running
from testing.waits import IN_PROCESS_SECONDS, bounded, until_waiting
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import servers

REDIRECT = "http://127.0.0.1:41234/callback"
_MODES = {"handshake": "legacy", "stateless": "auto"}


class MemoryStorage:
    """Tokens and registration of a client, in memory."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self.client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep tokens."""
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a registration."""
        self.client = client_info


class PersonAtABrowser:
    """The person whom the client sends to the authorization endpoint, and who connects it to a workspace."""

    def __init__(self, browser: PersonsBrowser, workspace_id: str) -> None:
        self.browser = browser
        self.workspace_id = workspace_id
        self.visits = 0
        self._answer: dict[str, str] = {}

    async def open_address(self, address: str) -> None:
        """Decide on the page for consent."""
        self.visits += 1
        bounce = await self.browser.get(f"{urlsplit(address).path}?{urlsplit(address).query}")
        assert b"http-equiv=refresh" in bounce.body
        self._answer = answer_of(await decided(self.browser, urlsplit(address).query, self.workspace_id))

    async def return_to_client(self) -> AuthorizationCodeResult:
        """Return what the redirect had."""
        return AuthorizationCodeResult(**{name: self._answer.get(name) for name in ("code", "state", "iss")})  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def sdk_client(
    server: Running, person: PersonAtABrowser, storage: MemoryStorage, era: Era, path: str = "/mcp"
) -> AsyncIterator[tuple[Client, OAuthClientProvider]]:
    """The SDK's client with nothing but an address, and what keeps its tokens."""
    metadata = OAuthClientMetadata(
        client_name="Official SDK", redirect_uris=[AnyUrl(REDIRECT)], token_endpoint_auth_method="none"
    )
    auth = OAuthClientProvider(server.url + path, metadata, storage, person.open_address, person.return_to_client)
    async with httpx2.AsyncClient(auth=auth, timeout=IN_PROCESS_SECONDS * 6, verify=False) as http:
        transport = streamable_http_client(server.url + path, http_client=http)
        async with Client(transport, mode=_MODES[era]) as client:
            yield client, auth


async def identity(client: Client) -> Any:
    """What the tool says about the caller."""
    result = await bounded(client.call_tool("get_runtime_identity", {}))
    assert not result.is_error, result
    return result.structured_content


@pytest.fixture
async def issuer(engine: Engine, place: str, tmp_path: Path) -> AsyncIterator[Running]:
    """A server on which clients may register themselves."""
    async with running(engine, place, tmp_path, has_public_url=True, oauth_dynamic_registration=True) as server:
        yield server


async def person_for(server: Running, seat: Seat) -> PersonAtABrowser:
    """An operator who connects what asks to a workspace."""
    browser, _ = await browser_of(server)
    return PersonAtABrowser(browser, seat.id)


@requirement("M39")
@pytest.mark.parametrize("era", ERAS)
async def test_the_sdk_registers_itself_and_acts_as_the_chosen_workspace(issuer: Running, era: Era) -> None:
    seat, storage = await issuer.seat("Ops"), MemoryStorage()
    person = await person_for(issuer, seat)
    async with sdk_client(issuer, person, storage, era) as (client, _):
        assert seat.id in str(await identity(client))
    async with sdk_client(issuer, person, storage, era, "/mcp") as (client, _):
        assert seat.id in str(await identity(client))
    assert person.visits == 1, "the tokens of the first connection are good for the second"


@requirement("M39")
@pytest.mark.parametrize("era", ERAS)
async def test_the_sdk_refreshes_within_its_session(issuer: Running, era: Era) -> None:
    seat, storage = await issuer.seat("Ops"), MemoryStorage()
    person = await person_for(issuer, seat)
    async with sdk_client(issuer, person, storage, era) as (client, auth):
        await identity(client)
        first = storage.tokens
        auth.context.token_expiry_time = 1
        await identity(client)
        assert first is not None and storage.tokens is not None
        assert storage.tokens.access_token != first.access_token
    assert person.visits == 1


async def test_the_sdk_with_a_registered_client_is_bound_to_the_endpoint_of_one_workspace(issuer: Running) -> None:
    seat = await issuer.seat("Ops")
    client_id = await registered(issuer, REDIRECT)
    known = OAuthClientInformationFull(
        client_id=client_id, redirect_uris=[AnyUrl(REDIRECT)], token_endpoint_auth_method="none"
    )
    person, path = await person_for(issuer, seat), f"/workspaces/{seat.id}/mcp"
    async with sdk_client(issuer, person, MemoryStorage(known), "handshake", path) as (client, _):
        assert seat.id in str(await identity(client))


# -- sessions and streams ----------------------------------------------------------------------------------------------


@requirement("M39")
async def test_a_disconnected_app_loses_its_stream_and_its_open_call_at_once(issuer: Running) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    line = Line(issuer, app.access_token, "/mcp")
    await line.begin()
    [grant] = await issuer.admin.get(f"/workspaces/{seat.id}/oauth-grants")
    async with listening(line) as stream, answering(line, calling("wait_for_message", {"timeout_secs": 60})) as call:
        await until_waiting(issuer.server, 1)
        await issuer.admin.call("DELETE", f"/workspaces/{seat.id}/oauth-grants/{grant['id']}")
        assert (await call.reply()).status == 401
        await stream.hung_up()
    assert (await line.post(rpc("ping"))).status == 401


async def test_a_session_outlives_the_token_with_which_it_began_and_is_of_no_other_app(issuer: Running) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    other = await connected(issuer, browser, seat.id, app.client_id)
    line = Line(issuer, app.access_token, "/mcp")
    await line.begin()
    assert (await app.refresh()).status == 200
    line.token = app.access_token
    assert (await line.post(rpc("ping"))).status == 200
    line.token = other.access_token
    assert (await line.post(rpc("ping"))).status == 404
    line.token = seat.token
    assert (await line.post(rpc("ping"))).status == 404


@requirement("M39", "M38")
@pytest.mark.parametrize("end", ["revoked", "viewer", "workspace"])
async def test_what_ends_a_grant_in_one_process_ends_it_in_another(tmp_path: Path, postgres: str, end: str) -> None:
    place, address = await place_for("postgres", tmp_path, postgres), "https://molecule.example"
    async with servers(place, tmp_path, public_url=address) as (one, two):
        seat, client_id = await one.seat("Ops"), await registered(one)
        browser, person_id = await browser_of(one)
        code = await code_for(browser, client_id, seat.id, {"resource": f"{address}/mcp"})
        tokens = (await exchanged(two, client_id, code, resource=f"{address}/mcp")).json
        app = ConnectedApp(two, client_id, seat.id, tokens)
        assert await app.status() == 200
        if end == "revoked":
            [grant] = await one.admin.get(f"/workspaces/{seat.id}/oauth-grants")
            await one.admin.call("DELETE", f"/workspaces/{seat.id}/oauth-grants/{grant['id']}")
        elif end == "viewer":
            org_id = one.server.registry.orgs()[0].id
            await one.admin.call("PATCH", f"/orgs/{org_id}/people/{person_id}", body={"role": "viewer"})
        else:
            await one.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true"})
        await two.server.store.catch_up()
        late = await call_tool(two, app.access_token, "get_runtime_identity")
        assert late.status in ((401, 410) if end == "workspace" else (401,))
        assert (await refreshed(two, client_id, tokens["refresh_token"])).status == 400
