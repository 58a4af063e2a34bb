"""The page on which a person connects an app: who may, what it shows, and what hostile pages and apps cannot do."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
import pytest

from molecule_core.common.net.safe_fetch import Fetcher, FetchResult
from molecule_core.common.settings import Settings
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.mcp_clients import within
from testing.oauth_apps import (
    CHALLENGE,
    REDIRECT,
    STATE,
    PersonsBrowser,
    answer_of,
    browser_of,
    call_method,
    connected,
    decided,
    exchanged,
    hidden_fields,
    query_of,
    registered,
    send,
)
from testing.raw_http import ask
from testing.running_server import Running, running
from testing.waits import refused
from tests.requirements import requirement

DOCUMENT = "https://app.example/client.json"


class DocumentNetwork(Fetcher):
    """Documents of clients by their addresses; nothing else can be reached."""

    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}
        self.fetched: list[str] = []

    async def post(
        self, url: str, headers: dict[str, str], body: bytes, *, timeout_seconds: float, max_bytes: int
    ) -> FetchResult:
        """Refuse: nothing is sent."""
        raise AssertionError

    async def check_url(self, url: str) -> None:
        """Refuse: nothing is checked."""
        raise AssertionError

    async def get(self, url: str, headers: dict[str, str], *, timeout_seconds: float, max_bytes: int) -> FetchResult:
        """Return a document."""
        self.fetched.append(url)
        found = self.documents.get(url)
        return FetchResult(404 if found is None else 200, {}, found or b"")


@pytest.fixture
def network() -> DocumentNetwork:
    """The documents that clients publish."""
    return DocumentNetwork()


@pytest.fixture
async def issuer(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, network: DocumentNetwork
) -> AsyncIterator[Running]:
    """A server with a public address."""
    async with running(engine, place, tmp_path, clock=clock, fetcher=network, has_public_url=True) as server:
        yield server


# -- discovery ---------------------------------------------------------------------------------------------------------


@requirement("M39")
async def test_an_unknown_client_finds_the_authorization_server(issuer: Running) -> None:
    seat = await issuer.seat("Ops")
    for path in ("/mcp", f"/workspaces/{seat.id}/mcp"):
        challenge = (await call_method(issuer, None, "tools/list", {}, path)).headers["www-authenticate"]
        address = f"{issuer.url}/.well-known/oauth-protected-resource{path}"
        assert f'resource_metadata="{address}"' in challenge
        assert 'scope="molecule:read molecule:act"' in challenge
        metadata = (await send(issuer, "GET", urlsplit(address).path)).json
        assert (metadata["resource"], metadata["authorization_servers"]) == (f"{issuer.url}{path}", [issuer.url])
    root = (await send(issuer, "GET", "/.well-known/oauth-protected-resource")).json
    assert root["resource"] == f"{issuer.url}/mcp"
    server = (await send(issuer, "GET", "/.well-known/oauth-authorization-server")).json
    assert server["issuer"] == issuer.url
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["authorization_response_iss_parameter_supported"] is True
    assert server["client_id_metadata_document_supported"] is True
    assert "registration_endpoint" not in server


async def test_a_wrong_token_is_challenged_and_other_routes_name_no_metadata(issuer: Running) -> None:
    wrong = await call_method(issuer, "mol_oa_wrong", "tools/list", {})
    assert (wrong.status, 'error="invalid_token"' in wrong.headers["www-authenticate"]) == (401, True)
    other = await ask(issuer.port, "GET", "/workspaces")
    assert other.headers["www-authenticate"] == 'Bearer realm="molecule"'


async def test_an_id_in_the_path_cannot_leave_the_challenge(issuer: Running) -> None:
    reply = await call_method(issuer, None, "tools/list", {}, "/workspaces/a%22%0D%0AX-Evil:%201/mcp")
    assert (reply.status, "x-evil" in reply.headers) == (401, False)
    assert "/workspaces/a%22%0D%0AX-Evil%3A%201/mcp" in reply.headers["www-authenticate"]


@pytest.mark.parametrize(
    ("public_url", "issuer_url"),
    [
        ("", ""),
        ("http://molecule.example", ""),
        ("https://molecule.example/app", ""),
        ("https://user@molecule.example", ""),
        ("https://molecule.example/", "https://molecule.example"),
        ("https://molecule.example:8443", "https://molecule.example:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://localhost", "http://localhost"),
    ],
)
def test_an_issuer_is_an_https_address_or_of_this_machine(public_url: str, issuer_url: str) -> None:
    assert Settings(public_url=public_url).oauth_issuer == issuer_url


async def test_without_a_public_address_there_is_no_oauth(server: Running) -> None:
    for method, path in (
        ("GET", "/.well-known/oauth-protected-resource"),
        ("GET", "/.well-known/oauth-authorization-server"),
        ("GET", "/oauth/authorize"),
        ("GET", "/oauth/consent"),
        ("POST", "/oauth/consent"),
        ("POST", "/oauth/login"),
        ("POST", "/oauth/token"),
        ("POST", "/oauth/revoke"),
        ("POST", "/oauth/register"),
    ):
        assert (await ask(server.port, method, path)).status == 404, path
    reply = await call_method(server, None, "tools/list", {})
    assert reply.headers["www-authenticate"] == 'Bearer realm="molecule"'


# -- who may -----------------------------------------------------------------------------------------------------------


async def test_a_browser_without_a_login_logs_in_and_comes_back(issuer: Running) -> None:
    client_id, seat = await registered(issuer), await issuer.seat("Ops")
    query, browser = query_of(issuer, client_id), PersonsBrowser(issuer)
    first = await browser.get(f"/oauth/authorize?{query}")
    assert f'content="0; url=/oauth/consent?{query.replace("&", "&amp;")}"' in first.body.decode()
    page = await browser.get(f"/oauth/consent?{query}")
    assert (page.status, b"Login link" in page.body, b"Test app" in page.body) == (200, True, False)
    wrong = await browser.post("/oauth/login", {**hidden_fields(page), "link": "http://127.0.0.1/#login=mol_ln_wrong"})
    assert (wrong.status, b"role=alert" in wrong.body, browser.cookie) == (400, True, "")
    org_id = issuer.server.registry.orgs()[0].id
    link = await issuer.admin.post(f"/orgs/{org_id}/login-links", {})
    reply = await browser.post("/oauth/login", {**hidden_fields(page), "link": link["url"]})
    assert (reply.status, reply.headers["location"]) == (303, f"/oauth/consent?{query}")
    assert "SameSite=Strict" in reply.headers["set-cookie"]
    answer = answer_of(await decided(browser, query, seat.id))
    assert (answer["state"], answer["iss"], set(answer)) == (STATE, issuer.url, {"code", "state", "iss"})


async def test_a_viewer_connects_nothing(issuer: Running) -> None:
    client_id = await registered(issuer)
    await issuer.seat("Ops")
    browser, _ = await browser_of(issuer, "viewer")
    page = await browser.get(f"/oauth/consent?{query_of(issuer, client_id)}")
    assert b"Login link" in page.body and b"Ops" not in page.body


@requirement("M39")
async def test_a_person_connects_workspaces_of_the_own_organisation_only(issuer: Running) -> None:
    other_org = await issuer.org("Other")
    foreign = await issuer.admin.post("/workspaces", {"name": "Foreign", "org_id": other_org})
    await issuer.seat("Ops")
    client_id = await registered(issuer)
    browser, _ = await browser_of(issuer)
    page = await browser.get(f"/oauth/consent?{query_of(issuer, client_id)}")
    assert b"Ops" in page.body and b"Foreign" not in page.body
    texts = []
    for unknown in (foreign["id"], "none"):
        reply = await decided(browser, query_of(issuer, client_id), unknown)
        texts.append((reply.status, reply.body))
    assert texts[0] == texts[1]
    assert texts[0][0] == 400


async def test_a_client_of_one_organisation_is_not_for_another(issuer: Running) -> None:
    other_org = await issuer.org("Other")
    await issuer.admin.post("/workspaces", {"name": "Foreign", "org_id": other_org})
    client_id = await registered(issuer)
    browser, _ = await browser_of(issuer, "owner", other_org)
    page = await browser.get(f"/oauth/consent?{query_of(issuer, client_id)}")
    assert (page.status, b"You manage no workspace" in page.body) == (403, True)


async def test_two_logins_show_the_workspaces_of_both_organisations(issuer: Running, network: DocumentNetwork) -> None:
    other_org = await issuer.org("Other")
    foreign = await issuer.admin.post("/workspaces", {"name": "Foreign", "org_id": other_org})
    await issuer.seat("Ops")
    first, _ = await browser_of(issuer)
    second, person_id = await browser_of(issuer, "operator", other_org)
    network.documents[DOCUMENT] = document()
    browser = PersonsBrowser(issuer, f"{first.cookie}; {second.cookie}")
    page = await browser.get(f"/oauth/consent?{query_of(issuer, DOCUMENT)}")
    assert b"Ops" in page.body and b"Foreign" in page.body
    app = await connected(issuer, browser, foreign["id"], DOCUMENT)
    assert await app.status() == 200
    [grant] = await issuer.admin.get(f"/workspaces/{foreign['id']}/oauth-grants")
    assert grant["person_id"] == person_id


async def test_a_cancelled_request_returns_with_an_error_and_grants_nothing(issuer: Running) -> None:
    seat, client_id = await issuer.seat("Ops"), await registered(issuer)
    browser, _ = await browser_of(issuer)
    answer = answer_of(await decided(browser, query_of(issuer, client_id), "", decision="cancel"))
    assert answer == {"error": "access_denied", "state": STATE, "iss": issuer.url}
    assert await issuer.admin.get(f"/workspaces/{seat.id}/oauth-grants") == []


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ("molecule:read", {"scope": "molecule:act"}),
        ("molecule:act", {"scope": "all"}),
        ("molecule:act", {"days": "91"}),
        ("molecule:act", {"days": "0"}),
        ("molecule:act", {"days": "-1"}),
    ],
)
async def test_a_form_cannot_choose_more_than_the_page_offers(
    issuer: Running, asked: str, chosen: dict[str, str]
) -> None:
    seat, client_id = await issuer.seat("Ops"), await registered(issuer)
    browser, _ = await browser_of(issuer)
    reply = await decided(browser, query_of(issuer, client_id, scope=asked), seat.id, **chosen)
    assert reply.status == 400


# -- hostile requests --------------------------------------------------------------------------------------------------


@requirement("M39")
@pytest.mark.parametrize(
    "redirect_uri",
    [
        "https://evil.example/callback",
        f"{REDIRECT}/",
        f"{REDIRECT}?a=b",
        "https://app.example:444/callback",
        "https://app.example/callback#fragment",
        "https://app.example@evil.example/callback",
        "https://APP.example/callback",
        "javascript:alert(1)",
        "//evil.example",
        "",
        None,
    ],
)
async def test_a_redirect_address_that_is_not_registered_is_never_followed(
    issuer: Running, redirect_uri: str | None
) -> None:
    client_id = await registered(issuer)
    await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    page = await browser.get(f"/oauth/consent?{query_of(issuer, client_id, redirect_uri=redirect_uri)}")
    assert (page.status, "location" in page.headers, b"<form" in page.body) == (400, False, False)
    assert b"href" not in page.body and b"http-equiv" not in page.body


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"scope": "admin"}, "invalid_scope"),
    ],
)
async def test_an_invalid_request_shows_a_link_back_and_redirects_nowhere_by_itself(
    issuer: Running, changes: dict[str, str | None], error: str
) -> None:
    client_id = await registered(issuer)
    browser, _ = await browser_of(issuer)
    page = await browser.get(f"/oauth/consent?{query_of(issuer, client_id, **changes)}")
    assert (page.status, "location" in page.headers, b"<form" in page.body) == (400, False, False)
    assert f'href="{REDIRECT}?error={error}&amp;state=' in page.body.decode()


async def test_a_program_of_this_machine_may_listen_at_any_port(issuer: Running) -> None:
    seat, client_id = await issuer.seat("Ops"), await registered(issuer, "http://127.0.0.1/callback")
    browser, _ = await browser_of(issuer)
    uri = "http://127.0.0.1:51234/callback"
    query = query_of(issuer, client_id, redirect_uri=uri)
    page = await browser.get(f"/oauth/consent?{query}")
    assert b"runs on this computer" in page.body
    assert "form-action 'self' http://127.0.0.1:51234;" in page.headers["content-security-policy"]
    code = answer_of(await decided(browser, query, seat.id))["code"]
    assert (await exchanged(issuer, client_id, code, redirect_uri=uri)).status == 200
    for other in ("http://127.0.0.1:51234/other", "http://localhost:51234/callback", "https://127.0.0.1/callback"):
        page = await browser.get(f"/oauth/consent?{query_of(issuer, client_id, redirect_uri=other)}")
        assert page.status == 400, other


@requirement("M39")
async def test_a_form_of_another_page_or_without_the_seal_grants_nothing(issuer: Running) -> None:
    seat, client_id = await issuer.seat("Ops"), await registered(issuer)
    browser, _ = await browser_of(issuer)
    query = query_of(issuer, client_id)
    page = await browser.get(f"/oauth/consent?{query}")
    good = {
        **hidden_fields(page),
        "workspace": seat.id,
        "scope": "molecule:act",
        "days": "30",
        "decision": "connect",
    }
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{issuer.port + 1}"):
        reply = await browser.post("/oauth/consent", good, origin=origin)
        assert (reply.status, reply.json["code"]) == (403, "cross_origin")
    without_origin = await send(issuer, "POST", "/oauth/consent", good, Cookie=browser.cookie)
    assert without_origin.status == 403
    other_browser, _ = await browser_of(issuer)
    other_query = query_of(issuer, client_id, state="another")
    for who, changes in (
        (browser, {"seal": ""}),
        (browser, {"seal": "99999999999999999.00"}),
        (browser, {"request": other_query}),
        (other_browser, {}),
    ):
        reply = await who.post("/oauth/consent", {**good, **changes})
        assert (reply.status, b"out of date" in reply.body) == (403, True), changes
    assert answer_of(await browser.post("/oauth/consent", good))["code"].startswith("mol_oc_")


async def test_a_form_that_was_open_for_long_counts_no_more(issuer: Running, clock: FakeClock) -> None:
    seat, client_id = await issuer.seat("Ops"), await registered(issuer)
    browser, _ = await browser_of(issuer)
    page = await browser.get(f"/oauth/consent?{query_of(issuer, client_id)}")
    await clock.advance(900)
    fields = {**hidden_fields(page), "workspace": seat.id, "decision": "connect", "days": "1"}
    assert (await browser.post("/oauth/consent", fields)).status == 403


async def test_a_login_form_of_another_page_logs_nobody_in(issuer: Running) -> None:
    org_id = issuer.server.registry.orgs()[0].id
    link, browser = await issuer.admin.post(f"/orgs/{org_id}/login-links", {}), PersonsBrowser(issuer)
    reply = await browser.post("/oauth/login", {"request": "", "link": link["url"]}, origin="https://evil.example")
    assert (reply.status, browser.cookie) == (403, "")


@requirement("M39")
async def test_no_page_can_be_framed_or_run_a_script(issuer: Running) -> None:
    client_id = await registered(issuer)
    await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    query = query_of(issuer, client_id)
    anonymous = PersonsBrowser(issuer)
    pages = [
        await browser.get(f"/oauth/authorize?{query}"),
        await browser.get(f"/oauth/consent?{query}"),
        await anonymous.get(f"/oauth/consent?{query}"),
        await browser.get("/oauth/consent?client_id=a"),
    ]
    for page in pages:
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy
        assert "script-src" not in policy and "unsafe-inline" not in policy
        assert (page.headers["x-frame-options"], page.headers["cache-control"]) == ("DENY", "no-store")
        assert b"<script" not in page.body


async def test_the_names_of_an_app_and_of_people_are_text(issuer: Running) -> None:
    name = "<img src=x onerror=alert(1)>\"'&"
    await issuer.seat("<b>Ops</b>")
    client_id = await registered(issuer, name=name)
    browser, _ = await browser_of(issuer)
    page = (await browser.get(f"/oauth/consent?{query_of(issuer, client_id)}")).body.decode()
    assert "<img" not in page and "<b>" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;" in page
    assert "Molecule has not verified" in page
    assert REDIRECT in page


async def test_a_query_cannot_leave_its_attribute_or_a_header(issuer: Running) -> None:
    browser = PersonsBrowser(issuer)
    for path in ("/oauth/authorize", "/oauth/consent"):
        page = (await browser.get(f'{path}?a="><script>alert(1)</script>')).body.decode()
        assert "<script" not in page
    org_id = issuer.server.registry.orgs()[0].id
    link = await issuer.admin.post(f"/orgs/{org_id}/login-links", {})
    reply = await browser.post("/oauth/login", {"request": "a=b\r\nX-Evil: 1", "link": link["url"]})
    assert (reply.status, reply.headers["location"], "x-evil" in reply.headers) == (
        303,
        "/oauth/consent?a=b%0D%0AX-Evil%3A+1",
        False,
    )


# -- clients -----------------------------------------------------------------------------------------------------------


def document(**changes: object) -> bytes:
    """The document of a client."""
    return msgspec.json.encode(
        {"client_id": DOCUMENT, "client_name": "Documented app", "redirect_uris": [REDIRECT], **changes}
    )


@requirement("M39")
async def test_a_client_names_itself_by_the_address_of_its_document(issuer: Running, network: DocumentNetwork) -> None:
    seat = await issuer.seat("Ops")
    network.documents[DOCUMENT] = document()
    anonymous = PersonsBrowser(issuer)
    await anonymous.get(f"/oauth/authorize?{query_of(issuer, DOCUMENT)}")
    await anonymous.get(f"/oauth/consent?{query_of(issuer, DOCUMENT)}")
    assert network.fetched == [], "only a person who is logged in makes the server fetch"
    browser, _ = await browser_of(issuer)
    page = await browser.get(f"/oauth/consent?{query_of(issuer, DOCUMENT)}")
    assert b"Documented app" in page.body and b"<strong>app.example</strong>" in page.body
    app = await connected(issuer, browser, seat.id, DOCUMENT)
    assert await app.status() == 200
    assert network.fetched == [DOCUMENT], "it is remembered for the form"


@pytest.mark.parametrize(
    "text",
    [
        b"no json",
        b"[]",
        document(client_id="https://app.example/other.json"),
        document(redirect_uris=["https://other.example/callback"]),
        document(redirect_uris=[]),
        document(redirect_uris="https://app.example/callback"),
        document(redirect_uris=[REDIRECT, "javascript:alert(1)"]),
        document(client_name=1),
        document(token_endpoint_auth_method="client_secret_basic"),
    ],
)
async def test_a_document_that_does_not_fit_is_refused(issuer: Running, network: DocumentNetwork, text: bytes) -> None:
    network.documents[DOCUMENT] = text
    await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    page = await browser.get(f"/oauth/consent?{query_of(issuer, DOCUMENT)}")
    assert (page.status, b"<form" in page.body) == (400, False)


@pytest.mark.parametrize(
    "client_id",
    [
        "https://app.example",
        "https://app.example/",
        "https://app.example/a/../client.json",
        "https://app.example/client.json#a",
        "https://user:secret@app.example/client.json",
        "https://app.example:port/client.json",
        "http://app.example/client.json",
        "unknown",
    ],
)
async def test_an_address_that_cannot_be_a_document_is_not_fetched(
    issuer: Running, network: DocumentNetwork, client_id: str
) -> None:
    browser, _ = await browser_of(issuer)
    page = await browser.get(f"/oauth/consent?{query_of(issuer, client_id)}")
    assert (page.status, network.fetched) == (400, [])


async def test_documents_can_be_switched_off(engine: Engine, place: str, tmp_path: Path) -> None:
    network = DocumentNetwork()
    network.documents[DOCUMENT] = document()
    async with running(
        engine, place, tmp_path, fetcher=network, has_public_url=True, oauth_client_documents=False
    ) as server:
        browser, _ = await browser_of(server)
        page = await browser.get(f"/oauth/consent?{query_of(server, DOCUMENT)}")
        assert (page.status, network.fetched) == (400, [])
        metadata = (await send(server, "GET", "/.well-known/oauth-authorization-server")).json
        assert metadata["client_id_metadata_document_supported"] is False


async def test_clients_register_themselves_only_where_the_setting_allows_it(
    issuer: Running, engine: Engine, place: str, tmp_path: Path
) -> None:
    body = {"client_name": "Own", "redirect_uris": [REDIRECT]}
    assert (await ask(issuer.port, "POST", "/oauth/register", body)).status == 404


async def test_a_client_that_registered_itself_is_connected_and_the_number_is_limited(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits = within(oauth_dynamic_clients=2)
    async with running(
        engine, place, tmp_path, clock=clock, limits=limits, has_public_url=True, oauth_dynamic_registration=True
    ) as server:
        seat = await server.seat("Ops")
        metadata = (await send(server, "GET", "/.well-known/oauth-authorization-server")).json
        assert metadata["registration_endpoint"] == f"{server.url}/oauth/register"
        body = {"client_name": "Own", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "client_secret_post"}
        reply = await ask(server.port, "POST", "/oauth/register", body)
        assert (reply.status, reply.json["token_endpoint_auth_method"]) == (201, "none")
        assert "client_secret" not in reply.json
        browser, _ = await browser_of(server)
        app = await connected(server, browser, seat.id, reply.json["client_id"])
        assert await app.status() == 200
        for bad, error in (
            ({}, "invalid_redirect_uri"),
            ({"redirect_uris": ["http://evil.example/"]}, "invalid_redirect_uri"),
            ({"redirect_uris": [REDIRECT], "client_name": "a\u202eb"}, "invalid_client_metadata"),
            ([], "invalid_client_metadata"),
        ):
            refusal = await ask(server.port, "POST", "/oauth/register", bad)
            assert (refusal.status, refusal.json["error"]) == (400, error)
        statuses = [(await ask(server.port, "POST", "/oauth/register", body)).status for _ in range(2)]
        assert statuses == [201, 429]
        await clock.advance(86_401)
        statuses = [(await ask(server.port, "POST", "/oauth/register", body)).status for _ in range(3)]
        assert 201 in statuses, "what was never used was deleted"
        assert await app.status() in (200, 401)
        assert (await app.refresh()).status == 200, "the client in use stays"


async def test_owners_register_clients_and_others_do_not(issuer: Running) -> None:
    org_id = issuer.server.registry.orgs()[0].id
    clients = f"/orgs/{org_id}/oauth-clients"
    owner, operator = await issuer.person("owner"), await issuer.person("operator")
    made = await owner.post(clients, {"name": "App", "redirect_uris": [REDIRECT]})
    assert await owner.get(clients) == [made]
    assert (await refused(operator.post(clients, {"name": "App", "redirect_uris": [REDIRECT]}))).status == 403
    for uris in ([], ["http://app.example/"], ["ftp://app.example/"], ["https://a;b.example/"], [REDIRECT] * 11):
        assert (await refused(owner.post(clients, {"name": "App", "redirect_uris": uris}))).status == 422, uris
    other_org = await issuer.org("Other")
    foreign = await refused(issuer.admin.call("DELETE", f"/orgs/{other_org}/oauth-clients/{made['client_id']}"))
    assert foreign.status == 404
    await owner.call("DELETE", f"{clients}/{made['client_id']}")
    assert await owner.get(clients) == []


async def test_a_long_list_of_workspaces_is_cut_and_says_so(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=within(oauth_workspaces=2), has_public_url=True) as server:
        for name in ("A", "B", "C"):
            await server.seat(name)
        client_id = await registered(server)
        browser, _ = await browser_of(server)
        page = await browser.get(f"/oauth/consent?{query_of(server, client_id)}")
        assert page.body.count(b"<option value=") - page.body.count(b" day") == 3
        assert b"more workspaces than this page lists" in page.body


def test_the_query_of_these_tests_has_all_that_the_protocol_requires() -> None:
    fields = parse_qs(urlencode({"code_challenge": CHALLENGE}))
    assert fields == {"code_challenge": [CHALLENGE]}
