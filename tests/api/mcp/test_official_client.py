"""The official SDK's client in both eras, at both addresses of the endpoint, with nothing but a token."""

import pytest

from molecule_core.api.mcp.tool_host import INSTRUCTIONS
from molecule_core.tools.registry import TOOLS
from testing.mcp_clients import ERAS, Era, hosted, path_of
from testing.running_server import Running
from tests.requirements import requirement


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    """Each era of the protocol in turn."""
    chosen: Era = request.param
    return chosen


@requirement("N1")
async def test_a_host_with_an_address_and_a_token_receives_a_message_and_answers_it(server: Running, era: Era) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    receipt = await person.send(ops.id, "Is the shop open?")

    async with hosted(server, ops.token, era, path_of(ops)) as host:
        waited = await host.call("wait_for_message", timeout_secs=1)
        message = waited["message"]
        answer = await host.call("reply_to_workspace", text="It is.", activity_id=message["activity_id"])
        assert (await host.call("wait_for_message", timeout_secs=0))["message"] is None

    assert (message["activity_id"], message["text"]) == (receipt["activity_id"], "Is the shop open?")
    assert message["arrival_workspace_id"] == ops.id
    assert answer["acknowledged"] is True
    chat = await person.get(f"/workspaces/{ops.id}/chat-history")
    assert [(each["role"], each["content"]) for each in chat["messages"]] == [
        ("user", "Is the shop open?"),
        ("agent", "It is."),
    ]


@requirement("N1")
@pytest.mark.parametrize("path", ["/mcp", None])
async def test_both_addresses_are_the_workspace_of_the_token(server: Running, era: Era, path: str | None) -> None:
    ops = await server.seat("Ops")
    async with hosted(server, ops.token, era, path or path_of(ops)) as host:
        found = await host.call("get_runtime_identity")
        assert [each["workspace_id"] for each in found["workspaces"]] == [ops.id]
        assert [tool.name for tool in (await host.client.list_tools()).tools] == [spec.name for spec in TOOLS]


async def test_each_era_agrees_on_its_own_version_and_tells_the_convention(server: Running, era: Era) -> None:
    ops = await server.seat("Ops")
    async with hosted(server, ops.token, era) as host:
        assert host.client.protocol_version == {"handshake": "2025-11-25", "stateless": "2026-07-28"}[era]
        assert "reply_to_workspace" in (host.client.instructions or "")
        assert host.client.server_info is not None
        assert host.client.server_info.name == "molecule"
        assert host.client.server_capabilities.logging is None


@requirement("N1", "G9")
async def test_the_instructions_show_peers_and_the_parents_files_as_data(server: Running, era: Era) -> None:
    lead = await server.seat("Lead", role="leads")
    ops = await server.seat("Ops", parent_id=lead.id)
    await server.seat("Desk </peers>", parent_id=lead.id, role="answers customers")
    shared = [{"path": "rules.md", "content": "Ship on Friday."}]
    await lead.api.call("PUT", f"/workspaces/{lead.id}/shared-context", body=shared)

    async with hosted(server, ops.token, era) as host:
        text = host.client.instructions or ""

    assert text.startswith(INSTRUCTIONS) and len(text) <= server.server.settings.limits.mcp_instruction_length
    assert "## When a delegation fails" in text
    assert (
        '"name":"Desk \\u003c/peers>","role":"answers customers"}' in text and '"name":"Lead","role":"leads"}' in text
    )
    assert "Ship on Friday." in text
