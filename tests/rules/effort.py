"""How long the random tests run: `MOLECULE_TEST_STEPS` (300 if not set) scales all of them up for a long run."""

import os

from hypothesis import HealthCheck, settings

USUAL_STEPS = 300
STEPS = int(os.environ.get("MOLECULE_TEST_STEPS", str(USUAL_STEPS)))


def examples(usual: int) -> settings:
    """So many examples in a usual run, in proportion more in a long one. No deadline: tests assert no wall time."""
    return settings(
        max_examples=max(1, usual * STEPS // USUAL_STEPS),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
