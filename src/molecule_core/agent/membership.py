"""One workspace of an agent: register, heartbeat, read the inbox. Whatever happens to it happens to no other one.

Of several processes with this seat one leads: it registers, beats and reads. The others look now and then whether it is
gone. The reader takes mail under a lease and never further than the inbox has room, so that nothing is ever dropped;
what is handled is said one by one, so that a crash brings back what was not.

Above: memberships. Below: acks, leader, inbox, connections.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from molecule_core.agent.acks import Acks, acknowledge
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.config import SeatConfig, Wishes
from molecule_core.agent.connections import Seated, Servers
from molecule_core.agent.cursors import CursorFile, Fenced
from molecule_core.agent.inbox import Inbox, Key
from molecule_core.agent.leader import Leadership
from molecule_core.agent.refusals import Refusals, in_words, is_of_token
from molecule_core.agent.tokens import TokenRegistry
from molecule_core.agent.waiting import pause
from molecule_core.client.api import Api, ApiError, NoAnswer, member
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Randomness
from molecule_core.wire.cards import ALL, LOADED
from molecule_core.wire.envelope import asked
from molecule_core.wire.inbox import InboxMessage, message_of

_log = logging.getLogger("molecule.agent")
_GONE = 410
REMOVED = "workspace_removed"
# A page: enough to fill an inbox in a few, few enough to be shown soon.
_PAGE = 100
# A seat without a server may stay so for days.
_EVERY = 20


class Removed(Exception):
    """The workspace is gone for good."""


class SteppedDown(Exception):
    """Another process leads now."""


class Shared(Struct, frozen=True, kw_only=True):
    """What all memberships of a process have in common. `card`: what the agent says of itself; `refused`: called if the
    server does not take the credential when the only seat is taken for the first time. `lost`: called if a seat is gone
    for good, by a process that is nothing without it. `several`: whether this process may sit in more than one
    workspace; `tools`: those that its host is given."""

    clock: Clock
    randomness: Randomness
    wishes: Wishes
    tokens: TokenRegistry
    servers: Servers
    inbox: Inbox
    card: Callable[[], dict[str, Any]]
    refused: Callable[[str], None] | None = None
    lost: Callable[[str], None] | None = None
    several: bool = False
    tools: tuple[str, ...] = ALL


class Membership:
    """A seat, as this process keeps it. `state`: waiting, following, leading, away, refused, removed; `trouble`: what
    is wrong at this moment, for people and models."""

    def __init__(self, seat: SeatConfig, file: CursorFile, leadership: Leadership, shared: Shared) -> None:
        self.id = seat.id
        self.url = seat.url
        self.state = "waiting"
        self.trouble = ""
        self.looked = asyncio.Event()
        """Set once it is known what waits here, or that this cannot be known now."""
        self.requests = Seated(seat, shared.servers, shared.tokens)
        """For whoever keeps it: acts as this workspace, with the token of the moment."""
        self._file = file
        self._acks = Acks(seat.id, file)
        self._leadership = leadership
        self._shared = shared
        self._clock = shared.clock
        self._inbox = shared.inbox
        self._wishes = shared.wishes
        self._card: dict[str, Any] | None = None
        self._refusals = Refusals(
            seat.id,
            clock=shared.clock,
            is_fixed=seat.token_file is None,
            refused=shared.refused,
            lost=shared.lost,
        )
        self._failures = 0
        self._started = shared.clock.monotonic()
        self._leases: dict[str, float] = {}

    def api(self) -> Api:
        """A client that acts as this workspace, with its token and no other; not to be kept, see `requests`."""
        return self.requests.api()

    @property
    def leads(self) -> bool:
        """Whether this process reads the inbox."""
        return self.state not in ("waiting", "following", "removed")

    def leader(self) -> int | None:
        """The process that leads, or led last."""
        return self._leadership.leader()

    def keep_card(self, card: dict[str, Any]) -> None:
        """What the agent has said of itself since: the next time this seat is taken it says that."""
        self._card = card

    # -- the life of a seat --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keeps the seat until it is cancelled, or the workspace is removed."""
        while True:
            await self._follow()
            try:
                await self._lead()
            except Removed:
                self.state, self.trouble = "removed", "this workspace was removed by its operator"
                self.looked.set()
                self._removed()
                return
            except (SteppedDown, Fenced):
                _log.warning("workspace %s: another process leads now", self.id)
            finally:
                self._inbox.forget(self.id)
                self._leases.clear()
                self._leadership.give_back()

    def _removed(self) -> None:
        if self._shared.lost is not None:
            self._shared.lost(f"workspace {self.id} was removed by its operator")
        else:
            _log.warning("workspace %s was removed; this agent goes on without it", self.id)

    async def _follow(self) -> None:
        """Until this process leads."""
        while True:
            try:
                if self._leadership.take(self._file.load().fence):
                    break
                self.state, self.trouble = "following", ""
                self.looked.set()
            except OSError as error:
                self._troubled(f"its lock file cannot be used: {error.strerror}")
            await pause(self._clock, self._wishes.follow_seconds * self._dice())
        self._acks.begin(self._leadership.fence)
        self.state = "waiting"
        self.looked.clear()

    def _dice(self) -> float:
        return 0.75 + 0.5 * self._shared.randomness.bits(16) / (1 << 16)

    async def _lead(self) -> None:
        """Registers and works; after trouble again, later and later. Raises Removed, SteppedDown, Fenced."""
        back_off = BackOff(self._wishes.retry_seconds, self._wishes.retry_most_seconds, self._shared.randomness)
        while True:
            token = self.requests.token
            try:
                async with self._shared.servers.door(self.url):
                    await self._begin()
                back_off.reset()
                self.state, self.trouble, self._failures = "leading", "", 0
                await self._work()
            except (Removed, SteppedDown, Fenced):
                raise
            except Exception as error:  # whatever a server answers, this seat goes on
                self._judge(error, token)
                least = error.problem.get("retry_after") if isinstance(error, ApiError) else None
                await pause(self._clock, max(back_off.next(), least if isinstance(least, int | float) else 0))

    def _judge(self, error: Exception, token: str) -> None:
        if isinstance(error, ApiError):
            if error.code == REMOVED:
                raise Removed from None
            if is_of_token(error):
                self.state = "refused"
                self._refusals.refused(error, renewed=self.requests.has_another(token))
                self._troubled(in_words(error))
                return
        if not isinstance(error, ApiError | NoAnswer | OSError):
            _log.error("workspace %s: an answer of %s was not understood", self.id, self.url, exc_info=error)
        self.state = "away"
        self._troubled(f"{self.url} does not answer as it should ({str(error) or type(error).__name__}); trying again")

    def _troubled(self, text: str) -> None:
        self.trouble = text
        self.looked.set()
        self._failures += 1
        if self._failures == 1 or self._failures % _EVERY == 0:
            _log.warning("workspace %s: %s", self.id, text)

    async def _begin(self) -> None:
        """Takes the seat, and sets right what an earlier life left. Raises ApiError, NoAnswer, OSError, Fenced."""
        card = self._card if self._card is not None else self._shared.card()
        body = {"id": self.id, "agent_card": {**card, LOADED: self._shared.tools}, "delivery_mode": "poll"}
        member(await self.api().post("/registry/register", body), "status", str)
        self._refusals.taken()
        if not self._wishes.disable_heartbeat:
            await self._say_alive()
        if self._wishes.disable_inbox:
            return
        await self._check_cursor()
        await self._confirm_all()
        await self._release(self._acks.left_over({id_ for _, id_ in self._keys()}))  # control: release-left-over

    async def _check_cursor(self) -> None:
        """The server must know the cursor: it never lies beyond what the server has called handled. One that does not
        (rows go, stores are put back) makes this workspace begin anew, and no other."""
        if not self._acks.cursor:
            return
        query = {"type": "a2a_receive", "since_id": self._acks.cursor, "limit": 1}
        try:
            await self.api().get(self._path("activity"), **query)
        except ApiError as error:
            if error.status != _GONE or error.code == REMOVED:
                raise
            _log.warning("workspace %s: the server does not know the cursor; beginning anew", self.id)
            self._acks.reset()
            self._inbox.forget(self.id)
            self._leases.clear()

    def _keys(self) -> list[Key]:
        return [entry.key for entry in self._inbox.entries() if entry.key[0] == self.id]

    def _path(self, rest: str) -> str:
        return f"/workspaces/{self.id}/{rest}"

    # -- work ----------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Beats and reads until one of them fails."""
        works: list[Callable[[], Awaitable[None]]] = []
        if not self._wishes.disable_heartbeat:
            works.append(self._beat)
        works.append(self._wait_for_ever if self._wishes.disable_inbox else self._read)
        tasks = [asyncio.ensure_future(work()) for work in works]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _wait_for_ever(self) -> None:
        self.looked.set()
        await asyncio.get_running_loop().create_future()

    async def _beat(self) -> None:
        """Says that the agent is there. A lost heartbeat is made up by the next one. Raises ApiError if it is refused:
        where the reader asks for nothing, nobody else would ever know."""
        while True:
            await pause(self._clock, self._wishes.heartbeat_seconds * self._dice())
            if (refusal := await self._say_alive()) is not None:
                raise refusal

    async def _say_alive(self) -> ApiError | None:
        """Raises ApiError if removed."""
        try:
            await self.api().post("/registry/heartbeat", self._pulse())
            self._refusals.beat_taken()
        except NoAnswer:
            pass  # the reader notices too
        except ApiError as error:
            if error.code == REMOVED:
                raise
            if is_of_token(error):
                self._refusals.beat_refused(error)
                return error
        return None

    def _pulse(self) -> dict[str, Any]:
        at_work = sum(entry.shown for entry in self._inbox.entries() if entry.key[0] == self.id)
        uptime = int(self._clock.monotonic() - self._started)
        works = {"active_tasks": at_work, "uptime_seconds": uptime}
        return {"workspace_id": self.id, **works, LOADED: self._shared.tools}

    async def _read(self) -> None:
        """Takes mail as long as there is room for it. Raises ApiError, NoAnswer, Fenced, SteppedDown, OSError."""
        while True:
            if not self._leadership.holds():
                raise SteppedDown
            self.take_notes()
            if self._acks.pending:
                await self._confirm_all()
            room = self._wishes.inbox_messages - self._inbox.count(self.id)
            if room <= 0:
                await self._inbox.change()
                continue
            rows = await self.api().claim(
                self.id,
                lease=self._wishes.lease_seconds,
                wait=self._wishes.hold_seconds if self.looked.is_set() else 0,
                limit=min(room + self._run_out(), _PAGE),
                include=asked(several=self._shared.several),
            )
            await self._taken(rows)
            self.looked.set()

    def _run_out(self) -> int:
        """Of what is held, how much the server will hand out once more: that is no news and takes no room."""
        now = self._clock.monotonic()
        return sum(end <= now for end in self._leases.values())

    async def _taken(self, rows: list[dict[str, Any]]) -> None:
        messages = [message_of(row, self.id) for row in rows if row.get("id")]  # control: receiving-seat
        attempts = {message.activity_id: message.attempt for message in messages}
        places = {str(row.get("id")): row["seq"] for row in rows if isinstance(row.get("seq"), int)}
        ends = self._clock.monotonic() + self._wishes.lease_seconds
        # Handed out once more before the server heard that they are handled: that counts for this time too.
        again = [each.activity_id for each in messages if self._is_done(each)]
        self._acks.hold(attempts, places, again)
        for message in messages:
            if message.activity_id not in again:
                self._leases[message.activity_id] = ends
                self._inbox.add(message)
        for activity_id in again:
            await self._acks.confirm(self.api(), activity_id)

    def _is_done(self, message: InboxMessage) -> bool:
        """Whether it is handled already, and no reminder that was not here before."""
        known = self._inbox.handled(message.activity_id, self.id) or self._acks.is_pending(message.activity_id)
        return bool(known) and not (message.reminder and not self._inbox.was_reminded(message))

    # -- handled -------------------------------------------------------------------------------------------------------

    async def handle(self, activity_id: str, attempt: int) -> bool:
        """A message is handled and does not come again, also if the server cannot be told now: then False.

        Raises Fenced."""
        self._acks.handled(activity_id, attempt)
        self._leases.pop(activity_id, None)
        self._inbox.settle((self.id, activity_id))
        return await self._acks.confirm(self.api(), activity_id)

    async def handle_for_leader(self, activity_id: str, attempt: int) -> None:
        """The same in a process that does not lead. Raises ApiError, NoAnswer, OSError."""
        attempt = attempt or self.attempt_of(activity_id)
        await acknowledge(self.api(), self.id, activity_id, attempt)
        self.note_for_leader(activity_id, attempt)

    def attempt_of(self, activity_id: str) -> int:
        """The attempt under which the process that leads holds a message; 0 if it is not known."""
        return self._file.load().held.get(activity_id, 0)

    def settled(self, activity_id: str) -> None:
        """The server knows already that a message is handled."""
        self._leases.pop(activity_id, None)
        self._inbox.settle((self.id, activity_id))
        with contextlib.suppress(Fenced):
            self._acks.released({activity_id: 0})

    def note_for_leader(self, activity_id: str, attempt: int) -> None:
        """The same in a process that does not lead."""
        with contextlib.suppress(OSError):  # the leader shows it once more then
            self._file.note(activity_id, attempt)

    def take_notes(self) -> None:
        """Lets go of what other processes have handled; the server knows it already."""
        if self.leads:
            for activity_id in self._acks.take_notes():
                self.settled(activity_id)

    async def _confirm_all(self) -> None:
        for activity_id in self._acks.pending:
            if not await self._acks.confirm(self.api(), activity_id):
                raise NoAnswer("an acknowledgement could not be told")

    async def _release(self, left: dict[str, int]) -> None:
        """Gives mail back that this process will not handle, so that it need not wait for the end of its lease."""
        claims = [{"activity_id": id_, "attempt": attempt} for id_, attempt in left.items()]
        for start in range(0, len(claims), _PAGE):
            some = {"claims": claims[start : start + _PAGE]}
            member(await self.api().post(self._path("activity/release"), some), "released", int)
        if claims:
            self._acks.released(left)

    async def give_back(self) -> None:
        """This process ends in order: the next one gets all that is not handled at once."""
        if self.state != "leading":
            return
        try:
            await self._release(self._acks.left_over(set()))
        except (ApiError, NoAnswer, OSError, Fenced) as error:
            _log.info("workspace %s: mail comes again when its lease ends: %s", self.id, error)
