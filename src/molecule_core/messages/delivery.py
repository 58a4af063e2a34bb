"""The driver that pushes: poll done by the server. One worker for all agents, a task only for a push under way.

Above: server.py starts it. Below: `pushing`, which claims and settles; a fetcher, which is handed in. docs/delivery.md.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from molecule_core.ground import points
from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import FetchFailed, ServerBusy, StoreUnavailable, UnsafeUrl
from molecule_core.ground.limits import Limits
from molecule_core.ground.net import Fetcher
from molecule_core.messages import turns
from molecule_core.messages.pushed import UNSAFE_URL, Push, Room, Verdict
from molecule_core.messages.pushing import Pushing
from molecule_core.messages.rules import offline_since
from molecule_core.messages.turns import Turns
from molecule_core.org.model import Status, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.journal import PUSHES
from molecule_core.store.wakeups import Look, Wakeups

_log = logging.getLogger("molecule.delivery")
# A wake-up that got lost costs at most so long.
_LOOK_AGAIN_SECONDS = 5.0
_SETTLE_AGAIN_SECONDS = 1.0
# So many agents that are due are lined up together.
_LINED_UP = 1000
# One organisation holds at most half of the slots, one agent a quarter: whoever hangs, hangs alone.
_ORG_SHARE, _AGENT_SHARE = 2, 4


class Health(Struct):
    """What this process remembers of an agent between pushes. Times in microseconds; 0: never. `has_no_slot`: it was
    looked at while all of its share were taken."""

    flying: int = 0
    has_no_slot: bool = False
    failures: int = 0
    open_until: int = 0
    ended_at: int = 0
    well_since: int = 0
    failed_at_url: str | None = None
    failed_silent: bool = False


class Delivery:
    """Pushes what waits, to whom can take it, in turns."""

    def __init__(
        self,
        pushing: Pushing,
        org: OrgReader,
        wakeups: Wakeups,
        fetcher: Fetcher,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._pushing = pushing
        self._org = org
        self._wakeups = wakeups
        self._fetcher = fetcher
        self._clock = clock
        self._limits = limits
        self._turns = Turns()
        self._health: dict[str, Health] = {}
        self._waiting: dict[str, set[str]] = {}
        self._beats: dict[str, int] = {}
        self._changes = -1
        self._seen: set[str] = set()
        self._flying: dict[asyncio.Task[None], str] = {}

    @property
    def under_way(self) -> int:
        """How many pushes are under way."""
        return len(self._flying)

    def circuit_open_until(self, workspace_id: str) -> int | None:
        """Until when an agent is left in peace after many failures (microseconds); None if it is not."""
        health = self._health.get(workspace_id)
        return health.open_until if health is not None and health.open_until > self._clock.now() else None

    async def work(self, *, alone: bool) -> None:
        """Runs until the wake-ups close; then lets go of the pushes under way. `alone`: no other process pushes for
        this store, so what is under way according to it is not under way any more."""
        if alone:
            await self._take_over()
        while not self._wakeups.closing:
            await self._wakeups.until(PUSHES, self._look, _LOOK_AGAIN_SECONDS)
        under_way = list(self._flying)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _take_over(self) -> None:
        try:
            await self._pushing.take_over()
        except (StoreUnavailable, ServerBusy):
            _log.warning("the pushes of the process before this one are tried again when their leases end")

    # -- whose turn it is ----------------------------------------------------------------------------------------------

    async def _look(self) -> Look[bool]:
        try:
            due = await self._pushing.due(_LINED_UP)
            now = self._clock.now()
            for workspace_id, _ in (each for each in due if each[1] <= now):
                self._line_up(workspace_id)
            self._line_up_the_heard()
            later = [at for _, at in due if at > now] + await self._serve()
        except (StoreUnavailable, ServerBusy):
            return Look(None)
        except Exception:
            _log.exception("a look at what is to be pushed failed; the next one comes soon")
            return Look(None)
        return Look(None, again_in=max(0.0, (min(later) - self._clock.now()) / SECOND) if later else None)

    def _line_up(self, workspace_id: str) -> None:
        seat = self._org.workspace(workspace_id)
        if seat is not None:
            self._waiting.get(seat.org_id, set()).discard(workspace_id)
            self._turns.add(seat.org_id, workspace_id)

    def _line_up_the_heard(self) -> None:
        """Agents that have mail and could not take it: those that were heard since, and if any seat has changed, all.
        An agent that is new to this process may have mail from before it was one to push to."""
        changed, self._changes = self._changes != self._org.changes(), self._org.changes()
        if changed:
            pushed_to = self._org.pushed_to()
            for workspace_id in pushed_to - self._seen:
                self._line_up(workspace_id)
            self._seen = set(pushed_to)
        beats = self._org.beats()
        for org_id, waiting in self._waiting.items():
            heard = self._org.heard_after(org_id, self._beats.get(org_id, 0)) if waiting else []
            self._beats[org_id] = beats
            for workspace_id in list(waiting) if changed else [each.id for each in heard if each.id in waiting]:
                self._line_up(workspace_id)

    async def _serve(self) -> list[int]:
        """Gives every agent in line its turn, as long as there are slots; returns when to look at some again."""
        later: list[int] = []
        while batch := self._next_batch():
            share = max(1, (self._limits.push_concurrency - self.under_way) // len(batch))
            rooms = [self._room(workspace_id, share) for _, workspace_id in batch]
            taking = (self._pushing.take(*who, room) for who, room in zip(batch, rooms, strict=True))
            found = await asyncio.gather(*taking, return_exceptions=True)
            for (org_id, workspace_id), taken in zip(batch, found, strict=True):
                if isinstance(taken, BaseException):  # what the others were given must go out
                    _log.warning("mail for an agent could not be claimed now", exc_info=taken)
                    # It is due as before, but for mail from before its agent was one to push to: that has no date.
                    self._seen.discard(workspace_id)
                    self._changes = -1
                    continue
                for push in taken.pushes:
                    self._start(org_id, push)
                if taken.look_at is not None:
                    self._waiting.setdefault(org_id, set()).add(workspace_id)
                    later.append(taken.look_at)
        return later

    def _next_batch(self) -> list[tuple[str, str]]:
        batch: list[tuple[str, str]] = []
        held = Counter(self._flying.values())
        most = max(1, self._limits.push_concurrency // _ORG_SHARE)
        while self.under_way + len(batch) < self._limits.push_concurrency:
            turn = self._turns.next({org_id for org_id, count in held.items() if count >= most})
            if turn is None:
                break
            held[turn[0]] += 1
            batch.append(turn)
        return batch

    def _room(self, workspace_id: str, share: int) -> Room:
        """What an agent can take now, by its last heartbeat and by what came of earlier pushes."""
        seat, health, now = self._org.workspace(workspace_id), self._remembered(workspace_id), self._clock.now()
        if seat is None or seat.status is Status.PAUSED:
            return Room(capacity=0, most=0)
        self._heal(seat, health)
        if health.open_until > now:
            return Room(capacity=0, most=0, look_at=health.open_until)
        pulse = self._org.pulse(workspace_id)
        is_fresh = pulse.heard_at > max(health.ended_at, now - self._limits.silence_seconds * SECOND)
        is_free = pulse.active_tasks < seat.max_concurrent_tasks
        probes = health.failures >= self._limits.circuit_failures
        own_share = max(1, self._limits.push_concurrency // _AGENT_SHARE) - health.flying
        health.has_no_slot = own_share <= 0
        return Room(
            capacity=1 if probes else seat.max_concurrent_tasks,
            most=max(0, min(share, own_share)),
            active=pulse.active_tasks if is_fresh else 0,
            free_since=max(health.ended_at, pulse.heard_at if is_free else 0),
            well_since=health.well_since,
        )

    def _remembered(self, workspace_id: str) -> Health:
        return self._health.setdefault(workspace_id, Health())

    def _heal(self, seat: Workspace, health: Health) -> None:
        """An agent that was silent and is heard again, or has another url, need not wait for what went wrong before."""
        is_back = health.failed_silent and offline_since(seat, self._org.pulse(seat.id)) is None
        has_moved = health.failed_at_url not in (None, seat.url)
        if is_back or has_moved:
            health.failures = health.open_until = 0
            health.failed_at_url, health.failed_silent = None, False
            health.well_since = self._clock.now()

    # -- one push ------------------------------------------------------------------------------------------------------

    def _start(self, org_id: str, push: Push) -> None:
        self._remembered(push.workspace_id).flying += 1
        task = asyncio.get_running_loop().create_task(self._deliver(org_id, push))
        self._flying[task] = org_id
        task.add_done_callback(self._ended(push.workspace_id))

    def _ended(self, workspace_id: str) -> Callable[["asyncio.Task[None]"], None]:
        def ended(task: "asyncio.Task[None]") -> None:
            del self._flying[task]
            health = self._remembered(workspace_id)
            health.flying -= 1
            if health.has_no_slot:  # the store says that it is to be looked at much later
                health.has_no_slot = False
                self._line_up(workspace_id)
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("a push could not be settled; its lease will end", exc_info=error)
            self._wakeups.ring((PUSHES,))

        return ended

    async def _deliver(self, org_id: str, push: Push) -> None:
        seat = self._org.workspace(push.workspace_id)
        points.reached("push.taken")
        try:
            verdict = await self._ask(seat, push)
        except asyncio.CancelledError:
            await self._pushing.release(org_id, push)
            raise
        points.reached("push.answered")
        counts = self._remember(push.workspace_id, seat, verdict)
        await self._settle(org_id, push, verdict, counts)
        points.reached("push.settled")

    async def _settle(self, org_id: str, push: Push, verdict: Verdict, counts: bool) -> None:
        """While the store takes nothing, what the agent has said is kept for as long as a push may take:
        it would do the same work once more. Whether another push has the message by then, settling finds out."""
        until = self._clock.monotonic() + self._limits.push_seconds
        while True:
            try:
                return await self._pushing.settle(org_id, push, verdict, counts=counts)  # control: push-outcome
            except (StoreUnavailable, ServerBusy):
                if self._clock.monotonic() >= until:
                    raise
                await self._clock.wait(asyncio.get_running_loop().create_future(), _SETTLE_AGAIN_SECONDS)

    async def _ask(self, seat: Workspace | None, push: Push) -> Verdict:
        if seat is None or seat.url is None:
            return Verdict(error="this workspace has no url", refused=True, code=UNSAFE_URL, sent=False)
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Idempotency-Key": push.activity_id,
            "X-Molecule-Activity": push.activity_id,
            "X-Molecule-Attempt": str(push.attempt),
        }
        limits = self._limits
        try:
            fetched = await self._fetcher.post(
                seat.url,
                headers,
                push.body.encode(),
                timeout_seconds=limits.push_seconds,
                max_bytes=limits.push_answer_bytes,
            )
        except UnsafeUrl as error:
            return Verdict(error=str(error.details["reason"]), refused=True, code=UNSAFE_URL, sent=False)
        except FetchFailed as error:
            return turns.unanswered(**error.details)
        return turns.judge(fetched.status, fetched.headers, fetched.body, max_depth=limits.json_depth)

    def _remember(self, workspace_id: str, seat: Workspace | None, verdict: Verdict) -> bool:
        """What a push says about its agent; returns whether a failure counts. It does not while the agent is known to
        be silent: then its mail waits for it, and a push now and then only asks whether it is back."""
        health, now = self._remembered(workspace_id), self._clock.now()
        if verdict.answer is not None or verdict.busy:
            health.failures = health.open_until = 0
            health.failed_at_url, health.failed_silent = None, False
            if not verdict.busy:
                health.ended_at = now
            return True
        known = self._org.workspace(workspace_id) or seat
        is_silent = known is not None and offline_since(known, self._org.pulse(workspace_id)) is not None
        health.failures += 1
        health.well_since = 0
        health.failed_at_url = None if seat is None else seat.url
        health.failed_silent = is_silent
        if health.failures >= self._limits.circuit_failures:
            health.open_until = now + self._limits.circuit_seconds * SECOND
        return not is_silent
