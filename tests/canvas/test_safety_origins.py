"""A page of another origin cannot act for a person who is logged in here.

The other page comes from another port of the same machine: to a browser that is the same site, so the cookie goes along
whatever its SameSite says, and only the server's own look at the origin stands in the way.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from testing.canvas.company import Stage
from testing.canvas.foreign_page import FORM, POST, SOCKET, message, serving
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement


@pytest.fixture
async def pages(browser: Browser, stage: Stage) -> AsyncIterator[tuple[Page, Page]]:
    """Two tabs of a person who is logged in: our page, and one that comes from elsewhere."""
    context = await browser.new_context()
    own, other = await context.new_page(), await context.new_page()
    await own.goto(await stage.link())
    await own.get_by_role("tree").wait_for()
    async with serving() as elsewhere:
        await other.goto(elsewhere)
        yield own, other
        await context.close()


@requirement("C75")
async def test_another_origin_cannot_open_the_live_channel(pages: tuple[Page, Page], stage: Stage) -> None:
    own, other = pages
    url = stage.server.url.replace("http:", "ws:") + "/ws"
    assert await own.evaluate(SOCKET, url) == "hello"
    assert await other.evaluate(SOCKET, url) == "refused"


@requirement("C75")
async def test_another_origin_cannot_write_to_an_agent_by_any_kind_of_post(
    pages: tuple[Page, Page], stage: Stage
) -> None:
    own, other = pages
    url = f"{stage.server.url}/workspaces/{stage.seats['Lead'].id}/a2a"
    ours = {"headers": {"Content-Type": "application/json", "X-Molecule-Client": "canvas"}}
    tries: list[tuple[str, dict[str, Any]]] = [
        ("plain", {"mode": "no-cors", "headers": {"Content-Type": "text/plain"}}),
        ("json", {"headers": {"Content-Type": "application/json"}}),
        ("disguised", ours),
        ("beacon", {"mode": "no-cors", "keepalive": True}),
    ]
    for name, options in tries:
        assert await other.evaluate(POST, [url, message(name), options]) in ("refused", "opaque")
    assert await own.evaluate(POST, [url, message("own"), ours]) == 200
    assert await stage.heard_by("Lead") == ["own"]


@requirement("C75")
async def test_a_form_of_another_origin_is_refused(pages: tuple[Page, Page], stage: Stage) -> None:
    _, other = pages
    url = f"{stage.server.url}/workspaces/{stage.seats['Lead'].id}/a2a"
    text = message("form")
    async with other.expect_navigation() as gone:
        await other.evaluate(FORM, [url, text[:-1] + ',"pad":"', '"}'])
    response = await gone.value
    assert response is not None
    assert response.status == 403
    assert await stage.heard_by("Lead") == []


@requirement("C75")
async def test_another_origin_reads_nothing_and_logs_nobody_out_or_in(pages: tuple[Page, Page], stage: Stage) -> None:
    own, other = pages
    read: Callable[..., Awaitable[Any]] = other.evaluate
    for path in ("/session", "/workspaces", f"/workspaces/{stage.seats['Lead'].id}/chat-history"):
        get = "(url) => fetch(url, { credentials: 'include' }).then((response) => response.text(), () => 'refused')"
        assert await read(get, stage.server.url + path) == "refused"
    assert await read(POST, [stage.server.url + "/logout", "{}", {"mode": "no-cors"}]) in ("refused", "opaque")
    assert await own.evaluate("() => fetch('/session').then((response) => response.status)") == 200


@requirement("C75")
async def test_our_page_cannot_be_put_into_a_frame_of_another(pages: tuple[Page, Page], stage: Stage) -> None:
    _, other = pages
    url = stage.server.url + "/app/org"
    await other.evaluate(
        "(url) => document.body.append(Object.assign(document.createElement('iframe'), { src: url }))", url
    )
    frame = other.frame_locator("iframe")
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        while not any(each.url.startswith("chrome-error:") for each in other.frames):
            await other.wait_for_event("framenavigated")
    assert await frame.get_by_role("tree").count() == 0
