"""Cards of A2A agents: what is accepted, how they are watched, and what a workspace shows of them."""

from typing import Any

import pytest

from molecule_core.client.api import ApiError
from molecule_core.wire.protocols.a2a import DELEGATION_EXTENSION
from testing.a2a_agents import V0_3, V1, StubAgent, completed
from testing.waits import eventually
from tests.a2a_agents.conftest import A2AWorld


async def test_a_workspace_comes_online_with_the_card_of_its_agent(a2a: A2AWorld) -> None:
    ops = await a2a.hire(StubAgent())

    async def status() -> str:
        await a2a.later(0)
        return str((await a2a.view(ops))["status"])

    await eventually(status, lambda found: found == "online")
    view = await a2a.view(ops)
    assert (view["agent_card"]["name"], view["runtime"], view["delivery_mode"]) == ("Stub", "a2a", "push")
    assert len(await a2a.events("AGENT_CARD_UPDATED")) == 1


async def test_checks_use_the_etag_and_a_change_is_one_event(a2a: A2AWorld) -> None:
    agent = StubAgent()
    ops = await a2a.hire(agent)
    await a2a.world.rest()
    for _ in range(3):
        await a2a.later(31)
        await a2a.world.rest()
    agent.name = "Renamed"
    for _ in range(3):
        await a2a.later(31)
        await a2a.world.rest()

    async def names() -> list[str]:
        return [each["agent_card"]["name"] for each in await a2a.events("AGENT_CARD_UPDATED")]

    assert await eventually(names, lambda found: len(found) > 1) == ["Stub", "Renamed"]
    assert all("If-None-Match" in headers for headers in agent.card_gets[2:])
    assert (await a2a.view(ops))["agent_card"]["name"] == "Renamed"


async def test_an_agent_whose_card_cannot_be_read_goes_offline_and_returns(a2a: A2AWorld) -> None:
    agent = StubAgent()
    ops = await a2a.hire(agent)
    await a2a.world.rest()

    async def until_status(wanted: str) -> None:
        async def status() -> str:
            await a2a.later(31)
            await a2a.world.rest()
            return str((await a2a.view(ops))["status"])

        await eventually(status, lambda found: found == wanted)

    agent.is_down = True
    await until_status("offline")
    shown = await a2a.world.person.get(f"/workspaces/{ops.id}/a2a-agent")
    agent.is_down = False
    await until_status("online")
    assert "connection refused" in shown["error"]


GRPC = {"url": "https://a.example", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
LATER = {"url": "https://a.example", "protocolBinding": "JSONRPC", "protocolVersion": "2.0"}
EXTENSION = {"uri": "https://x.example/e", "required": True}
BAD_CARDS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "no name"),
    ({"supportedInterfaces": []}, "names no interface"),
    ({"supportedInterfaces": [GRPC]}, "GRPC"),
    ({"supportedInterfaces": [LATER]}, "2.0"),
    ({"capabilities": {"extensions": [EXTENSION]}}, "https://x.example/e"),
]


@pytest.mark.parametrize(("members", "expected"), BAD_CARDS)
async def test_a_bad_card_is_refused_with_its_reason(a2a: A2AWorld, members: dict[str, Any], expected: str) -> None:
    agent = StubAgent()
    StubCard.serve(agent, {**agent.card, **members})
    with pytest.raises(ApiError) as refused:
        await a2a.hire(agent)
    assert (refused.value.status, expected in str(refused.value)) == (422, True)


@pytest.mark.parametrize("forbidden", ["agent.example", "inside.example"])
async def test_a_forbidden_address_is_refused_for_the_card_and_for_its_interface(a2a: A2AWorld, forbidden: str) -> None:
    agent = StubAgent(line=V0_3)
    StubCard.serve(agent, {**agent.card, "url": "https://inside.example/rpc"})
    a2a.net.forbidden = {forbidden}
    with pytest.raises(ApiError) as refused:
        await a2a.hire(agent)
    assert (refused.value.status, "is not public" in str(refused.value)) == (400, True)


async def test_the_preferred_interface_is_chosen_and_its_tenant_echoed(a2a: A2AWorld) -> None:
    agent = StubAgent(tenant="acme", script=completed())
    old = {"url": "https://agent.example/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}
    rest = {"url": "https://agent.example/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    new = {"url": agent.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0.1", "tenant": "acme"}
    agent.more = {"supportedInterfaces": [old, rest, new]}
    agent.line = V0_3
    card = dict(agent.card)
    for member in ("url", "protocolVersion", "preferredTransport"):
        card.pop(member)
    agent.line = V1
    StubCard.serve(agent, card)
    ops = await a2a.hire(agent)
    row = await a2a.until(await a2a.delegate(ops), "completed")
    assert (row.result, agent.calls[0].headers["a2a-version"]) == ("done", "1.0")


class StubCard(StubAgent):
    """An agent whose card the test writes."""

    written: dict[str, Any]

    @classmethod
    def serve(cls, agent: StubAgent, card: dict[str, Any]) -> None:
        """Make an agent show this card."""
        agent.__class__ = cls
        assert isinstance(agent, cls)
        agent.written = card

    @property
    def card(self) -> dict[str, Any]:
        return self.written


async def test_a_workspace_can_lose_its_agent_and_get_another(a2a: A2AWorld) -> None:
    ops = await a2a.hire(StubAgent())
    other = a2a.net.add(StubAgent("other.example", script=completed("from the other")))
    person, path = a2a.world.person, f"/workspaces/{ops.id}"
    await person.call("PATCH", path, body={"a2a_card_url": other.card_url})
    row = await a2a.until(await a2a.delegate(ops), "completed")
    await person.call("PATCH", path, body={"a2a_card_url": None})
    view = await a2a.view(ops)
    with pytest.raises(ApiError) as gone:
        await person.get(f"{path}/a2a-agent")
    assert row.result == "from the other"
    assert (view["a2a_card_url"], view["delivery_mode"], view["url"], gone.value.status) == (None, "poll", None, 404)


async def test_a_removed_workspace_leaves_nothing_of_its_agent(a2a: A2AWorld) -> None:
    agent = StubAgent()
    ops = await a2a.hire(agent, a2a_credential={"kind": "bearer", "secret": "s3cret"})
    await a2a.until_followed(ops, await a2a.delegate(ops))
    await a2a.world.person.call("DELETE", f"/workspaces/{ops.id}", query={"confirm": "true"})
    reader = a2a.world.server.server.a2a_agents.reader
    assert await reader.agent(ops.id) is None
    await a2a.later(60)
    await a2a.world.rest()
    assert agent.operations().count("GetTask") <= 1


@pytest.mark.parametrize("required", [True, False])
async def test_only_an_extension_that_the_card_requires_is_named(a2a: A2AWorld, required: bool) -> None:
    agent = StubAgent(script=completed())
    extensions = [{"uri": DELEGATION_EXTENSION, "required": required}]
    agent.more = {"capabilities": {"extensions": extensions}}
    ops = await a2a.hire(agent)
    await a2a.until(await a2a.delegate(ops), "completed")
    expected = DELEGATION_EXTENSION if required else None
    assert agent.calls[0].headers.get("a2a-extensions") == expected
