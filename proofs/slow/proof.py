"""`prove slow`: who stops reading is cut soon and misses nothing by it, and who reads is not kept waiting by anybody.

Of two hundred who watch a journal of fifty thousand events some fall asleep, again and again, and some only nod.
"""

import asyncio

from molecule_core.ground.limits import Limits
from proofs.crew.company import Seat
from proofs.harness.caller import Caller
from proofs.harness.controls import Control
from proofs.harness.serving import ADMIN_TOKEN, ServerProcess
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Figure, Verdict
from proofs.harness.vitals import forget_peak, peak_of
from proofs.slow.watching import HEALTHY, SLUGGISH, STALLED, Watcher

_KINDS = {HEALTHY: 170, SLUGGISH: 10, STALLED: 20}
_SENDERS = 8
_TEXT = "x" * 2_000
# Whoever was away goes on by its number, however far behind. Who falls asleep while it catches up is found by the signs
# of life, which are fifteen seconds apart if nobody says otherwise.
_LIMITS = {"resume_events": 10**9, "live_seconds": 1, "inbox_unhandled": 10**9}
# As much as all that do not read may leave unread, and what comes and goes.
_MOST_GROWTH = (_KINDS[SLUGGISH] + _KINDS[STALLED]) * Limits().subscriber_bytes + (16 << 20)
# From falling asleep to being cut. What is under way to who sleeps must come to `subscriber_bytes` first.
_MOST_SLEEP_SECONDS = 5.0
# Those who write wait for one who reads, once so many messages are ahead of it.
_AHEAD, _BREATH_SECONDS = 400, 0.01
_END_SECONDS, _CONTROL_END_SECONDS = 60.0, 6.0
_ENOUGH = 10_000
SKIPPED, LEFT, AWAKE, GREW = (
    "skipped or told twice",
    "left behind",
    "slept and not cut",
    "memory grew by more than is left unread",
)
LATE, HEALTHY_CUT, NO_PLACE = "cut only after more than 5 s", "healthy ones cut", "lost their place"
ZEROS = (SKIPPED, LEFT, AWAKE, LATE, HEALTHY_CUT, NO_PLACE, GREW, "errors in the server's log", "ended by itself")


class Scene:
    """One run."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._server = ServerProcess(setting, _LIMITS)
        self._patience = _END_SECONDS if setting.package is None else _CONTROL_END_SECONDS
        self._watchers: list[Watcher] = []
        self._grown = self._sent = 0
        self._ends_at = 0.0
        self.zeros = dict.fromkeys(ZEROS, 0)

    async def play(self) -> Verdict:
        """The crowd comes, the events come, and everybody is told of all of them."""
        try:
            await self._server.start()
            await self._found()
            before = forget_peak(self._server.pid)
            await asyncio.gather(*(self._send(n) for n in range(_SENDERS)))
            self._grown = peak_of(self._server.pid) - before
            await self._end()
            for watcher in self._watchers:
                watcher.leave()
            self.zeros["ended by itself"] += await self._server.stop() != 0
        finally:
            for watcher in self._watchers:
                watcher.leave()
            await self._server.kill()
        return self._verdict()

    async def _found(self) -> None:
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            self._org_id = (await admin.get("/orgs"))[0]["id"]
            self._seats = [Seat(await admin.post("/workspaces", {"name": f"Seat {n}"})) for n in range(_SENDERS)]
            path = f"/orgs/{self._org_id}/people"
            tokens = [
                (await admin.post(path, {"name": f"Looks on {n}", "role": "viewer"}))["auth_token"] for n in range(8)
            ]
            head = await self._head(admin)
            kinds = [kind for kind, count in _KINDS.items() for _ in range(count)]
            for number, kind in enumerate(kinds):
                dice = self._setting.dice("watcher", number)
                watcher = Watcher(self._server.port, tokens[number % len(tokens)], kind, dice)
                watcher.start_at(head)
                self._watchers.append(watcher)
            await asyncio.gather(*(watcher.connect() for watcher in self._watchers))

    async def _head(self, admin: Caller) -> int:
        head: int = (await admin.get(f"/orgs/{self._org_id}/snapshot"))["as_of"]
        return head

    async def _send(self, place: int) -> None:
        """One message after the other, until there are enough events, and all that fell asleep were cut by more."""
        seat, to, number = self._seats[place], self._seats[(place + 1) % _SENDERS], 0
        async with Caller(self._server.port, seat.token) as api:
            while self._goes_on():
                if self._sent - self._told > _AHEAD:
                    await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=_BREATH_SECONDS)
                    continue
                number += 1
                self._sent += 1
                parts = [{"kind": "text", "text": f"{place}-{number} {_TEXT}"}]
                message = {"role": "user", "messageId": f"m-{place}-{number}", "parts": parts}
                body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
                await api.post(f"/workspaces/{to.id}/a2a", body, x_timeout="0")

    @property
    def _told(self) -> int:
        """How much the first of those who read has been told of."""
        return self._watchers[0].last - self._watchers[0].first

    def _goes_on(self) -> bool:
        if self._told < self._setting.size:
            return True
        if not self._ends_at:
            self._ends_at = asyncio.get_running_loop().time() + self._patience
            for watcher in self._watchers:
                watcher.stay_awake()
        is_late = asyncio.get_running_loop().time() > self._ends_at
        return not is_late and any(watcher.is_asleep for watcher in self._watchers)

    async def _end(self) -> None:
        """Who still sleeps is woken; then everybody must come to the head."""
        self.zeros[AWAKE] = sum(watcher.is_asleep for watcher in self._watchers)
        for watcher in self._watchers:
            watcher.wake()
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            head = await self._head(admin)
        loop = asyncio.get_running_loop()
        over = loop.time() + self._patience
        while any(watcher.last < head for watcher in self._watchers) and loop.time() < over:
            await asyncio.wait([loop.create_future()], timeout=0.1)
        self.zeros[LEFT] = sum(watcher.last < head for watcher in self._watchers)

    def _verdict(self) -> Verdict:
        stalled = [watcher for watcher in self._watchers if watcher.began_as == STALLED]
        longest = max(watcher.longest_sleep for watcher in stalled)
        healthy = [watcher for watcher in self._watchers if watcher.began_as == HEALTHY]
        self.zeros[SKIPPED] = sum(watcher.wrong for watcher in self._watchers)
        self.zeros[NO_PLACE] = sum(watcher.lost for watcher in self._watchers)
        self.zeros[HEALTHY_CUT] = sum(watcher.cuts for watcher in healthy)
        self.zeros[GREW] = self._grown > _MOST_GROWTH
        self.zeros[AWAKE] += sum(watcher.cuts == 0 for watcher in stalled)
        if self._setting.size >= _ENOUGH:
            self.zeros[LATE] = sum(watcher.longest_sleep > _MOST_SLEEP_SECONDS for watcher in stalled)
        self.zeros["errors in the server's log"] = len(self._server.errors)
        self.zeros["ended by itself"] += self._server.ended_by_itself
        figures: dict[str, Figure] = {
            "events": self._watchers[0].last - self._watchers[0].first,
            "messages": self._sent,
            "watchers": len(self._watchers),
            "told": sum(watcher.told for watcher in self._watchers),
            "fell asleep": sum(watcher.sleeps for watcher in stalled),
            "cut": sum(watcher.cuts for watcher in self._watchers),
            "longest sleep s": round(longest, 1),
            "nods": sum(watcher.sleeps for watcher in self._watchers if watcher.began_as == SLUGGISH),
            "MiB grown": self._grown >> 20,
        }
        return Verdict(figures, {name: int(count) for name, count in self.zeros.items()}, self._server.errors[:5])


async def run(setting: Setting) -> Verdict:
    """`setting.size` events or a few more, told to two hundred."""
    return await Scene(setting).play()


_CONTROLS = (
    Control(
        name="nobody looks who sleeps while it catches up",
        file="edges/listeners.py",
        line="return self.idle >= 2",
        by="return False",
        breaks=AWAKE,
    ),
    Control(
        name="as much may be unread as there is",
        file="edges/live.py",
        line="if listener.sink.unread() > self._limit:",
        by="if False:",
        breaks=GREW,
    ),
    Control(
        name="who nodded goes on where the others are",
        file="edges/live.py",
        line="await self.catch_up(listener)",
        by="listener.live = True",
        breaks=SKIPPED,
    ),
)

PROOF = Proof(
    name="slow",
    shows="Two hundred watch the journal of a real `molecule serve` over WebSockets while eight write to each other: "
    "170 read, ten nod for some tenths of a second again and again, twenty fall asleep in the middle and read "
    "nothing any more until they are cut; then they come back behind the number that they were told last. "
    "Everybody is told of every number once, in order; no one who reads is cut; who sleeps is cut soon; and the "
    "server's memory grows by no more than the bytes that each may leave unread, and 16 MiB.",
    engines=("sqlite",),
    unit="events",
    sizes={"sqlite": 50_000, "postgres": 20_000},
    control_sizes={"sqlite": 6_000, "postgres": 6_000},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    faults=("fell asleep", "nods"),
)
