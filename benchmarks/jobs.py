"""What row 5 asks of a job queue, and what it is told: read by both environments, ours and that of the peers."""

from msgspec import Struct

HUEY, PGQUEUER, PROCRASTINATE = "huey", "pgqueuer", "procrastinate"


class JobPlan(Struct, frozen=True, kw_only=True):
    """What to do: `count` jobs from so many callers. `place`: a file, or a database's address."""

    kind: str
    place: str
    count: int
    callers: int
    text: str
    drains: bool


class JobOutcome(Struct, frozen=True, kw_only=True):
    """What happened: jobs that were put, and different ones that were done."""

    replies: int
    distinct: int
    seconds: float
    client_cpu: float

    @property
    def each_us(self) -> float:
        """CPU microseconds of a job, from putting it to its end."""
        return self.client_cpu / self.replies * 1e6
