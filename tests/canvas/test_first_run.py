"""The first thing a person sees, and what stands there while there is nothing to show: each case has its own words."""

import asyncio
import json
from pathlib import Path

from playwright.async_api import Route

from molecule_core.cli._sample_team import SampleTeams
from testing.canvas.page_user import Desk
from testing.running_server import ADMIN_TOKEN
from testing.waits import PROCESS_START_SECONDS
from tests.canvas.expectations import expect
from tests.requirements import requirement


@requirement("C57")
async def test_an_empty_organisation_offers_three_ways_to_start_and_each_works(
    empty_desk: Desk, tmp_path: Path
) -> None:
    server = empty_desk.stage.server
    server.server.sample_team_host = teams = SampleTeams(server.server, tmp_path, ADMIN_TOKEN)
    page = await empty_desk.open()
    await expect(page.get_by_role("heading", name="No agents yet")).to_be_visible()
    ways = page.get_by_role("main").get_by_role("listitem")
    await expect(ways.get_by_role("heading")).to_have_text(["Add an agent", "Add a sample team", "Learn how it works"])
    await ways.get_by_role("button", name="Add agent").click()
    await expect(page.get_by_role("heading", name="Connect an agent")).to_be_visible()
    await page.go_back()
    await ways.get_by_role("link", name="Open documentation").click()
    await expect(page).to_have_url(f"{server.url}/docs/")
    await page.go_back()
    try:
        await ways.get_by_role("button", name="Add sample team").click()
        panel = page.get_by_role("complementary", name="Sample lead")
        await panel.get_by_role("button", name="Plan a newsletter with sign up").click()
        await expect(page.get_by_role("treeitem")).to_have_count(4)
        await panel.get_by_text("Open questions").first.wait_for(timeout=PROCESS_START_SECONDS * 1000)
    finally:
        await teams.stop()


@requirement("C57")
async def test_a_sample_team_is_removed_like_any_team(empty_desk: Desk, tmp_path: Path) -> None:
    server = empty_desk.stage.server
    server.server.sample_team_host = teams = SampleTeams(server.server, tmp_path, ADMIN_TOKEN)
    try:
        page = await empty_desk.open()
        await page.get_by_role("button", name="Add sample team").click()
        await page.get_by_role("button", name="Actions for Sample lead").click()
        await page.get_by_role("menuitem", name="Remove…", exact=True).click()
        await page.get_by_label("Type Sample lead to confirm").fill("Sample lead")
        await page.get_by_role("button", name="Remove 4 workspaces").click()
        await expect(page.get_by_role("heading", name="No agents yet")).to_be_visible()
        await expect(page.get_by_role("button", name="Add sample team")).to_be_visible()
    finally:
        await teams.stop()


@requirement("C57")
async def test_a_server_that_cannot_run_a_sample_team_does_not_offer_one(empty_desk: Desk) -> None:
    page = await empty_desk.open()
    ways = page.get_by_role("main").get_by_role("listitem")
    await expect(ways.get_by_role("heading")).to_have_text(["Add an agent", "Learn how it works"])


@requirement("C57")
async def test_a_viewer_of_an_empty_organisation_reads_whom_to_ask(empty_desk: Desk, tmp_path: Path) -> None:
    server = empty_desk.stage.server
    server.server.sample_team_host = SampleTeams(server.server, tmp_path, ADMIN_TOKEN)
    page = await empty_desk.enter(await empty_desk.context(), "/app/org", await empty_desk.stage.link_for("viewer"))
    await expect(page.get_by_text("Viewers cannot add agents. Ask an operator or owner")).to_be_visible()
    ways = page.get_by_role("main").get_by_role("listitem")
    await expect(ways.get_by_role("heading")).to_have_text(["Learn how it works"])


@requirement("C57")
async def test_the_first_agent_is_seen_to_arrive_and_takes_the_place_of_the_first_view(empty_desk: Desk) -> None:
    stage = empty_desk.stage
    page = await empty_desk.open("/app/connect")
    await page.get_by_label("Name").fill("Scout")
    await page.get_by_role("button", name="Create workspace").click()
    token = await page.get_by_text("This token is shown only once").locator("xpath=../..").locator("code").inner_text()
    steps = page.get_by_role("region", name="Connection status").get_by_role("listitem")
    await expect(steps.filter(has_text=": done")).to_have_text(["Token created: done"])
    agent = stage.server.api(token)
    (seat,) = await stage.admin.get("/workspaces")
    await agent.post("/registry/register", {"id": seat["id"], "agent_card": {"name": "Scout"}})
    await expect(steps.filter(has_text="Agent registered")).to_contain_text("done")
    await page.get_by_role("button", name="Send test message").click()
    (message,) = await agent.claim(seat["id"], wait=5)
    await agent.ack(seat["id"], message)
    await agent.post(f"/workspaces/{seat['id']}/notify", {"message": "I am here."})
    await agent.post("/registry/heartbeat", {"workspace_id": seat["id"]})
    await expect(page.get_by_text("The agent is connected.")).to_be_attached()
    await page.get_by_role("link", name="Org").click()
    await expect(page.get_by_role("treeitem", name="Scout")).to_be_visible()
    assert await page.get_by_text("No agents yet").count() == 0


@requirement("C57")
async def test_a_seat_without_a_name_is_refused_in_words_at_its_field(empty_desk: Desk) -> None:
    page = await empty_desk.open("/app/connect")
    await page.get_by_role("button", name="Create workspace").click()
    name = page.get_by_label("Name")
    await expect(name).to_be_focused()
    await expect(name).to_have_accessible_description("Enter a name for the agent.")
    assert await empty_desk.stage.admin.get("/workspaces") == []


@requirement("C57")
async def test_while_the_organisation_is_read_the_page_says_so(desk: Desk) -> None:
    page = await desk.open("/app/settings")
    open_ = asyncio.Event()

    async def hold(route: Route) -> None:
        await open_.wait()
        await route.continue_()

    await page.route("**/snapshot", hold)
    await page.goto(desk.stage.server.url + "/app/org")
    await expect(page.get_by_role("heading", name="Loading organisation…")).to_be_visible()
    assert await page.get_by_text("No agents yet").count() == 0
    open_.set()
    await expect(page.get_by_role("tree")).to_be_visible()
    assert await page.get_by_role("heading", name="Loading organisation…").count() == 0


@requirement("C57")
async def test_an_organisation_that_cannot_be_read_is_told_with_the_reason_and_read_later(desk: Desk) -> None:
    page = await desk.open("/app/settings")
    desk.forgiven.append("status of 503")
    problem = {"status": 503, "error": "The database does not answer.", "code": "store_down"}
    headers = {"content-security-policy": "default-src 'none'"}

    async def refuse(route: Route) -> None:
        await route.fulfill(status=503, body=json.dumps(problem), headers=headers)

    await page.route("**/snapshot", refuse)
    await page.goto(desk.stage.server.url + "/app/org")
    told = page.get_by_role("main")
    await expect(told.get_by_role("heading", name="Could not load organisation")).to_be_visible()
    await expect(told).to_contain_text("The database does not answer. Retrying…")
    await page.unroute("**/snapshot")
    await expect(page.get_by_role("tree")).to_be_visible()
    assert await page.get_by_text("Could not").count() == 0


@requirement("C57")
async def test_a_server_that_is_away_has_a_view_of_its_own_with_a_way_to_try_again(desk: Desk) -> None:
    page = await desk.open("/app/settings")
    desk.forgiven.append("net::ERR_CONNECTION_REFUSED")

    async def cut(route: Route) -> None:
        await route.abort("connectionrefused")

    await page.route("**/session", cut)
    await page.goto(desk.stage.server.url + "/app/org")
    await expect(page.get_by_role("heading", name="Cannot reach Molecule")).to_be_visible()
    await expect(page.get_by_text("The server did not respond.")).to_be_visible()
    await page.unroute("**/session")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("tree")).to_be_visible()
    assert page.url.endswith("/app/org")


@requirement("C57")
async def test_a_filter_that_fits_nobody_says_so_and_shows_all_again(desk: Desk) -> None:
    page = await desk.open()
    await page.get_by_role("searchbox", name="Filter agents").fill("zebra")
    await expect(page.get_by_role("heading", name="No agent matches “zebra”")).to_be_visible()
    await page.get_by_role("button", name="Show all agents").click()
    await expect(page.get_by_role("treeitem")).to_have_count(12)
    assert await page.get_by_role("heading", name="No agent matches").count() == 0
