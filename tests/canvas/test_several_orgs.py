"""A person of several organisations in one browser: each tab shows one, acts in it alone, and is switched."""

from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, Request

from testing.canvas.page_user import Desk
from testing.running_server import Running
from tests.canvas.expectations import expect
from tests.requirements import requirement

# What the page expects: a link of another organisation asks first; several logins, and a request that names none.
EXPECTED = ("status of 409", "status of 401")


async def link_of(server: Running, org_id: str, name: str) -> str:
    """A login link of a new owner."""
    person = await server.admin.post(f"/orgs/{org_id}/people", {"name": name, "role": "owner"})
    return str((await server.admin.post(f"/orgs/{org_id}/login-links", {"person_id": person["id"]}))["url"])


class Two:
    """A browser with a login in each of two organisations: the company of the desk, and one with one agent."""

    def __init__(self, desk: Desk, context: BrowserContext, page: Page, orgs: dict[str, str]) -> None:
        self.desk = desk
        self.context = context
        self.page = page
        self.orgs = orgs

    @property
    def server(self) -> Running:
        """The server of both."""
        return self.desk.stage.server

    async def tab(self, path: str) -> Page:
        """One more tab."""
        return await self.desk.tab(self.context, path)


@pytest.fixture
async def two(desk: Desk) -> Two:
    """The browser, with the second organisation shown."""
    desk.forgiven += EXPECTED
    server = desk.stage.server
    first = (await server.admin.get("/orgs"))[0]
    await server.admin.call("PATCH", f"/orgs/{first['id']}", body={"name": "Company"})
    second = await server.org("Workshop")
    await server.seat("Carpenter", org_id=second)
    context = await desk.context()
    page = await desk.enter(context)
    await page.goto(await link_of(server, second, "Bob"))
    await page.get_by_role("button", name="Continue as Bob").click()
    await expect(page.get_by_role("treeitem", name="Carpenter")).to_be_visible()
    return Two(desk, context, page, {"Company": first["id"], "Workshop": second})


async def switch(page: Page, old: str, new: str) -> None:
    """Shows another organisation."""
    await page.get_by_role("heading", level=1).get_by_role("button", name=old).click()
    await page.get_by_role("menu", name="Organisations").get_by_role("menuitemradio", name=new).click()
    await expect(page.get_by_role("heading", level=1, name=new)).to_be_visible()


@requirement("C116")
async def test_one_login_has_no_switcher_and_plain_addresses(desk: Desk) -> None:
    page = await desk.open("/app/org")
    await expect(page.get_by_text("Live", exact=True)).to_be_visible()
    assert await page.get_by_role("heading", level=1).get_by_role("button").count() == 0
    assert page.url == desk.stage.server.url + "/app/org"


@requirement("C116")
async def test_the_header_switches_between_the_organisations_of_the_browser(two: Two) -> None:
    page = two.page
    await expect(page.get_by_role("heading", level=1, name="Workshop")).to_be_visible()
    await expect(page.get_by_role("button", name="Account of Bob")).to_be_visible()
    await switch(page, "Workshop", "Company")
    await expect(page.get_by_role("treeitem", name="Lead")).to_be_visible()
    assert await page.get_by_role("treeitem", name="Carpenter").count() == 0
    await expect(page.get_by_role("button", name="Account of Owner")).to_be_visible()
    assert two.orgs["Company"] in page.url
    await switch(page, "Company", "Workshop")
    await expect(page.get_by_role("treeitem", name="Carpenter")).to_be_visible()
    assert "Lead" not in await page.content()


@requirement("C116", "S8")
async def test_each_tab_acts_in_its_own_organisation_also_after_a_reload(two: Two) -> None:
    asked: list[tuple[str, str | None]] = []

    async def note(request: Request) -> None:
        if "/orgs/" in request.url or "/workspaces" in request.url:
            asked.append((request.url, await request.header_value("x-molecule-org")))

    company = await two.tab(f"/app/o/{two.orgs['Company']}/settings")
    workshop = two.page
    company.on("request", note)
    for page, name in ((company, "Company"), (workshop, "Workshop")):
        await page.reload()
        await expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
    section = company.get_by_role("region", name="Organisation")
    await section.get_by_label("Name").fill("Renamed")
    await section.get_by_role("button", name="Rename").click()
    await expect(company.get_by_role("heading", level=1, name="Renamed")).to_be_visible()
    await expect(workshop.get_by_role("heading", level=1, name="Workshop")).to_be_visible()
    assert {org for _, org in asked} == {two.orgs["Company"]}
    assert not [url for url, _ in asked if two.orgs["Workshop"] in url]
    names: list[dict[str, Any]] = await two.server.admin.get("/orgs")
    assert {each["name"] for each in names} == {"Renamed", "Workshop"}


@requirement("C116", "M24")
async def test_a_live_channel_tells_a_tab_of_its_own_organisation_alone(two: Two) -> None:
    company = await two.tab(f"/app/o/{two.orgs['Company']}/org")
    for page in (company, two.page):
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
    await two.server.seat("Newcomer", org_id=two.orgs["Company"])
    await two.server.seat("Apprentice", org_id=two.orgs["Workshop"])
    await expect(company.get_by_role("treeitem", name="Newcomer")).to_be_visible()
    await expect(two.page.get_by_role("treeitem", name="Apprentice")).to_be_visible()
    assert await company.get_by_role("treeitem", name="Apprentice").count() == 0
    assert await two.page.get_by_role("treeitem", name="Newcomer").count() == 0


@requirement("C116", "C74")
async def test_logging_out_of_one_keeps_the_other_and_offers_it(two: Two) -> None:
    company = await two.tab(f"/app/o/{two.orgs['Company']}/org")
    await expect(company.get_by_text("Live", exact=True)).to_be_visible()
    await two.page.get_by_role("button", name="Account of Bob").click()
    await two.page.get_by_role("menuitem", name="Log out").click()
    await expect(two.page.get_by_role("heading", name="Log in to Molecule")).to_be_visible()
    assert "Carpenter" not in await two.page.content()
    await expect(company.get_by_role("heading", level=1).get_by_role("button")).to_have_count(0)
    await expect(company.get_by_text("Live", exact=True)).to_be_visible()
    await two.page.get_by_role("navigation", name="Your organisations").get_by_role("link", name="Company").click()
    await expect(two.page.get_by_role("treeitem", name="Lead")).to_be_visible()


@requirement("C116", "C74")
async def test_a_tab_that_was_open_before_the_second_login_stays_where_it_is(desk: Desk) -> None:
    desk.forgiven += EXPECTED
    server, context = desk.stage.server, await desk.context()
    first = await desk.enter(context, "/app/settings")
    second = await desk.tab(context, "/app/org")
    workshop = await server.org("Workshop")
    await second.goto(await link_of(server, workshop, "Bob"))
    await second.get_by_role("button", name="Continue as Bob").click()
    await expect(second.get_by_role("heading", level=1, name="Workshop")).to_be_visible()
    await expect(first.get_by_role("heading", level=1).get_by_role("button")).to_be_visible()
    await first.reload()
    await expect(first.get_by_role("button", name="Log out")).to_be_visible()
    await expect(first.get_by_role("button", name="Account of Owner")).to_be_visible()


@requirement("C116", "C74")
async def test_no_token_is_in_an_address_or_in_what_scripts_can_read(two: Two) -> None:
    kept = await two.page.evaluate(
        "() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href])"
    )
    assert "mol_" not in kept
    assert {cookie["httpOnly"] for cookie in await two.context.cookies()} == {True}
    assert {cookie["sameSite"] for cookie in await two.context.cookies()} == {"Strict"}


@requirement("C116")
async def test_a_link_to_an_organisation_without_a_login_says_so(two: Two) -> None:
    page = await two.context.new_page()
    await page.goto(f"{two.server.url}/app/o/01900000-0000-7000-8000-000000000000/org")
    await expect(page.get_by_role("heading", name="Log in to Molecule")).to_be_visible()
    links = page.get_by_role("navigation", name="Your organisations").get_by_role("link")
    await expect(links).to_have_text(["Company", "Workshop"])
