"""An agent that does what its instructions say completes every open task of one peer with the task's own answer."""

import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from testing.engines import Engine
from testing.running_server import Running, Seat, running
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.agent.bridges.bridge_process import waiting
from tests.requirements import requirement
from tests.system.journeys.instructed_entrances import ENTRANCES, READERS

# MOLECULE_INTERLEAVINGS=10 makes 1,200 answers, in eight minutes on two cores.
INTERLEAVINGS = int(os.environ.get("MOLECULE_INTERLEAVINGS", "2"))
# Of one peer two tasks and two questions, and a message of a person: all are open at the same time.
OPEN = 5


@pytest.fixture
async def server(engine: Engine, place: str, tmp_path: Path) -> AsyncIterator[Running]:
    """A server that says how to answer, and may push to this machine."""
    async with running(
        engine, place, tmp_path, push_instructions_enabled=True, push_networks=("127.0.0.0/8",)
    ) as found:
        yield found


async def _open_five(server: Running, lead: Seat, ops: Seat, dice: random.Random) -> dict[str, str]:
    """Sends the five in any order; returns what each is named by its sender: text -> id."""
    person, sent = await server.person(), dict[str, str]()

    async def task(text: str) -> str:
        body = {"target_id": ops.id, "task": text, "wait": 0}
        return str((await lead.api.post(f"/workspaces/{lead.id}/delegate", body))["delegation_id"])

    async def question(text: str) -> str:
        body = {"message": {"role": "agent", "parts": [{"kind": "text", "text": text}]}}
        path = f"/workspaces/{ops.id}/a2a"
        call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": body}
        receipt = await lead.api.call("POST", path, body=call, headers={"x-timeout": "0"})
        return str(receipt.get("activity_id") or receipt["queue_id"])

    async def words(text: str) -> str:
        params = {"message": {"role": "user", "parts": [{"kind": "text", "text": text}]}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
        receipt = await person.call("POST", f"/workspaces/{ops.id}/a2a", body=call, headers={"x-timeout": "0"})
        return str(receipt.get("activity_id") or receipt["queue_id"])

    orders = [("TASK-A", task), ("TASK-B", task), ("QUESTION-A", question), ("QUESTION-B", question), ("WORDS", words)]
    dice.shuffle(orders)
    for text, send in orders:
        sent[text] = await send(text)
    return sent


async def _answered(lead: Seat, ops: Seat, sent: dict[str, str]) -> dict[str, str]:
    """What each of them got as its answer, by the sender's own records."""
    found = {}
    for text in ("TASK-A", "TASK-B"):
        full = await lead.api.get(f"/delegations/{sent[text]}")
        found[text] = f"{full['delegation']['status']}: {full['result']}"
    rows = await lead.api.get(f"/workspaces/{lead.id}/activity", type="a2a_receive", limit=100)
    page = await ops.api.get(f"/workspaces/{ops.id}/obligations", limit=100, state="all")
    states: dict[str, Any] = {each["activity_id"]: each for each in page["obligations"]}
    texts = {row["id"]: row["summary"] for row in rows}
    chat = await ops.api.get(f"/workspaces/{ops.id}/chat-history")
    texts |= {line["id"]: line["content"] for line in chat["messages"]}
    for text in ("QUESTION-A", "QUESTION-B", "WORDS"):
        state = states.get(sent[text], {})
        found[text] = f"{state.get('state')}: {texts.get(state.get('answer_id', ''))}"
    return found


@pytest.mark.long
@requirement("I2", "M26", "G20")
@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("compact", [False, True], ids=["full", "compact"])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("entrance", ENTRANCES)
async def test_each_of_five_open_messages_gets_its_own_answer(
    server: Running, tmp_path: Path, entrance: str, reader: str, compact: bool
) -> None:
    dice, expected, seen = random.Random(f"{entrance} {reader} {compact}"), [], []
    for number in range(INTERLEAVINGS):
        lead = await server.seat(f"Lead {number}")
        ops = await server.seat(
            f"Ops {number}", parent_id=lead.id, instruction_compact=compact, max_concurrent_tasks=OPEN
        )
        state = tmp_path / str(number)
        state.mkdir(mode=0o700)
        async with ENTRANCES[entrance](server, ops, state, READERS[reader]) as way:
            sent = await _open_five(server, lead, ops, dice)
            answers = list(await way.receive(OPEN))
            dice.shuffle(answers)
            for each in answers:
                await each.send(f"the answer to {each.text}")
            left = await eventually(lambda: waiting(ops), lambda count: count == 0, PROCESS_START_SECONDS)  # noqa: B023
            assert left == 0  # what is acknowledged is not delivered again
            found = await eventually(
                lambda: _answered(lead, ops, sent),  # noqa: B023
                lambda each: not any(value.startswith(("open", "queued", "None")) for value in each.values()),
            )
        seen.append(found)
        expected.append(
            {
                **{text: f"completed: the answer to {text}" for text in ("TASK-A", "TASK-B")},
                **{text: f"answered: the answer to {text}" for text in ("QUESTION-A", "QUESTION-B", "WORDS")},
            }
        )
    assert seen == expected
