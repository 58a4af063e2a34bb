"""Prompts and completion at the endpoint, with the official SDK's client in both eras."""

import pytest
from mcp_types import PromptReference

from testing.mcp_clients import ERAS, Era, hosted
from testing.running_server import Running
from tests.requirements import requirement


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    """Each era of the protocol in turn."""
    chosen: Era = request.param
    return chosen


@requirement("N1")
async def test_a_person_asks_a_workspace_by_a_slash_command(server: Running, era: Era) -> None:
    lead = await server.seat("Lead")
    desk = await server.seat("Desk", parent_id=lead.id)
    async with hosted(server, lead.token, era) as host:
        capabilities = host.client.server_capabilities
        assert capabilities.prompts is not None and not capabilities.prompts.list_changed
        assert capabilities.completions is not None
        assert [each.name for each in (await host.client.list_prompts()).prompts] == ["ask", "delegate", "inbox"]
        completed = await host.client.complete(PromptReference(name="ask"), {"name": "workspace", "value": "de"})
        assert completed.completion.values == ["Desk"]
        found = await host.client.get_prompt("ask", {"workspace": "desk", "question": "Is it open?"})
        text = found.messages[0].content.text  # type: ignore[union-attr]
    assert f'`workspace_id` "{desk.id}"' in text and text.endswith("Is it open?")


@requirement("N1")
async def test_workspaces_that_it_may_not_message_are_neither_completed_nor_named(server: Running, era: Era) -> None:
    lead = await server.seat("Lead")
    other = await server.seat("Foreign desk", org_id=await server.org("Other"))
    async with hosted(server, lead.token, era) as host:
        completed = await host.client.complete(PromptReference(name="ask"), {"name": "workspace", "value": "fo"})
        assert completed.completion.values == []
        errors = []
        for query in (other.id, "Foreign desk", "00000000-0000-0000-0000-000000000000"):
            with pytest.raises(Exception, match="not found") as caught:
                await host.client.get_prompt("ask", {"workspace": query, "question": "?"})
            errors.append(str(caught.value).replace(query, "X"))
    assert len(set(errors)) == 1
