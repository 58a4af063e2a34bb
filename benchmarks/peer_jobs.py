"""Peers of row 5: job queues as libraries, each used as its own documentation says, in a process of its own.

    python -m benchmarks.peer_jobs

reads a plan and works it off, as `benchmarks.load` does. Runs in the environment of the peers (`scripts/setup
--bench`). So many callers put jobs, each one after the other and each durable when it is put; a worker in the same
process, with the settings that the library gives it, takes every job as it comes, and says that it is done. Nobody goes
over HTTP, shows a credential, or has an inbox of its own. Where a plan `drains`, the worker begins when all jobs are
there, and takes them in large batches if it can: that is cheaper for it, and nobody would get a message so. The
process's own CPU counts, a database server's does not.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from typing import Any

import asyncpg
import huey
import procrastinate
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.jobs import HUEY, PGQUEUER, PROCRASTINATE, JobOutcome, JobPlan
from benchmarks.load import DEADLINE_SECONDS, await_go, converse

_CONNECTIONS = 16
_BATCH = 200


class Jobs(ABC):
    """A queue of jobs, and the words of those that a worker has done."""

    def __init__(self, plan: JobPlan) -> None:
        self.place = plan.place
        self.done: set[str] = set()
        self.all_done = asyncio.Event()
        self._count = plan.count
        self._loop = asyncio.get_running_loop()

    def do(self, text: str) -> None:
        """A worker does a job, in whatever thread."""
        self.done.add(text)
        if len(self.done) == self._count:
            self._loop.call_soon_threadsafe(self.all_done.set)

    @abstractmethod
    async def open(self) -> None:
        """Makes what it needs in an empty place."""

    @abstractmethod
    async def put(self, text: str) -> None:
        """Returns once the job is durable."""

    @abstractmethod
    async def drain(self) -> None:
        """Does all jobs that there are."""

    @abstractmethod
    async def work(self) -> None:
        """Does jobs as they come, until all are done."""

    @abstractmethod
    async def close(self) -> None:
        """Lets go of what it holds."""


class Huey(Jobs):
    """On SQLite, whose every commit waits for the disk. It knows no `await`: callers take turns."""

    async def open(self) -> None:
        self._huey = huey.SqliteHuey("bench", filename=self.place, fsync=True, results=False)
        self._task: Any = self._huey.task()(self.do)

    async def put(self, text: str) -> None:
        self._task(text)
        await asyncio.sleep(0)

    async def drain(self) -> None:
        while (task := self._huey.dequeue()) is not None:
            self._huey.execute(task)

    async def work(self) -> None:
        consumer = self._huey.create_consumer(workers=1, periodic=False)
        consumer.start()
        await self.all_done.wait()
        await asyncio.to_thread(consumer.stop, True)

    async def close(self) -> None:
        self._huey.storage.close()


class Pgqueuer(Jobs):
    """On PostgreSQL, over a pool."""

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self.place, min_size=_CONNECTIONS, max_size=_CONNECTIONS)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))
        await self._queries.install()

    async def put(self, text: str) -> None:
        await self._queries.enqueue("job", text.encode())

    def _worker(self) -> PgQueuer:
        worker = PgQueuer(AsyncpgPoolDriver(self._pool))

        @worker.entrypoint("job")  # type: ignore[untyped-decorator]
        async def _do(job: Job) -> None:
            assert job.payload is not None
            self.do(job.payload.decode())

        return worker

    async def drain(self) -> None:
        await self._worker().run(batch_size=_BATCH, mode=QueueExecutionMode.drain)

    async def work(self) -> None:
        worker = self._worker()
        working = asyncio.create_task(worker.run())
        await self.all_done.wait()
        worker.shutdown.set()
        await working

    async def close(self) -> None:
        await self._pool.close()


class Procrastinate(Jobs):
    """On PostgreSQL, over a pool of its own."""

    async def open(self) -> None:
        connector = procrastinate.PsycopgConnector(conninfo=self.place, min_size=_CONNECTIONS, max_size=_CONNECTIONS)
        self._app = procrastinate.App(connector=connector)
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

        @self._app.task(name="job")  # type: ignore[untyped-decorator]
        async def _do(text: str) -> None:
            self.do(text)

        self._task = _do

    async def put(self, text: str) -> None:
        await self._task.defer_async(text=text)

    async def drain(self) -> None:
        await self._app.run_worker_async(
            wait=False, concurrency=_CONNECTIONS, listen_notify=False, install_signal_handlers=False
        )

    async def work(self) -> None:
        working = asyncio.create_task(self._app.run_worker_async(install_signal_handlers=False))
        await self.all_done.wait()
        working.cancel()
        await asyncio.wait((working,))

    async def close(self) -> None:
        await self._app.close_async()


KINDS: dict[str, type[Jobs]] = {HUEY: Huey, PGQUEUER: Pgqueuer, PROCRASTINATE: Procrastinate}


async def run(plan: JobPlan) -> JobOutcome:
    """Puts and does as planned. Raises what the library raises, or TimeoutError."""
    jobs = KINDS[plan.kind](plan)
    await jobs.open()
    numbers, put = iter(range(plan.count)), 0

    async def call() -> None:
        nonlocal put
        for number in numbers:
            await jobs.put(f"{number} {plan.text}")
            put += 1

    await_go()
    cpu, start = time.process_time(), time.perf_counter()
    async with asyncio.timeout(DEADLINE_SECONDS):
        async with asyncio.TaskGroup() as group:
            if not plan.drains:
                group.create_task(jobs.work())
            for _ in range(plan.callers):
                group.create_task(call())
        if plan.drains:
            await jobs.drain()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    await jobs.close()
    return JobOutcome(replies=put, distinct=len(jobs.done), seconds=seconds, client_cpu=cpu)


if __name__ == "__main__":
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    converse(JobPlan, run)
