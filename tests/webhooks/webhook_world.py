"""A store with webhooks, tasks whose changes a test writes, and the receiver that they are posted to."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

import msgspec

from molecule_core.common.errors import FetchFailed, UnsafeUrl
from molecule_core.common.limits import Limits
from molecule_core.common.net.safe_fetch import Fetcher, FetchResult
from molecule_core.store.database import Store
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.webhooks.dispatcher import WebhookDispatcher
from molecule_core.webhooks.model import TaskChange, Webhook, WebhookKey, WebhookTarget
from molecule_core.webhooks.poster import WebhookPoster
from molecule_core.webhooks.reader import WebhookReader
from molecule_core.webhooks.writer import WebhookWriter
from testing.clocks import FakeClock, SeededRandomness, settle

ORG, WORKSPACE, OWNER = "org-1", "ws-1", "workspace:ws-2"
URL = "https://client.example/hook"
LIMITS = Limits(
    webhooks=4,
    webhooks_per_task=2,
    webhook_attempts=3,
    webhook_retry_seconds=10,
    webhook_retry_most_seconds=15,
    webhook_lease_seconds=30,
)


def key_of(task_id: str, config_id: str = "default", owner: str = OWNER) -> WebhookKey:
    """The key of a webhook of the usual organisation."""
    return WebhookKey(ORG, task_id, owner, config_id)


class Receiver(Fetcher):
    """The network: it keeps what is posted, and answers as the test says. Names below `.internal` are not allowed."""

    def __init__(self) -> None:
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        """The next answers; 0: no connection. Without any: 204."""
        self.gate = asyncio.Event()
        self.gate.set()
        self.forbidden = False
        """Whether the name resolves to a forbidden address from now on."""

    @property
    def bodies(self) -> list[str]:
        """What was posted, in order."""
        return [body.decode() for _, body in self.posts]

    async def post(
        self, url: str, headers: dict[str, str], body: bytes, *, timeout_seconds: float, max_bytes: int
    ) -> FetchResult:
        await self.check_url(url)
        self.posts.append((headers, body))
        await self.gate.wait()
        status = self.statuses.pop(0) if self.statuses else 204
        if not status:
            raise FetchFailed(reason="connection refused", sent=False, status=None)
        return FetchResult(status, {}, b"")

    async def get(self, url: str, headers: dict[str, str], *, timeout_seconds: float, max_bytes: int) -> FetchResult:
        raise FetchFailed(reason="nothing is requested", sent=False, status=None)

    async def check_url(self, url: str) -> None:
        if self.forbidden or ".internal" in url:
            raise UnsafeUrl(reason="the name resolves to 10.0.0.1, which is not public", advice="Use https.")


class Tasks:
    """Tasks whose changes are numbered as in a journal."""

    def __init__(self, wakeups: Notifier) -> None:
        self._wakeups = wakeups
        self._head = 0
        self.changes_of: dict[str, list[TaskChange]] = defaultdict(list)
        self.ended: set[str] = set()
        self.hidden: set[str] = set()

    def write(self, task_id: str, text: str, *, ends: bool = False) -> None:
        """Append a change."""
        self._head += 1
        self.changes_of[task_id].append(TaskChange(self._head, text.encode()))
        if ends:
            self.ended.add(task_id)
        self._wakeups.notify((task_id,))

    async def read_task(self, webhook: Webhook) -> TaskChange | None:
        if webhook.task_id in self.hidden:
            return None
        seen = [each.body.decode() for each in self.changes_of[webhook.task_id]]
        return TaskChange(self._head, msgspec.json.encode({"line": webhook.line, "seen": seen}))

    async def is_over(self, webhook: Webhook) -> bool:
        return webhook.task_id in self.ended or webhook.task_id in self.hidden

    async def changes(self, webhook: Webhook, after: int) -> AsyncIterator[TaskChange]:
        cursor = after

        async def poll() -> Poll[list[TaskChange]]:
            found = [each for each in self.changes_of[webhook.task_id] if each.cursor > cursor]
            return Poll(found or ([] if await self.is_over(webhook) else None))

        while True:
            found = await self._wakeups.wait_until(webhook.task_id, poll, 3600)
            if not found or webhook.task_id in self.hidden:
                return
            for each in found:
                yield each
                cursor = each.cursor


class Process:
    """One process of a store: its writer, reader and dispatcher."""

    def __init__(self, store: Store, world: "WebhookWorld", name: str) -> None:
        self.writer = WebhookWriter(
            store, world.receiver, clock=world.clock, randomness=SeededRandomness(), limits=LIMITS
        )
        self.reader = WebhookReader(store, limits=LIMITS)
        self.wakeups = Notifier(world.clock)
        poster = WebhookPoster(world.receiver, world.load_secrets, clock=world.clock, limits=LIMITS)
        self.dispatcher = WebhookDispatcher(
            self.reader, self.writer, world.tasks, self.wakeups, poster, holder=name, clock=world.clock, limits=LIMITS
        )
        self._task: asyncio.Task[None] | None = None

    def start(self, *, exclusive: bool = False) -> None:
        """Start the worker."""
        self._task = asyncio.create_task(self.dispatcher.run(exclusive=exclusive))

    async def stop(self) -> None:
        """Stop it in order."""
        self.wakeups.close()
        if self._task is not None:
            await self._task

    async def kill(self) -> None:
        """End it as a kill does: nothing is released."""
        tasks = [self._task, *(task for _, task in self.dispatcher._followed.values())]
        for task in filter(None, tasks):
            task.cancel()
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)
        self._task = None


class WebhookWorld:
    """A store, the time, tasks, a receiver, and processes on the store."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.receiver = Receiver()
        self.task_wakeups = Notifier(clock)
        self.tasks = Tasks(self.task_wakeups)
        self.secrets: tuple[str, ...] = ()
        self._processes: list[Process] = []

    async def load_secrets(self, _webhook: Webhook) -> tuple[str, ...]:
        return self.secrets

    def process(self, name: str = "p1") -> Process:
        """A process that has not started its worker."""
        process = Process(self.store, self, name)
        self._processes.append(process)
        return process

    async def register(
        self, process: Process, task_id: str = "t1", config_id: str = "default", **fields: str
    ) -> Webhook:
        """Create or replace a webhook."""
        target = WebhookTarget(**{"line": "1.0", "url": URL, **fields})
        await process.writer.check(config_id, target)
        saved = await process.writer.save(key_of(task_id, config_id), WORKSPACE, target)
        process.wakeups.notify(("webhooks",))
        return saved

    async def pass_time(self, seconds: float) -> None:
        """Move the clock, and let what is due run. A store takes turns of the loop of its own."""
        await self.clock.advance(seconds)
        await settle(200)

    async def close(self) -> None:
        """Stop all processes."""
        self.receiver.gate.set()
        for process in self._processes:
            await process.stop()
        self.task_wakeups.close()
