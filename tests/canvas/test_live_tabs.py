"""Two tabs of one person tell the same story, whatever happens in either and around them."""

import random
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.waits import eventually
from tests.canvas.chat import Chat
from tests.canvas.expectations import expect
from tests.canvas.page_watchers import expect_same_story, words
from tests.requirements import requirement

TURNS = 20
FIXED = ("Lead", "Engineering", "Research", "Support")


class Company:
    """What may happen. Each command answers with words that the page must then show, or must not show any more."""

    def __init__(self, stage: Stage, tabs: list[Page], seed: int) -> None:
        self._stage = stage
        self._tabs = tabs
        self._random = random.Random(seed)
        self._turn = 0

    async def command(self) -> tuple[str, str, bool]:
        """Gives one command; its name, the words, and whether they must be there."""
        self._turn += 1
        able: list[Callable[[], Awaitable[tuple[str, bool]]]] = [
            self._answer,
            self._ask,
            self._work,
            self._trouble,
            self._hire,
            self._rename,
            self._dismiss,
            self._read,
        ]
        chosen = self._random.choice(able)
        words, there = await chosen()
        return f"{self._turn}: {chosen.__name__}", words, there

    def _anybody(self) -> str:
        return self._random.choice([name for name in self._stage.seats if name not in FIXED])

    async def _answer(self) -> tuple[str, bool]:
        await self._stage.say("Lead", f"answer {self._turn}")
        return f"answer {self._turn}", True

    async def _ask(self) -> tuple[str, bool]:
        await Chat(self._random.choice(self._tabs), "Lead").write(f"question {self._turn}")
        return f"question {self._turn}", True

    async def _heartbeat(self, **more: object) -> None:
        seat = self._stage.seats["Lead"]
        await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id, **more})

    async def _work(self) -> tuple[str, bool]:
        await self._heartbeat(active_tasks=1, current_task=f"task {self._turn}")
        return f"task {self._turn}", True

    async def _trouble(self) -> tuple[str, bool]:
        seat = self._stage.seats[self._anybody()]
        await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id, "error_rate": 0.9})
        return "Degraded", True

    async def _hire(self) -> tuple[str, bool]:
        await self._stage.add(f"Hand {self._turn}", self._random.choice(FIXED))
        return f"Hand {self._turn}", True

    async def _rename(self) -> tuple[str, bool]:
        seat = self._stage.seats[self._anybody()]
        await self._stage.admin.call("PATCH", f"/workspaces/{seat.id}", body={"name": f"Name {self._turn}"})
        return f"Name {self._turn}", True

    async def _dismiss(self) -> tuple[str, bool]:
        name = self._anybody()
        seat = self._stage.seats.pop(name)
        shown = (await self._stage.admin.get(f"/workspaces/{seat.id}"))["name"]
        await self._stage.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true"})
        return str(shown), False

    async def _read(self) -> tuple[str, bool]:
        """Somebody writes, and the person opens that chat in one tab and comes back."""
        seat = self._stage.seats[self._anybody()]
        await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": f"read {self._turn}"})
        tab, here = self._random.choice(self._tabs), self._stage.seats["Lead"].id
        # Of this chat: that the one with Lead was read may be told in the same moment.
        async with tab.expect_response(f"**/workspaces/{seat.id}/chat/read"):
            await tab.evaluate(GO, f"/app/org?focus={seat.id}&panel=chat")
        await tab.evaluate(GO, f"/app/org?focus={here}&panel=chat")
        return "unread", False


# Within the page, as its own back and forward buttons go.
GO = "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"


@pytest.mark.long
@requirement("C8")
@pytest.mark.parametrize("seed", [3233769531])
async def test_two_tabs_show_the_same_after_each_of_twenty_random_commands(desk: Desk, seed: int) -> None:
    path = f"/app/org?focus={desk.stage.seats['Lead'].id}&panel=chat"
    one = await desk.open(path)
    tabs = [one, await desk.tab(one.context, path)]
    for tab in tabs:
        await expect(tab.get_by_role("banner")).to_contain_text("Live")
    company = Company(desk.stage, tabs, seed)

    async def look() -> list[str]:
        return [await words(tab) for tab in tabs]

    done = []
    for _ in range(TURNS):
        command, wanted, there = await company.command()
        done.append(command)

        def agree(shown: list[str], wanted: str = wanted, there: bool = there) -> bool:
            return shown[0] == shown[1] and (wanted in shown[0]) is there

        shown = await eventually(look, agree)
        assert agree(shown), done
    fresh = await desk.tab(one.context, path)
    await expect(fresh.get_by_role("banner")).to_contain_text("Live")
    await Chat(fresh, "Lead").shows(*await Chat(one, "Lead").texts())
    await expect_same_story(one, tabs[1], fresh)
