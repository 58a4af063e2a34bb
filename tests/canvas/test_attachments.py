"""Files in a conversation: chosen in three ways, sent, stopped, refused beforehand, shown safely."""

import zlib
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import CDPSession, Locator, Page

from testing.canvas.page_user import Desk
from testing.upload_forms import place_of, uploaded
from tests.canvas.axe import find_barriers
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.canvas.keyboard import Fingers
from tests.canvas.views import NARROW, WIDE
from tests.requirements import requirement


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def _picture(size: int) -> bytes:
    """A red square as PNG."""
    head = size.to_bytes(4, "big") * 2 + b"\x08\x02\x00\x00\x00"
    rows = (b"\x00" + b"\xff\x00\x00" * size) * size
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


PNG = _picture(12)
MIB = 1 << 20
# What a browser says by itself about a picture that is none, or an upload that was cut.
NO_PREVIEW = "the server responded with a status of 415"

DROP = """
(target, { names, type, size }) => {
  const transfer = new DataTransfer();
  const content = size ? new Uint8Array(size) : "dropped";
  for (const name of names) transfer.items.add(new File([content], name, { type: "text/plain" }));
  const event = new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true });
  return !target.dispatchEvent(event);
}
"""
COPY_PICTURE = """
async (bytes) => {
  const blob = new Blob([new Uint8Array(bytes)], { type: "image/png" });
  await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
}
"""


@pytest.fixture
async def page(desk: Desk) -> Page:
    """The chat with the lead."""
    page = await desk.open(chat_path(desk.stage, "Lead"), permissions=["clipboard-read", "clipboard-write"])
    # The driver takes the browser's dialog over once somebody listens, and says nothing of when it has done so: whoever
    # begins to listen and presses a key at once may be earlier.
    page.on("filechooser", lambda _: None)
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    return page


@pytest.fixture
def chat(page: Page) -> Chat:
    """That chat."""
    return Chat(page, "Lead")


def chosen(page: Page) -> Locator:
    """The files that are to be sent."""
    return page.get_by_role("list", name="Files to send").get_by_role("listitem")


async def pick(page: Page, *files: dict[str, Any]) -> None:
    """Chooses files as a person does: by the button and the browser's own dialog."""
    async with page.expect_file_chooser() as opened:
        await page.get_by_role("button", name="Attach files").click()
    await (await opened.value).set_files(list(files))  # type: ignore[arg-type]


def payload(name: str, content: bytes, mime_type: str = "text/plain") -> dict[str, Any]:
    """A file as the driver hands it over."""
    return {"name": name, "mimeType": mime_type, "buffer": content}


async def arrived(desk: Desk, name: str = "Lead") -> list[dict[str, Any]]:
    """The attachments of the newest message to an agent."""
    seat = desk.stage.seats[name]
    rows = await seat.api.get(f"/workspaces/{seat.id}/activity", include="attachments", limit=1)
    return list(rows[0].get("attachments", []))


@requirement("C37")
async def test_a_picked_file_arrives_with_its_message_and_is_seen_and_saved(
    desk: Desk, page: Page, chat: Chat, tmp_path: Path
) -> None:
    await pick(page, payload("plan.png", PNG, "image/png"), payload("notes.txt", b"hello"))
    await expect(chosen(page)).to_have_text([f"plan.png{len(PNG)} bytes", "notes.txt5 bytes"])
    await chat.write("two files")
    await expect(chat.message("two files")).to_contain_text("Sent")
    await expect(chosen(page)).to_have_count(0)
    assert [(each["name"], each["size"]) for each in await arrived(desk)] == [("plan.png", len(PNG)), ("notes.txt", 5)]
    picture = chat.list.get_by_role("img", name="Preview of plan.png")
    await expect(picture).to_be_visible()
    await expect(picture).to_have_js_property("naturalWidth", 12)
    async with page.expect_download() as started:
        await chat.list.get_by_role("link", name="notes.txt").click()
    download = await started.value
    assert download.suggested_filename == "notes.txt"
    await download.save_as(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes() == b"hello"
    await page.reload()
    await expect(chat.list.get_by_role("img", name="Preview of plan.png")).to_be_visible()


@requirement("C37", "C62")
async def test_a_picture_is_enlarged_in_a_dialog_and_the_focus_returns(desk: Desk, page: Page, chat: Chat) -> None:
    await pick(page, payload("plan.png", PNG, "image/png"))
    await chat.write("a picture")
    await expect(chat.message("a picture")).to_contain_text("Sent")
    enlarge = chat.list.get_by_role("button", name="Enlarge plan.png")
    await enlarge.click()
    dialog = page.get_by_role("dialog", name="plan.png")
    await expect(dialog.get_by_role("img", name="plan.png")).to_have_js_property("naturalWidth", 12)
    await expect(dialog.get_by_role("link", name="Download")).to_have_attribute("download", "plan.png")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(enlarge).to_be_focused()


@requirement("C37")
async def test_a_pasted_picture_is_attached_and_pasted_words_stay_words(desk: Desk, page: Page, chat: Chat) -> None:
    await page.evaluate(COPY_PICTURE, list(PNG))
    await chat.field.focus()
    await page.keyboard.press("Control+v")
    await expect(chosen(page)).to_have_count(1)
    await expect(chosen(page)).to_contain_text("image.png")
    await page.evaluate("() => navigator.clipboard.writeText('only words')")
    await page.keyboard.press("Control+v")
    await expect(chat.field).to_have_value("only words")
    await chat.field.press("Enter")
    await expect(chat.message("only words")).to_contain_text("Sent")
    assert [each["mime_type"] for each in await arrived(desk)] == ["image/png"]


@requirement("C37")
async def test_a_drop_shows_where_and_attaches_and_beside_it_leaves_the_page_alone(page: Page, chat: Chat) -> None:
    zone = page.get_by_text("Drop files here to attach them to your message to Lead")
    files = {"names": ["a.txt", "b.txt"]}
    await chat.field.evaluate(DROP, {**files, "type": "dragenter"})
    await expect(zone).to_be_visible()
    await chat.field.evaluate(DROP, {**files, "type": "dragleave"})
    await expect(zone).to_have_count(0)
    for kind in ("dragenter", "dragover"):
        await chat.field.evaluate(DROP, {**files, "type": kind})
    assert await chat.field.evaluate(DROP, {**files, "type": "drop"})
    await expect(zone).to_have_count(0)
    await expect(chosen(page)).to_have_text(["a.txt7 bytes", "b.txt7 bytes"])
    assert await page.get_by_role("banner").evaluate(DROP, {**files, "type": "drop"})
    await expect(chosen(page)).to_have_count(2)


async def slow_down(session: CDPSession, bytes_a_second: int) -> None:
    """From now on this page's browser sends no faster."""
    speed = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": bytes_a_second}
    await session.send("Network.enable")
    await session.send("Network.emulateNetworkConditions", speed)


@requirement("C37")
async def test_an_upload_shows_how_far_it_is_and_can_be_stopped_and_tried_again(
    desk: Desk, page: Page, chat: Chat
) -> None:
    session = await page.context.new_cdp_session(page)
    await slow_down(session, 200_000)
    await pick(page, payload("large.bin", b"x" * (3 * MIB)))
    await chat.write("slowly")
    bar = page.get_by_role("progressbar", name="Sending large.bin")
    await expect(bar).to_be_visible()
    await page.wait_for_function("() => document.querySelector('progress')?.value > 100000")
    await page.get_by_role("button", name="Cancel upload").click()
    await expect(chat.message("slowly")).to_contain_text("You cancelled the upload.")
    await expect(bar).to_have_count(0)
    assert await desk.stage.heard_by("Lead") == []
    await slow_down(session, -1)
    await page.get_by_role("button", name="Retry").click()
    await expect(chat.message("slowly")).to_contain_text("Sent")
    assert [each["size"] for each in await arrived(desk)] == [3 * MIB]


@requirement("C37")
async def test_what_is_too_large_or_too_many_is_told_before_a_byte_is_sent(desk: Desk, page: Page, chat: Chat) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "uploads" in request.url else None)
    await chat.field.evaluate(DROP, {"names": ["large.bin"], "type": "drop", "size": 25 * MIB + 1})
    await expect(page.get_by_role("alert")).to_contain_text("too large (26.2 MB, limit 26.2 MB)")
    await chat.field.fill("with a large one")
    await expect(page.get_by_role("button", name="Send")).to_be_disabled()
    await chat.field.press("Enter")
    await page.get_by_role("button", name="Remove large.bin").click()
    await expect(chat.field).to_be_focused()
    await pick(page, *(payload(f"{number}.txt", b"x") for number in range(11)))
    await expect(page.get_by_role("alert")).to_contain_text("too many files (limit 10)")
    assert not [url for url in asked if url.endswith("/chat/uploads")]
    await page.get_by_role("button", name="Remove 10.txt").click()
    await chat.field.press("Enter")
    await expect(chat.message("with a large one")).to_contain_text("Sent")
    assert len(await arrived(desk)) == 10


NAMES = {
    "invoice\u202efdp.exe": "invoicefdp.exe",
    "\u2066\u2067x\u2069.txt": "x.txt",
    "דוח שנתי.pdf": "דוח שנתי.pdf",
    "<img src=x onerror=alert(1)>.png": "_img src=x onerror=alert(1)_.png",
    "a" * 200 + ".tar.gz": "a" * 24 + "…" + "aaaaa.tar.gz",
    "../../etc/passwd": "passwd",
    "=cmd|calc!A0": "=cmd_calc!A0",
}


@requirement("C37", "S19")
@pytest.mark.parametrize(
    "size", [pytest.param(WIDE, id="wide", marks=pytest.mark.long), pytest.param(NARROW, id="narrow")]
)
async def test_names_of_files_are_shown_safely_whoever_chose_them(desk: Desk, size: dict[str, int]) -> None:
    desk.forgiven.append(NO_PREVIEW)
    seat = desk.stage.seats["Lead"]
    sent = [(name, b"<svg onload=alert(1)>", "image/png") for name in list(NAMES)]
    files = await uploaded(desk.stage.server, seat.id, seat.token, *sent)
    await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "names", "attachments": files})
    page = await desk.open(chat_path(desk.stage, "Lead"), viewport=size)
    message = Chat(page, "Lead").message("names")
    for shown in NAMES.values():
        await expect(message).to_contain_text(shown)
    links = message.get_by_role("link")
    await expect(links).to_have_count(len(files))
    assert await links.evaluate_all("all => all.map(each => each.pathname)") == [place_of(file) for file in files]
    await expect(message.get_by_role("img", name="Preview")).to_have_count(0)
    assert await page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    long = message.get_by_role("link", name="aaaa")
    whole = long.get_by_text("a" * 200 + ".tar.gz")
    await expect(whole).to_be_hidden()
    await page.keyboard.press("Tab")
    await long.focus()
    await expect(whole).to_be_visible()
    assert await find_barriers(page) == []


@requirement("C37")
async def test_a_file_stays_with_its_message_while_there_is_no_server_and_is_missed_honestly_after_a_reload(
    desk: Desk, page: Page, chat: Chat
) -> None:
    desk.forgiven += ["net::ERR", "Failed to load resource", "WebSocket"]
    await pick(page, payload("kept.txt", b"kept"))
    await page.context.set_offline(True)
    await chat.write("without a line")
    await expect(chat.message("without a line")).to_contain_text("Not sent")
    await pick(page, payload("next.txt", b"next"))
    await page.context.set_offline(False)
    await expect(chat.message("without a line")).to_contain_text("Sent")  # the page itself tries again
    assert [each["name"] for each in await arrived(desk)] == ["kept.txt"]
    await expect(chosen(page)).to_have_text(["next.txt4 bytes"])

    await page.route("**/chat/uploads", lambda route: route.abort())
    await chat.write("lost")
    await expect(chat.message("lost")).to_contain_text("Not sent")
    await page.unroute_all()
    await page.reload()
    await chat.message("lost").get_by_role("button", name="Retry").click()
    await expect(chat.message("lost")).to_contain_text("This page no longer has “next.txt”")


@requirement("C37", "C59")
async def test_files_are_attached_and_removed_without_a_pointer(page: Page, chat: Chat) -> None:
    fingers = Fingers(page)
    await fingers.go_to(page.get_by_role("button", name="Attach files"))
    async with page.expect_file_chooser() as opened:
        await page.keyboard.press("Enter")
    await (await opened.value).set_files([payload("a.txt", b"a"), payload("b.txt", b"b")])  # type: ignore[arg-type]
    await expect(chat.field).to_be_focused()
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Shift+Tab")
    await expect(page.get_by_role("button", name="Remove b.txt")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(chosen(page)).to_have_text(["a.txt1 bytes"])
    await expect(chat.field).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(chat.list.get_by_role("link", name="a.txt")).to_be_visible()


@requirement("C37", "C64")
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
async def test_axe_finds_nothing_with_files_chosen_and_files_shown(desk: Desk, scheme: str) -> None:
    page = await desk.open(chat_path(desk.stage, "Lead"), viewport=NARROW, color_scheme=scheme)
    chat = Chat(page, "Lead")
    await pick(page, payload("plan.png", PNG, "image/png"))
    await chat.write("shown")
    await expect(chat.message("shown")).to_contain_text("Sent")
    await pick(page, *(payload(f"{'long ' * 20}{number}.txt", b"x") for number in range(11)))
    await expect(page.get_by_role("alert")).to_have_count(1)
    assert await find_barriers(page) == []
    assert await page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
