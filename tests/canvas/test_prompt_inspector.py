"""The prompt inspector: what an agent is told before anything else, by section, and what a rebuild changed."""

import re

from testing.canvas.page_user import Desk
from tests.canvas.expectations import expect
from tests.canvas.prompt_actions import tell_prompt
from tests.requirements import requirement

PEERS = "- Lead: leads <b>all</b>\n- Reader: reads"
TEXTS = {(1, "system-prompt.md"): "You write the page.\n" * 20, (3, "Platform rules"): "Answer.", (5, "Peers"): PEERS}


@requirement("C79")
async def test_a_prompt_is_shown_by_section_and_follows_its_agent_with_why_and_what_changed(desk: Desk) -> None:
    stage, seat = desk.stage, desk.stage.seats["Writer"]
    desk.forgiven.append("status of 404")  # that there is none yet
    page = await desk.open(f"/app/org?focus={seat.id}&panel=chat")
    await page.get_by_role("tab", name="Prompt").click()
    await expect(page.get_by_role("heading", name="No prompt reported yet")).to_be_visible()
    await expect(page.get_by_text("molecule prompt watch")).to_be_visible()

    tokens = await tell_prompt(stage, "Writer", TEXTS, "start")
    facts = page.get_by_role("region", name="Prompt build")
    await expect(facts).to_contain_text("because the agent started")
    await expect(facts).to_contain_text(f"about {sum(tokens)} tokens of 1,000")
    await expect(facts.get_by_role("list", name="Warnings")).to_contain_text("team.md looks odd")
    await page.get_by_role("link", name="Open full page").click()
    await expect(page).to_have_url(f"{stage.server.url}/app/prompt/{seat.id}")
    sections = page.get_by_role("region", name="Sections")
    await expect(sections.get_by_role("heading")).to_have_count(len(tokens))
    shown = await sections.get_by_role("heading").all_inner_texts()
    assert [int(re.findall(r"(\d+) tokens?", each)[0]) for each in shown] == tokens

    await sections.get_by_role("button", name="Peers").click()
    await expect(page.get_by_role("region", name="Text of Peers")).to_have_text(PEERS)
    await tell_prompt(
        stage, "Writer", {**TEXTS, (5, "Peers"): f"{PEERS}\n- Ben: new"}, "event", f"WORKSPACE_ONLINE {seat.id}"
    )
    await expect(facts).to_contain_text("Rebuilt because Writer came online")
    await expect(page.get_by_role("region", name="Text of Peers")).to_contain_text("- Ben: new")
    await expect(page.get_by_role("region", name="Lines of Peers")).to_contain_text("+added: - Ben: new")
    await page.get_by_role("searchbox").fill("write the page")
    await expect(sections).to_contain_text("20 results in 1 section")
