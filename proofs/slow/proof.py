"""`prove slow`: who stops reading is cut soon and misses nothing by it, and who reads is not kept waiting by anybody.

Of two hundred who watch a journal of fifty thousand events twenty fall asleep, again and again; when these are awake,
ten others nod.
"""

import asyncio
from collections.abc import Callable

from molecule_core.common.limits import Limits
from proofs.harness.caller import Caller
from proofs.harness.controls import Control
from proofs.harness.mutations import Swap
from proofs.harness.serving import ADMIN_TOKEN, ServerProcess
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Figure, Verdict
from proofs.harness.vitals import forget_peak, peak_of
from proofs.slow.watching import HEALTHY, SLUGGISH, STALLED, Watcher
from proofs.workload.company import Seat

_KINDS = {HEALTHY: 170, SLUGGISH: 10, STALLED: 20}
_SENDERS = 8
_TEXT = "x" * 2_000
# Whoever was away goes on by its number, however far behind. Who falls asleep while it catches up is found by the signs
# of life, which are fifteen seconds apart if nobody says otherwise.
_LIMITS = {"resume_events": 10**9, "live_seconds": 1, "inbox_unhandled": 10**9}
# As much as the twenty that do not read may leave unread, and what comes and goes: 32 MiB.
_MOST_GROWTH = _KINDS[STALLED] * Limits().subscriber_bytes + (12 << 20)
# Behind the events of the size, a part as many more are told while some nod; in the short run of a control as many.
_NODDING_PART, _CONTROL_NODDING_PART = 4, 1
# From falling asleep to being cut. What is under way to who sleeps must come to `subscriber_bytes` first.
_MOST_SLEEP_SECONDS = 5.0
# Those who write wait for whoever reads last of those who read, once so many messages are ahead of it: what the machine
# makes these leave unread, on a busy day, is little beside what the twenty may.
_AHEAD, _BREATH_SECONDS = 24, 0.01
_END_SECONDS, _CONTROL_END_SECONDS = 60.0, 6.0
_ENOUGH = 10_000
SKIPPED, LEFT, AWAKE, GREW = (
    "skipped or told twice",
    "left behind",
    "slept and not cut",
    "memory grew by more than 32 MiB",
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
        self._grown = self._sent = self._most_told = 0
        self._ends_at = 0.0
        self.zeros = dict.fromkeys(ZEROS, 0)

    async def play(self) -> Verdict:
        """The crowd comes, the events come, and everybody is told of all of them."""
        try:
            await self._server.start()
            await self._found()
            before = forget_peak(self._server.pid)
            await self._all_send(self._some_sleep)
            self._grown = peak_of(self._server.pid) - before
            self._let_some_nod()
            await self._all_send(self._some_nod)
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

    async def _all_send(self, goes_on: Callable[[], bool]) -> None:
        await asyncio.gather(*(self._send(n, goes_on) for n in range(_SENDERS)))

    async def _send(self, place: int, goes_on: Callable[[], bool]) -> None:
        """One message after the other, as long as that goes on."""
        seat, to = self._seats[place], self._seats[(place + 1) % _SENDERS]
        async with Caller(self._server.port, seat.token) as api:
            while goes_on():
                if self._sent - self._told_to_all > _AHEAD:
                    await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=_BREATH_SECONDS)
                    continue
                self._sent += 1
                parts = [{"kind": "text", "text": f"{self._sent} {_TEXT}"}]
                message = {"role": "user", "messageId": f"m-{self._sent}", "parts": parts}
                body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
                await api.post(f"/workspaces/{to.id}/a2a", body, x_timeout="0")

    @property
    def _told(self) -> int:
        """How much the first of those who read has been told of."""
        return self._watchers[0].last - self._watchers[0].first

    @property
    def _told_to_all(self) -> int:
        """How much everybody who reads has been told of."""
        return min(each.last - each.first for each in self._watchers if each.began_as == HEALTHY)

    def _some_sleep(self) -> bool:
        """Enough were told, each that is to fall asleep did so once, and all that sleep were cut; or it is too late."""
        now = asyncio.get_running_loop().time()
        if not self._ends_at:
            if self._told < self._setting.size:
                return True
            self._ends_at = now + self._patience
        if now > self._ends_at:
            return False
        if not all(watcher.sleeps for watcher in self._watchers if watcher.began_as == STALLED):
            return True
        for watcher in self._watchers:
            watcher.stay_awake()
        return any(watcher.is_asleep for watcher in self._watchers)

    def _let_some_nod(self) -> None:
        """Those whom the memory was not measured with; who sleeps still, because it was not cut, sleeps on."""
        part = _NODDING_PART if self._setting.package is None else _CONTROL_NODDING_PART
        self._most_told = self._told + self._setting.size // part
        for watcher in self._watchers:
            if watcher.began_as == SLUGGISH:
                self.zeros[HEALTHY_CUT] += watcher.cuts
                watcher.begin_to_nod()

    def _some_nod(self) -> bool:
        """Enough more were told."""
        return self._told < self._most_told

    async def _end(self) -> None:
        """Who still sleeps is woken; then everybody must come to the head."""
        self.zeros[AWAKE] = sum(watcher.is_asleep for watcher in self._watchers)
        for watcher in self._watchers:
            watcher.stay_awake()
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
        self.zeros[HEALTHY_CUT] += sum(watcher.cuts for watcher in healthy)
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
            "MiB grown": -(-self._grown >> 20),
        }
        return Verdict(figures, {name: int(count) for name, count in self.zeros.items()}, self._server.errors[:5])


async def run(setting: Setting) -> Verdict:
    """`setting.size` events while some sleep, and a quarter more while some nod, told to two hundred."""
    return await Scene(setting).play()


_CONTROLS = (
    Control(
        name="nobody looks who sleeps while it catches up",
        marker="idle-listener",
        change=Swap("return $...", "return False"),
        breaks=AWAKE,
    ),
    Control(
        name="nobody counts what is unread",
        marker="unread-bytes",
        change=Swap("return $...", "return 0"),
        breaks=GREW,
    ),
    Control(
        name="who nodded goes on where the others are",
        marker="catch-up-after-nod",
        change=Swap("await $($listener)", "$listener.is_live = True"),
        breaks=SKIPPED,
    ),
)

PROOF = Proof(
    name="slow",
    claim="Clients that do not read are disconnected, memory stays bounded, and other watchers miss nothing.",
    shows="Two hundred watch the journal of a real `molecule serve` over WebSockets while eight write to each other: "
    "180 read, and twenty fall asleep in the middle and read nothing any more until they are cut; then they come back "
    "behind the number that they were told last, and fall asleep again. Everybody is told of every number once, in "
    "order; no one who reads is cut; who sleeps is cut soon; and the server's memory grows by no more than 32 MiB: the "
    "MiB that each of the twenty may leave unread, and 12 for all else. Behind that, for a quarter more events, ten of "
    "those who read nod for some tenths of a second again and again, and miss nothing by it.",
    engines=("sqlite",),
    unit="events",
    sizes={"sqlite": 50_000, "postgres": 20_000},
    control_sizes={"sqlite": 6_000, "postgres": 6_000},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    faults=("fell asleep",),
)
