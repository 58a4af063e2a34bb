"""An organisation as the canvas shows it: so many agents, everybody leads six others, all online, some at work."""

import apsw
import msgspec

from benchmarks.big_org import ORG_ID, seat, seat_id, store
from benchmarks.servers import Place
from molecule_core.common.clock import SystemClock
from molecule_core.delegations.model import Delegation, DelegationPhase
from molecule_core.org.model import Heartbeat
from molecule_core.store.queries import load_queries
from molecule_core.wire.schemas.delegations import DelegationStatus

_LED = 6
_BUSY_OF = 3
# Nobody falls silent while the measurement lasts: the last heartbeats are of the hour that has just begun.
_AHEAD_MICROSECONDS = 3600 * 1_000_000


def fill_company(place: Place, count: int) -> None:
    """Makes a store with an organisation of so many agents."""
    seats = [
        seat(number, None if number == 0 else seat_id((number - 1) // _LED), heard=True) for number in range(count)
    ]
    heard_at = SystemClock().now() + _AHEAD_MICROSECONDS
    idle = Heartbeat(heard_at=heard_at, uptime_seconds=3600)
    busy = msgspec.structs.replace(idle, active_tasks=1, current_task="Reading the report")
    store(place, seats, [(each.id, idle if at % _BUSY_OF else busy) for at, each in enumerate(seats)])


def run_delegations(place: Place, agents: int, count: int) -> None:
    """Add delegations that run to a store of `fill_company`: of leads to their reports, spread over the organisation.

    The map draws those with news within the last minute; these stay recent while the measurement lasts."""
    insert, at = load_queries("sqlite")["insert_delegation"], SystemClock().now() + _AHEAD_MICROSECONDS
    connection = apsw.Connection(str(place.database))
    with connection:
        for number in range(count):
            target = 1 + number * (agents - 1) // count
            id_ = f"019d0000-0000-7000-8000-{number:012x}"
            row = Delegation(
                org_id=ORG_ID,
                id=id_,
                source_id=seat_id((target - 1) // _LED),
                target_id=seat_id(target),
                status=DelegationStatus.QUEUED,
                phase=DelegationPhase.WORKING,
                task=f"Read report {number}",
                task_hash=id_,
                seq=number + 1,
                activity_id=id_,
                root_id=id_,
                begun_by="agent",
                attempt=1,
                created_at=at,
                updated_at=at,
                taken_at=at,
                life_at=at,
                deadline_at=at + 24 * _AHEAD_MICROSECONDS,
            )
            connection.execute(insert.sql, insert.bind(msgspec.structs.asdict(row)))
    connection.close()
