"""A peer of row 5: a client of NATS JetStream, as its own library has it, in a process of its own.

    python -m benchmarks.peer_nats

converses as `benchmarks.load` does. So many callers publish one message after the other, each when the last was
acknowledged by the server; one consumer fetches what there is, and acknowledges each message.
"""

import asyncio
import time

import nats
from msgspec import Struct
from nats.errors import TimeoutError as NothingCame

from benchmarks.load import DEADLINE_SECONDS, await_go, converse
from benchmarks.machine import percentile

STREAM, SUBJECT = "bench", "bench.messages"
_PAGE = 500
_FETCH_SECONDS = 2.0


class StreamPlan(Struct, frozen=True, kw_only=True):
    """What to do: `count` messages from so many callers."""

    address: str
    count: int
    callers: int
    text: str


class StreamOutcome(Struct, frozen=True, kw_only=True):
    """What happened: messages whose publication was acknowledged, and different ones that the consumer has."""

    replies: int
    distinct: int
    seconds: float
    client_cpu: float
    reply_p50_ms: float
    reply_p99_ms: float


async def run(plan: StreamPlan) -> StreamOutcome:
    """Publishes and consumes as planned. Raises what the library raises, or TimeoutError."""
    client = await nats.connect(plan.address)
    stream = client.jetstream()
    await stream.add_stream(name=STREAM, subjects=[SUBJECT])
    inbox = await stream.pull_subscribe(SUBJECT, durable="inbox")
    numbers, times, seen = iter(range(plan.count)), list[float](), set[int]()

    async def call() -> None:
        for number in numbers:
            start = time.perf_counter()
            await stream.publish(SUBJECT, f"{number} {plan.text}".encode())
            times.append(time.perf_counter() - start)

    async def consume() -> None:
        while len(seen) < plan.count:
            try:
                found = await inbox.fetch(_PAGE, timeout=_FETCH_SECONDS)
            except NothingCame:
                continue
            for message in found:
                seen.add(int(message.data.split(b" ", 1)[0]))
                await message.ack()

    await_go()
    cpu, start = time.process_time(), time.perf_counter()
    async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as group:
        group.create_task(consume())
        for _ in range(plan.callers):
            group.create_task(call())
    await client.flush()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    await stream.delete_stream(STREAM)
    await client.close()
    p50, p99 = (percentile(times, each) * 1000 for each in (50, 99))
    return StreamOutcome(
        replies=len(times), distinct=len(seen), seconds=seconds, client_cpu=cpu, reply_p50_ms=p50, reply_p99_ms=p99
    )


if __name__ == "__main__":
    converse(StreamPlan, run)
