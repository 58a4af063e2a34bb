"""What must not appear in a page or happen to it, whatever text it shows."""

from playwright.async_api import BrowserContext, Page

# Elements that only a text could have brought in: the page itself has none of them in its views, and a message holds
# words, formatting, links that say where they lead, and the page's own buttons and icons.
INTRUDERS = """
() => {
  const held = "iframe, object, embed, form[action], base, meta[http-equiv], style, img, video, audio, math, template";
  const anywhere = `body :is(${held}, details, svg script, svg animate, custom-part)`;
  const inMessages = "[data-message] :is(script, link, input, textarea, dialog, [style], form)";
  const hasHandler = (element) => element.getAttributeNames().some((name) => name.startsWith("on"));
  const strange = [...document.querySelectorAll(`${anywhere}, ${inMessages}`)];
  return [...strange, ...[...document.querySelectorAll("*")].filter(hasHandler)].map((each) => each.outerHTML);
}
"""


class Watch:
    """Notes what must not happen: boxes that open, windows, ways away."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self.noted: list[str] = []
        context.on("page", lambda other: self.noted.append(f"window: {other.url}"))
        page.on("dialog", lambda dialog: self.noted.append(f"box: {dialog.message}"))
        page.on("download", lambda download: self.noted.append(f"download: {download.url}"))
        page.on("framenavigated", lambda frame: self.noted.append(f"went to: {frame.url}"))
