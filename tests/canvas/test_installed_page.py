"""The installed page: it opens without its server, keeps nothing of the organisation, and is forgotten at a logout."""

import re
import struct
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page

from molecule_core.api import packaged_files
from molecule_core.api.canvas import CanvasRoutes
from molecule_core.common.package_resources import PACKAGE_FOLDER
from testing.canvas.page_user import Desk
from testing.processes import serving
from tests.canvas.expectations import expect
from tests.canvas.test_restart import NOBODY, Away, Lives, again, port
from tests.requirements import requirement

__all__ = ["port"]

_CONTROLLED = """() => new Promise(done => {
  const look = () => navigator.serviceWorker.controller?.state === "activated" && done(true);
  navigator.serviceWorker.addEventListener("controllerchange", () => {
    navigator.serviceWorker.controller.addEventListener("statechange", look);
    look();
  });
  look();
})"""
_KEPT = """async () => {
  const urls = [];
  for (const name of await caches.keys()) {
    for (const request of await (await caches.open(name)).keys()) urls.push(new URL(request.url).pathname);
  }
  return urls;
}"""
_FETCHED = """async url => {
  const got = await fetch(url);
  return [got.headers.get("content-type"), await got.json()];
}"""
_REGISTERED = "async () => (await navigator.serviceWorker.getRegistrations()).length"
_SIZE = struct.Struct(">16xII")


async def installed(desk: Desk, path: str = "/app/org") -> tuple[BrowserContext, Page]:
    """A page under the control of its worker."""
    context = await desk.context(worker=True)
    page = await desk.enter(context, path)
    assert await page.evaluate(_CONTROLLED)
    return context, page


@requirement("CI2")
async def test_the_page_meets_what_browsers_ask_of_an_app(desk: Desk) -> None:
    context, page = await installed(desk)
    url = await page.locator("link[rel=manifest]").evaluate("link => link.href")
    kind, manifest = await page.evaluate(_FETCHED, url)
    assert kind == "application/manifest+json"
    assert (manifest["name"], manifest["display"]) == ("Molecule", "standalone")
    assert url.endswith("/app/manifest.webmanifest")
    session = await context.new_cdp_session(page)
    parsed = await session.send("Page.getAppManifest")
    assert parsed["errors"] == []
    assert parsed["url"] == url
    shown = set()
    for icon in manifest["icons"]:
        got = await page.request.get(f"{desk.stage.server.url}/app/{icon['src']}")
        assert (got.status, got.headers["content-type"]) == (200, "image/png")
        width, height = _SIZE.unpack_from(await got.body())
        assert f"{width}x{height}" == icon["sizes"]
        shown.add((icon["sizes"], icon.get("purpose", "any")))
    assert shown >= {("192x192", "any"), ("512x512", "any"), ("512x512", "maskable")}
    touch = await page.locator("link[rel=apple-touch-icon]").evaluate("link => link.href")
    assert (await page.request.get(touch)).status == 200


@requirement("CI2", "C74")
async def test_only_files_of_the_page_are_kept_whatever_is_looked_at(desk: Desk) -> None:
    _, page = await installed(desk)
    for path in ("chat", "inbox", "settings", "instructions"):
        await page.goto(f"{desk.stage.server.url}/app/{path}")
        await expect(page.get_by_role("banner")).to_contain_text("Live")
    kept = await page.evaluate(_KEPT)
    assert "/app/" in kept
    own = ("/app/assets/", "/app/icons/", "/app/manifest.webmanifest")
    assert [each for each in kept if each != "/app/" and not each.startswith(own)] == []
    built = {f"/app/assets/{path.name}" for path in (PACKAGE_FOLDER / "canvas_assets" / "assets").glob("*.js")}
    assert built <= set(kept)


@requirement("CI2", "C74")
async def test_a_logout_forgets_what_was_kept_and_the_next_login_keeps_it_anew(desk: Desk) -> None:
    _, page = await installed(desk, "/app/settings")
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_role("heading", name="Log in to Molecule")).to_be_visible()
    await page.wait_for_function("async () => (await caches.keys()).length === 0")
    assert await page.evaluate(_REGISTERED) == 0
    await page.goto(await desk.stage.link())
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    await page.wait_for_function("async () => (await navigator.serviceWorker.getRegistrations()).length === 1")
    await page.wait_for_function("async () => (await caches.match('/app/')) !== undefined")


@pytest.fixture
async def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files of the page that a server sends, which a test may change."""
    found = packaged_files.read_files(PACKAGE_FOLDER / "canvas_assets")
    plain = {name: content for name, content in found.items() if not name.endswith((".gz", ".br"))}
    monkeypatch.setattr(CanvasRoutes, "_files", plain)
    return plain


def update(files: dict[str, bytes]) -> str:
    """Another version of the page; the name of its first script."""
    named = {name.removeprefix("assets/").encode() for name in files if re.fullmatch(r"assets/.+\.js", name)}
    each = re.compile(b"|".join(map(re.escape, sorted(named, key=len, reverse=True))))

    def rename(text: bytes) -> bytes:
        return each.sub(lambda found: found[0].removesuffix(b".js") + b"-b.js", text)

    newer = {rename(name.encode()).decode(): rename(text) for name, text in files.items()}
    newer["worker.js"] = re.sub(rb'"?version"?:(["`])[0-9a-f]+', rb"version:\1another", newer["worker.js"])
    files.clear()
    files.update(newer)
    return next(name for name in newer if re.fullmatch(r"assets/index-.+\.js", name))


@requirement("CI2")
async def test_a_page_whose_server_was_updated_offers_to_reload_and_a_new_page_does_not(
    files: dict[str, bytes], desk: Desk
) -> None:
    desk.forgiven.extend(("net::ERR_INTERNET_DISCONNECTED", "net::ERR_FAILED", "WebSocket connection to"))
    context, page = await installed(desk)
    told = page.get_by_text("Molecule was updated.")
    script = update(files)
    await context.set_offline(True)
    await expect(page.get_by_text("Connection lost, retrying.")).to_be_visible()
    await expect(told).to_have_count(0)
    await context.set_offline(False)
    await expect(told).to_be_visible()
    other = await desk.tab(context, "/app/settings")
    await expect(other.get_by_role("banner")).to_contain_text("Live")
    await page.get_by_role("button", name="Reload").click()
    await expect(page.locator("script[type=module]")).to_have_attribute("src", f"/app/{script}")
    for each in (page, other):
        await expect(each.get_by_role("banner")).to_contain_text("Live")
        await expect(each.get_by_text("Molecule was updated.")).to_have_count(0)
    assert len(await page.evaluate("() => caches.keys()")) == 2  # a page of the version before may be open


@requirement("CI2", "C5")
async def test_without_its_server_the_page_opens_and_goes_on_when_the_server_is_back(
    desk_of_lives: Desk, port: int, tmp_path: Path
) -> None:
    desk = desk_of_lives
    async with serving(tmp_path, port) as first:
        await desk.stage.add("Lead")
        _, page = await installed(desk)
        await first.kill()
    await page.reload()
    await expect(page.get_by_role("heading", name="Cannot reach Molecule")).to_be_visible()
    await page.goto(f"{desk.stage.server.url}/app/inbox")
    await expect(page.get_by_role("heading", name="Cannot reach Molecule")).to_be_visible()
    async with serving(tmp_path, port):
        again(desk.stage)
        await expect(page.get_by_role("banner")).to_contain_text("Live")
        await expect(page).to_have_title("Inbox · Default · Molecule")


@pytest.fixture
async def desk_of_lives(browser: Any, port: int) -> Any:
    """A person who knows the address of a server with several lives."""
    server = Away(port)
    desk = Desk(browser, Lives(server))
    desk.forgiven.extend(NOBODY)
    yield desk
    await desk.close()
    await server.close()


@requirement("CI2")
async def test_where_browsers_allow_no_worker_the_page_is_the_same(desk: Desk) -> None:
    page = await desk.open("/app/settings")
    assert not await page.evaluate("() => 'serviceWorker' in navigator")
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_role("heading", name="Log in to Molecule")).to_be_visible()
