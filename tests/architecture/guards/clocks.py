"""Time and randomness are passed in: only `common` asks the machine for them."""

from tests.architecture.guards.names import Names, is_use_of
from tests.architecture.guards.trees import Tree, read

_CLOCKS = "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns sleep"
CLOCKS_AND_RANDOMNESS = (
    *(f"time.{name}" for name in _CLOCKS.split()),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    "datetime.date.today",
    *(f"uuid.uuid{version}" for version in (1, 4, 6, 7, 8)),
    "random",
    "secrets",
    "os.urandom",
    "os.getrandom",
    "asyncio.sleep",
)


def find_clock_uses(tree: Tree, forbidden: tuple[str, ...] = CLOCKS_AND_RANDOMNESS) -> list[str]:
    """Find uses of the machine's clock and randomness outside common, called or only named."""
    return [
        f"{module.shown}:{line} {module.name} uses {dotted}: use what is passed in"
        for module in read(tree)
        if module.head != "common"
        for line, dotted in Names(module.code).uses
        if any(is_use_of(dotted, name) for name in forbidden)
    ]
