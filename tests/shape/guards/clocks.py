"""Time and chance are handed in: only the ground asks the machine for them.

Above: test_clocks. Below: names, trees.
"""

from tests.shape.guards.names import Names, is_use_of
from tests.shape.guards.trees import Tree, read

_CLOCKS = "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns sleep"
TIMED_OR_RANDOM = (
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


def find_clocks_and_dice(tree: Tree, forbidden: tuple[str, ...] = TIMED_OR_RANDOM) -> list[str]:
    """Uses of the machine's clocks and randomness outside the ground, called or only named."""
    return [
        f"{module.shown}:{line} {module.name} uses {dotted}: take what is handed in"
        for module in read(tree)
        if module.head != "ground"
        for line, dotted in Names(module.code).uses
        if any(is_use_of(dotted, name) for name in forbidden)
    ]
