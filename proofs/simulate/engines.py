"""Engines that run the threads of a seat: they spawn, write, wait, stop each other, and now and then one forgets all.

Two engines of different names share a seat; whoever claims a thread fences the other off.
"""

import asyncio
from collections.abc import Callable
from random import Random

from proofs.simulate.company import Company, Seat
from proofs.simulate.loop import passing
from proofs.simulate.people import Book, Person
from proofs.simulate.world import Item, World

_SHORT_SECONDS, _LONG_SECONDS = 20, 300
_LATE_SECONDS, _LATE_WHERE_SLOW = 0.6, 60.0
_FENCED = ("stale_generation", "thread_owned", "thread_closed", "turn_not_open", "thread_busy")


class Fenced(Exception):
    """Somebody else has the thread by now."""


class Engine(Person):
    """One engine of a seat."""

    def __init__(self, world: World, company: Company, book: Book, dice: Random, seat: Seat, name: str) -> None:
        super().__init__(world, company, book, dice, seat.token)
        self.seat, self.name = seat, name
        self.is_idle: Callable[[], bool] = lambda: False
        self._calls = 0

    async def start(self, count: int) -> None:
        """Threads that a person or the agent itself begins, and what else they say to them."""
        for number in range(count):
            await self.pause(30)
            text = f"thread {self.name} {number}"
            wish = {"base_instructions": "Go.", "input": text, "key": text.replace(" ", "-")}
            status, item = await self.insist("POST", f"/workspaces/{self.seat.id}/threads", wish)
            if status >= 400 or not status:
                self.refused("start", item)
                continue
            self.book.threads.append(item["thread_id"])
            self.book.said[text] = item["thread_id"]
            await self._meddle(item["thread_id"], text)

    async def _meddle(self, thread_id: str, text: str) -> None:
        """Somebody speaks to a thread that is at work, stops it, closes it, takes it up again."""
        for number in range(self.dice.choice((0, 1, 2, 3))):
            await self.pause(40)
            said = f"{text} more {number}"
            wish = {"input": said, "mode": self.dice.choice(("auto", "queue", "steer")), "key": said.replace(" ", "-")}
            for _ in range(self.dice.choice((1, 1, 1, 2))):  # what was taken may come again, though no answer was lost
                status, answer = await self.insist("POST", f"/threads/{thread_id}/turns", wish)
                if 0 < status < 400:
                    self.book.said[said] = thread_id
                else:
                    self.refused("turn", answer, "thread_closed", "no_turn", "turn_not_open")
        lot = self.dice.random()
        verb = "interrupt" if lot < 0.2 else "close" if lot < 0.4 else None
        if verb is not None:
            await self.pause(40)
            below = self.dice.choice(("detach", "interrupt"))
            status, answer = await self.insist("POST", f"/threads/{thread_id}/{verb}", {"descendants": below})
            if status >= 400:
                self.refused(verb, answer, "thread_closed")
            if self.dice.random() < 0.5:
                status, answer = await self.insist("POST", f"/threads/{thread_id}/resume", {})
                if status >= 400:
                    self.refused("resume", answer)

    async def run(self, until: Callable[[], bool]) -> None:
        """Takes what there is to run, one turn after the other."""
        while not until():
            wish = {"wait": _LONG_SECONDS if self.is_idle() else _SHORT_SECONDS, "owner": self.name, "own_too": 1}
            status, work = await self.insist("GET", f"/workspaces/{self.seat.id}/threads/work", **wish)
            if status >= 400 or not status:
                self.refused("work", work)
                continue
            turns = [self._turn(each["thread_id"]) for each in work["threads"]]
            await asyncio.gather(*turns)
            if not turns:
                await passing(self.dice.uniform(0.5, 2))

    async def _post(self, path: str, body: Item) -> Item:
        """Raises Fenced."""
        status, answer = await self.insist("POST", path, body)
        if 0 < status < 400:
            return dict(answer or {})
        self.refused(path.rsplit("/", 1)[1], answer, *_FENCED)
        raise Fenced

    async def _turn(self, thread_id: str) -> None:
        at = f"/threads/{thread_id}"
        try:
            claim = await self._post(f"{at}/claim", {"owner": self.name})
            if claim["open_turn"] is None:
                await self._post(f"{at}/release", {"generation": claim["generation"]})
                return
            await self._run_turn(at, claim["generation"], claim["open_turn"]["turn_id"])
        except Fenced:
            self.world.counts["engines fenced"] += 1

    async def _run_turn(self, at: str, generation: int, turn_id: str) -> None:
        sight = await self._post(f"{at}/turns/{turn_id}/begin", {"generation": generation})
        if sight["stop"] is not None:
            return
        made: list[str] = []
        for _ in range(self.dice.choice((0, 1, 1, 2, 3))):
            await self.pause(5)
            await self._act(at, generation, made)
            if self.dice.random() < 0.06:
                self.world.counts["engines that forgot all"] += 1
                return
        if made and self.dice.random() < 0.7:
            await self._wait(at, generation, made)
        seen = await self._post(f"{at}/entries", {"generation": generation, "turn_id": turn_id, "entries": []})
        if seen["stop"] is not None:
            return
        end = {"generation": generation, "seen": seen["last_ordinal"], "final": f"end of {turn_id}"}
        end["status"] = self.dice.choice(("completed", "completed", "completed", "failed"))
        if end["status"] == "failed":
            end["error"] = "broken"
        await self._post(f"{at}/turns/{turn_id}/end", end)
        if self.dice.random() < 0.1:
            await self._post(f"{at}/release", {"generation": generation})

    def _called(self, generation: int) -> Item:
        self._calls += 1
        return {"call_id": f"{self.name}-{self._calls}", "generation": generation}

    async def _act(self, at: str, generation: int, made: list[str]) -> None:
        """A call of one of the tools by which agents work together."""
        call, lot = self._called(generation), self.dice.random()
        try:
            if not made and self.book.room <= 0:
                return
            if (lot < 0.5 and self.book.room > 0) or not made:
                self.book.room -= 1
                wish = {"task_name": f"t{self._calls}{self.name}", "message": "Dig."}
                wish["wake"] = self.dice.choice(("wake", "queue", "digest"))
                answer = await self._tool(at, "spawn", call | wish)
                if answer["status"] == "completed":  # else the turn was ended from outside meanwhile
                    made.append(answer["new_thread_id"])
                    self.book.spawned.append(call["call_id"])
                return
            target = self.dice.choice(made)
            if lot < 0.75:
                verb = "send" if lot < 0.62 else "followup"
                letter = {"target": target, "message": f"letter {call['call_id']}"}
                if (await self._tool(at, verb, call | letter))["status"] == "completed":
                    self.book.mailed.append((call["call_id"], target))
            else:
                verb = "interrupt" if lot < 0.85 else "close" if lot < 0.95 else "resume"
                await self._tool(at, verb, call | {"target": target})
        except Fenced:
            if await self._is_fenced(at, generation):
                raise

    async def _is_fenced(self, at: str, generation: int) -> bool:
        status, item = await self.insist("GET", at)
        return status != 200 or item["generation"] != generation or item["owner"] != self.name

    async def _tool(self, at: str, verb: str, call: Item) -> Item:
        status, answer = await self.insist("POST", f"{at}/agents/{verb}", call)
        if 0 < status < 400:
            found: Item = answer["call"]
            return found
        self.refused(verb, answer, *_FENCED, "thread_limit", "thread_is_closed")
        raise Fenced

    async def _wait(self, at: str, generation: int, made: list[str]) -> None:
        """Waits for those that it has spawned: as long as the wait goes on, the same call again."""
        call, timeout = self._called(generation), self.dice.choice((5, 40))
        call |= {"targets": made, "mode": self.dice.choice(("any", "all")), "timeout": timeout}
        began, lives = self.world.now, self.world.counts["lives"]
        while True:
            told = await self._tool(at, "wait", call)
            if told["status"] != "inProgress":
                break
            await passing(0.1)
        self.world.counts["waits of threads"] += 1
        took = self.world.now - began
        if self.world.counts["lives"] == lives and not self.world.chance.cuts:
            late = _LATE_WHERE_SLOW if self.world.chance.slowness else _LATE_SECONDS
            if told.get("timed_out") and took < timeout - 0.001:
                self.world.fault("waits that ended early", f"thread {took} of {timeout} s")
            if took > timeout + late:
                self.world.fault("waits past their limit", f"thread {took} of {timeout} s")
