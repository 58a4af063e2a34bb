"""The page of instructions: what is shown is what the server renders, what is wrong is shown where it is, and what is
saved is what agents are told with."""

import itertools
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page

from molecule_core.instructions import builtin_templates
from testing.canvas.company import Stage, staged
from testing.canvas.page_user import Desk
from testing.running_server import running
from tests.canvas.axe import find_barriers
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.canvas.message_actions import ask, take
from tests.canvas.views import NARROW
from tests.requirements import requirement

KINDS = (
    "canvas_user",
    "peer_agent",
    "delegation",
    "delegation_result",
    "approval_request",
    "approval_decision",
    "broadcast",
    "chat_upload_receive",
    "system",
)
FORMS = ("full", "compact", "delta")
EACH_ONCE = [*zip(itertools.cycle(FORMS), KINDS, strict=False)]
DEFAULTS = ("claude-code-default", "codex-default", "generic-mcp-default")
NEWER = builtin_templates.BUILT_IN_VERSION + 1
"""The first version of its own that an organisation has of one of these."""
# What a browser says by itself of a preview that is refused.
REFUSED = "the server responded with a status of 422"
TEXT = "() => document.querySelector('[aria-label=\"Rendered instructions\"]').textContent"


@pytest.fixture
async def told_desk(browser: Browser, tmp_path: Path) -> AsyncIterator[Desk]:
    """A person at the page of a company whose agents are told how to answer."""
    place = str(tmp_path / "molecule.db")
    async with running("sqlite", place, tmp_path, push_instructions_enabled=True) as server:
        desk = Desk(browser, await staged(server))
        yield desk
        await desk.close()


async def templates(stage: Stage) -> str:
    """The path of the organisation's templates."""
    return f"/orgs/{(await stage.admin.get('/orgs'))[0]['id']}/instruction-templates"


async def open_template(desk: Desk, template_id: str, **choices: object) -> Page:
    """The page with a template open and its preview there."""
    page = await desk.open(f"/app/instructions/{template_id}", **choices)
    await expect(rendered(page)).not_to_be_empty()
    return page


def rendered(page: Page) -> Locator:
    return page.get_by_role("region", name="Rendered instructions")


def field(page: Page, name: str) -> Locator:
    return page.get_by_role("textbox", name=f"Text {name}", exact=True)


async def previewed(page: Page, change: Any) -> dict[str, Any]:
    """What the server answers to the preview that a change of the page asks for."""
    async with page.expect_response(re.compile("/instruction-templates/preview$")) as answered:
        await change
    return dict(await (await answered.value).json())


@requirement("C31", "C76", "I7")
@pytest.mark.parametrize(
    ("template_id", "wishes"),
    [
        pytest.param(DEFAULTS[0], EACH_ONCE, id="each kind and form once"),
        *(pytest.param(each, [*itertools.product(FORMS, KINDS)], marks=pytest.mark.long, id=each) for each in DEFAULTS),
    ],
)
async def test_the_preview_is_what_the_server_renders_byte_for_byte_for_every_kind_and_form(
    desk: Desk, template_id: str, wishes: list[tuple[str, str]]
) -> None:
    stage = desk.stage
    page = await open_template(desk, template_id)
    panel = page.get_by_role("region", name="Preview")
    path, agent = await templates(stage), stage.seats["Backend"].id
    for form, kind in wishes:
        await panel.get_by_label("Form").select_option(form)
        await panel.get_by_label("Message kind").select_option(kind)
        wish = {"workspace_id": agent, "template_id": template_id, "kind": kind, "form": form}
        wanted = await stage.admin.post(f"{path}/preview", wish)
        await expect(rendered(page)).to_have_js_property("textContent", wanted["text"])
        await expect(panel).to_contain_text(f"{wanted['tokens']} token")
        assert str(await page.evaluate(TEXT)).encode() == wanted["text"].encode()


@requirement("C31", "I1", "I14")
async def test_what_is_saved_is_what_the_agent_is_told_with_the_next_message(told_desk: Desk) -> None:
    stage = told_desk.stage
    page = await open_template(told_desk, "generic-mcp-default")
    seat = stage.seats["Reader"]
    words = 'Answer with reply, in one line.\n{% if kind == "canvas_user" %}\nThe user waits.\n{% endif %}\n'
    answer = await previewed(page, field(page, "reply").fill(words))
    assert "Answer with reply, in one line.\nThe user waits." in answer["text"]
    await expect(rendered(page)).to_contain_text("The user waits.")
    await page.get_by_label("Note").fill("shorter")
    await page.get_by_role("button", name="Save new version").click()
    await expect(page.get_by_role("region", name="Template generic-mcp-default")).to_contain_text(f"version {NEWER}")
    await stage.admin.send(seat.id, "hello")
    (row,) = (await seat.api.get(f"/workspaces/{seat.id}/activity", claim=60, include="instructions"))[:1]
    assert row["instructions"]["template"] == f"generic-mcp-default@{NEWER}"
    assert "Answer with reply, in one line.\nThe user waits." in row["instructions"]["text"]
    chat = await told_desk.tab(page.context, chat_path(stage, "Reader"))
    message = Chat(chat, "Reader").message("hello")
    await message.hover()
    await message.get_by_role("button", name="Instructions sent with this message").click()
    told = f"generic-mcp-default@{NEWER}, full form, {row['instructions']['tokens']} tokens"
    await expect(message.get_by_role("link", name=told)).to_be_visible()


@requirement("C31", "C77", "I11")
async def test_what_does_not_compile_is_shown_at_its_line_and_is_not_saved(desk: Desk) -> None:
    desk.forgiven.append(REFUSED)
    page = await open_template(desk, "codex-default")
    before = await rendered(page).inner_text()
    text = field(page, "silence")
    await text.fill("One.\nTwo.\n{{ peer_id.secret }}")
    await expect(text).to_have_attribute("aria-invalid", "true")
    block = page.get_by_role("region", name="Text silence")
    await expect(block).to_contain_text("Line 3: ")
    described = await text.get_attribute("aria-describedby")
    assert described is not None
    await expect(page.locator(f"[id='{described}']")).to_contain_text("Line 3: ")
    assert await rendered(page).inner_text() == before
    await page.get_by_role("button", name="Save new version").click()
    await expect(page.get_by_role("group", name="Save").get_by_role("alert")).to_be_visible()
    (version,) = await desk.stage.admin.get(f"{await templates(desk.stage)}/codex-default/versions")
    assert version["version"] == builtin_templates.BUILT_IN_VERSION
    await text.fill("One.\nTwo, {kind}.")
    await expect(block).to_contain_text("Line 2: {kind} is plain text")
    await expect(text).not_to_have_attribute("aria-invalid", "true")


@requirement("C31", "C78", "I5", "I6")
async def test_a_template_of_ones_own_extends_and_its_difference_is_told(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open("/app/instructions")
    await page.get_by_role("button", name="New template").click()
    dialog = page.get_by_role("dialog", name="New template")
    await dialog.get_by_label("Name").fill("support-team")
    await dialog.get_by_label("Extends").select_option("generic-mcp-default")
    await dialog.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", name="support-team")).to_be_visible()
    await expect(page.get_by_role("region", name="Text reply", exact=True)).to_contain_text("from generic-mcp-default")
    await page.get_by_role("button", name="Change compact").click()
    await field(page, "compact").fill("Answer kindly.")
    await page.get_by_role("button", name="Add line").click()
    await page.get_by_role("textbox", name="Added line 1").fill("Our customers are <b>polite</b>.")
    await page.get_by_role("tab", name="Changes").click()
    await expect(page.get_by_role("region", name="Changes of compact").last).to_contain_text("added: Answer kindly.")
    await page.get_by_role("tab", name="Text").click()
    await page.get_by_role("button", name="Save new version").click()
    await expect(page.get_by_role("region", name="Template support-team")).to_contain_text("version 2")
    reader = stage.seats["Reader"]
    about = await desk.tab(page.context, f"/app/org?focus={reader.id}&panel=about")
    await about.get_by_label("Instruction template").select_option("support-team")
    await expect(about.get_by_role("link", name="View support-team")).to_be_visible()
    chosen = await stage.admin.get(f"/cp/admin/workspace/{reader.id}/instruction-template")
    assert (chosen["chosen"], chosen["template"]["version"]) == ("support-team", 2)
    await expect(page.get_by_text("Used by 1 agent")).to_be_visible()


@pytest.mark.long
@requirement("C31", "I5", "I16")
async def test_versions_are_tried_on_a_share_ended_and_restored_and_another_tab_sees_it(desk: Desk) -> None:
    stage = desk.stage
    page = await open_template(desk, "codex-default")
    await field(page, "docs").fill("Docs: {{ docs_url }}. Read them.\n")
    await page.get_by_label("Activate now").uncheck()
    await page.get_by_role("button", name="Save new version").click()
    await page.get_by_role("tab", name="Versions").click()
    other = await desk.tab(page.context, "/app/instructions/codex-default")
    versions = page.get_by_role("list", name="Versions of codex-default").get_by_role("listitem")
    newer = versions.filter(has_text=f"Version {NEWER}")
    await newer.get_by_label(f"Messages for version {NEWER}").select_option("25")
    await newer.get_by_role("button", name=f"Start canary of version {NEWER}").click()
    for each in (page, other):
        entry = each.get_by_role("region", name="Templates").get_by_role("link", name="codex-default")
        await expect(entry).to_contain_text(
            f"version {builtin_templates.BUILT_IN_VERSION}, canary version {NEWER} at 25 %"
        )
    await newer.get_by_role("button", name=f"Changes in version {NEWER}").click()
    await expect(newer.get_by_role("region", name="Changes of docs")).to_contain_text(
        "added: Docs: {{ docs_url }}. Read"
    )
    await page.get_by_role("tab", name="Metrics").click()
    await expect(page.get_by_role("tabpanel")).to_contain_text(f"Version {NEWER} is used for 25 % of messages")
    await page.get_by_role("tab", name="Versions").click()
    await newer.get_by_role("button", name="Activate").click()
    await expect(newer).to_contain_text("active")
    older = versions.filter(has_text=f"Version {builtin_templates.BUILT_IN_VERSION}")
    await older.get_by_role("button", name=f"Restore version {builtin_templates.BUILT_IN_VERSION}").click()
    await expect(older).to_contain_text("active")
    row = (await stage.admin.get(f"{await templates(stage)}/codex-default"))["row"]
    assert (row["template"]["version"], row["canary"]) == (builtin_templates.BUILT_IN_VERSION, None)


@requirement("C31", "I16")
async def test_the_figures_of_a_version_are_told_and_a_test_push_counts_like_any_message(told_desk: Desk) -> None:
    stage = told_desk.stage
    page = await open_template(told_desk, "generic-mcp-default")
    push = page.get_by_role("region", name="Test message")
    await push.get_by_label("To").select_option("Reader")
    await push.get_by_role("button", name="Send test message").click()
    row = await take(stage, "Reader")
    assert "This is a test of the instructions" in row["request_body"]["params"]["message"]["parts"][0]["text"]
    await stage.say("Reader", "It works")
    await ask(stage, "Writer", "And you?")
    await page.get_by_role("tab", name="Metrics").click()
    cells = page.get_by_role("table").get_by_role("row").nth(1).get_by_role("cell")
    await expect(cells).to_contain_text([re.compile("^2$"), re.compile("^1$")])
    await page.get_by_role("tab", name="Text").click()
    await push.get_by_role("button", name="Send test message").click()
    await push.get_by_role("link", name="View in chat").click()
    await expect(Chat(page, "Backend").list.or_(Chat(page, "Reader").list)).to_be_visible()


@requirement("C31", "S20")
@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_only_owners_see_what_agents_are_told(desk: Desk, role: str) -> None:
    page = await desk.enter(await desk.context(), "/app/instructions", await desk.stage.link_for(role))
    await expect(page.get_by_role("heading", name="Only owners can manage instructions")).to_be_visible()
    assert await page.get_by_role("link", name="Instructions").count() == 0


@requirement("C31", "C6")
async def test_unsaved_changes_are_there_after_another_view(desk: Desk) -> None:
    page = await open_template(desk, "codex-default")
    await field(page, "docs").fill("half a thought")
    await page.get_by_role("link", name="Chats").click()
    await expect(page.get_by_role("region", name="Conversations")).to_be_visible()
    await page.get_by_role("link", name="Instructions").click()
    await page.get_by_role("region", name="Templates").get_by_role("link", name="codex-default").click()
    await expect(field(page, "docs")).to_have_value("half a thought")
    await page.get_by_role("button", name="Discard changes").click()
    await expect(field(page, "docs")).not_to_have_value("half a thought")


@requirement("C31", "C59")
async def test_a_text_is_changed_and_saved_by_keys_alone_on_a_phone(desk: Desk) -> None:
    page = await desk.open("/app/settings", viewport=NARROW)
    await page.get_by_role("link", name="Edit instructions").focus()
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="codex-default").focus()
    await page.keyboard.press("Enter")
    await field(page, "docs").focus()
    await page.keyboard.press("Control+End")
    await page.keyboard.type("More.")
    await expect(rendered(page)).to_contain_text("More.")
    await page.get_by_role("button", name="Save new version").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Template codex-default")).to_contain_text(f"version {NEWER}")
    assert await find_barriers(page) == []
