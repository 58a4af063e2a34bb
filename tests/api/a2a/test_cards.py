"""Cards of A2A: what is public, what they say in both lines, how they are cached and signed."""

import base64
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from molecule_core.api.a2a.card_signatures import canonical_card
from testing.a2a_callers import A2ACaller, token_of
from testing.raw_http import Reply, ask
from testing.running_server import Running, Seat, running
from testing.waits import bounded
from tests.requirements import requirement

URL = "https://molecule.example"


async def read(
    server: Running, seat: Seat, token: str | None = None, *, name: str = "agent-card.json", **headers: str
) -> Reply:
    """The answer to a request for a card."""
    named = {each.replace("_", "-"): value for each, value in headers.items()}
    path = f"/workspaces/{seat.id}/.well-known/{name}"
    return await bounded(ask(server.port, "GET", path, token=token, headers=named))


async def publish(server: Running, seat: Seat, *, on: bool = True) -> None:
    """Publishes the card of a workspace."""
    await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"a2a_published": on})


@requirement("A2A1")
async def test_a_card_is_public_only_while_it_is_published(server: Running) -> None:
    seat = await server.seat("Ops")
    hidden = await read(server, seat)
    assert hidden.status == 404
    await publish(server, seat)
    for name in ("agent-card.json", "agent.json"):
        shown = await read(server, seat, name=name)
        assert (shown.status, shown.json["name"]) == (200, "Ops")
    await publish(server, seat, on=False)
    again = await read(server, seat)
    assert (again.status, again.body) == (404, hidden.body)


@requirement("A2A1", "M3")
async def test_an_unpublished_card_is_shown_to_callers_that_may_talk_to_it(server: Running) -> None:
    lead, ops = await server.seat("Lead"), await server.seat("Ops")
    stranger = await server.person(org_id=await server.org("Other"))
    person = await server.person("viewer")
    assert (await read(server, ops, lead.token)).status == 200
    assert (await read(server, ops, token_of(person))).status == 200
    assert (await read(server, ops, token_of(stranger))).status == 404
    assert (await read(server, ops, "mol_w_wrong")).status == 401


@requirement("A2A1")
async def test_a_card_has_what_both_lines_require(server: Running) -> None:
    seat = await server.seat("Ops", role="Runs the servers")
    skill = {"id": "run", "name": "Run", "description": "Runs a server", "tags": ["ops"]}
    described = {"name": "Another name", "description": "Keeps servers up.", "version": "2.1", "skills": [skill]}
    await seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": described})
    card = (await read(server, seat, seat.token)).json
    base = f"{server.server.settings.url}/workspaces/{seat.id}/a2a"
    assert (card["name"], card["description"], card["version"]) == ("Ops", "Keeps servers up.", "2.1")
    assert card["skills"] == [skill]
    interfaces = [
        (each["url"], each["protocolBinding"], each["protocolVersion"]) for each in card["supportedInterfaces"]
    ]
    assert interfaces == [(base, "JSONRPC", "1.0"), (base, "JSONRPC", "0.3"), (base, "HTTP+JSON", "1.0")]
    assert card["securityRequirements"] == [{"schemes": {"bearer": {"list": []}}}]
    assert card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "Bearer"
    assert (card["url"], card["protocolVersion"], card["preferredTransport"]) == (base, "0.3.0", "JSONRPC")
    assert (card["capabilities"]["streaming"], card["capabilities"]["extendedAgentCard"]) == (True, True)
    assert card["defaultInputModes"] and card["defaultOutputModes"]


@requirement("A2A1")
@pytest.mark.parametrize(
    "described", [[], "text", {"skills": "none", "version": 7, "capabilities": [1]}, {"skills": [5, {}]}]
)
async def test_whatever_an_agent_describes_its_card_is_valid(server: Running, described: Any) -> None:
    seat = await server.seat("Ops")
    await seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": described})
    card = (await read(server, seat, seat.token)).json
    assert card["version"] == "1.0.0"
    assert all(each["id"] and each["name"] and each["description"] and each["tags"] for each in card["skills"])
    assert card["skills"]


@requirement("A2A1")
async def test_an_unchanged_card_is_not_sent_again(server: Running) -> None:
    seat = await server.seat("Ops")
    first = await read(server, seat, seat.token)
    assert first.headers["cache-control"] == "private, max-age=60"
    assert parsedate_to_datetime(first.headers["last-modified"]).timestamp() > 0
    same = await read(server, seat, seat.token, If_None_Match=first.headers["etag"])
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", first.headers["etag"])
    described = {"skills": [{"id": "new", "name": "New"}]}
    await seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": described})
    changed = await read(server, seat, seat.token, If_None_Match=first.headers["etag"])
    assert changed.status == 200 and changed.headers["etag"] != first.headers["etag"]
    await publish(server, seat)
    assert (await read(server, seat)).headers["cache-control"] == "public, max-age=60"


@requirement("A2A1")
async def test_the_host_serves_the_card_of_one_published_workspace(tmp_path: Path) -> None:
    place = str(tmp_path / "molecule.db")
    async with running("sqlite", place, tmp_path) as server:
        seat = await server.seat("Ops")
        assert (await bounded(ask(server.port, "GET", "/.well-known/agent-card.json"))).status == 404
    async with running("sqlite", place, tmp_path, a2a_root_workspace=seat.id, a2a_legacy_cards=False) as server:
        assert (await bounded(ask(server.port, "GET", "/.well-known/agent-card.json"))).status == 404
        await publish(server, seat)
        card = (await bounded(ask(server.port, "GET", "/.well-known/agent-card.json"))).json
        assert card["name"] == "Ops"
        assert not {"url", "protocolVersion", "preferredTransport", "additionalInterfaces", "security"} & set(card)


@requirement("A2A1")
async def test_the_extended_card_needs_a_credential(server: Running) -> None:
    lead, ops = await server.seat("Lead"), await server.seat("Ops")
    for line, method in (("1.0", "GetExtendedAgentCard"), ("0.3", "agent/getAuthenticatedExtendedCard")):
        card = (await A2ACaller(server, ops.id, lead.token, line).call(method, {}))["result"]
        assert card["capabilities"]["extensions"][0]["params"]["workspaceId"] == ops.id
    assert "workspaceId" not in str((await read(server, ops, lead.token)).json)


@requirement("A2A1")
async def test_the_catalogue_lists_what_the_caller_may_call(server: Running) -> None:
    lead, other = await server.seat("Lead"), await server.org("Other")
    ops = await server.seat("Ops", parent_id=lead.id)
    foreign = await server.seat("Foreign", org_id=other)
    org_id = (await server.admin.get("/orgs"))[0]["id"]

    async def listed(api: Any, **query: str) -> set[str]:
        return {each["workspace_id"] for each in (await api.get("/a2a/agents", **query))["agents"]}

    assert await listed(lead.api) == {ops.id}
    assert await listed(await server.person("viewer")) == {lead.id, ops.id}
    assert await listed(server.admin, org=other) == {foreign.id}
    assert await listed(server.admin, org=org_id) == {lead.id, ops.id}


@requirement("A2A1")
async def test_a_configured_key_signs_cards_so_that_a_stock_library_verifies_them(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "card.pem").write_bytes(pem)
    place = str(tmp_path / "molecule.db")
    async with running("sqlite", place, tmp_path, a2a_card_key=str(tmp_path / "card.pem")) as server:
        seat = await server.seat("Übersetzung")
        card = (await read(server, seat, seat.token)).json
    (signature,) = card["signatures"]
    payload = base64.urlsafe_b64encode(canonical_card(card)).rstrip(b"=").decode()
    token = f"{signature['protected']}.{payload}.{signature['signature']}"
    assert jwt.api_jws.decode(token, key.public_key(), algorithms=["ES256"]) == canonical_card(card)
    changed = base64.urlsafe_b64encode(canonical_card({**card, "name": "Other"})).rstrip(b"=").decode()
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.api_jws.decode(
            f"{signature['protected']}.{changed}.{signature['signature']}", key.public_key(), algorithms=["ES256"]
        )
