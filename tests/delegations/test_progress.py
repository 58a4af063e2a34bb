"""How far work is, in the words of who does it: told at once, kept for who looks later, and never more than that."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import UNSET

from molecule_core.api.delegations.progress_throttle import ProgressThrottle
from molecule_core.client.api import ApiClient
from molecule_core.common.errors import StoreUnavailable
from molecule_core.delegations.model import Delegation, ProgressReport
from molecule_core.messages.model import Sender
from testing.clocks import FakeClock
from testing.engines import Engine, new_database
from testing.live_clients import Channel, all_live, channel, check_shape, head_of, journal_of, token_of
from testing.running_server import Running, Seat, running
from testing.waits import bounded, eventually
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import servers

SAID: dict[str, Any] = {"current_step": "reading", "tools_used": ["grep", "sort"], "eta_hint": "soon", "percent": 40}


class Work(NamedTuple):
    """Work that lead gave ops, which has it in hand, on a server whose time only the test moves."""

    server: Running
    clock: FakeClock
    lead: Seat
    ops: Seat
    person: ApiClient
    id: str

    async def says(self, **said: Any) -> Any:
        """Ops tells how far it is."""
        return await bounded(self.ops.api.post(f"/delegations/{self.id}/status", said))

    async def shown(self) -> dict[str, Any]:
        """Where a page that is loaded now finds it."""
        org_id = self.server.server.registry.orgs()[0].id
        full = await self.person.get(f"/delegations/{self.id}")
        (item,) = await self.lead.api.get(f"/workspaces/{self.lead.id}/delegations")
        line = (await self.person.get(f"/workspaces/{self.lead.id}/timeline"))["items"]
        snapshot = (await self.person.get(f"/orgs/{org_id}/snapshot"))["delegations"]
        of_org = (await self.person.get(f"/orgs/{org_id}/delegations"))["delegations"]
        return {
            "one": full["delegation"]["progress"],
            "tree": full["tree"]["progress"],
            "list": item["progress"],
            "line": next(each["progress"] for each in line if each["kind"] == "delegation"),
            "snapshot": snapshot[0]["progress"] if snapshot else None,
            "organisation": of_org[0]["progress"],
        }

    async def stays(self, pace: ProgressThrottle | None = None) -> None:
        """Waits until nothing is kept back."""
        pace = pace or self.server.server.progress_throttle

        async def look() -> int:
            await self.clock.advance(0.25)
            return pace.count_open_windows()

        await eventually(look, lambda count: count == 0)


async def begun(server: Running, clock: FakeClock) -> Work:
    """Work in hand."""
    lead, ops = await server.seat("Lead"), await server.seat("Ops")
    body = {"target_id": ops.id, "task": "sort the mail"}
    given = await lead.api.post(f"/workspaces/{lead.id}/delegate", body)
    await ops.api.claim(ops.id)
    return Work(server, clock, lead, ops, await server.person(), given["delegation_id"])


@pytest.fixture
async def work(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Work]:
    """Work in hand, on each engine."""
    async with running(engine, place, tmp_path, clock=clock) as server:
        yield await begun(server, clock)


def fields(frame: dict[str, Any]) -> dict[str, Any]:
    """What a frame tells of progress."""
    return {name: value for name, value in frame["payload"].items() if name in SAID}


async def nothing_more(opened: Channel, server: Running, clock: FakeClock) -> None:
    """No progress comes any more before the next sign of life."""
    known = len(opened.frames)
    await clock.advance(server.server.settings.limits.live_seconds)
    await opened.control("ping")
    assert [each for each in opened.frames[known:] if each.get("event") == "DELEGATION_STATUS"] == []


@requirement("D12")
async def test_what_a_report_leaves_out_stays_and_what_it_empties_goes(work: Work) -> None:
    await work.says(**SAID)
    await work.stays()
    for said, left in (
        ({"percent": 60}, {**SAID, "percent": 60}),
        ({"current_step": "writing"}, {**SAID, "percent": 60, "current_step": "writing"}),
        ({"eta_hint": "", "percent": None}, {"current_step": "writing", "tools_used": SAID["tools_used"]}),
    ):
        await work.says(**said)
        await work.stays()
        shown = await work.shown()
        assert {tuple(sorted((k, str(v)) for k, v in each.items() if k != "at")) for each in shown.values()} == {
            tuple(sorted((name, str(value)) for name, value in left.items()))
        }


@requirement("D12")
async def test_reports_in_quick_succession_lose_no_member(work: Work) -> None:
    for name, value in SAID.items():
        await work.says(**{name: value})
    await work.stays()
    shown = (await work.shown())["one"]
    assert {name: shown[name] for name in SAID} == SAID


# -- told --------------------------------------------------------------------------------------------------------------


@requirement("D12", "D15")
async def test_progress_is_told_to_the_source_and_to_people_and_is_no_event_of_the_journal(work: Work) -> None:
    server, helper = work.server, await work.server.seat("Helper")
    head = await head_of(server)
    async with (
        channel(server, await token_of(server, "viewer")) as page,
        channel(server, work.lead.token) as source,
        channel(server, work.ops.token) as target,
        channel(server, helper.token) as other,
    ):
        await all_live(server)
        head = page.frames[0]["head"]
        await work.says(**SAID)
        for opened in (page, source):
            frame = await opened.progress()
            check_shape(frame)
            assert (frame["workspace_id"], frame["entity"]["id"]) == (work.lead.id, work.id)
            assert fields(frame) == SAID
            assert (frame["payload"]["status"], frame["payload"]["phase"]) == ("queued", "working")
        for opened in (target, other):
            await nothing_more(opened, server, work.clock)
    (changed,) = await journal_of(server, after=head)
    assert (changed["event"], fields(changed)) == ("DELEGATION_STATUS", {})  # that it is at work, once, and no more


@requirement("D12")
async def test_of_many_reports_the_first_and_the_newest_are_told_and_nothing_is_left_behind(work: Work) -> None:
    server = work.server
    async with channel(server, await token_of(server)) as page:
        await all_live(server)
        for percent in range(20):
            assert (await work.says(percent=percent))["noted"] is True
        assert fields(await page.progress()) == {"percent": 0}
        assert server.server.progress_throttle.count_open_windows() == 1
        await work.stays()
        assert fields(await page.progress()) == {"percent": 19}
        await nothing_more(page, server, work.clock)
    assert {percent["percent"] for percent in (await work.shown()).values()} == {19}
    tasks = [task for task in asyncio.all_tasks() if "ProgressThrottle" in repr(task.get_coro())]
    assert tasks == []


@requirement("D12")
async def test_of_work_that_has_ended_nothing_is_told_any_more(work: Work) -> None:
    server, update = work.server, f"/workspaces/{work.ops.id}/delegations/{work.id}/update"
    async with channel(server, await token_of(server)) as page:
        await all_live(server)
        await work.says(percent=10)
        await page.progress()
        await work.says(percent=90)  # kept back
        await work.ops.api.post(update, {"status": "completed", "result": "sorted"})
        await page.event("DELEGATION_COMPLETE")
        await work.stays()
        assert (await work.says(percent=99)) == {"status": "noted", "noted": False, "delegation_status": "completed"}
        await nothing_more(page, server, work.clock)
    shown = await work.shown()
    assert (shown["list"]["percent"], shown["snapshot"]) == (10, None)


# -- for who comes later -----------------------------------------------------------------------------------------------


@requirement("D12", "C23")
async def test_who_loads_the_page_anew_finds_what_was_said_last(work: Work) -> None:
    assert set((await work.shown()).values()) == {None}
    for percent in (40, 70):
        await work.says(**{**SAID, "percent": percent})
        await work.stays()
    shown = await work.shown()
    one = shown.pop("one")
    assert {name: one[name] for name in SAID} == {**SAID, "percent": 70}
    assert all(each == one for each in shown.values())
    assert one["at"].endswith("Z")
    assert one["at"] <= (await work.person.get(f"/delegations/{work.id}"))["delegation"]["last_heartbeat"]


@requirement("D12")
async def test_who_comes_is_told_what_was_said_of_late(work: Work) -> None:
    server = work.server
    await work.says(percent=10)
    for token in (await token_of(server), work.lead.token):
        async with channel(server, token) as late:
            assert fields(await late.progress()) == {"percent": 10}
    async with channel(server, work.ops.token) as target:
        await all_live(server)
        await nothing_more(target, server, work.clock)
    await work.clock.advance(61)
    async with channel(server, await token_of(server)) as later:  # its snapshot has it
        await all_live(server)
        await nothing_more(later, server, work.clock)


# -- several processes -------------------------------------------------------------------------------------------------


@requirement("D12", "M38")
async def test_what_one_process_hears_the_other_tells_once(postgres: str, tmp_path: Path, clock: FakeClock) -> None:
    async with servers(await new_database(postgres), tmp_path, clock=clock) as (one, other):
        work = await begun(one, clock)
        async with channel(other, await token_of(other)) as page, channel(one, await token_of(one)) as near:
            await all_live(other)
            await all_live(one)
            for percent in (10, 20, 30):
                await work.says(percent=percent)
                for opened in (page, near):
                    assert fields(await opened.progress()) == {"percent": percent}
                await work.stays()
            await nothing_more(page, other, clock)


# -- the pace ----------------------------------------------------------------------------------------------------------


class Pen:
    """Writes down what it is to write; fails when it is told to."""

    def __init__(self) -> None:
        self.written: list[int | None] = []
        self.fails = False

    async def write(self, row: Delegation, _by: Sender, said: ProgressReport) -> Delegation:
        """Writes, or fails."""
        if self.fails:
            raise StoreUnavailable
        assert said.percent is not UNSET
        self.written.append(said.percent)
        return row


async def row_of(work: Work) -> Delegation:
    """The row of the work."""
    return await work.server.server.delegations.reader.get_in_any_org(work.id)


@requirement("D12")
async def test_the_first_report_fails_as_the_store_does_and_one_kept_back_fails_silently(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    pen, row, by = Pen(), await row_of(work), Sender("workspace:x", work.ops.id, None, None)
    pace = ProgressThrottle(pen.write, clock=work.clock)
    pen.fails = True
    with pytest.raises(StoreUnavailable):
        await pace.report(row, by, ProgressReport(percent=1))
    await pace.report(row, by, ProgressReport(percent=2))
    await work.stays(pace)
    assert [record.levelname for record in caplog.records if record.name == "molecule.delegations"] == ["WARNING"]
    pen.fails = False
    await pace.report(row, by, ProgressReport(percent=3))
    await work.stays(pace)
    assert pen.written == [3]


@requirement("D12")
async def test_a_server_that_stops_writes_what_it_kept_back(work: Work) -> None:
    pen, row, by = Pen(), await row_of(work), Sender("workspace:x", work.ops.id, None, None)
    pace = ProgressThrottle(pen.write, clock=work.clock)
    for percent in (1, 2, 3):
        await pace.report(row, by, ProgressReport(percent=percent))
    await bounded(pace.close())
    assert (pen.written, pace.count_open_windows()) == ([1, 3], 0)
