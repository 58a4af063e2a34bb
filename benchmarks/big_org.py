"""An organisation of 100,000 seats, written into a store with the package's own schema and statements.

200 departments of 500. In each but the last, everybody leads seven others, down to the fourth level; the last one
begins with a chain as deep as a tree may be. One seat of ten is held by an agent that has been heard and has a card.
"""

import asyncio
from collections.abc import Iterable, Sequence

import apsw
import msgspec
from msgspec import Struct

from benchmarks.big_store import open_store
from benchmarks.servers import Place
from molecule_core.common.limits import Limits
from molecule_core.org.model import Heartbeat, Org, Workspace, WorkspaceStatus
from molecule_core.store.queries import load_queries

SEATS, DEPARTMENT = 100_000, 500
_LED = 7
_HEARD_OF = 10
_FIRST_MICROSECOND = 1_790_000_000_000_000
_PULSE = Heartbeat(heard_at=_FIRST_MICROSECOND, active_tasks=1, uptime_seconds=3600, current_task="Reading the report")
_CARD = (
    '{"name":"%s","description":"Reads what comes in and answers it","version":"1.0.0",'
    '"skills":[{"id":"read","name":"Reading"}]}'
)
ORG_ID = "019bffff-0000-7000-8000-000000000000"


class BigOrg(Struct, frozen=True):
    """Whom to ask about."""

    ids: list[str]
    leads: list[str]
    """The heads of ordinary departments, each with 500 seats in all."""
    chain: list[str]
    """From a root down to the deepest level."""


def fill(place: Place) -> BigOrg:
    """Makes a store with the organisation."""
    depth = Limits().tree_depth
    seats = [seat(number, _parent(number, depth), heard=number % _HEARD_OF == 0) for number in range(SEATS)]
    store(place, seats, [(each.id, _PULSE) for each in seats[::_HEARD_OF]])
    last = SEATS - DEPARTMENT
    ids = [each.id for each in seats]
    return BigOrg(ids, ids[:last:DEPARTMENT], ids[last : last + depth])


def store(place: Place, seats: Sequence[Workspace], pulses: Iterable[tuple[str, Heartbeat]]) -> None:
    """Makes a store with one organisation of these seats."""
    asyncio.run(_make_empty(place))
    queries = load_queries("sqlite")
    insert, beat = queries["insert_workspace"], queries["save_heartbeat"]
    org = msgspec.structs.asdict(Org(ORG_ID, "Big", False, _FIRST_MICROSECOND))
    heard = [{"workspace_id": id_, **msgspec.structs.asdict(pulse), "saved": 0} for id_, pulse in pulses]
    connection = apsw.Connection(str(place.database))
    with connection:
        connection.execute(queries["insert_org"].sql, queries["insert_org"].bind(org))
        connection.executemany(insert.sql, (insert.bind(each) for each in seats))
        connection.executemany(beat.sql, (beat.bind(each) for each in heard))
    connection.close()


async def _make_empty(place: Place) -> None:
    empty = open_store(place.database)
    await empty.open()
    await empty.close()


def seat_id(number: int) -> str:
    """Ids grow with the time at which their seats were made, as the product's do."""
    return f"019c{number >> 16:04x}-{number & 0xFFFF:04x}-7000-8000-{number:012x}"


def _parent(number: int, depth: int) -> str | None:
    department, place = divmod(number, DEPARTMENT)
    if place == 0:
        return None
    if department == SEATS // DEPARTMENT - 1:
        return seat_id(number - 1 if place < depth else number - place)
    return seat_id(number - place + (place - 1) // _LED)


def seat(number: int, parent_id: str | None, *, heard: bool) -> Workspace:
    """One seat. If it has been heard, its agent is online and has a card."""
    at = _FIRST_MICROSECOND + number * 1000
    name = f"Seat {number:,}"
    return Workspace(
        id=seat_id(number),
        org_id=ORG_ID,
        parent_id=parent_id,
        name=name,
        role="reads what comes in and answers it",
        runtime="generic-mcp",
        delivery_mode="poll",
        url=None,
        agent_card=_CARD % name if heard else None,
        status=WorkspaceStatus.ONLINE if heard else WorkspaceStatus.AWAITING_AGENT,
        external=True,
        tier=1,
        max_concurrent_tasks=1,
        instruction_template_id=None,
        instruction_compact=False,
        broadcast_enabled=False,
        talk_to_user_enabled=True,
        collapsed=False,
        x=float(number % 1000),
        y=float(number // 1000),
        rev=1,
        created_at=at,
        updated_at=at,
        removed_at=None,
    )
