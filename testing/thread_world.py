"""A server with workspaces that start threads, and an engine that a test drives by hand."""

from typing import Any, NamedTuple

from molecule_core.client.api import ApiClient, ApiError
from testing.clocks import FakeClock
from testing.running_server import Running, Seat
from testing.waits import bounded, eventually, refused

Item = dict[str, Any]
BASE = "You are Ops. Be kind."


class ThreadWorld(NamedTuple):
    """A server, a person (an operator), and the time, which stands still."""

    server: Running
    person: ApiClient
    clock: FakeClock

    async def starts(self, seat: Seat, **wish: Any) -> Item:
        """A thread of a workspace."""
        body = {"base_instructions": BASE, **wish}
        item: Item = await bounded(seat.api.post(f"/workspaces/{seat.id}/threads", body))
        return item

    async def reads(self, thread: Item, what: str = "", **query: Any) -> Any:
        """A thread, or what belongs to it, as a person sees it."""
        return await self.person.get(f"/threads/{thread['thread_id']}{what}", **query)

    async def log(self, thread: Item) -> list[Item]:
        """All lines of its log: each with its entry."""
        lines = list[Item]()
        while True:
            page = await self.reads(thread, "/items", after=lines[-1]["ordinal"] if lines else None)
            lines += page["items"]
            if page["reached_end"]:
                return lines

    async def types(self, thread: Item) -> list[str]:
        """What stands in its log, in words."""
        return [each["type"] for each in await self.log(thread)]

    async def until_it_waits(self, thread: Item, call_id: str) -> None:
        """Until its log says that this wait has begun."""
        await eventually(
            lambda: self.log(thread), lambda log: ("wait", call_id) in [told(e) for e in log if e["type"] == "collab"]
        )


class Engine:
    """Holds one thread and runs its turns."""

    def __init__(self, api: ApiClient, thread: Item, name: str = "engine one") -> None:
        self.api = api
        self.id: str = thread["thread_id"]
        self.name = name
        self.generation = 0
        self.turn_id = ""

    async def call(self, what: str, body: Any) -> Any:
        """One request about the thread."""
        return await bounded(self.api.post(f"/threads/{self.id}{what}", body))

    async def claim(self) -> Item:
        """Takes the thread."""
        found: Item = await self.call("/claim", {"owner": self.name})
        self.generation = found["generation"]
        if found["open_turn"]:
            self.turn_id = found["open_turn"]["turn_id"]
        return found

    async def begin(self, turn_id: str | None = None) -> Item:
        """Begins the turn; what the model sees."""
        self.turn_id = turn_id or self.turn_id
        seen: Item = await self.call(f"/turns/{self.turn_id}/begin", {"generation": self.generation})
        return seen

    async def adds(self, *entries: Item, **more: Any) -> Item:
        """Adds to the log."""
        body = {"generation": self.generation, "turn_id": self.turn_id, "entries": list(entries), **more}
        added: Item = await self.call("/entries", body)
        return added

    async def ends(self, status: str = "completed", **more: Any) -> Item:
        """Ends the turn."""
        body = {"generation": self.generation, "status": status, **more}
        ended: Item = await self.call(f"/turns/{self.turn_id}/end", body)
        return ended

    async def works(self, answer: str = "done") -> Item:
        """Claims, begins, says one thing, ends: the sight it had."""
        await self.claim()
        seen = await self.begin()
        await self.adds(said(answer))
        await self.ends(final=answer)
        return seen


def told(line: Item) -> tuple[str, str]:
    """Which tool a line of collaboration is about, and by which call."""
    return line["entry"]["tool"], line["entry"]["call_id"]


def said(text: str) -> Item:
    """What a model says."""
    return {"type": "agent_message", "text": text}


async def turn(api: ApiClient, thread: Item, text: str, **more: Any) -> Item:
    """Input for a thread."""
    taken: Item = await bounded(api.post(f"/threads/{thread['thread_id']}/turns", {"input": text, **more}))
    return taken


async def code(work: Any) -> tuple[int, str]:
    """The status and the code of a refusal."""
    error: ApiError = await refused(work)
    return error.status, error.code
