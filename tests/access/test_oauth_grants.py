"""Apps that people connect to a workspace by OAuth: codes, tokens, their ends, and what they open."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from molecule_core.access.retention import CredentialRetention
from molecule_core.api.application import InternalRequest
from molecule_core.api.routing import Request
from molecule_core.common.clock import DAY, HOUR, SECOND
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import journal_of
from testing.mcp_clients import within
from testing.oauth_apps import (
    REDIRECT,
    VERIFIER,
    ConnectedApp,
    answer_of,
    browser_of,
    call_method,
    call_tool,
    code_for,
    connected,
    decided,
    exchanged,
    query_of,
    refreshed,
    registered,
    send,
)
from testing.raw_http import Reply, ask
from testing.running_server import Running, running
from testing.waits import refused
from tests.requirements import requirement

REFUSED = (400, "invalid_grant")


@pytest.fixture
async def issuer(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Running]:
    """A server with a public address, whose time only the test moves."""
    async with running(engine, place, tmp_path, clock=clock, has_public_url=True) as server:
        yield server


def refusal_of(reply: Reply) -> tuple[int, str]:
    """The status and the error code of a refusal of the protocol."""
    return reply.status, str(reply.json["error"])


async def grants_of(server: Running, workspace_id: str) -> list[dict[str, Any]]:
    """The apps that are connected to a workspace."""
    found: list[dict[str, Any]] = await server.admin.get(f"/workspaces/{workspace_id}/oauth-grants")
    return found


@requirement("M39")
async def test_an_app_acts_as_the_workspace_that_a_person_chose(issuer: Running) -> None:
    seat, _other = await issuer.seat("Ops"), await issuer.seat("Other")
    browser, person_id = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    assert (app.tokens["token_type"], app.tokens["expires_in"]) == ("Bearer", 3600)
    assert app.tokens["scope"] == "molecule:read molecule:act"
    assert seat.id in str(await app.call("get_runtime_identity"))
    [grant] = await grants_of(issuer, seat.id)
    assert (grant["client_name"], grant["person_id"], grant["scope"]) == ("Test app", person_id, app.tokens["scope"])
    assert "mol_o" not in str(grant)


@requirement("M39")
async def test_a_token_of_an_app_opens_no_other_route_and_no_other_workspace(issuer: Running) -> None:
    seat, other = await issuer.seat("Ops"), await issuer.seat("Other")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    assert await app.status() == 200
    wrong = []
    for route in issuer.server.routes.routes:
        if not route.access.kinds or route.is_oauth_resource:
            continue
        path = route.path.replace("{id}", seat.id)
        reply = await ask(issuer.port, route.method, path, {}, token=app.access_token)
        if (reply.status, reply.json["code"]) != (401, "invalid_credential"):
            wrong.append((route.method, route.path, reply.status))
    assert wrong == []
    assert await app.status(f"/workspaces/{other.id}/mcp") == 401
    assert await app.status(f"/workspaces/{seat.id}/mcp") == 401, "it was made for /mcp"
    assert await app.status() == 200


async def test_a_token_for_the_endpoint_of_one_workspace_is_good_only_there(issuer: Running) -> None:
    seat, other = await issuer.seat("Ops"), await issuer.seat("Other")
    browser, _ = await browser_of(issuer)
    client_id, path = await registered(issuer), f"/workspaces/{seat.id}/mcp"
    resource = f"{issuer.url}{path}"
    page = await browser.get(f"/oauth/consent?{query_of(issuer, client_id, resource=resource)}")
    assert seat.id.encode() in page.body and other.id.encode() not in page.body
    code = await code_for(browser, client_id, seat.id, {"resource": resource})
    reply = await exchanged(issuer, client_id, code, resource=resource)
    app = ConnectedApp(issuer, client_id, seat.id, reply.json)
    assert (await app.status(path), await app.status("/mcp")) == (200, 401)
    wrong = await decided(browser, query_of(issuer, client_id, resource=resource), other.id)
    assert (wrong.status, b"do not manage" in wrong.body) == (400, True)


@requirement("M39")
async def test_a_code_is_exchanged_once_and_a_second_use_ends_the_grant(issuer: Running) -> None:
    seat, client_id = await issuer.seat("Ops"), await registered(issuer)
    browser, _ = await browser_of(issuer)
    code = await code_for(browser, client_id, seat.id)
    first = await exchanged(issuer, client_id, code)
    app = ConnectedApp(issuer, client_id, seat.id, first.json)
    assert await app.status() == 200
    assert refusal_of(await exchanged(issuer, client_id, code)) == REFUSED
    assert await app.status() == 401
    assert refusal_of(await app.refresh()) == REFUSED
    assert await grants_of(issuer, seat.id) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"code_verifier": "w" * 43},
        {"code_verifier": "short"},
        {"redirect_uri": "https://app.example/other"},
        {"redirect_uri": f"{REDIRECT}/"},
        {"client_id": "of another"},
        {"resource": "https://other.example/mcp"},
    ],
)
async def test_a_code_with_anything_else_than_its_own_request_is_refused_and_spent(
    issuer: Running, changes: dict[str, str]
) -> None:
    seat, client_id = await issuer.seat("Ops"), await registered(issuer)
    browser, _ = await browser_of(issuer)
    code = await code_for(browser, client_id, seat.id)
    assert refusal_of(await exchanged(issuer, client_id, code, **changes)) == REFUSED
    assert refusal_of(await exchanged(issuer, client_id, code)) == REFUSED


async def test_a_code_of_one_client_is_of_no_use_to_another(issuer: Running) -> None:
    seat, own, other = await issuer.seat("Ops"), await registered(issuer), await registered(issuer, name="Other app")
    browser, _ = await browser_of(issuer)
    code = await code_for(browser, own, seat.id)
    assert refusal_of(await exchanged(issuer, other, code)) == REFUSED
    app = await connected(issuer, browser, seat.id, own)
    assert refusal_of(await refreshed(issuer, other, app.tokens["refresh_token"])) == REFUSED
    assert await app.status() == 200, "the refusal has not ended the grant of the first"


async def test_a_code_and_an_access_token_expire(issuer: Running, clock: FakeClock) -> None:
    seat, client_id = await issuer.seat("Ops"), await registered(issuer)
    browser, _ = await browser_of(issuer)
    code, limits = await code_for(browser, client_id, seat.id), Limits()
    await clock.advance(limits.oauth_code_seconds)
    assert refusal_of(await exchanged(issuer, client_id, code)) == REFUSED
    app = await connected(issuer, browser, seat.id, client_id)
    assert await app.status() == 200
    await clock.advance(limits.oauth_access_seconds)
    late = await call_tool(issuer, app.access_token, "get_runtime_identity")
    assert late.status == 401
    assert 'error="invalid_token"' in late.headers["www-authenticate"]
    assert (await app.refresh()).status == 200
    assert await app.status() == 200


@requirement("M39")
async def test_a_refresh_token_is_used_once_and_a_second_use_ends_the_family(issuer: Running) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    old = dict(app.tokens)
    assert (await app.refresh()).status == 200
    assert app.tokens["refresh_token"] != old["refresh_token"]
    assert await app.status() == 200
    assert (await call_tool(issuer, old["access_token"], "get_runtime_identity")).status == 200, "it is under way"
    assert refusal_of(await refreshed(issuer, app.client_id, old["refresh_token"])) == REFUSED
    assert await app.status() == 401
    assert refusal_of(await app.refresh()) == REFUSED
    assert await grants_of(issuer, seat.id) == []


async def test_only_the_last_two_access_tokens_of_a_grant_are_live(issuer: Running, clock: FakeClock) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    app, tokens = await connected(issuer, browser, seat.id), list[str]()
    for _ in range(3):
        tokens.append(app.access_token)
        await clock.advance(1)
        assert (await app.refresh()).status == 200
    tokens.append(app.access_token)
    statuses = [(await call_tool(issuer, each, "get_runtime_identity")).status for each in tokens]
    assert statuses == [401, 401, 200, 200]


async def test_a_refresh_with_another_scope_or_resource_is_refused(issuer: Running) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id, scope="molecule:read")
    token = app.tokens["refresh_token"]
    wider = await refreshed(issuer, app.client_id, token, scope="molecule:read molecule:act")
    assert refusal_of(wider) == (400, "invalid_scope")
    assert refusal_of(await refreshed(issuer, app.client_id, token, resource="https://other.example/mcp")) == REFUSED
    assert refusal_of(await refreshed(issuer, app.client_id, app.access_token)) == REFUSED
    assert (await app.refresh()).status == 200


async def test_a_grant_ends_when_the_person_said(issuer: Running, clock: FakeClock) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id, days="1")
    await clock.advance(23.5 * HOUR // SECOND)
    assert (await app.refresh()).status == 200
    assert app.tokens["expires_in"] == 1800, "an access token does not outlive its grant"
    await clock.advance(HOUR // SECOND)
    assert await app.status() == 401
    assert refusal_of(await app.refresh()) == REFUSED
    assert await grants_of(issuer, seat.id) == []


@requirement("M39")
async def test_an_operator_disconnects_an_app_of_this_workspace_only(issuer: Running) -> None:
    seat, other = await issuer.seat("Ops"), await issuer.seat("Other")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    [grant] = await grants_of(issuer, seat.id)
    foreign = await refused(issuer.admin.call("DELETE", f"/workspaces/{other.id}/oauth-grants/{grant['id']}"))
    assert foreign.status == 404
    assert await app.status() == 200
    await issuer.admin.call("DELETE", f"/workspaces/{seat.id}/oauth-grants/{grant['id']}")
    assert await app.status() == 401
    assert refusal_of(await app.refresh()) == REFUSED
    again = await refused(issuer.admin.call("DELETE", f"/workspaces/{seat.id}/oauth-grants/{grant['id']}"))
    assert again.status == 404


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
async def test_an_app_revokes_its_own_tokens_only(issuer: Running, which: str) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    fields = {"token": app.tokens[which], "client_id": "of another"}
    for unknown in (fields, {**fields, "token": "mol_oa_unknown"}):
        assert (await send(issuer, "POST", "/oauth/revoke", unknown)).status == 200
    assert await app.status() == 200
    assert (await send(issuer, "POST", "/oauth/revoke", {**fields, "client_id": app.client_id})).status == 200
    assert await app.status() == 401
    assert refusal_of(await app.refresh()) == REFUSED


@requirement("M39")
@pytest.mark.parametrize("end", ["removed", "viewer"])
async def test_the_grants_of_a_person_end_with_the_person_or_the_role(issuer: Running, end: str) -> None:
    seat = await issuer.seat("Ops")
    browser, person_id = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    code = await code_for(browser, app.client_id, seat.id)
    assert await app.status() == 200
    org_id = issuer.server.registry.orgs()[0].id
    person = f"/orgs/{org_id}/people/{person_id}"
    if end == "removed":
        await issuer.admin.call("DELETE", person)
    else:
        await issuer.admin.call("PATCH", person, body={"role": "viewer"})
        await issuer.admin.call("PATCH", person, body={"role": "owner"})
    assert await app.status() == 401
    assert refusal_of(await app.refresh()) == REFUSED
    assert refusal_of(await exchanged(issuer, app.client_id, code)) == REFUSED
    assert await grants_of(issuer, seat.id) == []


async def test_a_new_name_of_the_person_ends_nothing(issuer: Running) -> None:
    seat = await issuer.seat("Ops")
    browser, person_id = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    org_id = issuer.server.registry.orgs()[0].id
    await issuer.admin.call("PATCH", f"/orgs/{org_id}/people/{person_id}", body={"name": "Ann", "role": "owner"})
    assert await app.status() == 200


async def test_a_removed_workspace_ends_its_grants(issuer: Running) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    assert await app.status() == 200
    await issuer.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true"})
    assert await app.status() == 401
    assert refusal_of(await app.refresh()) == REFUSED


async def test_a_removed_client_loses_what_it_was_granted(issuer: Running) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    org_id = issuer.server.registry.orgs()[0].id
    await issuer.admin.call("DELETE", f"/orgs/{org_id}/oauth-clients/{app.client_id}")
    assert await app.status() == 401
    assert refusal_of(await app.refresh()) == REFUSED
    page = await browser.get(f"/oauth/consent?{query_of(issuer, app.client_id)}")
    assert (page.status, b"not registered" in page.body) == (400, True)


@requirement("M39")
async def test_a_connection_that_may_read_changes_nothing(issuer: Running) -> None:
    seat, peer = await issuer.seat("Ops"), await issuer.seat("Peer")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id, scope="molecule:read")
    assert app.tokens["scope"] == "molecule:read"
    listed = (await call_method(issuer, app.access_token, "tools/list", {})).json["result"]["tools"]
    assert listed and all(tool["annotations"]["readOnlyHint"] for tool in listed)
    assert not (await app.call("list_peers"))["isError"]
    for tool, arguments in (
        ("send_message_to_user", {"message": "hi"}),
        ("delegate_task_async", {"workspace_id": peer.id, "task": "hi"}),
        ("commit_memory", {"content": "hi"}),
        ("wait_for_message", {}),
        ("inbox_pop", {"activity_id": "a"}),
    ):
        reply = (await call_tool(issuer, app.access_token, tool, arguments)).json
        assert reply.get("error") or reply["result"]["isError"], (tool, reply)
    assert await issuer.admin.get(f"/workspaces/{seat.id}/memories") == []


async def test_a_read_only_connection_is_held_at_each_route_that_its_tools_reach(issuer: Running) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    reader = await connected(issuer, browser, seat.id, scope="molecule:read")
    actor = await connected(issuer, browser, seat.id, reader.client_id)
    app, own = issuer.server.app, f"/workspaces/{seat.id}"
    route, params = issuer.server.routes.find("POST", b"/mcp")

    async def asked(token: str, method: str, path: str, query: bytes = b"", body: bytes = b"") -> int:
        headers = {b"authorization": b"Bearer " + token.encode()}
        outer = Request(route, params, headers, b"", Limits(), resource=f"{issuer.url}/mcp")
        return (await app.call_internally(outer, InternalRequest(method, path, query, body, {}))).status

    for method, path, query, body in (
        ("GET", f"{own}/activity", b"claim=30", b""),
        ("GET", f"{own}/activity", b"since_id=a", b""),
        ("POST", f"{own}/memories", b"", b'{"content":"hi"}'),
        ("POST", "/registry/heartbeat", b"", b'{"workspace_id":"a"}'),
    ):
        assert await asked(reader.access_token, method, path, query, body) == 403, path
        assert await asked(actor.access_token, method, path, query, body) != 401, path
    assert await asked(reader.access_token, "GET", f"{own}/activity") == 200
    outer = Request(route, params, {b"authorization": b"Bearer " + reader.access_token.encode()}, b"", Limits())
    alone = await app.call_internally(outer, InternalRequest("GET", f"{own}/activity", b"", b"", {}))
    assert alone.status == 401, "a request without the resource does not lend it"


async def test_the_journal_names_the_app_and_never_a_token(issuer: Running) -> None:
    seat = await issuer.seat("Ops")
    browser, person_id = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    [grant] = await grants_of(issuer, seat.id)
    await issuer.admin.call("DELETE", f"/workspaces/{seat.id}/oauth-grants/{grant['id']}")
    journal = await journal_of(issuer)
    events = [each for each in journal if each["event"] == "OAUTH_GRANT_CHANGED"]
    assert [(each["workspace_id"], each["payload"]["state"]) for each in events] == [
        (seat.id, "granted"),
        (seat.id, "ended"),
    ]
    assert {(each["payload"]["client_name"], each["payload"]["person_id"]) for each in events} == {
        ("Test app", person_id)
    }
    assert app.access_token not in str(journal)


async def test_no_log_has_a_code_or_a_token(issuer: Running, caplog: pytest.LogCaptureFixture) -> None:
    seat, client_id = await issuer.seat("Ops"), await registered(issuer)
    browser, _ = await browser_of(issuer)
    with caplog.at_level(logging.DEBUG):
        code = await code_for(browser, client_id, seat.id)
        app = ConnectedApp(issuer, client_id, seat.id, (await exchanged(issuer, client_id, code)).json)
        await app.status()
        await app.refresh()
        await exchanged(issuer, client_id, code)
        assert await app.status() == 401
    secrets = (code, app.access_token, str(app.tokens["refresh_token"]), VERIFIER, browser.cookie.partition("=")[2])
    assert [each for each in secrets if each in caplog.text] == []


async def test_guesses_at_the_pages_and_at_the_token_endpoint_are_limited(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    limits = within(logins_per_minute=2, anonymous_per_minute=5)
    async with running(engine, place, tmp_path, limits=limits, has_public_url=True) as server:
        tries = [await send(server, "POST", "/oauth/login", {"link": "mol_ln_a"}, Origin=server.url) for _ in range(3)]
        assert [each.status for each in tries] == [400, 400, 429]
        tries = [await exchanged(server, "a", "mol_oc_a") for _ in range(6)]
        assert [each.status for each in tries] == [400] * 5 + [429]


async def test_the_store_has_no_code_and_no_token_as_it_is(issuer: Running) -> None:
    seat, client_id = await issuer.seat("Ops"), await registered(issuer)
    browser, _ = await browser_of(issuer)
    code = await code_for(browser, client_id, seat.id)
    tokens = (await exchanged(issuer, client_id, code)).json
    store, found = issuer.server.store, list[Any]()
    for name in ("spent_oauth_codes", "spent_oauth_tokens"):
        found += await store.rows(name, {"before": 1 << 62, "hash": "", "count": 100})
    assert len(found) == 3
    for secret in (code, tokens["access_token"], tokens["refresh_token"]):
        assert secret not in str(found)


async def test_what_has_ended_long_ago_is_deleted_and_live_grants_stay(issuer: Running, clock: FakeClock) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    ended, live = [await connected(issuer, browser, seat.id, days=days) for days in ("1", "90")]
    await clock.advance(40 * DAY // SECOND)
    await live.refresh()
    store = issuer.server.store
    async for batch in CredentialRetention(store).batches(clock.now() - 30 * DAY, 100):
        if batch.command is not None:
            await store.run(batch.command)
    left = await store.rows("spent_oauth_grants", {"before": 1 << 62, "hash": "", "count": 100})
    assert left == []
    assert (await live.refresh()).status == 200
    assert refusal_of(await ended.refresh()) == REFUSED


async def test_the_number_of_connected_apps_is_limited(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=within(oauth_grants=1), has_public_url=True) as server:
        seat, client_id = await server.seat("Ops"), await registered(server)
        browser, _ = await browser_of(server)
        await connected(server, browser, seat.id, client_id)
        reply = await decided(browser, query_of(server, client_id), seat.id)
        assert (reply.status, b"the limit of 1" in reply.body) == (403, True)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "authorization_code"}, "invalid_request"),
        ({"grant_type": "refresh_token", "client_id": "a", "refresh_token": "mol_or_none"}, "invalid_grant"),
        ({"grant_type": "refresh_token", "client_id": "a\x00", "refresh_token": "b"}, "invalid_request"),
    ],
)
async def test_a_request_for_tokens_that_is_not_valid_gets_the_error_of_the_protocol(
    issuer: Running, fields: dict[str, str], error: str
) -> None:
    reply = await send(issuer, "POST", "/oauth/token", fields)
    assert refusal_of(reply) == (400, error)
    assert reply.headers["cache-control"] == "no-store"


async def test_a_repeated_parameter_and_another_content_type_are_refused(issuer: Running) -> None:
    twice = await ask(
        issuer.port, "POST", "/oauth/token", b"grant_type=a&grant_type=b", headers={"Content-Type": "text/plain"}
    )
    assert refusal_of(twice) == (400, "invalid_request")
    basic = await send(issuer, "POST", "/oauth/token", {"grant_type": "a"}, Authorization="Basic YTpi")
    assert refusal_of(basic) == (401, "invalid_client")


def test_the_verifier_of_these_tests_is_as_short_as_the_protocol_allows() -> None:
    assert len(VERIFIER) == 43
    assert answer_of(Reply(303, {"location": f"{REDIRECT}?code=a"}, b"")) == {"code": "a"}
