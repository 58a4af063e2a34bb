"""A conversation on the page, as a person finds it: by roles, names and words."""

from playwright.async_api import Locator, Page

from testing.canvas.company import Stage
from tests.canvas.expectations import expect

# Read in one go, so that nothing changes in between: the words of each message, top to bottom.
_TEXTS = "list => [...list.querySelectorAll('[data-message] [data-text]')].map(each => each.textContent)"


class Chat:
    """The chat with one agent on a page where it is open."""

    def __init__(self, page: Page, name: str) -> None:
        self.page = page
        self.list = page.get_by_role("list", name=f"Messages with {name}")
        self.field = page.get_by_role("textbox", name=f"Message to {name}")

    def message(self, words: str) -> Locator:
        """The messages that hold these words."""
        return self.list.get_by_role("listitem").filter(has_text=words)

    async def texts(self) -> list[str]:
        """What was said, top to bottom."""
        found: list[str] = await self.list.evaluate(_TEXTS)
        return found

    async def write(self, words: str) -> None:
        """A person writes and presses Enter."""
        await self.field.fill(words)
        await self.field.press("Enter")

    async def shows(self, *words: str) -> None:
        """Waits for messages, each of which must be there once."""
        for each in words:
            await expect(self.message(each)).to_have_count(1)


def chat_path(stage: Stage, name: str) -> str:
    """The address of the chat with an agent."""
    return f"/app/chat/{stage.seats[name].id}"
