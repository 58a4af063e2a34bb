"""Shows hostile texts on each surface, in a real browser. Started by `prove browser`.

Above: proof.py. Below: the ways in from elsewhere (crossing.py), and what the page's own tests know of it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from proofs.browser.corpus import corpus
from proofs.browser.crossing import CROSSED, HOSTS, cross, knock
from proofs.harness.children import as_a_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure, Verdict
from tests.canvas.browser_binary import find_browser
from tests.canvas.browsing import browsing
from tests.canvas.desk import Desk
from tests.canvas.stage import Stage, staged
from tests.canvas.test_safety_texts import INTRUDERS, Watch
from tests.running import running

RAN, LED = "texts that ran", "boxes, windows and ways away"
BROKEN, UNSEEN = "faults of the page", "texts not shown"
ZEROS = (RAN, LED, BROKEN, UNSEEN, CROSSED, HOSTS)
_SEEN_SECONDS = 20.0
_MOST_NOTES = 12
_LIMITED = 100
_WORDS = "() => document.body.innerText + [...document.querySelectorAll('[title], [aria-label]')].map(e => e.outerHTML)"


class Looking:
    """One run."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._texts = corpus(setting.size, setting.dice("texts"))
        self.zeros = dict.fromkeys(ZEROS, 0)
        self.figures: dict[str, Figure] = {"texts": len(self._texts), "surfaces": 0, "shown": 0}
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
        profile = self._setting.folder.parent / "profile"
        profile.mkdir()
        database = str(self._setting.folder / "molecule.db")
        with browsing(program, profile) as address:
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
        short = [text[:_LIMITED] for text in self._texts if text[:_LIMITED].isprintable()]
        surfaces: tuple[tuple[str, Callable[[Stage, list[str]], Awaitable[str]], list[str]], ...] = (
            ("what an agent says", _said, self._texts),
            ("what a person says", _asked, self._texts),
            ("names and roles", _named, short[:: max(1, len(short) // 40)]),
            ("cards and tasks at hand", _carded, short[:1]),
            ("delegations", _given, self._texts[:: max(1, len(self._texts) // 12)]),
            ("approvals", _leave, self._texts[:: max(1, len(self._texts) // 12)]),
            ("files", _sent, short[:: max(1, len(short) // 40)]),
        )
        for name, put, texts in surfaces:
            self.figures["surfaces"] = int(self.figures["surfaces"]) + 1
            each_alone = put in (_given, _leave)
            for some in [[text] for text in texts] if each_alone else [texts]:
                await self._look(browser, stage, name, await put(stage, some), some)

    async def _look(self, browser: Browser, stage: Stage, name: str, path: str, texts: list[str]) -> None:
        """Opens a page, waits until each text is on it, and looks what came of it."""
        desk = Desk(browser, stage)
        page = await desk.open("/app/settings")
        watch = Watch(page.context, page)
        await page.goto(stage.server.url + path)
        unseen = await self._unseen(page, texts)
        self.figures["shown"] = int(self.figures["shown"]) + len(texts) - len(unseen)
        for text in unseen:
            self.fault(UNSEEN, f"{name}: {text!r}")
        if await page.evaluate("() => window.pwned") is not None:
            self.fault(RAN, name)
        for intruder in await page.evaluate(INTRUDERS):
            self.fault(RAN, f"{name}: {intruder}")
        for way in watch.noted:
            if not way.startswith(f"went to: {stage.server.url}/app/"):
                self.fault(LED, f"{name}: {way}")
        try:
            await desk.close()
        except AssertionError as error:
            self.fault(BROKEN, f"{name}: {error}")

    async def _unseen(self, page: Page, texts: list[str]) -> list[str]:
        """Those whose word does not stand on the page in time. Long lists show what is scrolled to."""
        left = {text.split(" ")[0]: text for text in texts}
        over = asyncio.get_running_loop().time() + _SEEN_SECONDS
        while left and asyncio.get_running_loop().time() < over:
            shown = await page.evaluate(_WORDS)
            left = {word: text for word, text in left.items() if word.lower() not in shown.lower()}
            if left:
                await page.mouse.move(720, 500)
                await page.mouse.wheel(0, -2_000 if len(left) % 2 else -600)
                await page.wait_for_timeout(100)
        return list(left.values())


async def _said(stage: Stage, texts: list[str]) -> str:
    for text in texts:
        await stage.say("Reader", text)
    return f"/app/chat/{stage.seats['Reader'].id}"


async def _asked(stage: Stage, texts: list[str]) -> str:
    seat = stage.seats["Writer"]
    for number, text in enumerate(texts):
        said = {"role": "user", "messageId": f"p-{number}", "parts": [{"kind": "text", "text": text}]}
        body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": said}}
        await stage.admin.post(f"/workspaces/{seat.id}/a2a", body)
    return f"/app/chat/{seat.id}"


async def _named(stage: Stage, texts: list[str]) -> str:
    for number, text in enumerate(texts):
        await stage.add(text, "Support", role=texts[number - 1])
    return "/app/org"


async def _carded(stage: Stage, texts: list[str]) -> str:
    seat, (text, *_) = stage.seats["Quality"], texts
    card = {"name": text, "description": text, "version": text, "skills": [{"name": text, "description": text}]}
    await seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": card})
    await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id, "active_tasks": 1, "current_task": text})
    return f"/app/org?focus={seat.id}&panel=about"


async def _given(stage: Stage, texts: list[str]) -> str:
    (text,) = texts
    lead, seat = stage.seats["Lead"], stage.seats["Research"]
    begun = await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": seat.id, "task": text})
    id_ = begun["delegation_id"]
    await seat.api.post(f"/delegations/{id_}/status", {"current_step": text[:_LIMITED]})
    await seat.api.post(f"/workspaces/{seat.id}/delegations/{id_}/update", {"status": "completed", "result": text})
    return f"/app/delegations/{id_}"


async def _leave(stage: Stage, texts: list[str]) -> str:
    (text,) = texts
    seat = stage.seats["Frontend"]
    wish = {"action": f"deploy {text.split(' ')[0]}", "reason": text, "details": {"words": text}}
    asked = await seat.api.post(f"/workspaces/{seat.id}/approvals", wish)
    return f"/app/inbox/{asked['approval_id']}?kind=approval&state=open"


async def _sent(stage: Stage, texts: list[str]) -> str:
    seat = stage.seats["First line"]
    for text in texts:
        file = {"uri": "https://files.example/x", "name": text, "mimeType": "text/html"}
        await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": text, "attachments": [file]})
    return f"/app/chat/{seat.id}"


async def run(setting: Setting) -> Verdict:
    """`setting.size` texts."""
    return await Looking(setting).run()


if __name__ == "__main__":
    as_a_child(run)
