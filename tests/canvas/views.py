"""Every view of the page, and how a test gets to it; and a company in which all of them have something to show."""

from collections.abc import Awaitable, Callable

from playwright.async_api import Page, Route

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.message_chains import frozen_chain, speak
from testing.thread_world import said
from tests.canvas.approval_actions import ask_leave, say
from tests.canvas.delegation_actions import answer_work, by_http, open_groups, take_work
from tests.canvas.expectations import expect
from tests.canvas.message_actions import ask, mutter, offer
from tests.canvas.prompt_actions import tell_prompt
from tests.canvas.thread_actions import spawn, start

WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 320, "height": 640}

RICH = """Three things, **in this order**:

1. read the [handbook](https://handbook.example/start)
2. run `make check`
3. tell *Quality*

| step | time |
| --- | --- |
| build | 4 min |

```
make check
```
"""

View = Callable[[Page, Stage], Awaitable[None]]


async def fill(stage: Stage) -> None:
    """Gives the company what views show: work, trouble, messages read and unread, a seat nobody took."""
    heartbeat = {"active_tasks": 1, "current_task": "Reviewing the change to the login page"}
    for name, more in {"Backend": heartbeat, "Quality": {"error_rate": 0.9, "sample_error": "no disk"}}.items():
        seat = stage.seats[name]
        await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id, **more})
    await stage.server.seat("Archive", parent_id=stage.seats["Lead"].id)
    await stage.say("Reader", RICH)
    await stage.say("Writer", "The text is ready.")
    params = {"message": {"parts": [{"kind": "text", "text": "Before noon"}]}, "expires_in_seconds": 1}
    await stage.admin.post(f"/workspaces/{stage.seats['Writer'].id}/a2a", {"params": params})
    org_id = (await stage.admin.get("/orgs"))[0]["id"]
    await frozen_chain(stage.server, org_id, stage.seats["Writer"].id)
    await offer(stage, "Frontend", "Which day shall it go out?", ["Monday", "Whenever somebody has looked at it"])
    asked = await ask(stage, "Frontend", "Is the page ready?")
    await mutter(stage, "Frontend", asked["id"], f"It is ready.\n\n{RICH}")
    await offer(stage, "Quality", "Which browser?", ["Firefox", "The one that most people have"])
    path = f"/orgs/{org_id}/instruction-templates"
    parts = {"blocks": {"compact": "Answer {{ reply_tool }}."}, "lines": ["Be brief; " + "very " * 20 + "brief."]}
    await stage.admin.post(path, {"id": "support-team", "extends": "generic-mcp-default", "parts": parts})
    await stage.admin.call("PUT", f"{path}/support-team", body={"parts": {"lines": ["Be kind."]}, "in_force": False})
    await stage.admin.post(f"{path}/support-team/canary", {"version": 2, "percent": 10})
    await fill_work(stage)
    await fill_leave(stage)
    await fill_threads(stage)
    await fill_peers(stage)


async def fill_peers(stage: Stage) -> None:
    """Gives the company a conversation of two agents with words, a task and a request."""
    first, second = stage.seats["Support"], stage.seats["First line"]
    await speak(first, second.id, RICH)
    await speak(second, first.id, "I will, after this:")
    await speak(second, first.id, "a short one.")
    await by_http(stage, "Support", "First line", "Look after the mail")
    await ask_leave(stage, "First line", "Answer all")


async def fill_threads(stage: Stage) -> None:
    """Gives the company a thread with an agent below it, which it waits for no more."""
    thread, engine = await start(stage, "Writer", nickname="Novelist", input=RICH)
    await spawn(stage, "Writer", thread, "research", nickname="Clerk")
    await engine.adds(said("I have asked for what happened that year."))


async def fill_leave(stage: Stage) -> None:
    """Gives the company requests that wait for a person, are with an agent, and were decided; and a prompt."""
    rest = {"details": {"to": "production", "words": "much to read " * 30}, "reason": "It is tested", "cost": 12.5}
    await ask_leave(stage, "Lead", "Deploy the page", **rest)
    await ask_leave(stage, "Lead", "Restart the server", details={"host": "one"})
    await ask_leave(stage, "Lead", "Write to a customer", details={"whom": "somebody"})
    await ask_leave(stage, "Reader", "Read the mail")
    denied = await ask_leave(stage, "Backend", "Drop the table", details={"table": "people"})
    await say(stage, "Engineering", denied, "deny", note="There is only one of it.")
    for number, kind in enumerate(("start", "file")):
        texts = {(1, "system-prompt.md"): RICH * (number + 2), (5, "Peers"): "- Reader: reads"}
        await tell_prompt(stage, "Writer", texts, kind)


async def fill_work(stage: Stage) -> None:
    """Gives the company work that waits, is worked on, and was answered."""
    await by_http(stage, "First line", "Second line", "Answer the customers who wait")
    await take_work(stage, "Second line")
    await answer_work(stage, "Second line", RICH)
    await by_http(stage, "First line", "Night shift", "Look into the difficult ones")
    await take_work(stage, "Night shift")
    await by_http(stage, "First line", "Support", "Find somebody for the night")


# Does what a click on a link of the page does: nothing is loaded anew.
_FOLLOW = """
(path) => {
  if (document.querySelector("dialog[open]") || !document.querySelector("nav")) return false;
  history.pushState(null, "", path);
  window.dispatchEvent(new PopStateEvent("popstate"));
  return true;
}
"""


async def go(page: Page, stage: Stage, path: str) -> None:
    """Goes to a path of the page."""
    if not await page.evaluate(_FOLLOW, f"/app/{path}"):
        await page.goto(f"{stage.server.url}/app/{path}")


async def show_org(page: Page, stage: Stage) -> None:
    await go(page, stage, "org")
    await expect(page.get_by_role("tree")).to_be_visible()


async def show_chat_beside(page: Page, stage: Stage) -> None:
    await go(page, stage, f"org?focus={stage.seats['Reader'].id}&panel=chat")
    await expect(page.get_by_role("complementary").get_by_role("table")).to_be_visible()


async def show_about_beside(page: Page, stage: Stage) -> None:
    await go(page, stage, f"org?focus={stage.seats['Engineering'].id}&panel=about")
    await expect(page.get_by_role("complementary").get_by_text("Workspace ID")).to_be_visible()


async def show_no_match(page: Page, stage: Stage) -> None:
    await go(page, stage, "org?q=zebra")
    await expect(page.get_by_role("heading", name="No agent matches")).to_be_visible()


async def show_no_agent(page: Page, stage: Stage) -> None:
    await go(page, stage, "org?focus=gone&panel=chat")
    await expect(page.get_by_role("heading", name="Agent not found")).to_be_visible()


async def show_chats(page: Page, stage: Stage) -> None:
    await go(page, stage, "chat")
    await expect(page.get_by_role("region", name="Conversations")).to_be_visible()


async def show_chat(page: Page, stage: Stage) -> None:
    await go(page, stage, f"chat/{stage.seats['Reader'].id}")
    await expect(page.get_by_role("table")).to_be_visible()


async def show_completion(page: Page, stage: Stage) -> None:
    """A reply that was begun, with the list of names open."""
    await show_chat(page, stage)
    await page.get_by_role("button", name="Reply").last.evaluate("button => button.click()")
    field = page.get_by_role("textbox", name="Message to Reader")
    await field.fill("")
    await field.press_sequentially("ask @")
    await expect(page.get_by_role("listbox", name="Agents")).to_be_visible()


async def show_work_in_chat(page: Page, stage: Stage) -> None:
    await go(page, stage, f"chat/{stage.seats['First line'].id}")
    await open_groups(page)
    await expect(page.get_by_role("listitem").get_by_role("table")).to_be_visible()
    await expect(page.get_by_role("button", name="Cancel").last).to_be_visible()


async def show_work_beside(page: Page, stage: Stage) -> None:
    await go(page, stage, f"org?focus={stage.seats['First line'].id}&panel=work")
    await expect(page.get_by_role("list", name="Delegations")).to_be_visible()


async def show_work(page: Page, stage: Stage) -> None:
    await show_work_beside(page, stage)
    await page.get_by_role("link", name="Answer the customers who wait").click()
    await expect(page.get_by_role("region", name="Answer").get_by_role("table")).to_be_visible()


async def show_all_work(page: Page, stage: Stage) -> None:
    await go(page, stage, "work?state=all")
    await expect(page.get_by_role("list", name="Tasks").get_by_role("listitem").first).to_be_visible()


async def show_trace(page: Page, stage: Stage) -> None:
    await show_work(page, stage)
    await page.get_by_role("link", name="Show the whole request").click()
    await expect(page.get_by_role("region", name="Events").get_by_role("listitem").first).to_be_visible()


async def show_activity(page: Page, stage: Stage) -> None:
    await go(page, stage, "activity?kind=delegations,approvals,messages")
    await expect(page.get_by_role("list", name="Events").get_by_role("link").first).to_be_visible()
    await expect(page.get_by_role("figure")).to_be_visible()


async def show_event(page: Page, stage: Stage) -> None:
    await show_activity(page, stage)
    await page.get_by_role("list", name="Events").locator("a[data-event]").filter(has_text="got a result").first.click()
    await expect(page.get_by_role("region", name="JSON of the event")).to_be_visible()


async def show_messages_beside(page: Page, stage: Stage) -> None:
    await go(page, stage, f"org?focus={stage.seats['Support'].id}&panel=messages")
    await expect(page.get_by_role("list", name="Agents").get_by_role("link").first).to_be_visible()


async def show_peers(page: Page, stage: Stage) -> None:
    await go(page, stage, f"chat/{stage.seats['Support'].id}?peer={stage.seats['First line'].id}")
    shown = page.get_by_role("list", name="Messages of Support and First line")
    await expect(shown.get_by_role("table")).to_be_visible()
    await expect(shown.locator("[data-approval]")).to_be_visible()


async def show_inbox(page: Page, stage: Stage) -> None:
    await go(page, stage, "inbox?kind=approval&state=waiting")
    await expect(page.get_by_role("checkbox").first).to_be_visible()


async def show_request(page: Page, stage: Stage) -> None:
    await show_inbox(page, stage)
    await page.get_by_role("link", name="Deploy the page").click()
    await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_visible()


async def show_edited_request(page: Page, stage: Stage) -> None:
    await show_request(page, stage)
    await page.get_by_role("button", name="Approve with edits…").click()
    await page.get_by_role("textbox", name="Details to approve").fill('{"to": 3}')
    await expect(page.get_by_text("must be a string")).to_be_visible()


async def show_decided(page: Page, stage: Stage) -> None:
    await go(page, stage, "inbox?kind=approval&state=decided")
    await page.get_by_role("link", name="Drop the table").click()
    await expect(page.get_by_text("No decision is needed.")).to_be_visible()


async def show_together(page: Page, stage: Stage) -> None:
    await show_inbox(page, stage)
    await page.get_by_role("checkbox").first.check()
    await page.get_by_role("button", name="Deny…").click()
    await expect(page.get_by_role("dialog", name="Deny 1 request?")).to_be_visible()


async def show_request_in_chat(page: Page, stage: Stage) -> None:
    await go(page, stage, f"chat/{stage.seats['Reader'].id}")
    await expect(page.get_by_role("link", name="View request")).to_be_visible()


async def show_prompt_beside(page: Page, stage: Stage) -> None:
    await go(page, stage, f"org?focus={stage.seats['Writer'].id}&panel=prompt")
    await expect(page.get_by_role("region", name="Changes", exact=True)).to_be_visible()


async def show_prompt(page: Page, stage: Stage) -> None:
    await go(page, stage, f"prompt/{stage.seats['Writer'].id}")
    await page.get_by_role("button", name="system-prompt.md").click()
    await expect(page.get_by_role("region", name="Text of system-prompt.md")).to_be_visible()


async def show_thread(page: Page, stage: Stage) -> None:
    await go(page, stage, f"org?focus={stage.seats['Writer'].id}&panel=threads")
    await page.get_by_role("list", name="Threads").get_by_role("link", name="Novelist").click()
    await expect(page.get_by_role("region", name="Conversation").locator("[data-said]").first).to_be_visible()


async def show_tree_of_threads(page: Page, stage: Stage) -> None:
    await show_thread(page, stage)
    await page.get_by_role("tab", name="Agents").click()
    await expect(page.get_by_role("region", name="Messages").locator("[data-mail]")).to_be_visible()


async def show_sight(page: Page, stage: Stage) -> None:
    await show_thread(page, stage)
    await page.get_by_role("tab", name="Model context").click()
    await expect(page.get_by_role("region", name="Model context").locator("[data-role]").first).to_be_visible()


async def show_connect(page: Page, stage: Stage) -> None:
    await go(page, stage, "connect")
    await expect(page.get_by_role("button", name="Create workspace")).to_be_visible()


async def show_seat_made(page: Page, stage: Stage) -> None:
    await show_connect(page, stage)
    await page.get_by_label("Name").fill("Newcomer")
    await page.get_by_role("button", name="Create workspace").click()
    await expect(page.get_by_role("button", name="Copy token")).to_be_visible()
    await page.get_by_text("Set up manually").click()
    await expect(page.get_by_role("region", name="Store the token")).to_be_visible()


async def show_problems(page: Page, stage: Stage) -> None:
    await go(page, stage, "problems")
    await expect(page.get_by_role("region", name="Undelivered messages").get_by_role("listitem")).to_be_visible()
    await expect(page.get_by_role("region", name="Stopped message chains").get_by_role("listitem")).to_be_visible()
    await expect(page.get_by_role("region", name="Unanswered messages").get_by_role("table")).to_be_visible()


async def show_draft(page: Page, stage: Stage) -> None:
    await go(page, stage, f"chat/{stage.seats['Frontend'].id}")
    await expect(page.get_by_role("group", name="Unsent answer of Frontend").get_by_role("table")).to_be_visible()
    await expect(page.get_by_role("group", name="Options")).to_be_visible()


async def show_edited_draft(page: Page, stage: Stage) -> None:
    await show_draft(page, stage)
    await page.get_by_role("button", name="Edit").click()
    await expect(page.get_by_role("textbox", name="Answer to send")).to_be_visible()


async def show_templates(page: Page, stage: Stage) -> None:
    await go(page, stage, "instructions")
    await expect(page.get_by_role("region", name="Templates").get_by_role("link", name="support-team")).to_be_visible()


async def show_template(page: Page, stage: Stage) -> None:
    await go(page, stage, "instructions/support-team")
    await page.get_by_role("tab", name="Text").click()
    await expect(page.get_by_role("region", name="Rendered instructions")).to_be_visible()


async def show_template_changes(page: Page, stage: Stage) -> None:
    await go(page, stage, "instructions/support-team")
    await page.get_by_role("tab", name="Changes").click()
    await expect(page.get_by_role("region", name="Changes of compact")).to_be_visible()


async def show_template_versions(page: Page, stage: Stage) -> None:
    await go(page, stage, "instructions/support-team")
    await page.get_by_role("tab", name="Versions").click()
    await page.get_by_role("button", name="Changes in version 2").click()


async def show_template_figures(page: Page, stage: Stage) -> None:
    await go(page, stage, "instructions/support-team")
    await page.get_by_role("tab", name="Metrics").click()
    await expect(page.get_by_text("is used for 10 %")).to_be_visible()


async def show_new_template(page: Page, stage: Stage) -> None:
    await show_templates(page, stage)
    await page.get_by_role("button", name="New template").click()
    await expect(page.get_by_role("dialog", name="New template")).to_be_visible()


async def show_discard(page: Page, stage: Stage) -> None:
    await show_problems(page, stage)
    await page.get_by_role("button", name="Discard…").click()
    await expect(page.get_by_role("dialog")).to_be_visible()


async def show_empty_chat(page: Page, stage: Stage) -> None:
    seat = stage.seats.get("Newest") or await stage.add("Newest", "Lead")
    card = {"name": "Newest", "skills": [{"id": "requests", "examples": ["Read the news", "Find the source"]}]}
    await seat.api.post("/registry/register", {"id": seat.id, "agent_card": card})
    await go(page, stage, f"org?focus={seat.id}&panel=chat")
    await expect(page.get_by_role("list", name="Example requests")).to_be_visible()


async def show_agent_menu(page: Page, stage: Stage) -> None:
    await show_about_beside(page, stage)
    await page.get_by_role("button", name="Actions for Engineering").click()
    await expect(page.get_by_role("menu", name="Actions for Engineering")).to_be_visible()


async def show_edit(page: Page, stage: Stage) -> None:
    await show_agent_menu(page, stage)
    await page.get_by_role("menuitem", name="Edit…").click()
    await expect(page.get_by_role("dialog", name="Edit Engineering")).to_be_visible()


async def show_new_team(page: Page, stage: Stage) -> None:
    await show_agent_menu(page, stage)
    await page.get_by_role("menuitem", name="Create team below…").click()
    await expect(page.get_by_role("dialog", name="Create team below Engineering")).to_be_visible()


async def show_account(page: Page, stage: Stage) -> None:
    await show_settings(page, stage)
    await page.get_by_role("button", name="Account of Owner").click()
    await expect(page.get_by_role("menu", name="Account")).to_be_visible()


async def show_move(page: Page, stage: Stage) -> None:
    await show_about_beside(page, stage)
    await page.get_by_role("button", name="Move…", exact=True).click()
    await expect(page.get_by_role("dialog")).to_be_visible()


async def show_remove(page: Page, stage: Stage) -> None:
    await show_about_beside(page, stage)
    await page.get_by_role("button", name="Remove…").click()
    await expect(page.get_by_role("dialog")).to_be_visible()


async def show_settings(page: Page, stage: Stage) -> None:
    await go(page, stage, "settings")
    await expect(page.get_by_role("button", name="Log out")).to_be_visible()


async def show_usage(page: Page, stage: Stage) -> None:
    seat = stage.seats["Support"]
    turn = {"key": "turn-1", "model": "a-model", "input_tokens": 1200, "output_tokens": 80, "cost_micros": 12_000}
    await seat.api.post(f"/workspaces/{seat.id}/usage", turn)
    await go(page, stage, "usage")
    await expect(page.get_by_role("table")).to_contain_text("Support")


async def show_schedules(page: Page, stage: Stage) -> None:
    org_id, seat = (await stage.admin.get("/orgs"))[0]["id"], stage.seats["Support"]
    body = {"name": "Report", "target_id": seat.id, "source_id": stage.seats["Lead"].id, "cron": "0 8 * * MON"}
    path = f"/orgs/{org_id}/schedules"
    if not (await stage.admin.get(path))["schedules"]:
        await stage.admin.post(path, {**body, "text": RICH, "time_zone": "Europe/Berlin"})
    await go(page, stage, "schedules")
    await expect(page.get_by_role("list", name="Schedules")).to_contain_text("Report")
    await page.get_by_role("button", name="Add schedule").click()
    await expect(page.get_by_role("form", name="Add a schedule")).to_contain_text("Next: ")


async def show_budgets(page: Page, stage: Stage) -> None:
    org_id, seat = (await stage.admin.get("/orgs"))[0]["id"], stage.seats["Support"]
    limit = {"scope": "workspace", "target_id": seat.id, "unit": "tokens", "limit": 100_000, "period": "day"}
    if not (await stage.admin.get(f"/orgs/{org_id}/budgets"))["budgets"]:
        await stage.admin.post(f"/orgs/{org_id}/budgets", limit)
    await go(page, stage, "settings")
    await expect(page.get_by_label("Use of the budget of Support")).to_be_visible()


async def show_nowhere(page: Page, stage: Stage) -> None:
    await go(page, stage, "elsewhere")
    await expect(page.get_by_role("heading", name="Page not found")).to_be_visible()


async def show_palette(page: Page, stage: Stage) -> None:
    await show_org(page, stage)
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("option").first).to_be_visible()


async def show_keys(page: Page, stage: Stage) -> None:
    await show_settings(page, stage)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


async def show_all_that_needs_you(page: Page, stage: Stage) -> None:
    await show_settings(page, stage)
    await page.get_by_role("region", name="Needs attention").get_by_role("button", name="All").click()
    await expect(page.locator("[data-item]").first).to_be_visible()
    for kind in ("question", "answer", "dead", "chain", "approval", "agent"):
        await expect(page.locator(f"[data-item^='{kind} ']").first).to_be_attached()


VIEWS: dict[str, View] = {
    "organisation": show_org,
    "organisation with a chat": show_chat_beside,
    "organisation with an agent": show_about_beside,
    "no match": show_no_match,
    "no such agent": show_no_agent,
    "chats": show_chats,
    "chat": show_chat,
    "completion in a chat": show_completion,
    "messages of an agent": show_messages_beside,
    "conversation of two agents": show_peers,
    "problems": show_problems,
    "draft": show_draft,
    "edited draft": show_edited_draft,
    "templates": show_templates,
    "template": show_template,
    "changes of a template": show_template_changes,
    "versions of a template": show_template_versions,
    "figures of a template": show_template_figures,
    "new template": show_new_template,
    "discard": show_discard,
    "empty chat": show_empty_chat,
    "menu of an agent": show_agent_menu,
    "edit": show_edit,
    "new team": show_new_team,
    "account": show_account,
    "move": show_move,
    "remove": show_remove,
    "work in a chat": show_work_in_chat,
    "organisation with work": show_work_beside,
    "work": show_work,
    "all work": show_all_work,
    "trace": show_trace,
    "activity": show_activity,
    "event": show_event,
    "inbox": show_inbox,
    "request": show_request,
    "edited request": show_edited_request,
    "decided request": show_decided,
    "several requests": show_together,
    "request in a chat": show_request_in_chat,
    "prompt beside": show_prompt_beside,
    "prompt": show_prompt,
    "thread": show_thread,
    "tree of threads": show_tree_of_threads,
    "sight of a thread": show_sight,
    "connect": show_connect,
    "seat made": show_seat_made,
    "settings": show_settings,
    "usage": show_usage,
    "budgets": show_budgets,
    "schedules": show_schedules,
    "no such page": show_nowhere,
    "palette": show_palette,
    "keys": show_keys,
    "all that needs you": show_all_that_needs_you,
}
"""Of a company that is there, to a person who is logged in."""


async def _cut(route: Route) -> None:
    await route.abort("connectionrefused")


async def show_login(page: Page, stage: Stage) -> None:
    await page.goto(f"{stage.server.url}/app/#login=used-up")
    await expect(page.get_by_role("alert")).to_be_visible()


async def show_unreachable(page: Page, stage: Stage) -> None:
    await page.route("**/session", _cut)
    await page.goto(f"{stage.server.url}/app/org")
    await expect(page.get_by_role("heading", name="Cannot reach Molecule")).to_be_visible()


OUTSIDE: dict[str, View] = {"log in": show_login, "unreachable": show_unreachable}
"""To somebody who is not logged in."""


async def open_outside(desk: Desk, view: View, **choices: object) -> Page:
    """A page of somebody who is not logged in, at one of the views OUTSIDE."""
    desk.forgiven.append("net::ERR_CONNECTION_REFUSED")
    context = await desk.context(**choices)
    page = await context.new_page()
    await view(page, desk.stage)
    return page
