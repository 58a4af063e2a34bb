"""An organisation as the canvas shows it: so many agents, everybody leads six others, all online, some at work."""

import msgspec

from benchmarks.big_org import seat, seat_id, store
from benchmarks.servers import Place
from molecule_core.common.clock import SystemClock
from molecule_core.org.model import Heartbeat

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
