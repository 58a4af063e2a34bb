"""How long delegations are kept: a tree goes as a whole, some days after the last of it has ended; keys go by their own
age."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from molecule_core.common.clock import DAY, HOUR
from molecule_core.common.errors import InvalidMessage, NotFound
from molecule_core.delegations.model import Delegation, ProgressReport
from molecule_core.delegations.retention import DelegationRetention
from molecule_core.org.reader import OrgReader
from molecule_core.store.retention import RetentionBatch
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.clocks import FakeClock
from testing.delegation_steps import asked, begin, prune, row_of
from testing.engines import Engine
from testing.message_world import MessageWorld, handle, reply
from testing.push_agents import PushNetwork
from testing.running_server import UNHURRIED, Seat, running
from testing.waits import bounded, refused
from tests.delegations.test_begin import pair
from tests.delegations.test_ends import cancel
from tests.messages.test_retention import LIMITS as PACED
from tests.messages.test_retention import Ground
from tests.requirements import requirement

DAY_SECONDS, HOUR_SECONDS = 86_400.0, 3600.0
TABLES = ("delegations", "delegation_facts", "delegation_progress")


class Kept(NamedTuple):
    """A world, and what its store holds."""

    world: MessageWorld
    ground: Ground

    async def ids(self, table: str = "delegations") -> set[str]:
        column = "id" if table == "delegations" else "delegation_id"
        return {row[0] for row in await self.ground.seen(f"SELECT {column} FROM {table}")}  # noqa: S608

    async def days(self, days: float) -> dict[str, int]:
        """Time passes, then a round goes by; how many of what it took."""
        await self.world.pass_time(days * DAY_SECONDS)
        return await prune(self.world)

    def pruning(self, **limits: Any) -> DelegationRetention:
        server = self.world.server.server
        limited = msgspec.structs.replace(server.settings.limits, **limits)
        return DelegationRetention(server.store, OrgReader(server.registry), clock=self.world.clock, limits=limited)

    async def found(self, count: int) -> list[RetentionBatch]:
        """What retention would take of delegations, in batches."""
        before = self.world.clock.now() - self.world.server.server.settings.limits.retention_days * DAY
        return [batch async for batch in self.pruning().batches(before, count) if batch.command is not None]


@pytest.fixture
async def kept(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Kept]:
    paced = {name: getattr(PACED, name) for name in ("sweep_seconds", "prune_seconds", "silence_seconds")}
    limits = msgspec.structs.replace(UNHURRIED, retention_batch=100, delegation_key_hours=48, **paced)
    told: dict[str, Any] = {"push_instructions_enabled": True, "limits": limits}
    async with running(engine, place, tmp_path, clock=clock, **told) as server:
        ground = Ground(server, clock, engine, place)
        await ground.round()
        yield Kept(MessageWorld(server, await server.person(), clock, None), ground)  # type: ignore[arg-type]


async def ended(world: MessageWorld, lead: Seat, ops: Seat, task: str = "sort the mail", **more: Any) -> Delegation:
    """A delegation that its target has answered."""
    delegation_id = (await begin(world, lead, ops, task, **more)).row.id
    (row,) = [each for each in await world.take(ops) if each["id"] == delegation_id]
    await reply(ops, handle(row), "sorted")
    return await row_of(world, delegation_id)


# -- trees -------------------------------------------------------------------------------------------------------------


@requirement("M20", "D18")
async def test_what_has_ended_goes_after_seven_days_with_its_time_line_and_progress(kept: Kept) -> None:
    lead, ops = await pair(kept.world)
    first = (await begin(kept.world, lead, ops)).row
    delegation_id = first.id
    (row,) = await kept.world.take(ops)
    said = ProgressReport(current_step="half of it", percent=50)
    await kept.world.server.server.delegations.writer.report_progress(
        await row_of(kept.world, delegation_id), asked(ops, lead).sender, said
    )
    await reply(ops, handle(row), "sorted")
    assert "delegations" not in await kept.days(6.9)
    assert [await kept.ids(table) for table in TABLES] == [{delegation_id}] * len(TABLES)
    assert (await kept.days(0.2))["delegations"] == 1
    assert [await kept.ids(table) for table in TABLES] == [set()] * len(TABLES)
    assert await kept.world.server.server.delegations.reader.sent_by(lead.id, None, None, 10) == []
    assert (await refused(lead.api.get(f"/delegations/{delegation_id}"))).status == 404
    with pytest.raises(NotFound):  # who has read it before
        await kept.world.server.server.delegations.writer.cancel(first, asked(lead, ops).sender, "enough")


@requirement("M20", "D13")
async def test_a_tree_stays_whole_as_long_as_anything_of_it_is_open_or_has_just_ended(kept: Kept) -> None:
    lead, ops = await pair(kept.world)
    helper = await kept.world.server.seat("Helper")
    root = (await begin(kept.world, lead, ops)).row.id
    (row,) = await kept.world.take(ops)
    below = (await begin(kept.world, ops, helper, "its part", deadline_seconds=20 * 86_400)).row
    assert below.parent_id == root
    await reply(ops, handle(row), "sorted")
    other = await ended(kept.world, lead, ops, "something else")
    assert (await kept.days(10))["delegations"] == 1
    assert await kept.ids() == {root, below.id}
    assert other.id not in await kept.ids("delegation_facts")

    await cancel(kept.world, ops, below.id)
    assert "delegations" not in await kept.days(6.9)
    assert await kept.ids() == {root, below.id}
    assert (await kept.days(0.2))["delegations"] == 2
    assert await kept.ids() == await kept.ids("delegation_facts") == set()


@requirement("M20", "D6")
async def test_what_a_workspace_recorded_goes_too(kept: Kept) -> None:
    lead, ops = await pair(kept.world)
    writer, sender = kept.world.server.server.delegations.writer, asked(lead, ops).sender
    done = (await writer.record(lead.id, "mine-1", ops.id, "sort the mail", sender)).row
    await writer.record(lead.id, "mine-2", ops.id, "sort the mail", sender)
    await writer.update(done, sender, DelegationStatus.COMPLETED, "sorted", None)
    assert (await kept.days(7.2))["delegations"] == 1
    assert await kept.ids() == {"mine-2"}  # its deadline has passed a little later


@requirement("M20", "D13")
async def test_what_begins_below_an_old_tree_in_that_very_moment_keeps_the_tree(kept: Kept) -> None:
    lead, ops = await pair(kept.world)
    helper = await kept.world.server.seat("Helper")
    root, alone = await ended(kept.world, lead, ops), await ended(kept.world, lead, ops, "something else")
    await kept.world.pass_time(8 * DAY_SECONDS)
    (batch,) = await kept.found(500)
    assert (batch.what, batch.rows) == ("delegations", 2)
    below = (await begin(kept.world, ops, helper, "its part", cause_id=root.id)).row
    assert (below.parent_id, below.root_id) == (root.id, root.id)
    assert batch.command is not None
    await bounded(kept.world.server.server.store.run(batch.command))
    assert await kept.ids() == {root.id, below.id}
    assert alone.id not in await kept.ids("delegation_facts")
    # Both at once: whichever is first, nobody stands below what is gone.
    await cancel(kept.world, ops, below.id)
    await kept.world.pass_time(8 * DAY_SECONDS)
    (batch,) = await kept.found(500)
    assert batch.command is not None
    going = kept.world.server.server.store.run(batch.command)
    later = (await begin(kept.world, ops, helper, "another part", cause_id=root.id)).row
    await bounded(going)
    assert (later.parent_id, await kept.ids()) == (None, {later.id})


@requirement("M20")
async def test_trees_go_in_batches_and_one_that_is_larger_goes_at_once(kept: Kept) -> None:
    lead, ops = await pair(kept.world)
    helper = await kept.world.server.seat("Helper")
    large = (await begin(kept.world, lead, ops)).row.id
    (row,) = await kept.world.take(ops)
    for number in range(4):
        below = (await begin(kept.world, ops, helper, f"part {number}", cause_id=large)).row
        await cancel(kept.world, ops, below.id)
    await reply(ops, handle(row), "sorted")
    for number in range(5):
        await cancel(kept.world, lead, (await begin(kept.world, lead, helper, f"task {number}")).row.id)
    await kept.world.pass_time(7.2 * DAY_SECONDS)
    assert [batch.rows for batch in await kept.found(3)] == [5, 2, 3]
    assert (await kept.ground.retention.count_expired())["delegations"] == 10
    assert len(await kept.ids()) == 10
    assert (await kept.days(0))["delegations"] == 10
    assert await kept.ids() == set()


@requirement("M20", "D18")
async def test_who_delegated_is_never_shown_work_as_pending_that_has_ended(kept: Kept) -> None:
    lead, ops = await pair(kept.world)
    await ended(kept.world, lead, ops)
    await kept.world.take(lead)
    await lead.api.post(f"/workspaces/{lead.id}/activity/ack", {"acked_seq": 2})
    await lead.api.post(f"/workspaces/{lead.id}/notify", {"message": "done"})
    path = f"/workspaces/{lead.id}/activity"
    for days in (7 + 0.5 / 24, 1 / 24):
        assert "delegations" not in (await kept.days(days)) or days < 1
        rows = await kept.world.person.get(path, type="delegation")
        assert [row["status"] for row in rows] == (["completed"] if days > 1 else [])
    assert await kept.ids() == set()


@requirement("D6", "M20")
async def test_the_message_of_a_task_that_somebody_is_at_work_on_stays_until_it_has_ended(kept: Kept) -> None:
    lead, ops = await pair(kept.world)
    task = (await begin(kept.world, lead, ops, deadline_seconds=20 * 86_400)).row.id
    plain, newest = [await kept.world.ask(ops, text, by=lead, intent="inform") for text in ("by the way", "and")]
    row = (await kept.world.take(ops))[0]
    await ops.api.post(f"/workspaces/{ops.id}/activity/ack", {"acked_seq": row["seq"] + 2})

    async def messages() -> set[str]:
        rows = await kept.ground.seen("SELECT id FROM activities WHERE inbound_no IS NOT NULL")
        return {found[0] for found in rows} & {task, plain, newest}

    await kept.days(8)
    assert await messages() == {task, newest}
    await reply(ops, handle(row), "sorted")
    assert (await row_of(kept.world, task)).status is DelegationStatus.COMPLETED
    await kept.days(0.1)
    assert await messages() == {newest}


@requirement("D8", "M20")
async def test_a_task_whose_message_is_gone_is_retried_if_its_text_was_all_of_it(kept: Kept) -> None:
    lead, ops = await pair(kept.world)
    helper, writer = await kept.world.server.seat("Helper"), kept.world.server.server.delegations.writer
    sender, words = asked(lead, ops).sender, {"kind": "text", "text": "read this"}
    found = []
    for parts in ([words], [words, {"kind": "file", "file": {"uri": "https://files.example/b.txt"}}]):
        wish = msgspec.structs.replace(asked(lead, ops, "read this"), parts=parts)
        row = (await writer.begin(wish)).row
        (message,) = await kept.world.take(ops)
        deadline = 20 * 86_400
        await begin(kept.world, ops, helper, f"part of {row.id}", cause_id=row.id, deadline_seconds=deadline)
        await reply(ops, handle(message), "read")
        found.append(await row_of(kept.world, row.id))
    plain, with_file = found
    await begin(kept.world, helper, ops, "a newer message", deadline_seconds=20 * 86_400)
    await kept.days(8)
    assert await kept.ids() > {plain.id, with_file.id}
    messages = {row[0] for row in await kept.ground.seen("SELECT id FROM activities")}
    assert messages and not messages & {plain.id, with_file.id}
    again = (await writer.retry(plain, sender)).row
    assert (again.task, again.task_hash, again.retry_of) == ("read this", plain.task_hash, plain.id)
    with pytest.raises(InvalidMessage, match="the files of this task are deleted"):
        await writer.retry(with_file, sender)


# -- keys --------------------------------------------------------------------------------------------------------------


@requirement("D9", "M20")
async def test_a_key_goes_by_its_own_age_and_one_that_was_taken_anew_stays(kept: Kept) -> None:
    lead, ops = await pair(kept.world)

    async def keys() -> list[str]:
        return sorted(row[0] for row in await kept.ground.seen("SELECT key FROM delegation_keys"))

    for number in range(4):
        await ended(kept.world, lead, ops, f"task {number}", key=f"k-{number}")
    assert "delegation keys" not in await kept.days(1.9)
    await kept.world.pass_time(0.2 * DAY_SECONDS)
    batches = [batch async for batch in kept.pruning().batches(0, 3) if batch.command is not None]
    assert [(batch.what, batch.rows) for batch in batches] == [("delegation keys", 3), ("delegation keys", 1)]
    again = await begin(kept.world, lead, ops, "task 0", key="k-0", deadline_seconds=20 * 86_400)
    assert not again.is_duplicate
    for batch in batches:
        assert batch.command is not None
        await bounded(kept.world.server.server.store.run(batch.command))
    assert await keys() == ["k-0"]
    assert (await begin(kept.world, lead, ops, "task 0", key="k-0")).row.id == again.row.id
    assert (await kept.days(2.1))["delegation keys"] == 1
    assert await keys() == []


@requirement("D9", "M20")
async def test_where_all_is_kept_for_ever_nothing_goes(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits = msgspec.structs.replace(UNHURRIED, retention_days=0)
    async with running(engine, place, tmp_path, clock=clock, limits=limits, push_instructions_enabled=True) as server:
        world = MessageWorld(server, await server.person(), clock, PushNetwork())
        lead, ops = await pair(world)
        found = await ended(world, lead, ops, key="k-1")
        await world.pass_time(1000 * HOUR_SECONDS)
        assert await server.server._retention.count_expired() == {}
        assert (await row_of(world, found.id)).settled_at == found.settled_at
        assert found.settled_at is not None and clock.now() - found.settled_at >= 1000 * HOUR
