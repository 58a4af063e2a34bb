"""Logging in with a one-time link, the session in its cookie, and what other pages cannot do with it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.exceptions import InvalidStatus

from molecule_core.common.clock import to_rfc3339
from molecule_core.common.limits import Limits
from molecule_core.wire.schemas.live import SessionView
from testing.clocks import START, FakeClock
from testing.engines import Engine
from testing.live_clients import UPGRADE, Channel, all_live, channel, token_of
from testing.raw_http import Reply, ask, request, wire
from testing.running_server import ADMIN_TOKEN, Running, running
from testing.waits import bounded, refused
from tests.requirements import requirement

OURS = {"X-Molecule-Client": "canvas"}


class Browser:
    """A person's browser: keeps one cookie, and says where its page comes from."""

    def __init__(self, server: Running, cookie: str = "") -> None:
        self.server = server
        self.cookie = cookie
        self.origin = server.url

    @property
    def headers(self) -> dict[str, str]:
        """What it sends along with everything. The host is the one of the page."""
        kept = {"Cookie": self.cookie} if self.cookie else {}
        return {"Host": f"127.0.0.1:{self.server.port}", **kept}

    async def get(self, path: str, **headers: str) -> Reply:
        """A page's own read."""
        return await ask(self.server.port, "GET", path, headers={**self.headers, **headers})

    async def post(self, path: str, body: Any, *, ours: bool = True, **headers: str) -> Reply:
        """A page's own command."""
        sent = {**self.headers, **(OURS if ours else {}), **headers}
        return await ask(self.server.port, "POST", path, body, headers=sent)

    async def log_in(self, code: str) -> Reply:
        """Exchanges a code, and keeps the cookie."""
        reply = await self.post("/login", {"code": code}, Origin=self.origin)
        if reply.status == 200:
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
        return reply

    @contextlib.asynccontextmanager
    async def socket(self, origin: str | None = None) -> AsyncIterator[Channel]:
        """The page's live channel."""
        headers = {"Cookie": self.cookie, "Origin": origin or self.origin}
        async with channel(self.server, None, headers=headers) as opened:
            yield opened


async def link_of(server: Running, **body: Any) -> dict[str, Any]:
    """A login link."""
    org_id = server.server.registry.orgs()[0].id
    found: dict[str, Any] = await server.admin.post(f"/orgs/{org_id}/login-links", body)
    return found


def code_of(link: dict[str, Any]) -> str:
    """What the page finds behind the #."""
    return str(link["url"]).partition("#login=")[2]


async def logged_in(server: Running, role: str = "owner") -> Browser:
    """A browser in which somebody of this role has logged in."""
    org_id = server.server.registry.orgs()[0].id
    person = await server.admin.post(f"/orgs/{org_id}/people", {"name": f"The {role}", "role": role})
    browser = Browser(server)
    reply = await browser.log_in(code_of(await link_of(server, person_id=person["id"])))
    assert reply.status == 200, reply
    return browser


async def test_a_link_of_another_person_asks_before_it_replaces_a_session(server: Running) -> None:
    browser = await logged_in(server, "operator")
    ours = browser.cookie
    link = await link_of(server)
    refused = await browser.log_in(code_of(link))
    assert (refused.status, refused.json["code"]) == (409, "other_session")
    assert (refused.json["current"], refused.json["other"]) == ("The operator", link["name"])
    assert "set-cookie" not in refused.headers and browser.cookie == ours, "nothing has changed"
    body = {"code": code_of(link), "replace_session": True}
    accepted = await browser.post("/login", body, Origin=browser.origin)
    assert (accepted.status, accepted.json["user"]["name"]) == (200, link["name"]), "the code was not used up"


async def test_a_link_of_the_same_person_and_one_after_logging_out_ask_nothing(server: Running) -> None:
    org_id = server.server.registry.orgs()[0].id
    browser = Browser(server)
    person = await server.admin.post(f"/orgs/{org_id}/people", {"name": "Ann", "role": "viewer"})
    for _ in range(2):
        link = await link_of(server, person_id=person["id"])
        assert (await browser.log_in(code_of(link))).status == 200
    assert (await browser.post("/logout", {})).status == 200
    assert (await browser.log_in(code_of(await link_of(server)))).status == 200


# -- the link ----------------------------------------------------------------------------------------------------------


@requirement("C74", "M9")
async def test_a_link_logs_its_person_in(server: Running) -> None:
    link = await link_of(server)
    assert link["url"].startswith(f"{server.url}/app/#login=mol_ln_")
    browser = Browser(server)
    assert (await browser.get("/session")).status == 401
    reply = await browser.log_in(code_of(link))
    assert reply.status == 200
    session = msgspec.json.decode(reply.body, type=SessionView)
    assert (session.user.id, session.user.name, session.user.kind, session.user.role) == (
        link["person_id"],
        "Owner",
        "person",
        "owner",
    )
    assert session.org.id == server.server.registry.orgs()[0].id
    assert session.version == server.server.version
    again = await browser.get("/session")
    assert (again.status, again.json) == (200, reply.json)
    assert again.headers["cache-control"] == reply.headers["cache-control"] == "no-store"


@requirement("C74")
async def test_the_cookie_is_for_this_server_alone_and_for_no_script(server: Running) -> None:
    reply = await Browser(server).log_in(code_of(await link_of(server)))
    value, *attributes = reply.headers["set-cookie"].split("; ")
    name, _, token = value.partition("=")
    assert name == f"molecule_{server.port}.{server.server.registry.orgs()[0].id}"
    assert token.startswith("mol_se_")
    assert sorted(attributes)[::3] == ["HttpOnly", "SameSite=Strict"]
    assert sorted(attributes)[2] == "Path=/"
    assert 0 <= 30 * 86_400 - int(sorted(attributes)[1].removeprefix("Max-Age=")) < 60
    assert token not in reply.body.decode()


@requirement("C74")
async def test_over_https_the_cookie_is_bound_to_the_host_and_never_sent_in_the_clear(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, public_url="https://molecule.example") as server:
        link = await link_of(server)
        assert link["url"].startswith("https://molecule.example/app/#login=")
        headers = {**OURS, "Host": "molecule.example", "Origin": "https://molecule.example"}
        reply = await ask(server.port, "POST", "/login", {"code": code_of(link)}, headers=headers)
        value, *attributes = reply.headers["set-cookie"].split("; ")
        assert value.startswith(f"__Host-molecule.{server.server.registry.orgs()[0].id}=mol_se_")
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
        assert not [each for each in attributes if each.lower().startswith("domain")]
        plain = {**headers, "Cookie": value, "Origin": "http://molecule.example"}
        reply = await ask(server.port, "POST", "/logout", {}, headers=plain)
        assert reply.status == 200, "behind a proxy that ends TLS both spellings of the own origin are our own"


@requirement("C74")
async def test_a_link_is_good_once(server: Running) -> None:
    link = await link_of(server)
    assert (await Browser(server).log_in(code_of(link))).status == 200
    reply = await Browser(server).log_in(code_of(link))
    assert (reply.status, reply.json["code"]) == (401, "invalid_login")
    assert "molecule login-link" in reply.error
    assert "set-cookie" not in reply.headers


@requirement("C74")
async def test_of_many_who_use_a_link_at_the_same_time_one_gets_in(server: Running) -> None:
    code = code_of(await link_of(server))
    replies = await asyncio.gather(*(Browser(server).log_in(code) for _ in range(12)))
    assert sorted(reply.status for reply in replies) == [200] + [401] * 11


@requirement("C74")
async def test_a_link_is_good_for_a_while_only(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=Limits(login_seconds=60)) as server:
        links = [await link_of(server) for _ in range(2)]
        assert links[0]["expires_at"] == to_rfc3339(START + 60_000_000)
        await clock.advance(59.999)
        assert (await Browser(server).log_in(code_of(links[0]))).status == 200
        await clock.advance(0.001)
        assert (await Browser(server).log_in(code_of(links[1]))).json["code"] == "invalid_login"


@requirement("C74", "S14")
async def test_what_is_no_code_lets_nobody_in(server: Running) -> None:
    seat, code = await server.seat("Ops"), code_of(await link_of(server))
    browser = Browser(server)
    strange = ["", " ", code[:-1], code + " ", code.upper(), ADMIN_TOKEN, seat.token, "é", "x" * 5000, "%s' OR 1=1"]
    for each in strange:
        reply = await browser.log_in(each)
        assert (reply.status, reply.json["code"]) == (401, "invalid_login"), each
    broken: list[Any] = [{}, {"code": None}, {"code": 5}, [], "x", {"code": "a\x00b"}]
    for body in broken:
        reply = await browser.post("/login", body)
        assert reply.status in (400, 401, 422), body
    assert (await browser.log_in(code)).status == 200


@requirement("C74", "S20")
async def test_only_owners_make_links_and_only_for_people_of_their_organisation(server: Running) -> None:
    org_id, other = server.server.registry.orgs()[0].id, await server.org("Other")
    stranger = await server.admin.post(f"/orgs/{other}/people", {"name": "S", "role": "owner"})
    path = f"/orgs/{org_id}/login-links"
    for role in ("viewer", "operator"):
        api = server.api(await token_of(server, role))
        assert (await refused(api.post(path, {}))).code == "role_too_low"
    owner = server.api(await token_of(server, "owner"))
    assert (await owner.post(path, {}))["name"] == "A owner"
    assert (await refused(owner.post(path, {"person_id": stranger["id"]}))).code == "not_found"
    assert (await refused(owner.post(f"/orgs/{other}/login-links", {}))).code == "not_found"
    seat = await server.seat("Ops")
    assert (await refused(seat.api.post(path, {}))).code == "credential_not_accepted"


@requirement("C74")
async def test_links_that_are_asked_for_at_once_make_one_first_owner(server: Running) -> None:
    links = await asyncio.gather(*(link_of(server) for _ in range(6)))
    assert len({link["person_id"] for link in links}) == 1
    assert len({code_of(link) for link in links}) == 6
    persons = await server.admin.get(f"/orgs/{server.server.registry.orgs()[0].id}/people")
    assert [person["role"] for person in persons] == ["owner"]


@requirement("C74", "O3")
async def test_codes_and_sessions_are_stored_hashed(server: Running) -> None:
    link = await link_of(server)
    browser = Browser(server)
    await browser.log_in(code_of(link))
    from molecule_core.common.tokens import hash_token

    rows = server.server.store.rows
    session = browser.cookie.partition("=")[2]
    assert await rows("login_by_hash", {"hash": hash_token(code_of(link))})
    assert not await rows("login_by_hash", {"hash": code_of(link)})
    assert await rows("person_by_session", {"hash": hash_token(session)})
    assert not await rows("person_by_session", {"hash": session})


# -- the session -------------------------------------------------------------------------------------------------------


@requirement("C74")
async def test_a_session_ends_by_itself(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=Limits(session_days=1)) as server:
        browser = await logged_in(server)
        await clock.advance(86_399)
        assert (await browser.get("/session")).status == 200
        await clock.advance(1)
        reply = await browser.get("/session")
        assert (reply.status, reply.json["code"]) == (401, "invalid_credential")


@requirement("C74")
async def test_a_session_outlives_the_server(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path) as server:
        browser = await logged_in(server)
        token = browser.cookie.partition("=")[2]
        gone = await logged_in(server)
        assert (await gone.post("/logout", {})).status == 200
    async with running(engine, place, tmp_path) as server:
        for cookie, status in ((token, 200), (gone.cookie.partition("=")[2], 401)):
            later = Browser(server, f"molecule_{server.port}={cookie}")
            assert (await later.get("/session")).status == status


@requirement("C74")
async def test_who_has_logged_out_is_out(server: Running) -> None:
    browser, other = await logged_in(server), await logged_in(server)
    reply = await browser.post("/logout", {})
    assert (reply.status, reply.json) == (200, {})
    value, *attributes = reply.headers["set-cookie"].split("; ")
    assert (value, "Max-Age=0" in attributes) == (f"{browser.cookie.partition('=')[0]}=", True)
    assert (await browser.get("/session")).status == 401
    assert (await browser.post("/logout", {})).status == 401
    assert (await other.get("/session")).status == 200


@requirement("C74")
async def test_a_request_whose_look_up_was_on_its_way_is_out_too(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await logged_in(server)
    started, gate, rows = asyncio.Event(), asyncio.Event(), server.server.store.rows

    async def held(name: str, params: Any) -> Any:
        found = await rows(name, params)
        if name == "person_by_session" and not started.is_set():
            started.set()
            await bounded(gate.wait())
        return found

    monkeypatch.setattr(server.server.store, "rows", held)
    late = asyncio.create_task(browser.get("/session"))
    await bounded(started.wait())
    assert (await browser.post("/logout", {})).status == 200
    gate.set()
    assert (await bounded(late)).status == 401
    assert (await browser.get("/session")).status == 401


@requirement("C74", "M24")
async def test_logging_out_ends_the_channels_of_this_session_and_no_others(server: Running) -> None:
    browser, other = await logged_in(server), await logged_in(server)
    async with (
        browser.socket() as first,
        browser.socket() as second,
        other.socket() as others,
        channel(server) as admins,
    ):
        await browser.post("/logout", {})
        for opened in (first, second):
            assert (await opened.bye()).code == 4001
        await server.seat("Ops")
        for opened in (others, admins):
            assert (await opened.event())["event"] == "WORKSPACE_PROVISIONING"


@requirement("C74", "M24")
async def test_logging_out_beside_a_token_ends_no_channel_of_others(server: Running) -> None:
    """Channels that were opened with a token belong to no session: no logout ends them."""
    browser, token = await logged_in(server), await token_of(server, "viewer")
    async with browser.socket() as own, channel(server) as admins, channel(server, token) as persons:
        for cookie in (f"molecule_{server.port}=nonsense", browser.cookie):
            headers = {"Cookie": cookie, **OURS}
            assert (await ask(server.port, "POST", "/logout", {}, token=token, headers=headers)).status == 200
        await server.seat("Ops")
        for opened in (admins, persons):
            assert (await opened.event())["event"] == "WORKSPACE_PROVISIONING"
        if (await browser.get("/session")).status == 401:  # if that ended the session, it ended its channel too
            assert (await own.bye()).code == 4001


@requirement("C74", "M24")
async def test_a_channel_that_opens_during_the_logout_does_not_outlive_it(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await logged_in(server)
    await browser.get("/session")
    rows, armed = server.server.store.rows, True

    async def leaving(name: str, params: Any) -> Any:
        nonlocal armed
        if name == "last_event" and armed:
            armed = False
            assert (await browser.post("/logout", {})).status == 200
        return await rows(name, params)

    monkeypatch.setattr(server.server.store, "rows", leaving)
    with contextlib.suppress(InvalidStatus):
        async with browser.socket() as opened:
            assert (await opened.bye()).code == 4001
    assert not armed


@requirement("C74", "M24")
async def test_the_token_of_a_session_opens_nothing_after_the_logout_however_it_came(server: Running) -> None:
    browser = await logged_in(server)
    token = browser.cookie.partition("=")[2]
    async with contextlib.AsyncExitStack() as stack:
        opened: Channel | None = None
        with contextlib.suppress(InvalidStatus):  # to take it from the cookie alone is just as well
            opened = await stack.enter_async_context(channel(server, token))
        assert (await browser.post("/logout", {})).status == 200
        assert (await refused(server.api(token).get("/session"))).status == 401
        if opened is not None:
            assert (await opened.bye()).code == 4001


@requirement("C74", "M24")
async def test_a_channel_ends_with_its_session(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=Limits(session_days=1)) as server:
        browser = await logged_in(server)
        async with browser.socket() as opened, channel(server) as admins:
            await all_live(server)
            await clock.advance(86_395)
            assert (await opened.control())["type"] == "ping"
            await clock.advance(20)
            assert (await opened.bye()).code == 4001
            await server.seat("Ops")
            assert (await admins.event())["event"] == "WORKSPACE_PROVISIONING"


# -- other pages -------------------------------------------------------------------------------------------------------

COMMANDS = [
    ("POST", "/workspaces", {"name": "Made by another page"}),
    ("POST", "/logout", {}),
    ("POST", "/orgs/{org}/login-links", {}),
    ("PATCH", "/workspaces/{seat}", {"name": "Renamed"}),
    ("DELETE", "/workspaces/{seat}?confirm=true", None),
    ("POST", "/workspaces/{seat}/a2a", {"method": "message/send", "params": {"message": {"content": "x"}}}),
    ("POST", "/workspaces/{seat}/chat/read", {"seq": 1}),
]
FOREIGN = ["http://evil.example", "http://127.0.0.1:1", "null", "", "file://", "http://127.0.0.1", "https://localhost"]


@requirement("C75", "M9")
@pytest.mark.parametrize("origin", FOREIGN)
async def test_another_page_cannot_give_commands_with_the_cookie(server: Running, origin: str) -> None:
    browser, seat = await logged_in(server), await server.seat("Ops")
    org_id = server.server.registry.orgs()[0].id
    for method, path, body in COMMANDS:
        target = path.format(seat=seat.id, org=org_id)
        for more in (OURS, {}):
            headers = {**browser.headers, **more, "Origin": origin}
            reply = await ask(server.port, method, target, body, headers=headers)
            assert (reply.status, reply.json["code"]) == (403, "cross_origin"), (method, target, more)
    await _unchanged(server, seat.id)


@requirement("C75")
async def test_a_form_or_an_image_cannot_give_commands_either(server: Running) -> None:
    """Without an Origin too: some browsers leave it out. What they cannot send is our own header."""
    browser, seat = await logged_in(server), await server.seat("Ops")
    org_id = server.server.registry.orgs()[0].id
    for method, path, body in COMMANDS:
        target = path.format(seat=seat.id, org=org_id)
        reply = await ask(server.port, method, target, body, headers=browser.headers)
        assert (reply.status, reply.json["code"]) == (403, "cross_origin")
    form = {**browser.headers, "Content-Type": "text/plain"}
    reply = await ask(server.port, "POST", "/workspaces", b'{"name": "x"}', headers=form)
    assert reply.status == 403
    await _unchanged(server, seat.id)


async def _unchanged(server: Running, seat_id: str) -> None:
    assert [(each["id"], each["name"]) for each in await server.admin.get("/workspaces")] == [(seat_id, "Ops")]
    assert await server.admin.get(f"/workspaces/{seat_id}/activity") == []


@requirement("C75")
async def test_the_own_page_gives_commands_from_every_spelling_of_its_address(server: Running) -> None:
    browser = await logged_in(server)
    for host in (f"127.0.0.1:{server.port}", f"LOCALHOST:{server.port}", f"[::1]:{server.port}", "localhost"):
        headers = {"Host": host, "Cookie": browser.cookie, **OURS}
        for origin in ({}, {"Origin": f"http://{host}"}, {"Origin": f"HTTP://{host.lower()}"}):
            reply = await ask(server.port, "POST", "/workspaces", {"name": "X"}, headers={**headers, **origin})
            assert reply.status == 201, (host, origin)


@requirement("C75")
@pytest.mark.parametrize("origin", [*FOREIGN, None])
async def test_another_page_cannot_open_the_socket_with_the_cookie(server: Running, origin: str | None) -> None:
    browser = await logged_in(server)
    headers = {**browser.headers, **UPGRADE, **OURS}
    if origin is not None:
        headers["Origin"] = origin
    async with wire(server.port) as connection:
        await connection.send(request("GET", "/ws", headers=headers))
        reply = await connection.reply()
        assert (reply.status, reply.json["code"]) == (403, "cross_origin")
    async with browser.socket() as opened:
        assert opened.frames[0]["user"]["kind"] == "person"


@requirement("C75")
async def test_two_origins_are_as_bad_as_a_foreign_one(server: Running) -> None:
    """Two readers could take different ones."""
    browser = await logged_in(server)
    for origins in (("http://evil.example", browser.origin), (browser.origin, "http://evil.example")):
        pairs = [*browser.headers.items(), *OURS.items(), *(("Origin", origin) for origin in origins)]
        reply = await ask(server.port, "POST", "/workspaces", {"name": "X"}, headers=pairs)
        assert reply.status in (400, 403), origins


@requirement("C75")
async def test_a_login_is_a_command_too(server: Running) -> None:
    """Else another page could log somebody in as somebody else."""
    code = code_of(await link_of(server))
    browser = Browser(server)
    assert (await browser.post("/login", {"code": code}, ours=False)).json["code"] == "cross_origin"
    assert (await browser.post("/login", {"code": code}, Origin="http://evil.example")).json["code"] == "cross_origin"
    assert (await browser.post("/login", {"code": code})).status == 200  # the refusals did not use it up


@requirement("C75")
async def test_reading_takes_the_cookie_alone_and_nobody_else_may_read_the_answer(server: Running) -> None:
    browser = await logged_in(server, "viewer")
    org_id = server.server.registry.orgs()[0].id
    for headers in ({}, {"Origin": "http://evil.example"}):
        reply = await browser.get(f"/orgs/{org_id}/snapshot", **headers)
        assert reply.status == 200
        assert not [name for name in reply.headers if name.startswith("access-control")]
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    reply = await ask(server.port, "OPTIONS", "/workspaces", headers={**browser.headers, **preflight})
    assert reply.status >= 400
    assert not [name for name in reply.headers if name.startswith("access-control")]


@requirement("C75", "M9")
async def test_with_a_token_the_origin_does_not_matter(server: Running) -> None:
    for origin in ({"Origin": "http://evil.example"}, {"Origin": "null"}):
        body = {"name": "By a token"}
        reply = await ask(server.port, "POST", "/workspaces", body, token=ADMIN_TOKEN, headers=origin)
        assert reply.status == 201
        async with channel(server, headers=origin) as opened:
            assert opened.frames[0]["user"]["kind"] == "admin"


@requirement("C75")
async def test_a_bad_token_is_not_made_good_by_a_cookie(server: Running) -> None:
    browser = await logged_in(server)
    for authorization in ("Bearer nonsense", "Basic eDp5", "Bearer", "Bearer "):
        headers = {**browser.headers, **OURS, "Authorization": authorization}
        assert (await ask(server.port, "GET", "/session", headers=headers)).status == 401, authorization


# -- cookies and roles -------------------------------------------------------------------------------------------------


@requirement("C74", "S20")
async def test_a_session_may_do_what_its_person_may(server: Running) -> None:
    seat = await server.seat("Ops")
    body = {"method": "message/send", "params": {"message": {"content": "hello"}}}
    for role, sends, makes in (("viewer", 403, 403), ("operator", 200, 201), ("owner", 200, 201)):
        browser = await logged_in(server, role)
        assert (await browser.post(f"/workspaces/{seat.id}/a2a", body)).status == sends
        assert (await browser.post("/workspaces", {"name": "New"})).status == makes
        assert (await browser.post("/orgs", {"name": "New"})).status == 403
        assert (await browser.post(f"/workspaces/{seat.id}/notify", {"message": "x"})).status == 403
    rows = await server.admin.get(f"/workspaces/{seat.id}/activity")
    names = [row["request_body"]["params"]["metadata"]["username"] for row in rows]
    assert names == ["The owner", "The operator"]


@requirement("C74")
async def test_cookies_of_other_programs_on_this_host_are_not_ours(server: Running) -> None:
    browser = await logged_in(server)
    name, _, token = browser.cookie.partition("=")
    for cookie in (
        f"molecule_{server.port + 1}={token}",
        f"x{name}={token}",
        f"{name}x={token}",
        f"{name.upper()}={token}",
        f"other={browser.cookie}",
        f'other="; {name}',
        name,
        f"{name}=",
        f'{name}="{token}x"',
        ";;;",
        "=",
    ):
        assert (await Browser(server, cookie).get("/session")).status == 401, cookie
    for cookie in (f"a=b; {browser.cookie}; c=d", f"a;{browser.cookie}", f"; ;{browser.cookie};"):
        assert (await Browser(server, cookie).get("/session")).status == 200, cookie


@requirement("C74", "S14")
async def test_a_flood_of_cookies_is_read_or_refused_in_time(server: Running) -> None:
    browser = await logged_in(server)
    flood = "; ".join(f"c{number}={'x' * 20}" for number in range(1500))
    assert (await Browser(server, f"{flood}; {browser.cookie}").get("/session")).status == 200
    assert (await Browser(server, "; ".join([flood] * 3)).get("/session")).status == 431
    assert (await browser.get("/session")).status == 200
    many = [("Host", f"127.0.0.1:{server.port}"), *[("Cookie", "a=b")] * 500, ("Cookie", browser.cookie)]
    assert (await ask(server.port, "GET", "/session", headers=many)).status in (200, 400, 401)


@requirement("C74")
async def test_no_credential_is_taken_from_an_address(server: Running) -> None:
    browser, seat = await logged_in(server), await server.seat("Ops")
    session, code = browser.cookie.partition("=")[2], code_of(await link_of(server))
    for token in (session, ADMIN_TOKEN, seat.token, code):
        for name in ("token", "access_token", "code", "session", "auth", "authorization"):
            assert (await ask(server.port, "GET", f"/session?{name}={token}")).status == 401
            headers = {"Host": f"127.0.0.1:{server.port}"}
            assert (await ask(server.port, "GET", f"/ws?{name}={token}", headers={**headers, **UPGRADE})).status == 401
    assert (await Browser(server).log_in(code)).status == 200
