"""Getting in and out: the code of a link is nowhere afterwards, and who logs out is out in every tab."""

import asyncio

from playwright.async_api import BrowserContext, Page, Route

from testing.canvas.page_user import Desk
from testing.waits import IN_PROCESS_SECONDS
from tests.canvas.expectations import expect
from tests.canvas.page_watchers import PRESS_IF_THERE
from tests.requirements import requirement

LOGGED_OUT = "Log in to Molecule"
# How the page learns that a link is another person's.
_OTHER_PERSON = "status of 409"
# All that a page can keep in a browser, as one text.
_STORED = """
async () => JSON.stringify([
  { ...localStorage },
  { ...sessionStorage },
  document.cookie,
  (await indexedDB.databases()).map((each) => each.name),
  await caches.keys(),
  history.state,
])
"""


async def traces(page: Page, said: list[str]) -> str:
    """Everything that is left of what a page was told: address, history, storage, console, what it asked for."""
    session = await page.context.new_cdp_session(page)
    history = await session.send("Page.getNavigationHistory")
    visited = [each["url"] for each in history["entries"]]
    return "\n".join([page.url, *visited, str(await page.evaluate(_STORED)), *said])


def listen(context: BrowserContext) -> list[str]:
    """Notes from now on what pages say on the console and which addresses they ask."""
    said: list[str] = []
    context.on("console", lambda message: said.append(f"console: {message.text}"))
    context.on("request", lambda request: said.append(f"request: {request.url} {request.headers.get('referer')}"))
    return said


@requirement("C74")
async def test_the_code_of_a_link_leaves_the_address_before_the_server_answers_and_is_kept_nowhere(desk: Desk) -> None:
    context = await desk.context()
    said, link = listen(context), await desk.stage.link()
    code = link.rpartition("=")[2]
    page = await context.new_page()
    answer, asked = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        asked.set()
        await answer.wait()
        await route.continue_()

    await page.route("**/login", hold)
    await page.goto(link)
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        await asked.wait()
    assert page.url == desk.stage.server.url + "/app/"
    answer.set()
    await expect(page.get_by_role("tree")).to_be_visible()
    assert len(code) >= 16
    assert code not in await traces(page, said)
    assert await page.evaluate("() => document.cookie") == ""


@requirement("C74")
async def test_a_page_for_which_a_link_was_opened_forgets_it_when_the_server_is_away(desk: Desk) -> None:
    desk.forgiven.append("net::ERR_CONNECTION_REFUSED")
    context = await desk.context()
    said, link = listen(context), await desk.stage.link()
    page = await context.new_page()

    async def cut(route: Route) -> None:
        await route.abort("connectionrefused")

    await page.route("**/login", cut)
    await page.goto(link)
    await expect(page.get_by_role("heading", name="Cannot reach Molecule")).to_be_visible()
    assert link.rpartition("=")[2] not in await traces(page, said)


@requirement("C57")
async def test_a_link_opened_while_the_server_is_away_works_when_it_is_back(desk: Desk) -> None:
    desk.forgiven.append("net::ERR_CONNECTION_REFUSED")
    page = await (await desk.context()).new_page()

    async def cut(route: Route) -> None:
        await route.abort("connectionrefused")

    await page.route("**/login", cut)
    await page.goto(await desk.stage.link())
    await expect(page.get_by_role("heading", name="Cannot reach Molecule")).to_be_visible()
    await page.unroute("**/login")
    await page.evaluate(PRESS_IF_THERE, "Try again")  # it may have tried by itself in that moment
    await expect(page.get_by_role("tree")).to_be_visible()
    assert page.url == desk.stage.server.url + "/app/"


@requirement("C74")
async def test_a_used_link_says_so_and_lets_nobody_in(desk: Desk) -> None:
    link = await desk.stage.link()
    for opened in (False, True):
        page = await (await desk.context()).new_page()
        await page.goto(link)
        if not opened:
            await expect(page.get_by_role("tree")).to_be_visible()
            continue
        await expect(page.get_by_role("heading", name=LOGGED_OUT)).to_be_visible()
        await expect(page.get_by_role("alert")).to_contain_text("used")
        assert (await page.request.get(desk.stage.server.url + "/session")).status == 401


@requirement("C74")
async def test_a_used_link_says_so_and_keeps_in_whoever_is_in(desk: Desk) -> None:
    used = await desk.stage.link()
    first = await desk.enter(await desk.context(), "", used)
    await expect(first.get_by_role("tree")).to_be_visible()
    await first.evaluate("() => { window.stays = true; }")
    fresh = await first.context.new_page()
    for page in (fresh, first):
        await page.goto(used)
        await expect(page.get_by_role("alert")).to_contain_text("used")
        await expect(page.get_by_role("alert")).to_contain_text("You are still logged in as")
        await expect(page.get_by_role("tree")).to_be_visible()
        assert used.rpartition("=")[2] not in page.url
    assert await first.evaluate("() => window.stays")


@requirement("C74")
async def test_a_link_pasted_into_the_tab_that_asks_for_it_lets_in_also_after_a_used_one(desk: Desk) -> None:
    used, good = await desk.stage.link(), await desk.stage.link()
    await desk.enter(await desk.context(), "", used)
    context = await desk.context()
    said, page = listen(context), await context.new_page()
    await page.goto(desk.stage.server.url + "/app/")
    await expect(page.get_by_role("heading", name=LOGGED_OUT)).to_be_visible()
    await page.evaluate("() => { window.stays = true; }")
    await page.goto(used)
    await expect(page.get_by_role("alert")).to_contain_text("used")
    await page.goto(good)
    await expect(page.get_by_role("tree")).to_be_visible()
    assert await page.evaluate("() => window.stays")  # a browser loads nothing anew where only what is behind # differs
    left = await traces(page, said)
    for link in (used, good):
        assert link.rpartition("=")[2] not in left


@requirement("C74")
async def test_a_link_pasted_by_somebody_who_is_in_lets_in_whom_it_is_for(desk: Desk) -> None:
    desk.forgiven += [_OTHER_PERSON]
    page = await desk.open("")
    await expect(page.get_by_text("Live", exact=True)).to_be_visible()
    said, link = listen(page.context), await desk.stage.link_for("viewer")
    await page.goto(link)
    await page.get_by_role("button", name="Continue as A viewer").click()
    await page.get_by_role("link", name="Settings", exact=True).click()
    await expect(page.get_by_text("Logged in as A viewer")).to_be_visible()
    assert link.rpartition("=")[2] not in await traces(page, said)


@requirement("C74")
async def test_whoever_logs_in_in_one_tab_is_in_in_every_tab_of_the_browser(desk: Desk) -> None:
    desk.forgiven += [_OTHER_PERSON]
    first = await desk.open("/app/settings")
    second = await desk.tab(first.context, "/app/settings")
    await expect(second.get_by_text("Live", exact=True)).to_be_visible()
    await first.goto(await desk.stage.link_for("viewer"))
    await first.get_by_role("button", name="Continue as A viewer").click()
    await expect(second.get_by_text("Logged in as A viewer")).to_be_visible()
    await expect(second.get_by_text("Live", exact=True)).to_be_visible()


@requirement("C74")
async def test_a_person_who_is_not_logged_in_sees_only_how_to_get_in(desk: Desk) -> None:
    page = await (await desk.context()).new_page()
    await page.goto(f"{desk.stage.server.url}/app/chat/{desk.stage.seats['Lead'].id}")
    await expect(page.get_by_role("heading", name=LOGGED_OUT)).to_be_visible()
    await expect(page.get_by_text("molecule login-link")).to_be_visible()
    assert await page.get_by_role("alert").count() == 0
    assert "Lead" not in await page.content()


@requirement("C74")
async def test_whoever_logs_out_is_out_in_every_tab_and_sees_nothing_of_the_organisation(desk: Desk) -> None:
    first = await desk.open()
    second = await first.context.new_page()
    await second.goto(f"{desk.stage.server.url}/app/chat/{desk.stage.seats['Reader'].id}")
    await expect(second.get_by_role("textbox", name="Message to Reader")).to_be_visible()
    await first.goto(desk.stage.server.url + "/app/settings")
    await first.get_by_role("button", name="Log out").click()
    for page in (first, second):
        await expect(page.get_by_role("heading", name=LOGGED_OUT)).to_be_visible()
        assert "Reader" not in await page.content()
    await expect(second.get_by_role("alert")).to_have_text("Your session has ended.")
    assert await first.get_by_role("alert").count() == 0  # whoever asked for it need not be told


@requirement("C74")
async def test_a_session_that_ends_elsewhere_leads_to_the_way_in(desk: Desk) -> None:
    page = await desk.open()
    await expect(page.get_by_text("Live", exact=True)).to_be_visible()
    headers = {"X-Molecule-Client": "canvas", "Origin": desk.stage.server.url}
    ended = await page.request.post(desk.stage.server.url + "/logout", data={}, headers=headers)
    assert ended.ok
    await expect(page.get_by_role("heading", name=LOGGED_OUT)).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_text("Your session has ended.")


@requirement("C74")
async def test_the_token_of_a_new_seat_is_shown_once_and_kept_nowhere(desk: Desk) -> None:
    page = await desk.open("/app/connect")
    said = listen(page.context)
    await page.get_by_label("Name").fill("Courier")
    async with page.expect_response("**/workspaces") as made:
        await page.get_by_role("button", name="Create workspace").click()
    token = (await (await made.value).json())["connection"]["auth_token"]
    await expect(page.get_by_text(token).first).to_be_visible()
    await expect(page.get_by_role("region", name="Setup").get_by_role("region").first).to_be_visible()
    assert (await page.content()).count(token) == 1  # the token itself: nothing that is to be pasted holds it
    await page.get_by_role("button", name="Done").click()
    await expect(page.get_by_text("The token is hidden")).to_be_visible()
    assert token not in await page.content()
    assert token not in await traces(page, said)
    for way in ("Settings", "Connect"):
        await page.get_by_role("link", name=way, exact=True).click()
    await expect(page.get_by_role("button", name="Create workspace")).to_be_visible()
    await page.go_back()
    assert token not in await page.content()
    await page.reload()
    await expect(page.get_by_role("navigation")).to_be_visible()
    assert token not in await page.content() + await traces(page, said)
