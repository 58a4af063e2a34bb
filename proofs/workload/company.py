"""People who use a server over its socket and never give up: senders, agents and watchers.

They know what any client may know: the public API, and that a call without an answer is to be repeated under the same
id. Above: the proofs that disturb the server or the network. Below: a client of a few lines, and the book.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from proofs.harness.caller import Caller, NoAnswer, Refused
from proofs.harness.serving import ADMIN_TOKEN, Place
from proofs.harness.settings import START_SECONDS, Setting
from proofs.workload.observations import Book, Message

T = TypeVar("T")
# Short, so that what a dead agent held comes again soon; a claim waits long enough not to spin.
LEASE_SECONDS = 4
WAIT_SECONDS = 2
_CLAIM_ROWS = 4
# So many claims of each agent without mail are longer than a lease: what has not come by then was handled by an agent
# that died before it heard so, or will never come. (Counted, because on a busy machine a time would say nothing.)
_CLAIMS_IN_VAIN = LEASE_SECONDS // WAIT_SECONDS + 1
_WATCH_ROWS = 100
_CALLS_BETWEEN, _MOMENT_SECONDS = 160, 1.0
# Now and then one asks again although one has an answer: it must be the same answer.
_REPEATS = 0.1
_LONGEST_FILLER = 3000
# Who gets further is waited for so many times as long, and no longer: some controls go on for ever.
_MOST_TIMES = 5
# A refusal that should not be is noted; a task that gets nothing else ends, so that a broken product ends the run.
_MOST_REFUSALS = 200


class Seat:
    """A workspace: id and token."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.id: str = answer["id"]
        self.token: str = answer["connection"]["auth_token"]


class Company:
    """Inboxes with two agents each, senders of both kinds, and a watcher for each inbox."""

    def __init__(self, setting: Setting, server: Place, book: Book, first: Book | None = None) -> None:
        """`first`: the book of those who come first, where these are not alone with the server."""
        self._first = first or book
        self._setting = setting
        self._server = server
        self._book = book
        self._refusals = 0
        self.inboxes: list[Seat] = []
        self._sender_tokens: list[str] = []
        self._watcher_token = ""
        self._senders: list[asyncio.Task[None]] = []
        self._agents: list[asyncio.Task[None]] = []
        self._watchers: list[asyncio.Task[None]] = []

    # -- who there is --------------------------------------------------------------------------------------------------

    async def found(self, *, inboxes: int, senders: int) -> None:
        """Makes the seats and persons. Half of the senders are persons, half are workspaces."""
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            self.inboxes = [Seat(await admin.post("/workspaces", {"name": f"Inbox {n}"})) for n in range(inboxes)]
            seats = [Seat(await admin.post("/workspaces", {"name": f"Sender {n}"})) for n in range(senders // 2)]
            persons = f"/orgs/{(await admin.get('/orgs'))[0]['id']}/people"
            people = [
                await admin.post(persons, {"name": f"Person {n}", "role": "operator"})
                for n in range(senders - len(seats))
            ]
            watcher = await admin.post(persons, {"name": "Watcher", "role": "viewer"})
        self._sender_tokens = [seat.token for seat in seats] + [person["auth_token"] for person in people]
        self._watcher_token = watcher["auth_token"]

    def begin(self, *, agents: int) -> None:
        """Everybody goes to work."""
        self._senders = [asyncio.create_task(self._send(n)) for n in range(len(self._sender_tokens))]
        self._agents = [asyncio.create_task(self._work(n, 0)) for n in range(agents)]
        self._watchers = [asyncio.create_task(self._watch(n)) for n in range(len(self.inboxes))]

    async def kill_agent(self, place: int, life: int) -> None:
        """An agent dies in the middle of what it does, and another takes its seat, knowing nothing."""
        await self.kill(self._agents[place])
        self._agents[place] = asyncio.create_task(self._work(place, life))
        self._book.figures["clients that died"] += 1

    async def finish(self, seconds: float) -> None:
        """Senders end their last message, agents handle all that was accepted, watchers read to the end. Whoever gets
        no further is given up, the slow after so many seconds: the judge will find what is missing."""
        self._book.stopping.set()
        await self.end(self._senders, seconds)
        in_vain = _CLAIMS_IN_VAIN * len(self._agents)
        while self._book.open_messages() and self._book.claims_in_vain < in_vain:
            if not await self._book.progress.after("claimed", 1, seconds=seconds):
                break
        for agent in self._agents:
            agent.cancel()
        await self.end(self._agents, START_SECONDS)
        self._book.closing.set()
        await self.end(self._watchers, seconds)

    async def end(self, tasks: list[asyncio.Task[None]], seconds: float, moment: str = "") -> None:
        """Waits until people have gone; who stays too long, or left in anger, is a fault. `moment`: who has brought it
        about within those seconds has got further, and is given as many again, a few times."""
        late, counts, seen = set(tasks), self._book.progress.counts, -1
        for _ in range(_MOST_TIMES):
            if late and seen != counts[moment]:
                seen = counts[moment]
                _, late = await asyncio.wait(late, timeout=seconds)
        for task in late:
            task.cancel()
            self._book.fault("stuck people", repr(task.get_coro()))
        if late:
            await asyncio.wait(late)
        for task in tasks:
            if task not in late:
                self._look(task)

    async def kill(self, task: asyncio.Task[None]) -> None:
        """Somebody dies in the middle of what they do; who had left in anger by then is a fault."""
        task.cancel()
        await asyncio.wait([task])
        self._look(task)

    def _look(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._book.fault("stuck people", repr(error))

    # -- what they do --------------------------------------------------------------------------------------------------

    async def insist(self, call: Callable[[], Awaitable[T]], cut: Callable[[], None] = lambda: None) -> T:
        """Asks until there is an answer. `cut` is called for each time that none came."""
        while True:
            await self._server.up.wait()
            self._book.progress.note("begun")
            try:
                return await call()
            except NoAnswer:
                self._book.figures["calls cut"] += 1
                cut()
            except Refused as error:
                if error.status != 503:
                    raise
                self._book.figures["answered 503"] += 1

    async def claim(self, api: Caller, workspace_id: str, hands: Book, what: str) -> list[dict[str, Any]]:
        """What an agent takes out of its inbox next, as the book of those hands notes it; nothing if it is refused."""
        asked, begun = hands.tick(), time.monotonic()
        wish = {"claim": LEASE_SECONDS, "wait": WAIT_SECONDS, "limit": _CLAIM_ROWS}
        try:
            rows: list[dict[str, Any]] = await self.insist(
                lambda: api.get(f"/workspaces/{workspace_id}/activity", **wish)
            )
        except Refused as error:
            self.refused(error, f"claim of {what}")
            return []
        hands.hand(rows, asked, begun + LEASE_SECONDS)
        return rows

    async def let_others(self) -> None:
        """Waits until those who come first have begun so many calls, or for a moment: who does so before each thing it
        does leaves most of the server to them."""
        await self._first.progress.after("begun", _CALLS_BETWEEN, seconds=_MOMENT_SECONDS)

    def refused(self, error: Refused, what: str) -> None:
        """A refusal that nobody deserved. Raises it again if there are too many."""
        self._book.fault("refused", f"{what}: {error}")
        self._refusals += 1
        if self._refusals > _MOST_REFUSALS:
            raise error

    async def _send(self, place: int) -> None:
        """One message after the other: the next only once the last was accepted."""
        dice = self._setting.dice("sender", place)
        mine: list[Message] = []
        async with Caller(self._server.port, self._sender_tokens[place]) as api:
            while not self._book.stopping.is_set():
                message = self._new_message(place, len(mine), dice.choice(self.inboxes).id, dice.randrange(1 << 30))
                mine.append(message)
                await self.put(api, message)
                if dice.random() < _REPEATS:
                    self._book.figures["sent again"] += 1
                    await self.put(api, dice.choice(mine))

    def _new_message(self, place: int, number: int, inbox: str, throw: int) -> Message:
        id_ = f"s{place}-{number}"
        text = f"{id_} {'x' * (throw % _LONGEST_FILLER)}"
        message = self._book.messages[id_] = Message(id=id_, sender=f"s{place}", number=number, inbox=inbox, text=text)
        return message

    async def put(self, api: Caller, message: Message) -> None:
        """Sends a message until it is accepted."""

        def cut() -> None:
            message.cut_at = time.time_ns() // 1000

        parts = [{"kind": "text", "text": message.text}]
        params = {"message": {"role": "user", "messageId": message.id, "parts": parts}}
        body = {"jsonrpc": "2.0", "id": message.number, "method": "message/send", "params": params}
        try:
            answer = await self.insist(lambda: api.post(f"/workspaces/{message.inbox}/a2a", body), cut)
        except Refused as error:
            self.refused(error, f"send {message.id}")
        else:
            self._book.accept(message, answer["activity_id"])

    async def _work(self, place: int, life: int) -> None:
        """Claim, answer, acknowledge; two agents share an inbox, and each may die at any moment."""
        dice = self._setting.dice("agent", place, life)
        seat = self.inboxes[place % len(self.inboxes)]
        async with Caller(self._server.port, seat.token) as api:
            while True:
                for row in await self.claim(api, seat.id, self._book, "messages"):
                    await self._handle(api, seat, row, again=dice.random() < _REPEATS)

    async def _handle(self, api: Caller, seat: Seat, row: dict[str, Any], *, again: bool) -> None:
        """What came again is acknowledged twice: first as the agent would that had it before, and comes back late."""
        id_, attempt = row["id"], row["attempt"]
        try:
            for _ in range(1 + again):
                await self._answer(api, seat, row)
        except Refused as error:
            self.refused(error, f"answer {id_}")
            return
        if attempt > 1:
            self._book.figures["stale acks sent"] += 1
            await self._ack(api, seat, id_, attempt - 1)
        await self._ack(api, seat, id_, attempt)

    async def _ack(self, api: Caller, seat: Seat, activity_id: str, attempt: int) -> None:
        body = {"activity_id": activity_id, "attempt": attempt}
        self._book.begin_ack(activity_id, attempt)
        try:
            await self.insist(lambda: api.post(f"/workspaces/{seat.id}/activity/ack", body))
        except Refused as error:
            if error.code == "stale_attempt":  # handed out again meanwhile: that attempt will be acknowledged
                self._book.figures["late acks refused"] += 1
            else:
                self.refused(error, f"ack {activity_id}")
        else:
            self._book.take_ack(activity_id)

    async def _answer(self, api: Caller, seat: Seat, row: dict[str, Any]) -> None:
        path, body = f"/workspaces/{seat.id}/notify", {"message": answer_to(row["id"])}
        key = f"answer-{row['id']}"
        answer = await self.insist(lambda: api.post(path, body, idempotency_key=key))
        self._book.answer(row["id"], answer["activity_id"])

    async def _watch(self, place: int) -> None:
        """Follows the log of one inbox by its cursor, row by row, over every restart."""
        path = f"/workspaces/{self.inboxes[place].id}/activity"
        seen = self._book.watched[self.inboxes[place].id] = []
        async with Caller(self._server.port, self._watcher_token) as api:
            while True:
                last = self._book.closing.is_set()
                cursor = {"since_id": seen[-1][1]} if seen else {}
                page = {"limit": _WATCH_ROWS, "wait": 0 if last else WAIT_SECONDS, **cursor}
                try:
                    rows = await self.insist(partial(api.get, path, **page))
                except Refused as error:
                    self.refused(error, "watch")
                    continue
                newest_first = not seen
                seen += [(row["seq"], row["id"]) for row in (reversed(rows) if newest_first else rows)]
                if last and not rows:
                    return


def answer_to(activity_id: str) -> str:
    """What an agent says to its user about a message."""
    return f"answer to {activity_id}"
