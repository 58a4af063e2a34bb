"""Row 12: what a poll costs that finds nothing, which is what most polls find.

Measured is all that the store, readers and writers do for GET /activity?since_id=..., in the order of its handler: find
the place of the cursor, settle what lies before it, look behind it. Each workspace has written something since the
process started. Beside the poll stand its parts, an empty claim, the limit (one empty look-up through apsw, nothing
around it), and the same poll over HTTP against uvicorn doing nothing. Times are CPU, the least of the rounds: a busy
machine only ever adds.
"""

import random
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence

import apsw
import uvloop
from msgspec import Struct

from benchmarks.big_store import SMALL, WORKSPACES, filled, open_store, workspace_id
from benchmarks.drive import drive
from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.load import Plan, Seat
from benchmarks.machine import median
from benchmarks.row_11_inbox_read import INBOX, reader_on
from benchmarks.seats import first_messages, make_seats
from benchmarks.servers import Place, bare_uvicorn, molecule, new_place
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.common.limits import Limits
from molecule_core.messages.inbox.claims import InboxClaims
from molecule_core.messages.model import ActivityFilters, UserNotice
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import Org, Workspace, WorkspaceStatus
from molecule_core.org.reader import OrgReader
from molecule_core.org.registry import OrgRegistry
from molecule_core.store.database import Store
from molecule_core.store.wakeups import Notifier
from testing.budgets import no_budgets

_POLLS, _FEW = 20_000, 4_000
_LEASE, _PAGE = 60, 100
_HTTP_CONNECTIONS = 8
_INSTANT = 1_790_000_000_000_000

Poll = Callable[["Latest"], Awaitable[object]]


class Latest(Struct, frozen=True):
    """The newest row of a workspace: the cursor of an agent that has seen all."""

    workspace_id: str
    activity_id: str
    seq: int


class Side(Struct, frozen=True):
    """One way to poll: its name and CPU microseconds a poll in each round."""

    name: str
    each_us: list[float]


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    with new_place() as copy:
        shutil.copyfile(filled(SMALL, say).path, copy.database)
        whole, *parts = uvloop.run(_in_process(copy, options, say))
        limit = _limit(copy, options)
    beside = ", ".join(f"{side.name} {min(side.each_us):.1f}" for side in parts)
    figure = Figure(
        row=12,
        name="poll that finds nothing, no HTTP",
        value=min(whole.each_us),
        unit="us",
        must=20,
        goal=2,
        beside=f"limit (bare apsw look-up) {limit:.1f}; {beside}",
    )
    return [figure, _over_http(options, say)]


async def _in_process(place: Place, options: Options, say: Say) -> list[Side]:
    """All ways to poll, on the product's own store."""
    store = open_store(place.database)
    await store.open()
    try:
        reader = reader_on(store)
        writer, handing = _hands_on(store, reader)
        for number in range(WORKSPACES):
            await writer.notify_user(workspace_id(number), UserNotice([{"kind": "text", "text": "hello"}]))
        latest = await _latest(reader, handing)
        return await _sides(_polls(reader, handing), latest, options, say)
    finally:
        await store.close()


async def _sides(polls: dict[str, Poll], latest: list[Latest], options: Options, say: Say) -> list[Side]:
    """All ways in turns, over all rounds; a first round warms."""
    chance = random.Random(options.seed)
    wanted = [chance.choice(latest) for _ in range(_FEW if options.quick else _POLLS)]
    sides = [Side(name, []) for name in polls]
    for number in range(options.rounds + 1):
        for side, poll in zip(sides, polls.values(), strict=True):
            cost = await _repeat(poll, wanted)
            if number:
                side.each_us.append(cost)
        if number:
            say(f"  round {number}: {', '.join(f'{side.name} {side.each_us[-1]:.1f} us' for side in sides)}")
    return sides


async def _repeat(poll: Poll, wanted: Sequence[Latest]) -> float:
    start = time.process_time()
    for latest in wanted:
        if found := await poll(latest):
            raise Failed(f"a poll that should find nothing found {found}")
    return (time.process_time() - start) / len(wanted) * 1e6


def _polls(reader: MessageReader, handing: InboxClaims) -> dict[str, Poll]:
    """The whole poll, then its parts, then the other way to poll."""

    async def whole(latest: Latest) -> object:
        seq = await reader.find_seq(latest.workspace_id, latest.activity_id)
        return await handing.read_after_cursor(latest.workspace_id, seq or 0, INBOX, _PAGE)

    async def settle(latest: Latest) -> object:
        await handing.acks.ack_cursor(latest.workspace_id, latest.seq, INBOX)
        return None

    return {
        "the whole poll": whole,
        "place": lambda latest: _nothing(reader, latest),
        "settle": settle,
        "look": lambda latest: reader.list_after(latest.workspace_id, latest.seq, INBOX, _PAGE),
        "an empty claim instead": lambda latest: handing.claim(latest.workspace_id, lease_seconds=_LEASE, count=_PAGE),
    }


async def _nothing(reader: MessageReader, latest: Latest) -> None:
    await reader.find_seq(latest.workspace_id, latest.activity_id)


def _hands_on(store: Store, reader: MessageReader) -> tuple[MessageWriter, InboxClaims]:
    """The product's own, with the workspaces of the filled store in its registry."""
    clock, registry = SystemClock(), OrgRegistry()
    seats = [_seat(workspace_id(number)) for number in range(WORKSPACES)]
    registry.load([Org("org", "org", False, _INSTANT)], seats, [])
    org, limits = OrgReader(registry), Limits()
    writer = MessageWriter(store, org, clock=clock, ids=IdGenerator(clock, SystemRandomness()), limits=limits)
    return writer, InboxClaims(
        store,
        org,
        Notifier(clock),
        reader,
        ObligationLedger(clock, limits),
        no_budgets(limits),
        clock=clock,
        limits=limits,
    )


def _seat(id_: str) -> Workspace:
    return Workspace(
        id=id_,
        org_id="org",
        parent_id=None,
        name=id_,
        role=None,
        runtime="generic-mcp",
        delivery_mode="poll",
        url=None,
        agent_card=None,
        status=WorkspaceStatus.ONLINE,
        external=False,
        tier=1,
        max_concurrent_tasks=1,
        instruction_template_id=None,
        instruction_compact=False,
        broadcast_enabled=False,
        talk_to_user_enabled=True,
        collapsed=False,
        x=0.0,
        y=0.0,
        rev=1,
        created_at=_INSTANT,
        updated_at=_INSTANT,
        removed_at=None,
    )


async def _latest(reader: MessageReader, handing: InboxClaims) -> list[Latest]:
    """The newest row of every workspace; their inboxes are settled up to there, so that a poll has nothing to do."""
    found = []
    for number in range(WORKSPACES):
        id_ = workspace_id(number)
        row = (await reader.list_newest(id_, ActivityFilters(), 1))[0]
        await handing.acks.ack_up_to(id_, row.seq, None)
        found.append(Latest(id_, row.id, row.seq))
    return found


def _limit(place: Place, options: Options) -> float:
    """One look-up by an index that finds nothing, with nothing around it: what SQLite and apsw cost by themselves."""
    connection = apsw.Connection(str(place.database), flags=apsw.SQLITE_OPEN_READONLY)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # without it, statements with a limit are prepared anew
    sql = "SELECT seq FROM activities WHERE workspace_id = ? AND seq > ? ORDER BY seq LIMIT 1"
    count = _FEW if options.quick else _POLLS
    ids = [workspace_id(number % WORKSPACES) for number in range(count)]
    costs = []
    for _ in range(options.rounds):
        start = time.process_time()
        for id_ in ids:
            connection.execute(sql, (id_, 1 << 40)).fetchall()
        costs.append((time.process_time() - start) / count * 1e6)
    connection.close()
    return min(costs)


def _over_http(options: Options, say: Say) -> Figure:
    """The same poll over HTTP, for information."""
    count = _FEW if options.quick else _POLLS
    with new_place() as place, molecule(place) as ours, new_place() as other, bare_uvicorn(other) as noop:
        seats = make_seats(ours, place, "Poller", _HTTP_CONNECTIONS)
        polls = [_request(seat, cursor) for seat, cursor in zip(seats, first_messages(ours, seats), strict=True)]
        rounds = []
        for number in range(options.rounds + 1):
            bare = drive(noop, Plan(port=noop.port, count=count, requests=polls)).each_us
            cost = drive(ours, Plan(port=ours.port, count=count, requests=polls)).each_us
            if number:
                say(f"  round {number} over HTTP, {_HTTP_CONNECTIONS} connections: U {bare:.1f} us, ours {cost:.1f} us")
                rounds.append((bare, cost))
    return Figure(
        row=12,
        name="the same poll over HTTP",
        value=median([cost for _, cost in rounds]),
        unit="us",
        beside=f"U {median([bare for bare, _ in rounds]):.1f} us; {_HTTP_CONNECTIONS} connections",
    )


def _request(seat: Seat, cursor: str) -> str:
    path = f"/workspaces/{seat.id}/activity?type=a2a_receive&since_id={cursor}"
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {seat.token}\r\n\r\n"
