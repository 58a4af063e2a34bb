"""Shows hostile texts on each surface, in a real browser. Started by `prove browser`.

Above: proof.py. Below: the surfaces (surfaces.py), the ways in from elsewhere (crossing.py), and what the page's own
tests know of it.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.async_api import Browser, Page, async_playwright

from proofs.browser.corpus import corpus
from proofs.browser.crossing import CROSSED, HOSTS, cross, knock
from proofs.browser.surfaces import Surfaces
from proofs.harness.children import as_a_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure, Verdict
from testing.canvas.browser_binary import find_browser
from testing.canvas.browser_process import browsing
from testing.canvas.company import Stage, staged
from testing.canvas.page_user import Desk
from testing.canvas.page_violations import INTRUDERS, Watch
from testing.running_server import running

RAN, LED = "texts that ran", "boxes, windows and ways away"
BROKEN, UNSEEN = "faults of the page", "texts not shown"
ZEROS = (RAN, LED, BROKEN, UNSEEN, CROSSED, HOSTS)
# From the first look at a page until all of its texts were to be seen.
_SEEN_SECONDS, _CONTROL_SEEN_SECONDS = 60.0, 3.0
_MOMENT_MS = 50
_MOST_NOTES = 12
_WORDS = "() => document.body.innerText + [...document.querySelectorAll('[title], [aria-label]')].map(e => e.outerHTML)"
# As a person does who looks for more: scrolls up to the end, then down, then up again, and asks for what is left out.
_GO_ON = """
() => {
  const down = (window.lookedDown ??= new WeakSet());
  for (const each of document.querySelectorAll("main, main *, aside, aside *, nav *")) {
    if (each.scrollHeight <= each.clientHeight + 4) continue;
    const [before, step] = [each.scrollTop, each.clientHeight * 0.8];
    each.scrollTop += down.has(each) ? step : -step;
    if (each.scrollTop !== before) continue;
    if (down.has(each)) down.delete(each);
    else down.add(each);
  }
  for (const each of document.querySelectorAll("button:enabled"))
    if (["Next", "Show all", "Show earlier lines"].includes(each.innerText)) each.click();
  document.querySelectorAll("[data-group] button[aria-expanded='false']").forEach((each) => each.click());
}
"""


class Looking:
    """One run."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._patience = _SEEN_SECONDS if setting.package is None else _CONTROL_SEEN_SECONDS
        self._texts = corpus(setting.size, setting.dice("texts"))
        self.zeros = dict.fromkeys(ZEROS, 0)
        self.figures: dict[str, Figure] = {"texts": len(self._texts), "surfaces": 0, "shown": 0, "refused": 0}
        self.notes: list[str] = []

    def fault(self, what: str, note: object) -> None:
        """Something that must not be."""
        self.zeros[what] += 1
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(f"{what}: {str(note)[:300]}")

    async def run(self) -> Verdict:
        """Everything, in one browser, on one server."""
        program = find_browser()
        if program is None:
            raise RuntimeError("no browser: scripts/browser gets one, or MOLECULE_BROWSER names one")
        database = str(self._setting.folder / "molecule.db")
        # Its last processes may still write there when the browser has ended.
        profile = TemporaryDirectory(prefix="molecule-browser-", ignore_cleanup_errors=True)
        with profile as folder, browsing(program, Path(folder)) as address:
            async with async_playwright() as driver:
                browser = await driver.chromium.connect_over_cdp(address)
                async with running("sqlite", database, Path(self._setting.folder)) as server:
                    stage = await staged(server)
                    await self._show(browser, stage)
                    self.figures["ways from another origin"] = await cross(browser, stage, self.fault)
                    self.figures["host names"] = await knock(stage, self.fault)
                await browser.close()
        return Verdict(self.figures, self.zeros, self.notes)

    # -- texts ---------------------------------------------------------------------------------------------------------

    async def _show(self, browser: Browser, stage: Stage) -> None:
        surfaces = Surfaces(stage, self._texts)
        for name, put in surfaces.all().items():
            sights = await put()
            if 2 * sum(len(texts) for _, texts in sights) < len(self._texts):
                self.fault(UNSEEN, f"{name}: most are refused")
            desk = Desk(browser, stage)
            page = await desk.open("/app/settings")
            watch = Watch(page.context, page)
            for path, texts in sights:
                await page.goto(stage.server.url + path)
                await self._look(page, name, texts)
            for way in watch.noted:
                if not way.startswith(f"went to: {stage.server.url}/app/"):
                    self.fault(LED, f"{name}: {way}")
            try:
                await desk.close()
            except AssertionError as error:
                self.fault(BROKEN, f"{name}: {error}")
            self.figures["surfaces"] = int(self.figures["surfaces"]) + 1
        self.figures["refused"] = surfaces.refused

    async def _look(self, page: Page, name: str, texts: list[str]) -> None:
        """Waits until each text is on the page, and looks what came of it."""
        unseen = await self._unseen(page, texts)
        self.figures["shown"] = int(self.figures["shown"]) + len(texts) - len(unseen)
        for text in unseen:
            self.fault(UNSEEN, f"{name}: {text!r}")
        if await page.evaluate("() => window.pwned") is not None:
            self.fault(RAN, name)
        for intruder in await page.evaluate(INTRUDERS):
            self.fault(RAN, f"{name}: {intruder}")

    async def _unseen(self, page: Page, texts: list[str]) -> list[str]:
        """Those whose word does not stand on the page in time. Long lists show what is scrolled to."""
        left = {text.split(" ")[0]: text for text in texts}
        over = asyncio.get_running_loop().time() + self._patience
        while left and asyncio.get_running_loop().time() < over:
            shown = (await page.evaluate(_WORDS)).lower()
            left = {word: text for word, text in left.items() if word not in shown}
            if left:
                await page.evaluate(_GO_ON)
                await page.wait_for_timeout(_MOMENT_MS)
        return list(left.values())


async def run(setting: Setting) -> Verdict:
    """`setting.size` texts."""
    return await Looking(setting).run()


if __name__ == "__main__":
    as_a_child(run)
