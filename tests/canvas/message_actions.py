"""Agents of the company that owe answers: asked by a person, silent, or talking to themselves."""

from typing import Any

from testing.canvas.company import Stage

SOON = 1
"""Seconds until an answer is due, where a test waits for that; as long again, and it is overdue."""


async def hurry(stage: Stage, name: str, seconds: int = SOON) -> None:
    """Answers of this agent are due so soon."""
    await stage.admin.call("PATCH", f"/workspaces/{stage.seats[name].id}", body={"reply_seconds": seconds})


async def ask(stage: Stage, name: str, text: str) -> dict[str, Any]:
    """A person's message that an agent has got; the row as the agent has it."""
    await stage.admin.send(stage.seats[name].id, text)
    return await take(stage, name)


async def take(stage: Stage, name: str) -> dict[str, Any]:
    """The next message of an agent, which it takes."""
    seat = stage.seats[name]
    (row,) = await seat.api.claim(seat.id, wait=5)
    return dict(row)


async def mutter(stage: Stage, name: str, activity_id: str, text: str, *, send: bool = False) -> None:
    """An agent says something in answer and does not send it."""
    seat = stage.seats[name]
    await seat.api.post(f"/workspaces/{seat.id}/messages/{activity_id}/draft", {"text": text, "send": send})


async def obligation(stage: Stage, name: str, state: str = "all") -> dict[str, Any]:
    """The one obligation that an agent has in this state."""
    seat = stage.seats[name]
    page = await seat.api.get(f"/workspaces/{seat.id}/obligations", state=state)
    (found,) = page["obligations"]
    return dict(found)


async def decline(stage: Stage, name: str, reason: str) -> None:
    """An agent says that there will be no answer to the one message that it has."""
    seat, owed = stage.seats[name], await obligation(stage, name, "open")
    await seat.api.post(f"/workspaces/{seat.id}/decline", {"handle": owed["handle"], "reason": reason})


async def offer(stage: Stage, name: str, question: str, options: list[str]) -> str:
    """An agent asks the user to choose; the id of the question."""
    seat = stage.seats[name]
    answer = await seat.api.post(f"/workspaces/{seat.id}/options", {"question": question, "options": options})
    return str(answer["activity_id"])
