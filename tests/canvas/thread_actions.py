"""Threads of the company's agents, played by hand as an engine does it: through the public API."""

from collections.abc import Coroutine
from typing import Any

from molecule_core.client.api import ApiClient
from testing.canvas.company import Stage
from testing.thread_world import Engine, Item
from testing.waits import bounded

HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>[press](javascript:window.pwned=1)'
BASE = f"You lead the company. {HOSTILE}\n" + "Be kind.\n" * 3


async def start(stage: Stage, name: str, **wish: Any) -> tuple[Item, Engine]:
    """A thread of an agent whose engine has begun its first turn."""
    seat = stage.seats[name]
    body = {"base_instructions": BASE, "input": "Find out where it leaks", "model": "small", **wish}
    thread: Item = await seat.api.post(f"/workspaces/{seat.id}/threads", body)
    engine = Engine(seat.api, thread)
    await engine.claim()
    await engine.begin()
    return thread, engine


def call(api: ApiClient, thread: Item, verb: str, call_id: str, **body: Any) -> Coroutine[Any, Any, Item]:
    """A call of a collaboration tool, to be awaited."""
    return bounded(api.post(f"/threads/{thread['thread_id']}/agents/{verb}", {"call_id": call_id, **body}))


async def spawn(stage: Stage, name: str, thread: Item, task: str, **body: Any) -> Item:
    """One more agent below a thread."""
    api = stage.seats[name].api
    answer = await call(api, thread, "spawn", f"spawn-{task}", task_name=task, message=f"Do {task}", **body)
    child: Item = await api.get(f"/threads/{answer['call']['new_thread_id']}")
    return child
