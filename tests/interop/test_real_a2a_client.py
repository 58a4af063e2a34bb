"""Workspaces whose agents are real a2a-sdk agents, of both lines, by their cards: nothing of theirs knows Molecule."""

import base64
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from testing.ports import free_port
from testing.processes import client, serving, started
from testing.running_server import Seat, running
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.interop.python_kits import A2A_KITS, KITS, Kit
from tests.requirements import requirement

pytestmark = [
    pytest.mark.long,
    pytest.mark.parametrize("kit", A2A_KITS, ids=[each.name for each in A2A_KITS]),
    pytest.mark.parametrize("mode", ["stream", "poll", "push"]),
]
ENDED = ("completed", "failed")
MORE: dict[str, Any] = {
    "push_networks": ("127.0.0.0/8",),
    "push_instructions_enabled": True,
    "has_public_url": True,
}


@contextlib.asynccontextmanager
async def worker_of(kit: Kit, mode: str, folder: Path) -> AsyncIterator[str]:
    """The agent as a process of its own; the address of its card."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = str(KITS / f"{kit.name}_worker.py")
    python = str(kit.require().python)
    async with started(python, program, str(port), str(folder / "worker.log"), mode, env={}, cwd=folder):

        async def listens() -> bool:
            with socket.socket() as dialed:
                return dialed.connect_ex(("127.0.0.1", port)) == 0

        await eventually(listens, bool, PROCESS_START_SECONDS)
        yield f"http://127.0.0.1:{port}/.well-known/agent-card.json"


def executions(folder: Path, text: str) -> int:
    """How often the agent worked on a text."""
    return sum(line.endswith(f" {text}") for line in (folder / "worker.log").read_text().splitlines())


async def detail(lead: Seat, delegation_id: str) -> dict[str, Any]:
    """A delegation as its delegator sees it."""
    found: dict[str, Any] = await lead.api.get(f"/delegations/{delegation_id}")
    return found


async def delegate(lead: Seat, worker: Seat, task: str, wait: int = 0, **more: Any) -> dict[str, Any]:
    """Delegate a task; what the server answers."""
    body = {"target_id": worker.id, "task": task, "wait": wait, **more}
    found: dict[str, Any] = await lead.api.post(f"/workspaces/{lead.id}/delegate", body)
    return found


async def until(lead: Seat, delegation_id: str, *states: str) -> dict[str, Any]:
    """Wait until a delegation has one of these states."""
    return await eventually(
        lambda: detail(lead, delegation_id), lambda found: found["delegation"]["status"] in states, 30
    )


@requirement("M24", "D2")
async def test_tasks_questions_and_failures_come_back(kit: Kit, mode: str, tmp_path: Path) -> None:
    async with (
        worker_of(kit, mode, tmp_path) as card_url,
        running("sqlite", str(tmp_path / "molecule.db"), tmp_path, **MORE) as server,
    ):
        lead = await server.seat("Lead")
        worker = await server.seat("Worker", parent_id=lead.id, a2a_card_url=card_url)
        updates = (await server.admin.get(f"/workspaces/{worker.id}/a2a-agent"))["updates"]
        results = [await delegate(lead, worker, task, wait=20) for task in ("count", "slow 2", "fail", "reject")]
        asked = await delegate(lead, worker, "ask")
        question = await _next_question(lead)
        handle = question["instructions"]["reply_handle"]
        await lead.api.post(f"/workspaces/{lead.id}/reply", {"handle": handle, "text": "blue"})
        answered = await until(lead, asked["delegation_id"], "completed", "failed")
    assert updates == mode
    assert [each["state"] for each in results] == ["completed", "completed", "failed", "failed"]
    assert [each["result"].split() for each in results[:2]] == [["done:", "count"], ["0", "1"]]
    assert [each["reason"] for each in results[2:]] == ["agent_error", "rejected"]
    assert "Which colour?" in str(question["request_body"])
    assert (answered["delegation"]["status"], answered["result"]) == ("completed", "done: blue")
    assert executions(tmp_path, "slow 2") == 1


async def _next_question(lead: Seat) -> dict[str, Any]:
    async def look() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = await lead.api.get(
            f"/workspaces/{lead.id}/activity", claim=60, wait=0, include="instructions"
        )
        return [row for row in rows if "waits for your answer" in str(row["request_body"])]

    return (await eventually(look, bool, 20))[0]


async def test_files_travel_both_ways(kit: Kit, mode: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 40
    async with (
        worker_of(kit, mode, tmp_path) as card_url,
        running("sqlite", str(tmp_path / "molecule.db"), tmp_path, **MORE) as server,
    ):
        person = await server.person()
        worker = await server.seat("Worker", a2a_card_url=card_url)
        file = {"name": "in.bin", "mimeType": "application/octet-stream", "bytes": base64.b64encode(content).decode()}
        parts = [{"kind": "text", "text": "file please"}, {"kind": "file", "file": file}]
        message = {"role": "user", "parts": parts}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        await person.call("POST", f"/workspaces/{worker.id}/a2a", body=body, headers={"x-timeout": "20"})

        async def chat() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await person.get(f"/workspaces/{worker.id}/chat-history"))["messages"]
            return [each for each in found if "got" in str(each)]

        answer = (await eventually(chat, bool, 20))[0]
    assert f"got {len(content)}" in str(answer)
    assert "back.bin" in str(answer)


async def test_a_cancel_ends_the_work_of_the_agent(kit: Kit, mode: str, tmp_path: Path) -> None:
    async with (
        worker_of(kit, mode, tmp_path) as card_url,
        running("sqlite", str(tmp_path / "molecule.db"), tmp_path, **MORE) as server,
    ):
        lead = await server.seat("Lead")
        worker = await server.seat("Worker", parent_id=lead.id, a2a_card_url=card_url)
        begun = await delegate(lead, worker, "slow 60")

        async def works() -> bool:
            return (tmp_path / "worker.log").exists() and executions(tmp_path, "slow 60") == 1

        await eventually(works, bool, 20)
        await lead.api.post(f"/workspaces/{lead.id}/delegations/{begun['delegation_id']}/cancel", {})

        async def cancelled() -> int:
            return executions(tmp_path, "CANCEL")

        count = await eventually(cancelled, bool, 20)
    assert count == 1


def _is_taken(found: dict[str, Any]) -> bool:
    return found["delegation"]["taken_at"] is not None


async def test_a_server_that_restarts_in_the_middle_gets_the_result_once(kit: Kit, mode: str, tmp_path: Path) -> None:
    place, port = str(tmp_path / "molecule.db"), free_port()
    async with worker_of(kit, mode, tmp_path) as card_url:
        async with running("sqlite", place, tmp_path, on_port=port, **MORE) as server:
            lead = await server.seat("Lead")
            worker = await server.seat("Worker", parent_id=lead.id, a2a_card_url=card_url)
            begun = await delegate(lead, worker, "slow 4")

            async def works() -> bool:
                return (tmp_path / "worker.log").exists() and executions(tmp_path, "slow 4") == 1

            await eventually(works, bool, 20)
            # A stop before that is the one gap of 0.3, which cannot be asked for the task of a message.
            await eventually(lambda: detail(lead, begun["delegation_id"]), _is_taken, 20)
            token = lead.token
        async with running("sqlite", place, tmp_path, seed=1, on_port=port, **MORE) as server:
            api = server.api(token)

            async def look() -> dict[str, Any]:
                found: dict[str, Any] = await api.get(f"/delegations/{begun['delegation_id']}")
                return found

            ended = await eventually(look, lambda found: found["delegation"]["status"] in ENDED, 30)
    assert (ended["delegation"]["status"], ended["result"].split()) == ("completed", ["0", "1", "2", "3"])
    assert executions(tmp_path, "slow 4") == 1


@requirement("P1", "P2")
async def test_a_killed_server_neither_loses_nor_repeats_the_work(kit: Kit, mode: str, tmp_path: Path) -> None:
    state, port, tasks = tmp_path / "state", free_port(), [f"slow {number}" for number in (3, 4, 5)]
    public = {"MOLECULE_PUBLIC_URL": f"http://127.0.0.1:{port}"}
    environment = {**public, "MOLECULE_PUSH_NETWORKS": "127.0.0.0/8", "MOLECULE_LIMIT_REQUESTS_PER_MINUTE": "1000000"}
    async with worker_of(kit, mode, tmp_path) as card_url:
        async with serving(state, port, **environment) as server, client(port) as admin:
            made = await admin.post("/workspaces", {"name": "Worker", "a2a_card_url": card_url})
            lead = await admin.post("/workspaces", {"name": "Lead"})
            path, ids = f"/workspaces/{lead['id']}/delegate", []
            async with client(port, lead["connection"]["auth_token"]) as own:
                for task in tasks:
                    begun = await own.post(path, {"target_id": made["id"], "task": task, "wait": 0})
                    ids.append(begun["delegation_id"])

            async def all_stored() -> bool:
                found = [await admin.get(f"/delegations/{each}") for each in ids]
                return all(each["delegation"]["taken_at"] is not None for each in found)

            # A kill before that is the one gap of 0.3, which cannot be asked for the task of a message.
            await eventually(all_stored, bool, 20)
            await server.kill()
        async with serving(state, port, **environment), client(port) as admin:

            async def ended() -> list[dict[str, Any]]:
                return [await admin.get(f"/delegations/{each}") for each in ids]

            found = await eventually(ended, lambda rows: all(r["delegation"]["status"] in ENDED for r in rows), 40)
    assert [each["delegation"]["status"] for each in found] == ["completed"] * 3
    assert [each["result"].split()[-1] for each in found] == ["2", "3", "4"]
    assert [executions(tmp_path, task) for task in tasks] == [1, 1, 1]
