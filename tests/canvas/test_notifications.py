"""Who does not look is told that something waits: if they wished it, once, and by nothing else."""

import re

from playwright.async_api import Page

from testing.canvas.page_user import Desk
from testing.waits import eventually
from tests.canvas.approval_actions import ask_leave, request
from tests.canvas.delegation_actions import by_http, take_work
from tests.canvas.expectations import expect
from tests.canvas.message_actions import offer
from tests.requirements import requirement

# Notes what the page would show and sound, and lets the test say whether anybody looks.
_EARS = """
window.told = [];
window.sounds = 0;
window.Notification = class {
  static permission = "granted";
  constructor(title, more) { window.told.push(`${title}: ${more.body}`); window.note = this; }
  close() {}
};
window.AudioContext = class {
  constructor() { window.sounds += 1; }
  currentTime = 0;
  createOscillator() { return { frequency: {}, connect: (next) => next, start() {}, stop() {} }; }
  createGain() { return { gain: {}, connect() {} }; }
};
Object.defineProperty(document, "visibilityState", { get: () => (window.away ? "hidden" : "visible") });
"""


async def told(pages: list[Page]) -> list[str]:
    """What all tabs together have shown."""
    return [each for page in pages for each in await page.evaluate("() => window.told")]


async def look(pages: list[Page], *, away: bool) -> None:
    for page in pages:
        await page.evaluate("away => { window.away = away; }", away)


@requirement("C15", "C16")
async def test_a_hidden_page_tells_once_what_waits_if_it_was_wished_and_a_click_opens_it(desk: Desk) -> None:
    context = await desk.context()
    await context.add_init_script(_EARS)
    page = await desk.enter(context, "/app/settings")
    pages = [page, await desk.tab(context, "/app/chat")]

    async def wait_for(count: int) -> None:
        for each in pages:
            await expect(each.get_by_role("link", name="Inbox")).to_contain_text(f"{count} waiting for you")

    for name in ("Desktop notifications", "Sound"):
        await expect(page.get_by_role("checkbox", name=name)).not_to_be_checked()
    await look(pages, away=True)
    await ask_leave(desk.stage, "Lead", "first")
    await wait_for(1)
    assert await told(pages) == []
    for name in ("Desktop notifications", "Sound"):
        await page.get_by_role("checkbox", name=name).check()
    made = await ask_leave(desk.stage, "Lead", "second")
    await wait_for(2)
    assert await eventually(lambda: told(pages), bool) == ["Lead needs your approval: second"]
    assert sum([await each.evaluate("() => window.sounds") for each in pages]) == 1
    await look(pages, away=False)
    await ask_leave(desk.stage, "Lead", "third")
    await wait_for(3)
    assert await told(pages) == ["Lead needs your approval: second"]
    teller = pages[0] if await told(pages[:1]) else pages[1]
    await teller.evaluate("() => window.note.onclick()")
    await expect(teller).to_have_url(re.compile(made["approval_id"]))
    await expect(request(teller).get_by_role("heading", name="second")).to_be_visible()


@requirement("C15", "CN1")
async def test_a_hidden_page_tells_of_questions_and_failed_tasks_and_a_click_opens_them(desk: Desk) -> None:
    stage = desk.stage
    context = await desk.context()
    await context.add_init_script(_EARS)
    page = await desk.enter(context, "/app/settings")
    await page.get_by_role("checkbox", name="Desktop notifications").check()
    await expect(page.get_by_role("region", name="Needs attention")).to_contain_text("You’re all caught up")
    await look([page], away=True)
    await offer(stage, "Writer", "Which day?", ["Monday", "Tuesday"])
    assert await eventually(lambda: told([page]), bool) == ["Writer asks you a question: Which day?"]
    delegation_id = await by_http(stage, "Engineering", "Backend", "Ship it")
    await take_work(stage, "Backend")
    seat = stage.seats["Backend"]
    body = {"status": "failed", "error": "no disk"}
    await seat.api.post(f"/workspaces/{seat.id}/delegations/{delegation_id}/update", body)
    shown = await eventually(lambda: told([page]), lambda found: len(found) > 1)
    assert shown[1:] == ["Engineering: Task failed: Ship it"]
    await page.evaluate("() => window.note.onclick()")
    await expect(page).to_have_url(re.compile(rf"/app/inbox\?item=task\+{delegation_id}$"))
    await expect(page.locator(f"[data-item='task {delegation_id}']")).to_be_focused()
