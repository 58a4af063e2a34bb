"""The pages that instructions link to."""

import pytest

from molecule_core.tools.registry import TOOLS
from testing.raw_http import ask
from testing.running_server import Running
from tests.instructions.instructed_agent import InstructedAgent
from tests.requirements import requirement


@requirement("I17")
async def test_the_docs_url_of_the_instructions_leads_to_a_page_that_names_every_way_to_answer(
    agent: InstructedAgent,
) -> None:
    told = await agent.told()

    path = told["docs_url"].removeprefix("https://molecule.example")
    reply = await ask(agent.server.port, "GET", path)

    assert (reply.status, reply.headers["content-type"]) == (200, "text/markdown; charset=utf-8")
    page = reply.body.decode()
    for needed in (
        told["reply_via"],
        "/notify",
        "/a2a",
        "/activity/ack",
        "/reply",
        "/decline",
        "molecule tool",
        "molecule reply",
        "molecule bridge",
        "reply_handle",
        "report_progress",
        "/delegations/DELEGATION/status",
        "delegation_result",
    ):
        assert needed in page
    assert "https://molecule.example" in page


@requirement("I17")
async def test_the_index_lists_every_tool_of_the_registry_and_links_to_the_rest(server: Running) -> None:
    page = (await ask(server.port, "GET", "/agent-docs")).body.decode()

    assert all(f"**{spec.name}**" in page for spec in TOOLS)
    assert f"({server.server.settings.url}/agent-docs/replies)" in page


@requirement("I17", "M9")
@pytest.mark.parametrize("path", ["/agent-docs", "/agent-docs/replies"])
async def test_a_page_is_text_for_whoever_comes_and_no_browser_takes_it_for_html(server: Running, path: str) -> None:
    reply = await ask(server.port, "GET", path, token="of nobody")

    assert reply.status == 200
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert b"<script" not in reply.body.lower() and b"<html" not in reply.body.lower()
    assert (await ask(server.port, "GET", f"{path}/nowhere")).status == 404
