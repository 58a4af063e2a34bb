"""A browser that is logged in in several organisations: each request is of the one that its page shows."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from molecule_core.common.limits import Limits
from testing.engines import Engine
from testing.live_clients import Channel, all_live, channel
from testing.raw_http import Reply, ask
from testing.running_server import ADMIN_TOKEN, Running, running
from testing.upload_forms import place_of, uploaded
from tests.requirements import requirement

OURS = {"X-Molecule-Client": "canvas"}
UNKNOWN = "01900000-0000-7000-8000-000000000000"


class Jar:
    """A browser that keeps its cookies by name."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.cookies: dict[str, str] = {}

    def headers(self, org: str | None) -> dict[str, str]:
        """What a page that shows an organisation sends."""
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        named = {} if org is None else {"X-Molecule-Org": org}
        kept = {"Cookie": cookie} if cookie else {}
        return {"Host": f"127.0.0.1:{self.server.port}", "Origin": self.server.url, **OURS, **kept, **named}

    async def ask(self, method: str, path: str, body: Any = None, *, org: str | None = None) -> Reply:
        """A request of a page; cookies of its answer are kept."""
        reply = await ask(self.server.port, method, path, body, headers=self.headers(org))
        self._keep(reply)
        return reply

    def _keep(self, reply: Reply) -> None:
        """Keeps and forgets cookies as a browser does."""
        for line in reply.headers.get("set-cookie", "").splitlines():
            name, _, rest = line.partition("=")
            value, *attributes = rest.split("; ")
            if "Max-Age=0" in attributes:
                self.cookies.pop(name, None)
            elif name:
                self.cookies[name] = value

    async def log_in(self, org: str, person: str = "Ada", role: str = "owner", *, agrees: bool = True) -> Reply:
        """Logs a new person of an organisation in."""
        admin = self.server.admin
        made = await admin.post(f"/orgs/{org}/people", {"name": person, "role": role})
        link = await admin.post(f"/orgs/{org}/login-links", {"person_id": made["id"]})
        code = link["url"].partition("#login=")[2]
        return await self.ask("POST", "/login", {"code": code, "replace_session": agrees})

    @contextlib.asynccontextmanager
    async def socket(self, org: str | None) -> AsyncIterator[Channel]:
        """The live channel of a page, which has no headers of its own."""
        query = "" if org is None else f"?session_org={org}"
        headers = {name: value for name, value in self.headers(None).items() if name in ("Cookie", "Origin")}
        async with channel(self.server, None, headers=headers, query=query) as opened:
            yield opened


@pytest.fixture
async def two(server: Running) -> tuple[Jar, str, str]:
    """A browser with a login in each of two organisations."""
    jar, first = Jar(server), (await server.admin.get("/orgs"))[0]["id"]
    second = await server.org("Second")
    for org in (first, second):
        assert (await jar.log_in(org)).status == 200
    return jar, first, second


# -- which one ---------------------------------------------------------------------------------------------------------


@requirement("C116", "S8")
async def test_each_request_is_of_the_organisation_that_it_names(server: Running, two: tuple[Jar, str, str]) -> None:
    jar, first, second = two
    seats = {org: await server.seat("Ops", org_id=org) for org in (first, second)}
    assert len(jar.cookies) == 2
    for org, other in ((first, second), (second, first)):
        session = await jar.ask("GET", "/session", org=org)
        assert (session.status, session.json["org"]["id"]) == (200, org)
        assert (await jar.ask("GET", f"/workspaces/{seats[org].id}", org=org)).status == 200
        rows = (await jar.ask("GET", "/workspaces", org=org)).json
        assert [row["id"] for row in rows] == [seats[org].id]
        made = await jar.ask("POST", "/workspaces", {"name": "New"}, org=org)
        assert made.json["org_id"] == org
        for method, path in (
            ("GET", f"/workspaces/{seats[other].id}"),
            ("GET", f"/orgs/{other}/snapshot"),
            ("POST", f"/workspaces/{seats[other].id}/pause"),
            ("DELETE", f"/workspaces/{seats[other].id}?confirm=true"),
        ):
            reply = await jar.ask(method, path, {} if method != "GET" else None, org=org)
            assert (reply.status, reply.json["code"]) == (404, "not_found"), (method, path)


@requirement("C116", "S8")
async def test_a_request_that_names_none_or_another_one_is_of_no_login(two: tuple[Jar, str, str]) -> None:
    jar, first, _ = two
    for org in (None, UNKNOWN, "", f"{first}x", first.upper() + "é"):
        reply = await jar.ask("GET", "/session", org=org)
        assert reply.status == 401, org
    for name in list(jar.cookies)[1:]:
        del jar.cookies[name]
    assert (await jar.ask("GET", "/session")).status == 200, "the only login needs no name"
    assert (await jar.ask("GET", "/session", org=UNKNOWN)).status == 401


@requirement("C116", "S8")
async def test_a_cookie_under_the_name_of_another_organisation_opens_nothing(two: tuple[Jar, str, str]) -> None:
    jar, first, second = two
    one, other = (next(name for name in jar.cookies if name.endswith(org)) for org in (first, second))
    jar.cookies[one], jar.cookies[other] = jar.cookies[other], jar.cookies[one]
    for org in (first, second):
        assert (await jar.ask("GET", "/session", org=org)).status == 401
    assert (await jar.ask("GET", "/sessions")).json == []


@requirement("C116", "S8", "M24")
async def test_a_live_channel_is_of_the_organisation_that_it_names(server: Running, two: tuple[Jar, str, str]) -> None:
    jar, first, second = two
    async with jar.socket(first) as one, jar.socket(second) as other:
        await all_live(server)
        assert [each.frames[0]["org_id"] for each in (one, other)] == [first, second]
        seats = [await server.seat("Ops", org_id=org) for org in (first, second)]
        for opened, seat in zip((one, other), seats, strict=True):
            assert (await opened.event())["workspace_id"] == seat.id
    for org in (None, UNKNOWN):
        with pytest.raises(InvalidStatus) as refused:
            async with jar.socket(org):
                pass
        assert refused.value.response.status_code == 401


@requirement("C116", "S8")
async def test_a_file_is_read_with_the_organisation_in_its_address(server: Running, two: tuple[Jar, str, str]) -> None:
    jar, first, second = two
    seat = await server.seat("Ops", org_id=second)
    (file,) = await uploaded(server, seat.id, seat.token, ("a.txt", b"text"))
    place = place_of(file)
    assert (await jar.ask("GET", f"{place}?session_org={second}")).body == b"text"
    assert (await jar.ask("GET", f"{place}?session_org={first}")).status == 404
    assert (await jar.ask("GET", place)).status == 401


@requirement("C116")
async def test_the_header_wins_over_the_address_and_a_token_over_both(two: tuple[Jar, str, str]) -> None:
    jar, first, second = two
    session = await jar.ask("GET", f"/session?session_org={second}", org=first)
    assert session.json["org"]["id"] == first
    headers = {**jar.headers(second), "Authorization": f"Bearer {ADMIN_TOKEN}"}
    assert (await ask(jar.server.port, "GET", "/session", headers=headers)).json["user"]["kind"] == "admin"


# -- the list ----------------------------------------------------------------------------------------------------------


@requirement("C116")
async def test_a_browser_lists_its_logins_and_nobody_elses(server: Running, two: tuple[Jar, str, str]) -> None:
    jar, first, second = two
    third = await server.org("Another")
    await Jar(server).log_in(third)
    listed = await jar.ask("GET", "/sessions")
    assert {each["org"]["id"] for each in listed.json} == {first, second}
    assert [each["org"]["name"] for each in listed.json] == sorted(each["org"]["name"] for each in listed.json)
    assert {each["user"]["name"] for each in listed.json} == {"Ada"}
    assert listed.headers["cache-control"] == "no-store"
    assert not any(value in listed.body.decode() for value in jar.cookies.values())
    assert (await Jar(server).ask("GET", "/sessions")).json == []


@requirement("C116")
async def test_what_is_no_login_is_not_listed(server: Running, two: tuple[Jar, str, str]) -> None:
    jar, first, second = two
    base = f"molecule_{server.port}"
    token = (await server.admin.post(f"/orgs/{first}/people", {"name": "Zoe", "role": "owner"}))["auth_token"]
    jar.cookies |= {
        f"{base}.{UNKNOWN}": "mol_se_nothing",
        f"{base}.x/y": "z",
        f"{base}": ADMIN_TOKEN,
        f"{base}.z": token,
    }
    assert {each["org"]["id"] for each in (await jar.ask("GET", "/sessions")).json} == {first, second}


# -- in and out --------------------------------------------------------------------------------------------------------


@requirement("C116", "C74")
async def test_a_link_of_another_organisation_asks_first_and_then_adds_a_login(server: Running) -> None:
    jar, first = Jar(server), (await server.admin.get("/orgs"))[0]["id"]
    second = await server.org("Second")
    await jar.log_in(first, "Ada")
    before = dict(jar.cookies)
    refused = await jar.log_in(second, "Bob", agrees=False)
    assert (refused.status, refused.json["current"], refused.json["other"]) == (409, "Ada", "Bob")
    assert jar.cookies == before
    assert (await jar.log_in(second, "Bob")).json["org"]["id"] == second
    assert before.items() < jar.cookies.items(), "the first login stays"


@requirement("C116", "C74")
async def test_a_login_of_another_person_replaces_the_one_of_the_same_organisation(two: tuple[Jar, str, str]) -> None:
    jar, first, second = two
    await jar.log_in(second, "Bob", "viewer")
    names = [(await jar.ask("GET", "/session", org=org)).json["user"]["name"] for org in (first, second)]
    assert (names, len(jar.cookies)) == (["Ada", "Bob"], 2)


@requirement("C116", "C74", "M24")
async def test_logging_out_of_one_keeps_the_others(server: Running, two: tuple[Jar, str, str]) -> None:
    jar, first, second = two
    async with jar.socket(first) as gone, jar.socket(second) as kept:
        await all_live(server)
        assert (await jar.ask("POST", "/logout", {})).status == 401, "which one, it must say"
        assert (await jar.ask("POST", "/logout", {}, org=first)).status == 200
        assert (await gone.bye()).code == 4001
        seat = await server.seat("Ops", org_id=second)
        assert (await kept.event())["workspace_id"] == seat.id
    assert [name for name in jar.cookies if first in name] == []
    assert (await jar.ask("GET", "/session", org=first)).status == 401
    assert (await jar.ask("GET", "/session", org=second)).json["org"]["id"] == second


@requirement("C116")
async def test_the_cookie_of_an_earlier_version_is_of_its_organisation_alone(
    server: Running, two: tuple[Jar, str, str]
) -> None:
    jar, first, second = two
    base = f"molecule_{server.port}"
    jar.cookies = {base: jar.cookies[f"{base}.{first}"]}
    assert (await jar.ask("GET", "/session")).json["org"]["id"] == first
    assert (await jar.ask("GET", "/session", org=first)).json["org"]["id"] == first
    assert (await jar.ask("GET", "/session", org=second)).status == 401
    await jar.log_in(second, "Bob")
    assert [(await jar.ask("GET", "/session", org=org)).json["org"]["id"] for org in (first, second)] == [first, second]
    await jar.log_in(first, "Zoe")
    assert base not in jar.cookies, "its login was replaced"
    assert (await jar.ask("POST", "/logout", {}, org=first)).status == 200
    assert (await jar.ask("GET", "/session", org=first)).status == 401


@requirement("C116", "S14")
async def test_a_browser_has_a_limited_number_of_logins(engine: Engine, place: str, tmp_path: Path) -> None:
    limits = Limits(browser_logins=2, logins_per_minute=1000)
    async with running(engine, place, tmp_path, limits=limits) as server:
        jar = Jar(server)
        orgs = [await server.org(f"Org {number}") for number in range(3)]
        for org in orgs[:2]:
            assert (await jar.log_in(org)).status == 200
        refused = await jar.log_in(orgs[2])
        assert (refused.status, refused.json["code"]) == (422, "invalid_field")
        assert "2 logins, which is the limit" in refused.error
        assert (await jar.ask("POST", "/logout", {}, org=orgs[0])).status == 200
        assert (await jar.log_in(orgs[2])).status == 200
