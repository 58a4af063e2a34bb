"""A person at the page: opens it, logs in, and notices whatever a page must never do."""

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response

from testing.canvas.company import Stage
from testing.waits import IN_PROCESS_SECONDS, PROCESS_START_SECONDS

_WATCH_POLICY = """
window.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy broken: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""
# The service worker comes seconds after the page, and answers for the server. Where there is none, as over plain HTTP
# from another machine, the page is the same.
_WITHOUT_WORKER = "delete Navigator.prototype.serviceWorker"
_IS_SHOWN = """() => {
  const isLoading = document.querySelector("[data-map=loading]") !== null;
  return !isLoading && (document.querySelector("nav")?.checkVisibility() ?? false);
}"""
# What a browser says by itself about an answer that the page deals with.
_EXPECTED = ("Failed to load resource: the server responded with a status of 401",)


class Desk:
    """One browser context, its pages, and all that went wrong in them. `forgiven` are texts that a test expects."""

    def __init__(self, browser: Browser, stage: Stage) -> None:
        self._browser = browser
        self.stage = stage
        self.faults: list[str] = []
        self.forgiven: list[str] = list(_EXPECTED)
        self._contexts: list[BrowserContext] = []

    async def context(self, **choices: object) -> BrowserContext:
        """A context of its own: cookies and storage are not shared with another one's. `worker`: pages may have their
        service worker."""
        worker = choices.pop("worker", False)
        options = {"viewport": {"width": 1440, "height": 900}, "locale": "en-GB", "timezone_id": "Europe/Berlin"}
        context = await self._browser.new_context(**{**options, **choices})  # type: ignore[arg-type]
        context.set_default_timeout(IN_PROCESS_SECONDS * 1000)
        await context.add_init_script(_WATCH_POLICY)
        if not worker:
            await context.add_init_script(_WITHOUT_WORKER)
        context.on("page", self._watch)
        self._contexts.append(context)
        return context

    def _watch(self, page: Page) -> None:
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._asked)
        page.on("response", self._answered)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(each in message.text for each in self.forgiven):
            self.faults.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        own = (self.stage.server.url, self.stage.server.url.replace("http:", "ws:"), "data:", "blob:", "about:")
        if not request.url.startswith(own):
            self.faults.append(f"asked somebody else: {request.url}")

    def _answered(self, response: Response) -> None:
        """Whatever the server says, also a redirect or a refusal, lets nothing run but the page's own files."""
        if not response.url.startswith(self.stage.server.url):
            return
        policy = response.headers.get("content-security-policy", "")
        if not policy.startswith("default-src 'none'") or "unsafe" in policy or "*" in policy:
            self.faults.append(f"answered with a weak policy: {response.url}: {policy!r}")

    async def open(self, path: str = "/app/org", **choices: object) -> Page:
        """A page of a new person's browser, logged in as the owner, at a path."""
        return await self.enter(await self.context(**choices), path)

    async def enter(self, context: BrowserContext, path: str = "/app/org", link: str | None = None) -> Page:
        """A first page in a context that a test has prepared, logged in at a path: as the owner, or by another link."""
        page = await context.new_page()
        await self._reach(page, (link or await self.stage.link()).replace("/app/#", f"{path or '/app/'}#"))
        return page

    async def tab(self, context: BrowserContext, path: str) -> Page:
        """One more page of the same person in the same browser. It gets a window of its own: a tab behind another one
        does not paint, though it is told that it is visible."""
        async with context.expect_page() as opened:
            await context.pages[0].evaluate("() => { open('about:blank', '_blank', 'popup,noopener'); }")
        page = await opened.value
        await self._reach(page, self.stage.server.url + path)
        return page

    async def _reach(self, page: Page, url: str) -> None:
        """The first page of all waits for its browser to start."""
        await page.goto(url, timeout=PROCESS_START_SECONDS * 1000)
        # Looked at with each frame: a locator would wait half a second more for a page that takes longer than 0.3 s.
        await page.wait_for_function(_IS_SHOWN, timeout=PROCESS_START_SECONDS * 1000)

    async def close(self) -> None:
        """Ends all contexts; nothing must have gone wrong in them."""
        for context in self._contexts:
            await context.close()
        assert self.faults == [], "\n".join(self.faults)
