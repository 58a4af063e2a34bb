"""Delegations on a world without a server: every hand that touches one, and all that is to be seen of it."""

import asyncio
import re
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.access.push_secrets import load_push_secrets
from molecule_core.common.errors import MoleculeError
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import DelegationMeter
from molecule_core.delegations.acceptance import AcceptanceTransitions
from molecule_core.delegations.model import DELEGATION, Delegation, DelegationRequest, TimelineRow
from molecule_core.delegations.rules import OUTCOMES
from molecule_core.delegations.scopes import ScopeCache
from molecule_core.delegations.subscribers import DelegationSubscriber
from molecule_core.delegations.transitions import DelegationCloser
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.messages import events
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.delivery.dead_letters import DeadLetterWriter
from molecule_core.messages.delivery.push_claims import PushClaims
from molecule_core.messages.delivery.push_results import PushResultRecorder
from molecule_core.messages.delivery.reply_waiters import ReplyWaiters
from molecule_core.messages.delivery_state import PushAttempt, PushCapacity
from molecule_core.messages.files.uploads import FileWriter
from molecule_core.messages.inbox.claims import InboxClaims
from molecule_core.messages.model import ActivityFilters, Sender
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import InboundMessage
from molecule_core.messages.replies import ReplyWriter
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import DeliveryMode, WorkspacesRemoved, WorkspaceStatus
from molecule_core.runners.checks import RunnerChecks
from molecule_core.store.blob_store import BlobStore
from molecule_core.store.database import Command, CommandSteps, WriteSet
from testing.budgets import no_budgets
from testing.clocks import SeededRandomness, settle
from testing.engines import Engine
from testing.machines.inboxes import World, world_on

LEASE_SECONDS = 60
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HANDLE = re.compile(r"\bm\d+-[a-z0-9]{5}\b")


def by(workspace_id: str) -> Sender:
    """A workspace that acts."""
    return Sender(f"workspace:{workspace_id}", workspace_id, None, None)


def asked(source: str, target: str, task: str = "sort the mail", **more: Any) -> DelegationRequest:
    """What a workspace wants done by another one."""
    parts = [{"kind": "text", "text": task}]
    return DelegationRequest(source_id=source, target_id=target, parts=parts, task=task, sender=by(source), **more)


class Stage:
    """The hands of messages and of delegations on one store, wired as a server wires them."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.store = world, world.store
        store, org, clock, ids, limits = world.store, world.org, world.clock, world.ids, world.handing._limits
        owing = ObligationLedger(clock, limits)
        self.writer = MessageWriter(store, org, clock=clock, ids=ids, limits=limits, ledger=owing)
        free = no_budgets(limits)
        self.handing = InboxClaims(store, org, world.wakeups, world.reader, owing, free, clock=clock, limits=limits)
        self.replies = ReplyWriter(store, org, self.writer, self.handing.acks, owing, clock=clock, ids=ids)
        results = DelegationMessages(owing, clock=clock, ids=ids)
        askers = ReplyWaiters(store, org, world.wakeups, results, clock=clock, ids=ids, limits=limits)
        letters, bits = DeadLetterWriter(store, org, askers, clock=clock), SeededRandomness(7)
        means = (org, letters, askers, owing)
        outcomes = PushResultRecorder(*means, clock=clock, ids=ids, randomness=bits, limits=limits)
        files = FileWriter(
            store, BlobStore(folder / "files", reserved_bytes=0), org, self.writer, clock=clock, ids=ids, limits=limits
        )
        self.pushing = PushClaims(
            store, org, outcomes, owing, free, files=files, load_secrets=load_push_secrets, clock=clock, limits=limits
        )
        closer = DelegationCloser(org, results, ScopeCache(), DelegationMeter(OUTCOMES), history=True)
        ends = AcceptanceTransitions(org, closer, RunnerChecks(limits), ids=ids)
        writes = partial(DelegationWriter, store, org, self.writer, world.reader, ends)
        self.delegations = writes(clock=clock, ids=ids, limits=limits)
        hearing, follow = DelegationSubscriber(org, ends, limits), store.subscribers.subscribe
        heard = {
            events.MessagesDelivered: hearing.on_delivered,
            events.MessagesReleased: hearing.on_released,
            events.PushDeferred: hearing.on_push_deferred,
            events.PushOutcomeUnknown: hearing.on_push_outcome_unknown,
            events.PushAccepted: hearing.on_push_accepted,
            events.QuestionAsked: hearing.on_question_asked,
            events.MessageAnswered: hearing.on_answered,
            events.ProgressReported: hearing.on_progress,
            events.DeliveryFailed: hearing.on_delivery_failed,
            WorkspacesRemoved: hearing.on_workspaces_removed,
        }
        for fact, follower in heard.items():
            follow(fact, f"delegations.{fact.__name__}", follower)

    # -- acting --------------------------------------------------------------------------------------------------------

    def run(self, work: Awaitable[Any]) -> Any:
        """Does something on the loop, bounded."""
        return self.world.run(work)

    async def begun(self, source: str, target: str, **more: Any) -> Delegation:
        """A delegation; its row."""
        return (await self.delegations.begin(asked(source, target, **more))).row

    def pushed_to(self, workspace_id: str) -> None:
        """From now on the server sends to this one, as much as there is."""
        seat = self.world.org.active_workspace(workspace_id)
        self.world.registry.put_workspace(
            replace(seat, delivery_mode=DeliveryMode.PUSH, url="https://ops.example", max_concurrent_tasks=9)
        )

    async def sends(self, row: Delegation, most: int = 9) -> list[PushAttempt]:
        """The server sends what there is for its target."""
        return (
            await self.pushing.claim_batch(row.org_id, row.target_id, PushCapacity(max_concurrent=9, max_new=most))
        ).pushes

    async def removes(self, workspace_id: str) -> None:
        """A workspace is removed, as the tree does it."""
        seat = self.world.org.active_workspace(workspace_id)
        now = self.world.clock.now()
        gone = replace(seat, status=WorkspaceStatus.REMOVED, removed_at=now)

        def decide() -> CommandSteps[None]:
            yield from ()
            put = partial(self.world.registry.put_workspace, gone)
            return WriteSet(None, [], after_commit=put, domain_events=[WorkspacesRemoved((gone.id,), now)])

        await self.store.run(Command(seat.org_id, (), decide, exclusive=True))

    async def fire(self) -> None:
        """The timers of delegations that are due go off, until none is."""
        while due := [key for kind, key, at in await self._timers() if at <= self.world.clock.now()]:
            for key in due:
                await self.delegations.on_due(key)

    async def _timers(self) -> list[tuple[str, str, int]]:
        return [row for row in await self.store.rows("next_timers", {"count": 10_000}) if row[0] == DELEGATION]

    async def together(self, since: int, *works: Awaitable[Any]) -> list[Any]:
        """Both at once: their first commands wait for each other, and come to the store in the same moment."""
        store, kept = self.store, list[tuple[Command[Any], asyncio.Future[Any]]]()

        def put(command: Command[Any]) -> asyncio.Future[Any]:
            kept.append((command, asyncio.get_running_loop().create_future()))
            return kept[-1][1]

        run, tasks = store.run, list[asyncio.Task[Any]]()
        store.run = put
        try:
            for work in works:
                before = len(kept)
                tasks.append(asyncio.ensure_future(_awaited(work, since)))
                while not tasks[-1].done() and len(kept) == before:
                    await settle(1)
        finally:
            store.run = run
        for command, outer in kept:
            run(command).add_done_callback(partial(_hand_on, outer))
        return list(await asyncio.gather(*tasks))

    # -- looking -------------------------------------------------------------------------------------------------------

    async def row(self, row: Delegation) -> Delegation:
        """A delegation as it is committed."""
        return Delegation.from_row((await self.store.rows("delegation", {"org_id": row.org_id, "id": row.id}))[0])

    async def line(self, row: Delegation) -> list[TimelineRow]:
        """Its time line."""
        wish = {"org_id": row.org_id, "delegation_id": row.id, "count": 10_000}
        return [TimelineRow(*each) for each in await self.store.rows("delegation_facts_of", wish)]

    async def told(self, org_id: str) -> list[tuple[str, str, str, dict[str, Any]]]:
        """The events of an organisation: name, sort and id of what it is about, what is said."""
        rows = await self.store.rows("events_after", {"org_id": org_id, "seq": 0, "count": 10_000})
        return [(each[1], each[4], each[5], msgspec.json.decode(each[8] or b"{}")) for each in rows]

    async def ends(self, row: Delegation) -> list[str]:
        """The events of the end of a delegation."""
        every = await self.told(row.org_id)
        names = ("DELEGATION_COMPLETE", "DELEGATION_FAILED")
        return [name for name, _, about, _ in every if about == row.id and name in names]

    async def results(self, row: Delegation) -> list[Any]:
        """The rows in the log of its source that bring its result."""
        rows = await self.world.reader.list_after(row.source_id, 0, ActivityFilters(), 1000)
        return [each for each in rows if each.kind == "delegation_result" and row.id in (each.request_body or "")]

    async def handle(self, row: Delegation) -> str:
        """What names its message in an answer."""
        found = await self.store.rows("inbox_message", {"workspace_id": row.target_id, "seq": row.message_seq})
        return InboundMessage(*found[0]).handle

    async def owed(self, row: Delegation) -> str:
        """How its message stands at who has it; empty if nothing is owed."""
        found = await self.store.rows("obligation", {"workspace_id": row.target_id, "seq": row.message_seq})
        return str(found[0][5]) if found else ""

    async def due(self, row: Delegation) -> list[int]:
        """When it is looked at."""
        return [at for _, key, at in await self._timers() if key == row.key]

    async def seen(self, row: Delegation) -> str:
        """All that is to be seen of a delegation, in words that are the same for all that went the same way."""
        now = await self.row(row)
        seats: list[Any] = []
        for workspace_id in (row.source_id, row.target_id):
            rows = await self.world.reader.list_after(workspace_id, 0, ActivityFilters(), 1000)
            inbox = await self.store.rows("inbox_state", {"workspace_id": workspace_id})
            held = [(await self._held(each)) for each in sorted(rows, key=lambda each: (each.summary, each.method))]
            seats.append((workspace_id, [tuple(each) for each in inbox], held))
        key = {"org_id": row.org_id, "source_id": row.source_id, "key": "k"}
        keys = [each[3] for each in await self.store.rows("delegation_by_key", key)]
        line = [tuple(each) for each in await self.line(row)]
        names, since = dict[str, str](), now.created_at
        stands = msgspec.structs.astuple(_unnumbered(now))
        plain = _plain((stands, line, await self.due(row), seats, keys), since, names)
        # Of events about different things, and of rows of one log, nobody can say which should come first.
        told = sorted(await self.told(row.org_id), key=lambda each: _plain(each[1:3], since, names))
        events = [
            (*about, sorted((name, each) for name, each in said.items() if name != "seq")) for *about, said in told
        ]
        return plain + _plain(events, since, names)

    async def _held(self, row: Any) -> tuple[Any, ...]:
        place = {"workspace_id": row.workspace_id, "seq": row.seq}
        said = row.activity_type, row.method, row.kind, row.intent, row.status, row.summary, row.error_detail, row.hop
        if row.inbound_no is None:
            return row.id, *said
        state = [(*each[4:-1],) for each in await self.store.rows("message_state", {"id": row.id})]
        owed = [(*each[2:21], *each[22:]) for each in await self.store.rows("obligation", place)]
        wish = {"workspace_id": row.workspace_id, "no": row.inbound_no, "widest": 1000, "most": 1000}
        ticks = sorted(repr(tuple(each)) for each in await self.store.rows("deliveries_of", wish))
        return row.id, *said, row.cause_id, state, owed, ticks


async def _awaited(work: Awaitable[Any], since: int) -> str:
    """An answer or a refusal, in words."""
    try:
        return _plain(_answer(await work), since, {})
    except MoleculeError as error:
        return type(error).__name__


def _answer(found: Any) -> Any:
    if isinstance(found, list):
        return [_answer(each) for each in found]
    if isinstance(found, Delegation):
        found = _unnumbered(found)
    if isinstance(found, msgspec.Struct):
        return [type(found).__name__, [_answer(getattr(found, name)) for name in found.__struct_fields__]]
    return found


def _unnumbered(row: Delegation) -> Delegation:
    """Which number each got of those that come at once is luck."""
    return replace(row, seq=0, message_seq=0, result_seq=0)


async def one_after_the_other(since: int, *works: Awaitable[Any]) -> list[Any]:
    """Each when the one before it has ended; times as what has passed since one."""
    return [await _awaited(work, since) for work in works]


def _hand_on(outer: "asyncio.Future[Any]", inner: "asyncio.Future[Any]") -> None:
    error = inner.exception()
    if error is not None:
        outer.set_exception(error)
    else:
        outer.set_result(inner.result())


def _plain(value: Any, since: int, names: dict[str, str]) -> str:
    """Times as what has passed since one, ids as the places where they come first."""

    def named(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"<{len(names):02}>")

    text = re.sub(r"\b\d{16}\b", lambda found: str(int(found[0]) - since), repr(value))
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>", text)
    return _HANDLE.sub("<handle>", _UUID.sub(named, text))


@contextmanager
def stage_on(engine: Engine, folder: Path, postgres: str, limits: Limits | None = None) -> Iterator[Stage]:
    """A stage until the block ends."""
    with world_on(engine, folder, postgres, limits or Limits()) as world:
        yield Stage(world, folder)
