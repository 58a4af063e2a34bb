"""The packaged company from end to end: work that is delegated to several at once, what is seen of it while it runs,
and what becomes of it when somebody is killed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from testing.ports import free_port
from testing.waits import PROCESS_START_SECONDS
from tests.requirements import requirement
from tests.system.demo.demo_process import Demo, packaged_without_pauses, running_demo

TEAMS = ("Engineering", "Research", "Support", "Legal")
# Who is killed counts as silent only long after the second try of a push.
PATIENT = {"MOLECULE_LIMIT_SILENCE_SECONDS": "60"}
ENDS = ("DELEGATION_COMPLETE", "DELEGATION_FAILED")


class Watch:
    """What is told live of the work that one workspace gives others, oldest first."""

    def __init__(self, lead_id: str, names: dict[str, str]) -> None:
        self._lead_id = lead_id
        self._names = names
        self._more = asyncio.Event()
        self.told: list[tuple[str, str, dict[str, Any]]] = []

    async def listen(self, demo: Demo, greeted: asyncio.Event) -> None:
        """Reads for ever."""
        async for frame in demo.api.events():
            greeted.set()
            if frame.get("workspace_id") == self._lead_id and str(frame.get("event")).startswith("DELEGATION_"):
                payload = frame["payload"]
                self.told.append((frame["event"], self._names[payload["target_id"]], payload))
                self._more.set()

    def of(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """What is told of the work that one of the peers was given."""
        return [(event, payload) for event, target, payload in self.told if target == name]

    async def until(self, seen: Callable[[], bool]) -> None:
        """Waits until something was told."""
        async with asyncio.timeout(PROCESS_START_SECONDS):
            while not seen():
                self._more.clear()
                await self._more.wait()

    def is_retrying(self, name: str) -> bool:
        """Whether it was told that a peer is tried once more."""
        return any(payload.get("phase") == "retrying" for _, payload in self.of(name))

    def ends(self, name: str) -> list[str]:
        """How the work of a peer has ended."""
        return [event for event, _ in self.of(name) if event in ENDS]


@pytest.fixture
def company(tmp_path: Path) -> Path:
    """The packaged company; what it takes time for is only the pause before a second try."""
    file = tmp_path / "company.toml"
    file.write_text(packaged_without_pauses(), encoding="utf-8")
    return file


@contextlib.asynccontextmanager
async def watching(demo: Demo) -> AsyncIterator[Watch]:
    """From now on, what the lead delegates."""
    seats = await demo.seats()
    watch, greeted = Watch(seats["Lead"]["id"], {row["id"]: name for name, row in seats.items()}), asyncio.Event()
    listening = asyncio.create_task(watch.listen(demo, greeted))
    try:
        async with asyncio.timeout(PROCESS_START_SECONDS):
            await greeted.wait()
        yield watch
    finally:
        listening.cancel()
        await asyncio.wait((listening,))


async def given(demo: Demo) -> dict[str, list[dict[str, Any]]]:
    """What the lead has delegated, by who got it; the oldest first."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TEAMS}
    for item in await demo.api.get(f"/workspaces/{await demo.id('Lead')}/delegations", direction="out"):
        found[item["target_name"]].insert(0, item)
    return found


async def given_once(demo: Demo) -> dict[str, dict[str, Any]]:
    """The same, where each got its work once."""
    found = await given(demo)
    assert {name: len(items) for name, items in found.items()} == dict.fromkeys(TEAMS, 1)
    return {name: item for name, (item,) in found.items()}


@requirement("D8", "D12")
async def test_the_lead_delegates_to_all_at_once_and_sees_how_far_they_are_and_what_is_tried_again(
    tmp_path: Path,
) -> None:
    async with running_demo(tmp_path / "state", free_port(), None) as demo, watching(demo) as watch:
        await demo.ask("Lead")
        answer = (await demo.chat_of("Lead", 3))[2][1]
        await watch.until(lambda: all(watch.ends(name) for name in TEAMS))
        items = await given_once(demo)

    events = [event for event, _, _ in watch.told if event == "DELEGATION_SENT" or event in ENDS]
    assert events[: len(TEAMS)] == ["DELEGATION_SENT"] * len(TEAMS), "nobody waits for another team"
    assert {name: watch.of(name)[0][0] for name in TEAMS} == dict.fromkeys(TEAMS, "DELEGATION_SENT")
    assert {name: watch.ends(name) for name in TEAMS} == {name: ["DELEGATION_COMPLETE"] for name in TEAMS}
    assert {name: item["attempt"] for name, item in items.items()} == {**dict.fromkeys(TEAMS, 1), "Legal": 2}
    assert watch.is_retrying("Legal")
    steps = [payload["current_step"] for _, payload in watch.of("Engineering") if payload.get("current_step")]
    assert steps and all(step.startswith("waiting for ") for step in steps)
    places = [answer.index(f"## {name}\n") for name in TEAMS]
    assert places == sorted(places)
    assert "Before publishing" in answer


@requirement("D8")
async def test_a_pushed_agent_that_is_killed_leaves_its_part_failed_and_the_lead_says_so(
    tmp_path: Path, company: Path
) -> None:
    async with running_demo(tmp_path / "state", free_port(), company, **PATIENT) as demo, watching(demo) as watch:
        await demo.ask("Lead")
        await watch.until(lambda: watch.is_retrying("Legal"))
        demo.kill("Legal")
        await demo.process.says("Legal (pid")
        answer = (await demo.chat_of("Lead", 3))[2][1]
        await watch.until(lambda: bool(watch.ends("Legal")))
        items = await given_once(demo)

    assert watch.ends("Legal") == ["DELEGATION_FAILED"]
    assert (items["Legal"]["status"], items["Legal"]["reason"]) == ("failed", "unreachable")
    assert {items[name]["status"] for name in TEAMS[:3]} == {"completed"}
    said = answer[answer.index("## Legal\n") :]
    assert "**No answer from Legal**" in said and "unreachable" in said
    assert "Before publishing" not in answer


@requirement("D9")
async def test_the_next_life_of_the_company_goes_on_with_the_same_delegations(tmp_path: Path, company: Path) -> None:
    state, port = tmp_path / "state", free_port()
    async with running_demo(state, port, company) as demo, watching(demo) as watch:
        await demo.ask("Lead")
        await watch.until(lambda: watch.is_retrying("Legal"))
        before = await given_once(demo)
        await demo.process.kill()

    async with running_demo(state, port, None) as demo:
        chat = await demo.chat_of("Lead", 3)
        await demo.until_seat("Lead", lambda seat: seat["active_tasks"] == 0)
        after = await given(demo)
        again = await demo.chat("Lead")

    # The server was back before Legal was: what it pushed in between may have failed, and then it was given anew.
    assert {name: len(after[name]) for name in TEAMS[:3]} == dict.fromkeys(TEAMS[:3], 1)
    assert {name: after[name][0]["delegation_id"] for name in TEAMS} == {
        name: before[name]["delegation_id"] for name in TEAMS
    }
    assert [item["reason"] for item in after["Legal"][:-1]] in ([], ["unreachable"])
    assert {items[-1]["status"] for items in after.values()} == {"completed"}
    assert again == chat
    assert [line for line in chat[2][1].splitlines() if line.startswith("## ")] == [
        *(f"## {name}" for name in TEAMS),
        "## From my notes",
    ]
