"""Random histories of a company, of duties and of work: the verbs of their writers, and snapshots taken meanwhile."""

import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from molecule_core.client.api import ApiClient, ApiError
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import journal_of, snapshot_at_rest, token_of
from testing.running_server import Running, Seat, running
from testing.snapshot_follower import compared, follow, state_of
from testing.waits import bounded
from testing.workspaces import beat, remove

# The sweep is called by the test alone: what it changes must not come between two looks.
NO_SWEEP = Limits(sweep_seconds=10_000_000)


async def snapshot_of(server: Running, api: ApiClient | None = None, org_id: str | None = None) -> dict[str, Any]:
    """A snapshot of the first organisation."""
    org_id = org_id or server.server.registry.orgs()[0].id
    found: dict[str, Any] = await bounded((api or server.admin).get(f"/orgs/{org_id}/snapshot"))
    return found


class Story:
    """Random verbs of all writers, and the snapshots that somebody took meanwhile."""

    def __init__(self, server: Running, clock: FakeClock, seed: int) -> None:
        self.server = server
        self.clock = clock
        self.dice = random.Random(seed)
        self.seats: list[Seat] = []
        self.told: set[str] = set()
        self.marks: list[tuple[str, int, int]] = []
        self.taken: list[tuple[int, dict[str, Any]]] = []
        self.reader: ApiClient

    async def begin(self) -> None:
        """Two seats and the person who looks."""
        self.reader = self.server.api(await token_of(self.server))
        for _ in range(2):
            await self.create(None)
        await self.look()

    async def look(self) -> None:
        """Takes a snapshot."""
        self.taken.append((len(self.marks), await snapshot_of(self.server, self.reader)))

    async def go_on(self, count: int) -> None:
        """Random verbs."""
        verbs: list[Callable[[Seat], Awaitable[object]]] = [
            self.create,
            self.change,
            self.register,
            self.update_card,
            self.heartbeat,
            self.fall_silent,
            self.ask,
            self.ask,
            self.notify,
            self.notify,
            self.log,
            self.talk,
            self.mark,
            self.take,
            self.take,
            self.say_outside,
            self.move,
            self.put_aside,
            self.expand,
            self.rotate,
        ]
        for _ in range(count):
            verb = self.dice.choice(verbs)
            self.told.add(verb.__name__)
            await verb(self.dice.choice(self.seats))
            await self.clock.advance(self.dice.choice([0, 0.001, 7]))
            if self.dice.random() < 0.15:
                await self.look()
            if self.dice.random() < 0.06 and len(self.seats) > 2:
                await self.remove(self.dice.choice(self.seats))

    async def create(self, parent: Seat | None) -> None:
        parent_id = parent.id if parent is not None and self.dice.random() < 0.3 else None
        external = self.dice.random() < 0.5
        self.seats.append(await self.server.seat("Seat", parent_id=parent_id, external=external))

    async def change(self, seat: Seat) -> None:
        name, value = self.dice.choice([("name", "Seat"), ("role", None), ("tier", 3), ("collapsed", True), ("x", 1.5)])
        await self.server.admin.call("PATCH", f"/workspaces/{seat.id}", body={name: value})

    async def remove(self, seat: Seat) -> None:
        gone = await remove(self.server.admin, seat)
        ids = {each["id"] for each in gone["removed"]}
        self.seats = [each for each in self.seats if each.id not in ids]
        if not self.seats:
            await self.create(None)

    async def move(self, seat: Seat) -> None:
        """Anywhere; often with a change of something else, often to where it may not stand."""
        more = self.dice.choice([{}, {}, {"role": "moved"}, {"name": "Seat"}])
        parent_id = self.dice.choice([None, *(each.id for each in self.seats)])
        with contextlib.suppress(ApiError):
            await self.server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"parent_id": parent_id, **more})

    async def put_aside(self, seat: Seat) -> None:
        with contextlib.suppress(ApiError):
            await self.server.admin.post(f"/workspaces/{seat.id}/{self.dice.choice(['pause', 'hibernate', 'resume'])}")

    async def expand(self, seat: Seat) -> None:
        """A team comes, and sometimes goes again with all that was there before."""
        team = {"children": [{"name": "Seat", "children": [{"name": "Member"}]}]}
        await self.server.admin.post(f"/workspaces/{seat.id}/expand", team)
        if self.dice.random() < 0.4:
            await self.look()
            gone = await self.server.admin.post(f"/workspaces/{seat.id}/collapse", confirm="true")
            self.seats = [each for each in self.seats if each.id not in gone["removed_ids"]]

    async def rotate(self, seat: Seat) -> None:
        await self.server.admin.post(f"/workspaces/{seat.id}/external/rotate", {"grace_seconds": 3600})

    async def register(self, seat: Seat) -> None:
        card = self.dice.choice([{"name": "A"}, {"name": "B"}, None])
        await seat.api.post("/registry/register", {"id": seat.id, "agent_card": card})

    async def update_card(self, seat: Seat) -> None:
        card = {"name": "C", "n": self.dice.randrange(3)}
        await seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": card})

    async def heartbeat(self, seat: Seat) -> None:
        rate = self.dice.choice([0.0, 0.05, 0.3, 0.5, 0.9])
        await beat(seat, error_rate=rate, current_task=str(rate), active_tasks=self.dice.randrange(4))

    async def fall_silent(self, _seat: Seat) -> None:
        await self.clock.advance(100)
        await self.server.server.org_writer.sweep_silent_agents("")

    async def ask(self, seat: Seat) -> None:
        text = self.dice.choice(["hello", "two\nlines", "x" * 100, " spaces   within ", "é" * 90])
        await self.server.admin.send(seat.id, text)

    async def notify(self, seat: Seat) -> None:
        text = self.dice.choice(["done", "two\n\nlines", "y" * 500, "a " * 60])
        await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": text})

    async def log(self, seat: Seat) -> None:
        await seat.api.post(f"/workspaces/{seat.id}/activity", {"activity_type": "agent_log", "summary": "worked"})

    async def talk(self, seat: Seat) -> None:
        await seat.api.send(seat.id, "to myself")

    async def take(self, seat: Seat) -> None:
        """Mail that may wait for its answer from then on."""
        for row in await seat.api.claim(seat.id, wait=0):
            await seat.api.ack(seat.id, row)

    async def say_outside(self, seat: Seat) -> None:
        """Drafts, which a person sends, discards or leaves where they are."""
        await self.ask(seat)
        await self.take(seat)
        page = await seat.api.get(f"/workspaces/{seat.id}/obligations")
        for owed in page["obligations"]:
            draft = f"/workspaces/{seat.id}/messages/{owed['activity_id']}/draft"
            await seat.api.post(draft, {"text": "said outside"})
            if verb := self.dice.choice(["send", "discard", None, None]):
                await self.server.admin.post(f"{draft}/{verb}")

    async def mark(self, seat: Seat) -> None:
        """The person reads. No event tells it: the page that marks knows, so the test applies it as the page does."""
        for chat in (await snapshot_of(self.server, self.reader))["chats"]:
            if chat["workspace_id"] == seat.id:
                await self.reader.post(f"/workspaces/{seat.id}/chat/read", {"seq": chat["last"]["seq"]})
                as_of = (await snapshot_of(self.server, self.reader))["as_of"]
                self.marks.append((seat.id, chat["last"]["seq"], as_of))


def read(state: dict[str, Any], marks: list[tuple[str, int, int]], events: list[dict[str, Any]]) -> dict[str, Any]:
    """A state after events and the person's own marks, each at its place between them."""
    for workspace_id, seq, as_of in marks:
        state = follow(state, [event for event in events if event["seq"] <= as_of])
        chat = state["chats"].get(workspace_id)
        if chat is not None:  # it begins with an event, which a control leaves out
            chat.update(read_seq=max(chat["read_seq"], seq), unread=0)
    return follow(state, events)


UNSEEN = ("ACTIVITY_LOGGED", "WORKSPACE_EXPANDED", "WORKSPACE_COLLAPSED", "EXTERNAL_CREDENTIALS_ROTATED")
"""Events that change nothing in a snapshot that no other event changes."""


async def told_story(
    server: Running, clock: FakeClock, seed: int
) -> tuple[Story, dict[str, Any], list[dict[str, Any]]]:
    """A story, its end as a snapshot shows it, and all events."""
    story = Story(server, clock, seed)
    await story.begin()
    await story.go_on(60)
    end = await snapshot_of(server, story.reader)
    return story, state_of(end), await journal_of(server)


def differences(story: Story, end: dict[str, Any], events: list[dict[str, Any]]) -> int:
    """How many of the snapshots do not become the last one by their events."""
    found = 0
    for count, snapshot in story.taken:
        behind = [event for event in events if event["seq"] > snapshot["as_of"]]
        found += compared(read(state_of(snapshot), story.marks[count:], behind)) != compared(end)
    return found


class Duties:
    """Two agents that are asked, and do with it what agents do."""

    def __init__(self, server: Running, clock: FakeClock, seats: list[Seat], seed: int) -> None:
        self.server = server
        self.clock = clock
        self.seats = seats
        self.dice = random.Random(seed)
        self.taken: list[dict[str, Any]] = []

    async def go_on(self, count: int) -> None:
        """Random verbs, and a snapshot now and then."""
        verbs: list[Callable[[Seat], Awaitable[object]]] = [
            self.ask,
            self.ask,
            self.claim,
            self.claim,
            self.draft,
            self.draft,
            self.end_draft,
            self.decline,
            self.notify,
            self.wait,
        ]
        for _ in range(count):
            await self.dice.choice(verbs)(self.dice.choice(self.seats))
            if self.dice.random() < 0.2:
                await self.look()
        await self.look()

    async def look(self) -> None:
        self.taken.append(await snapshot_at_rest(self.server))

    async def ask(self, seat: Seat) -> None:
        source = self.dice.choice([self.server.admin, *(each.api for each in self.seats if each is not seat)])
        await source.send(seat.id, "Is it done?")

    async def claim(self, seat: Seat) -> None:
        await seat.api.claim(seat.id, wait=0, limit=self.dice.randrange(1, 4))

    async def owed(self, seat: Seat, state: str) -> dict[str, Any] | None:
        page = await seat.api.get(f"/workspaces/{seat.id}/obligations", state=state)
        return self.dice.choice(page["obligations"]) if page["obligations"] else None

    async def draft(self, seat: Seat) -> None:
        if owed := await self.owed(seat, "open"):
            path = f"/workspaces/{seat.id}/messages/{owed['activity_id']}/draft"
            await seat.api.post(path, {"text": "It is"})

    async def end_draft(self, seat: Seat) -> None:
        if owed := await self.owed(seat, "unanswered"):
            end = self.dice.choice(["send", "discard"])
            with contextlib.suppress(ApiError):  # there is none, it is only overdue
                await self.server.admin.post(f"/workspaces/{seat.id}/messages/{owed['activity_id']}/draft/{end}", {})

    async def decline(self, seat: Seat) -> None:
        if owed := await self.owed(seat, "open"):
            await seat.api.post(f"/workspaces/{seat.id}/decline", {"handle": owed["handle"], "reason": "not mine"})

    async def notify(self, seat: Seat) -> None:
        await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "done"})

    async def wait(self, _seat: Seat) -> None:
        await self.clock.advance(self.dice.choice([1, 121, 121]))
        for seat in self.seats:
            await self.server.server.messages.overdue_watchdog.check_due(seat.id)


STEPS = 60


class Bustle:
    """Three agents that give each other work, and do with it what agents do."""

    def __init__(self, server: Running, clock: FakeClock, seats: list[Seat], seed: int) -> None:
        self.server = server
        self.clock = clock
        self.seats = seats
        self.dice = random.Random(seed)
        self.taken: list[dict[str, Any]] = []

    async def go_on(self) -> None:
        """Random verbs, and a snapshot now and then. What the server refuses does no harm."""
        verbs: list[Callable[[Seat], Awaitable[object]]] = [
            self.delegate,
            self.delegate,
            self.delegate,
            self.claim,
            self.claim,
            self.report,
            self.end,
            self.end,
            self.end,
            self.cancel,
            self.retry,
            self.record,
            self.wait,
        ]
        for _ in range(STEPS):
            with contextlib.suppress(ApiError):
                await self.dice.choice(verbs)(self.dice.choice(self.seats))
            if self.dice.random() < 0.2:
                await self.look()
        await self.look()

    async def look(self) -> None:
        self.taken.append(await snapshot_at_rest(self.server))

    def other(self, seat: Seat) -> Seat:
        return self.dice.choice([each for each in self.seats if each is not seat])

    async def delegate(self, seat: Seat) -> None:
        body = {"target_id": self.other(seat).id, "task": f"task {self.dice.randrange(5)}"}
        await seat.api.post(f"/workspaces/{seat.id}/delegate", body)

    async def record(self, seat: Seat) -> None:
        own = f"own-{self.dice.randrange(1000)}"
        body = {"target_id": self.other(seat).id, "task": "elsewhere", "delegation_id": own}
        await seat.api.post(f"/workspaces/{seat.id}/delegations/record", body)

    async def claim(self, seat: Seat) -> None:
        await seat.api.claim(seat.id, wait=0, limit=self.dice.randrange(1, 4))

    async def one(self, seat: Seat, direction: str, state: str | None = "open") -> str:
        more = {} if state is None else {"state": state}
        rows = await seat.api.get(f"/workspaces/{seat.id}/delegations", direction=direction, **more)
        return str(self.dice.choice(rows)["delegation_id"]) if rows else "nothing"

    async def report(self, seat: Seat) -> None:
        said = {"current_step": f"step {self.dice.randrange(9)}", "percent": self.dice.randrange(101)}
        await seat.api.post(f"/delegations/{await self.one(seat, 'in')}/status", said)

    async def end(self, seat: Seat) -> None:
        way, status = self.dice.choice(["in", "in", "out"]), self.dice.choice(["completed", "completed", "failed"])
        delegation_id = await self.one(seat, way)
        said = {"status": status, "result": "sorted", "error": "no access"}
        await seat.api.post(f"/workspaces/{seat.id}/delegations/{delegation_id}/update", said)

    async def cancel(self, seat: Seat) -> None:
        path = f"/workspaces/{seat.id}/delegations/{await self.one(seat, 'out')}/cancel"
        await self.server.admin.post(path, {"reason": "enough"})

    async def retry(self, seat: Seat) -> None:
        await seat.api.post(f"/workspaces/{seat.id}/delegations/{await self.one(seat, 'out', None)}/retry")

    async def wait(self, _seat: Seat) -> None:
        await self.clock.advance(self.dice.choice([1, 70]))


async def bustle(engine: Engine, place: str, state: Path, clock: FakeClock, seed: int) -> tuple[Any, Any]:
    """The snapshots that were taken, and all events."""
    async with running(engine, place, state, clock=clock) as server:
        seats = [await server.seat(name) for name in ("One", "Two", "Three")]
        found = Bustle(server, clock, seats, seed)
        await found.go_on()
        return found.taken, await journal_of(server)
