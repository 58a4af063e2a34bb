"""Decides whether a canary does worse than the active version.

Every message with instructions has an outcome in the end: good (answered through the platform, or declined) or missed.
Two versions that share the traffic are compared by Fisher's exact test. The test is repeated while outcomes arrive, so
each repetition may use only a part of the allowed false-alarm rate."""

import math
from fractions import Fraction

from msgspec import Struct

FALSE_ALARM_RATE = Fraction(1, 100)
"""Upper bound for the share of equally good canaries that are ever rolled back."""
METRIC_RUNTIMES = (
    *("claude-code", "codex", "gemini-cli", "opencode", "cline", "cursor"),
    *("langchain", "langgraph", "generic-mcp", "a2a"),
)
"""Runtimes named in metrics. Any other is counted as "other", since runtime names can be chosen freely."""
MAX_CANARY_OUTCOMES = 1000
"""Number of outcomes after which a canary is no longer tested and a person decides.

It also bounds the cost of a test."""
MAX_BASE_OUTCOMES = 2 * MAX_CANARY_OUTCOMES
"""Number of the active version's newest outcomes since the canary began that it is compared with: 8 ms on SQLite."""


class OutcomeCount(Struct, frozen=True):
    """Number of good and missed outcomes of one version."""

    good: int = 0
    missed: int = 0

    @property
    def outcomes(self) -> int:
        """Return the number of known outcomes."""
        return self.good + self.missed

    @property
    def rate(self) -> float | None:
        """Return the share of good outcomes, or None if there are none."""
        return self.good / self.outcomes if self.outcomes else None


def p_value(old: OutcomeCount, new: OutcomeCount) -> Fraction:
    """Return the one-sided p-value of Fisher's exact test.

    This is the probability that the new version misses as many or more of all missed messages if it is as good as the
    old one."""
    total, missed = old.outcomes + new.outcomes, old.missed + new.missed
    most = min(missed, new.outcomes)
    # The number of ways to draw the new version's messages with so many missed ones; each is computed from the one
    # before, so that 1,000 take 1 ms.
    ways = math.comb(missed, new.missed) * math.comb(total - missed, new.good)
    as_bad = ways
    for found in range(new.missed, most):
        left = new.outcomes - found
        ways = ways * (missed - found) * left // ((found + 1) * (total - missed - left + 1))
        as_bad += ways
    return Fraction(as_bad, math.comb(total, new.outcomes))


def alarm_threshold(outcomes: int, min_outcomes: int) -> Fraction | None:
    """Return the p-value up to which a canary counts as worse, or None if this number of outcomes decides nothing.

    The test at n outcomes has a false-alarm rate of at most FALSE_ALARM_RATE * min_outcomes / (n * (n + 1)). Over all n
    from `min_outcomes` on this adds up to FALSE_ALARM_RATE."""
    return (
        FALSE_ALARM_RATE * min_outcomes / (outcomes * (outcomes + 1))
        if min_outcomes <= outcomes <= MAX_CANARY_OUTCOMES
        else None
    )


def is_significantly_worse(old: OutcomeCount, new: OutcomeCount, *, min_outcomes: int) -> bool:
    """Return whether a canary must be rolled back. Call it at each outcome; it is never true before `min_outcomes`."""
    threshold = alarm_threshold(new.outcomes, min_outcomes)
    if threshold is None or new.missed * old.outcomes <= old.missed * new.outcomes:
        return False
    return p_value(old, new) <= threshold
