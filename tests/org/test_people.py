"""People: roles that count at once, removals that end everything, invitations that let one person in."""

import asyncio
from pathlib import Path
from typing import Any

from molecule_core.client.api import ApiClient
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import all_live, channel, check_shape, journal_of
from testing.running_server import Running, running
from testing.waits import refused
from tests.access.test_sessions import Browser, code_of, link_of
from tests.requirements import requirement


class Member:
    """A person of the first organisation: id, token, client."""

    def __init__(self, server: Running, answer: dict[str, Any]) -> None:
        self.id: str = answer["id"]
        self.token: str = answer["auth_token"]
        self.api: ApiClient = server.api(self.token)
        self.path = f"/orgs/{answer['org_id']}/people/{self.id}"


async def member(server: Running, role: str, name: str = "Ada") -> Member:
    """A new person."""
    return Member(server, await server.admin.post(f"{await org(server)}/people", {"name": name, "role": role}))


async def org(server: Running) -> str:
    """The path of the first organisation."""
    return f"/orgs/{(await server.admin.get('/orgs'))[0]['id']}"


# -- roles -------------------------------------------------------------------------------------------------------------


@requirement("M7")
async def test_a_new_role_counts_at_once_and_a_new_name_is_shown(server: Running) -> None:
    owner, ada = await member(server, "owner"), await member(server, "viewer")
    assert (await refused(ada.api.post("/workspaces", {"name": "x"}))).code == "role_too_low"
    after = await owner.api.call("PATCH", ada.path, body={"role": "operator", "name": " Ada L. "})
    assert (after["role"], after["name"]) == ("operator", "Ada L.")
    await ada.api.post("/workspaces", {"name": "x"})
    assert (await ada.api.get("/session"))["user"]["name"] == "Ada L."
    await owner.api.call("PATCH", ada.path, body={"role": "viewer"})
    assert (await refused(ada.api.post("/workspaces", {"name": "x"}))).code == "role_too_low"
    told = (await journal_of(server))[-1]
    check_shape(told)
    assert (told["event"], told["workspace_id"], told["payload"]) == ("PEOPLE_CHANGED", "", {"person_id": ada.id})
    people = await ada.api.get(f"{await org(server)}/people")
    assert [(each["id"], each["role"]) for each in people] == [(owner.id, "owner"), (ada.id, "viewer")]
    assert "auth_token" not in people[0]


@requirement("M7", "M24")
async def test_with_a_new_role_the_live_channel_begins_anew(server: Running) -> None:
    ada = await member(server, "viewer")
    async with channel(server, ada.token) as opened:
        await all_live(server)
        await server.admin.call("PATCH", ada.path, body={"role": "owner"})
        assert (await opened.bye()).code == 1011
    async with channel(server, ada.token) as opened:
        assert opened.frames[0]["user"]["role"] == "owner"


@requirement("M7", "M32")
async def test_no_workspace_is_told_about_people(server: Running) -> None:
    seat = await server.seat("Ops")
    await member(server, "viewer")
    await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"role": "x"})
    assert {event["event"] for event in await journal_of(server, seat.token)} == {
        "WORKSPACE_PROVISIONING",
        "WORKSPACE_UPDATED",
    }


@requirement("M7", "S8")
async def test_people_of_another_organisation_answer_as_unknown_ones(server: Running) -> None:
    ada = await member(server, "owner")
    other = await server.org("Other")
    stranger = await server.person("owner", other)
    own = f"/orgs/{other}/people"
    for method in ("PATCH", "DELETE"):
        foreign = await refused(stranger.call(method, f"{own}/{ada.id}", body={}))
        unknown = await refused(stranger.call(method, f"{own}/nobody", body={}))
        assert (foreign.status, foreign.problem) == (unknown.status, unknown.problem) == (404, unknown.problem)
    assert (await refused(stranger.get(f"{own}/{ada.id}/tokens"))).status == 404


# -- removing ----------------------------------------------------------------------------------------------------------


@requirement("M7", "P6")
async def test_who_is_removed_is_out_with_all_sessions_tokens_channels_and_links(server: Running) -> None:
    ada, bob = await member(server, "operator"), await member(server, "owner", "Bob")
    browser = Browser(server)
    assert (await browser.log_in(code_of(await link_of(server, person_id=ada.id)))).status == 200
    unused = code_of(await link_of(server, person_id=ada.id))
    async with channel(server, ada.token) as first, browser.socket() as second, channel(server, bob.token) as kept:
        await all_live(server)
        await bob.api.call("DELETE", ada.path)
        assert [(await each.bye()).code for each in (first, second)] == [4001, 4001]
        assert (await kept.event("PEOPLE_CHANGED"))["payload"] == {"person_id": ada.id}
    assert (await refused(ada.api.get("/session"))).status == 401
    assert (await browser.get("/session")).status == 401
    assert (await Browser(server).log_in(unused)).status == 401
    assert [each["id"] for each in await bob.api.get(f"{await org(server)}/people")] == [bob.id]
    assert (await refused(bob.api.call("DELETE", ada.path))).status == 404
    assert (await refused(server.admin.post(f"{ada.path}/tokens"))).status == 404


@requirement("M7", "P6")
async def test_who_is_removed_stays_out_after_a_restart(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path) as server:
        ada = await member(server, "operator")
        await server.admin.call("DELETE", ada.path)
    async with running(engine, place, tmp_path) as server:
        assert (await refused(server.api(ada.token).get("/session"))).status == 401


@requirement("M7")
async def test_the_last_owner_is_neither_removed_nor_demoted_even_by_two_at_once(server: Running) -> None:
    one, other = await member(server, "owner", "One"), await member(server, "owner", "Other")
    found = await asyncio.gather(
        server.admin.call("DELETE", one.path),
        server.admin.call("PATCH", other.path, body={"role": "viewer"}),
        return_exceptions=True,
    )
    refusals = [each for each in found if isinstance(each, Exception)]
    assert [getattr(each, "code", "") for each in refusals] == ["last_owner"]
    people = await server.admin.get(f"{await org(server)}/people")
    assert [each["role"] for each in people].count("owner") == 1


# -- invitations -------------------------------------------------------------------------------------------------------


async def invite(server: Running, api: ApiClient | None = None, /, **body: Any) -> dict[str, Any]:
    """An invitation."""
    said = {"name": "Grace", "role": "operator", **body}
    found: dict[str, Any] = await (api or server.admin).post(f"{await org(server)}/invitations", said)
    return found


@requirement("M7", "C74")
async def test_who_opens_an_invitation_is_a_person_with_a_session_from_then_on(server: Running) -> None:
    owner = await member(server, "owner")
    invitation = await invite(server, owner.api)
    assert invitation["url"].startswith(f"{server.url}/app/#login=mol_in_")
    (open_,) = await owner.api.get(f"{await org(server)}/invitations")
    assert open_ == {name: value for name, value in invitation.items() if name != "url"}
    assert (open_["invited_by"], open_["name"], open_["role"]) == (owner.id, "Grace", "operator")
    browser = Browser(server)
    reply = await browser.log_in(code_of(invitation))
    assert (reply.status, reply.json["user"]["name"], reply.json["user"]["role"]) == (200, "Grace", "operator")
    assert (await browser.get("/session")).json["user"] == reply.json["user"]
    assert (await browser.post("/workspaces", {"name": "Mine"})).status == 201
    assert await owner.api.get(f"{await org(server)}/invitations") == []
    assert [each["name"] for each in await owner.api.get(f"{await org(server)}/people")] == ["Ada", "Grace"]
    assert (await Browser(server).log_in(code_of(invitation))).status == 401


@requirement("M35")
async def test_what_was_written_before_a_person_came_is_not_unread_for_them(server: Running) -> None:
    seat = await server.seat("Ops")
    await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "before"})
    browser = Browser(server)
    await browser.log_in(code_of(await invite(server)))
    await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "after"})
    snapshot = (await browser.get(f"{await org(server)}/snapshot")).json
    (chat,) = snapshot["chats"]
    assert (chat["unread"], chat["read_seq"], chat["last"]["content"]) == (1, 1, "after")
    added = await member(server, "viewer")
    (chat,) = (await added.api.get(f"{await org(server)}/snapshot"))["chats"]
    assert (chat["unread"], chat["read_seq"]) == (0, 2)


@requirement("M7")
async def test_of_many_who_open_an_invitation_at_once_one_comes_in(server: Running) -> None:
    code = code_of(await invite(server))
    replies = await asyncio.gather(*(Browser(server).log_in(code) for _ in range(6)))
    assert sorted(reply.status for reply in replies) == [200, 401, 401, 401, 401, 401]
    assert len(await server.admin.get(f"{await org(server)}/people")) == 1


@requirement("M7", "O2")
async def test_an_invitation_is_good_for_a_while_and_until_it_is_withdrawn(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits = Limits(sweep_seconds=10_000_000, invitation_hours=1)
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        old, withdrawn = await invite(server), await invite(server)
        path = f"{await org(server)}/invitations/{withdrawn['id']}"
        assert (await server.admin.call("DELETE", path))["status"] == "withdrawn"
        assert (await refused(server.admin.call("DELETE", path))).status == 404
        assert (await Browser(server).log_in(code_of(withdrawn))).status == 401
        await clock.advance(3601)
        assert (await Browser(server).log_in(code_of(old))).status == 401
        assert await server.admin.get(f"{await org(server)}/invitations") == []


@requirement("M7", "P6")
async def test_invitations_end_with_the_right_to_invite(server: Running) -> None:
    removed, demoted = await member(server, "owner", "One"), await member(server, "owner", "Two")
    await member(server, "owner", "Three")
    codes = [code_of(await invite(server, each.api)) for each in (removed, demoted)]
    await server.admin.call("DELETE", removed.path)
    await server.admin.call("PATCH", demoted.path, body={"role": "operator"})
    for code in codes:
        assert (await Browser(server).log_in(code)).status == 401


@requirement("M7", "S20")
async def test_only_owners_invite_and_only_into_their_own_organisation(server: Running) -> None:
    operator = await member(server, "operator")
    stranger = await server.person("owner", await server.org("Other"))
    assert (await refused(invite(server, operator.api))).code == "role_too_low"
    assert (await refused(invite(server, stranger))).status == 404
    for body in ({"role": "emperor"}, {"name": "\u202e"}, {"colour": "red"}):
        assert (await refused(invite(server, None, **body))).status == 422


@requirement("O3")
async def test_the_code_of_an_invitation_is_stored_hashed_and_shown_once(server: Running) -> None:
    invitation = await invite(server)
    code = code_of(invitation)
    for path in ("/invitations", "/people"):
        assert code not in str(await server.admin.get(f"{await org(server)}{path}"))
    rows = await server.server.store.rows("open_invitations", {"org_id": (await org(server))[6:], "now": 0})
    assert code not in str([tuple(row) for row in rows])
