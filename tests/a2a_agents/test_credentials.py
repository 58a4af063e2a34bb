"""Credentials for A2A agents: where they are sent, and that nothing shows them."""

import base64
import json
import logging
from typing import Any

import msgspec
import pytest

from molecule_core.client.api import ApiError
from molecule_core.common.net.safe_fetch import FetchResult
from testing.a2a_agents import V0_3, StubAgent, completed
from tests.a2a_agents.conftest import A2AWorld

SECRET = "s3cret-of-the-agent"
TOKEN_URL = "https://login.example/token"


def scheme(kind: str, **members: Any) -> dict[str, Any]:
    """A security scheme as A2A 1.0 writes it."""
    return {"securitySchemes": {"one": {kind: members}}}


@pytest.mark.parametrize(
    ("more", "credential", "header"),
    [
        ({}, {"kind": "bearer", "secret": SECRET}, {"Authorization": f"Bearer {SECRET}"}),
        (
            scheme("apiKeySecurityScheme", location="header", name="X-Agent-Key"),
            {"kind": "api_key", "secret": SECRET},
            {"X-Agent-Key": SECRET},
        ),
        (
            {"securitySchemes": {"one": {"type": "apiKey", "in": "cookie", "name": "key"}}},
            {"kind": "api_key", "secret": SECRET},
            {"Cookie": f"key={SECRET}"},
        ),
        ({}, {"kind": "api_key", "secret": SECRET, "header": "X-Other"}, {"X-Other": SECRET}),
    ],
)
async def test_a_credential_reaches_its_agent_and_nothing_else(
    a2a: A2AWorld, more: dict[str, Any], credential: dict[str, Any], header: dict[str, str], caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    agent = StubAgent(script=completed())
    agent.more, agent.required_headers = more, header
    ops = await a2a.hire(agent, a2a_credential=credential)
    row = await a2a.until(await a2a.delegate(ops), "completed")
    shown = [await a2a.view(ops), await a2a.world.person.get(f"/workspaces/{ops.id}/a2a-agent")]
    server = a2a.world.server.server
    query = {"org_id": server.registry.orgs()[0].id, "seq": 0, "count": 10_000}
    events = [str(each) for each in await server.store.rows("events_after", query)]
    texts = [json.dumps(shown), caplog.text, *events]
    assert row.result == "done"
    assert [text for text in texts if SECRET in text] == []
    assert all(header.keys().isdisjoint(got) for got in agent.card_gets)


async def test_an_access_token_is_fetched_once_and_renewed_when_it_is_refused(a2a: A2AWorld) -> None:
    issued: list[dict[str, str]] = []

    def token(headers: dict[str, str], body: bytes) -> FetchResult:
        issued.append({**headers, "body": body.decode()})
        agent.required_headers = {"Authorization": f"Bearer t{len(issued)}"}
        return FetchResult(200, {}, msgspec.json.encode({"access_token": f"t{len(issued)}", "expires_in": 3600}))

    agent = StubAgent(script=completed())
    flows = {"clientCredentials": {"tokenUrl": TOKEN_URL, "scopes": {"work": "to work"}}}
    agent.more = scheme("oauth2SecurityScheme", flows=flows)
    agent.required_headers = {"Authorization": "Bearer t1"}
    a2a.net.tokens[TOKEN_URL] = token
    ops = await a2a.hire(agent, a2a_credential={"kind": "oauth2", "secret": SECRET, "client_id": "us"})
    for _ in range(2):
        await a2a.until(await a2a.delegate(ops, f"task {_}"), "completed")
    once = len(issued)
    agent.required_headers = {"Authorization": "Bearer revoked"}
    await a2a.until(await a2a.delegate(ops, "one more"), "completed")
    sent = base64.b64decode(issued[0]["Authorization"].removeprefix("Basic ")).decode()
    assert (once, len(issued), sent) == (1, 2, f"us:{SECRET}")
    assert issued[0]["body"] == "grant_type=client_credentials&scope=work"


async def test_a_card_that_names_another_origin_later_does_not_get_the_credential(a2a: A2AWorld) -> None:
    agent = StubAgent(line=V0_3, script=completed())
    thief = a2a.net.add(StubAgent("thief.example", line=V0_3, script=completed()))
    ops = await a2a.hire(agent, a2a_credential={"kind": "bearer", "secret": SECRET})
    await a2a.world.rest()
    agent.more = {"url": thief.url}
    StubUrl.move(agent, thief.url)
    await a2a.later(31)
    await a2a.world.rest()
    row = await a2a.until(await a2a.delegate(ops), "failed")
    refused = (row.reason and row.reason.value, list(thief.headers_seen))
    await a2a.world.person.call(
        "PATCH", f"/workspaces/{ops.id}", body={"a2a_credential": {"kind": "bearer", "secret": SECRET}}
    )
    again = await a2a.until(await a2a.delegate(ops, "again"), "completed")
    assert refused == ("unsafe_url", [])
    assert (again.result, thief.headers_seen[0]["authorization"]) == ("done", f"Bearer {SECRET}")


class StubUrl(StubAgent):
    """An agent whose card names another address."""

    moved_to = ""

    @classmethod
    def move(cls, agent: StubAgent, url: str) -> None:
        """Make the card of an agent name this address."""
        agent.__class__ = cls
        assert isinstance(agent, cls)
        agent.moved_to = url

    @property
    def url(self) -> str:
        return self.moved_to


@pytest.mark.parametrize(
    ("more", "credential", "expected"),
    [
        ({}, {"kind": "api_key", "secret": "k"}, "which header"),
        (scheme("apiKeySecurityScheme", location="query", name="k"), {"kind": "api_key", "secret": "k"}, "in the url"),
        ({}, {"kind": "oauth2", "secret": "k", "client_id": "us"}, "token endpoint"),
        ({}, {"kind": "bearer", "secret": "two\nlines"}, "secret"),
    ],
)
async def test_a_credential_that_cannot_be_sent_is_refused(
    a2a: A2AWorld, more: dict[str, Any], credential: dict[str, Any], expected: str
) -> None:
    agent = StubAgent()
    agent.more = more
    with pytest.raises(ApiError) as refused:
        await a2a.hire(agent, a2a_credential=credential)
    assert (refused.value.status, expected in str(refused.value)) == (422, True)
