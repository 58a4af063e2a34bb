"""How long the random tests run: `MOLECULE_TEST_STEPS` scales all of them. If it is not set, it is 300 with
`--exhaustive` and 150 in other runs (tests/conftest.py)."""

import os

from hypothesis import HealthCheck, settings

USUAL_STEPS = 300
STEPS = int(os.environ.get("MOLECULE_TEST_STEPS", str(USUAL_STEPS)))


def examples(usual: int) -> settings:
    """So many examples in an exhaustive run, in proportion fewer in others. No deadline: tests assert no wall time."""
    return settings(
        max_examples=max(1, usual * STEPS // USUAL_STEPS),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
