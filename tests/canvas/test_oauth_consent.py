"""Connecting an app in a real browser: from another site to the page for consent, and back with a code."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.async_api import Browser, BrowserContext, Page

from testing.canvas.foreign_page import serving
from testing.oauth_apps import ConnectedApp, exchanged, query_of, registered
from testing.running_server import Running, running
from testing.waits import IN_PROCESS_SECONDS
from tests.canvas.axe import find_barriers
from tests.canvas.expectations import expect
from tests.requirements import requirement

_FRAME = """
(url) => new Promise((done) => {
  const frame = Object.assign(document.createElement("iframe"), { src: url, name: "framed" });
  frame.onload = () => done(null);
  document.body.append(frame);
})
"""


@pytest.fixture
async def issuer(tmp_path: Path) -> AsyncIterator[Running]:
    """A server with a public address."""
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, has_public_url=True) as server:
        yield server


@pytest.fixture
async def app_address() -> AsyncIterator[str]:
    """The address of an app on another site: `localhost` is another one than 127.0.0.1."""
    async with serving() as url:
        yield url.replace("127.0.0.1", "localhost")


@pytest.fixture
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser without cookies."""
    context = await browser.new_context(locale="en-GB")
    context.set_default_timeout(IN_PROCESS_SECONDS * 1000)
    yield context
    await context.close()


async def send_to_server(page: Page, app_address: str, server: Running, client_id: str) -> None:
    """Let the page of the app send the browser to the authorization endpoint."""
    await page.goto(app_address)
    query = query_of(server, client_id, redirect_uri=f"{app_address}callback")
    async with page.expect_navigation(url="**/oauth/consent?**"):
        await page.evaluate("(url) => location.assign(url)", f"{server.url}/oauth/authorize?{query}")


async def paste_link(page: Page, server: Running) -> None:
    """Log in as the first owner on the page for that."""
    await page.get_by_label("Login link").fill(await server.server.login_link())
    await page.get_by_role("button", name="Log in").click()


@requirement("M39")
async def test_a_person_logs_in_connects_an_app_and_is_back_at_it(
    issuer: Running, app_address: str, context: BrowserContext
) -> None:
    seat, _other = await issuer.seat("Ops"), await issuer.seat("Other")
    redirect_uri = f"{app_address}callback"
    client_id = await registered(issuer, redirect_uri, name="<i>Notes</i>")
    page = await context.new_page()
    await send_to_server(page, app_address, issuer, client_id)
    await paste_link(page, issuer)
    await expect(page.get_by_role("heading", name="<i>Notes</i> asks for access to a workspace")).to_be_visible()
    await expect(page.get_by_text("Molecule has not verified it.")).to_be_visible()
    await expect(page.get_by_text(redirect_uri)).to_be_visible()
    assert await find_barriers(page) == []
    await page.get_by_label("Workspace", exact=True).select_option(label="Ops")
    async with page.expect_navigation(url=f"{redirect_uri}?**"):
        await page.get_by_role("button", name="Connect").click()
    answer = dict(parse_qsl(urlsplit(page.url).query))
    assert answer["iss"] == issuer.url
    reply = await exchanged(issuer, client_id, answer["code"], redirect_uri=redirect_uri)
    assert await ConnectedApp(issuer, client_id, seat.id, reply.json).status() == 200


@requirement("M39")
async def test_a_session_is_known_on_the_way_from_another_site_and_cancel_returns(
    issuer: Running, app_address: str, context: BrowserContext
) -> None:
    await issuer.seat("Ops")
    client_id = await registered(issuer, f"{app_address}callback")
    page = await context.new_page()
    await send_to_server(page, app_address, issuer, client_id)
    await paste_link(page, issuer)
    await expect(page.get_by_role("button", name="Connect")).to_be_visible()
    await send_to_server(page, app_address, issuer, client_id)
    async with page.expect_navigation(url=f"{app_address}callback?**"):
        await page.get_by_role("button", name="Cancel").click()
    assert dict(parse_qsl(urlsplit(page.url).query))["error"] == "access_denied"


async def test_the_page_shows_nothing_in_a_frame_of_another_site(
    issuer: Running, app_address: str, context: BrowserContext
) -> None:
    client_id = await registered(issuer, f"{app_address}callback")
    page = await context.new_page()
    await page.goto(app_address)
    for path in ("authorize", "consent"):
        await page.evaluate(_FRAME, f"{issuer.url}/oauth/{path}?{query_of(issuer, client_id)}")
        frame = page.frames[-1]
        assert "Molecule" not in await frame.content(), path
