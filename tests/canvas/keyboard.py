"""A person with a keyboard and no pointer."""

from playwright.async_api import Locator, Page

from tests.canvas.expectations import expect

# More stops than any view has.
_MOST_STOPS = 120


class Fingers:
    """What such a person can do, and nothing else."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def press(self, *keys: str) -> None:
        """Presses keys one after the other."""
        for key in keys:
            await self._page.keyboard.press(key)

    async def type(self, text: str) -> None:
        """Types a text where the focus is."""
        await self._page.keyboard.type(text)

    async def go_to(self, target: Locator) -> None:
        """Tabs until the target has the focus."""
        await target.wait_for()
        for _ in range(_MOST_STOPS):
            if await target.evaluate("(element) => element === document.activeElement"):
                return
            await self._page.keyboard.press("Tab")
        raise AssertionError(f"no way with Tab to {target}")

    async def use(self, target: Locator) -> None:
        """Tabs to the target and presses Enter on it."""
        await self.go_to(target)
        await self._page.keyboard.press("Enter")


async def expect_focus(target: Locator) -> None:
    """The target gets the focus, at once or soon."""
    await expect(target).to_be_focused()
    assert await target.count() == 1
