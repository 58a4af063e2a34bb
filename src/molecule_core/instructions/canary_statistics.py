"""Whether a new version of a template does worse than the one in force: decided by counting, without a guess.

Every message that was told how to answer has an outcome some day: it was answered through the platform or declined
(good), or it was not (missed). Two versions that share the traffic are compared by Fisher's exact test. Because it is
asked again and again while outcomes come in, each question may claim only its part of the false alarms.

Above: `messages`, which counts. Below: nothing.
"""

import math
from fractions import Fraction

from msgspec import Struct

FALSE_ALARM_RATE = Fraction(1, 100)
"""Of all canaries that are as good as the version before, so many at most are ever rolled back."""
METRIC_RUNTIMES = (
    *("claude-code", "codex", "gemini-cli", "opencode", "cline", "cursor"),
    *("langchain", "langgraph", "generic-mcp", "a2a"),
)
"""Runtimes that figures name; any other one is "other" there, because people call theirs as they like."""
MAX_CANARY_OUTCOMES = 1000
"""Outcomes of a canary, from its first: one that held so long is no trial any more, and a person decides. It bounds
what a look reads and reckons too."""
MAX_BASE_OUTCOMES = 2 * MAX_CANARY_OUTCOMES
"""Newest outcomes of the version in force, since the trial began, that it is compared with: 8 ms on SQLite."""


class OutcomeCount(Struct, frozen=True):
    """What became of the messages that one version was told with, as far as it is known."""

    good: int = 0
    missed: int = 0

    @property
    def outcomes(self) -> int:
        """How many it is known of."""
        return self.good + self.missed

    @property
    def rate(self) -> float | None:
        """The part that was good; None if nothing is known."""
        return self.good / self.outcomes if self.outcomes else None


def p_value(old: OutcomeCount, new: OutcomeCount) -> Fraction:
    """How likely the new version would miss so many or more, of all that both missed, if it were as good as the old
    one: Fisher's exact test, one-sided."""
    total, missed = old.outcomes + new.outcomes, old.missed + new.missed
    most = min(missed, new.outcomes)
    # How many ways there are to draw the new version's messages with so many missed ones among them; the next from the
    # one before, so that a thousand take a millisecond.
    ways = math.comb(missed, new.missed) * math.comb(total - missed, new.good)
    as_bad = ways
    for found in range(new.missed, most):
        left = new.outcomes - found
        ways = ways * (missed - found) * left // ((found + 1) * (total - missed - left + 1))
        as_bad += ways
    return Fraction(as_bad, math.comb(total, new.outcomes))


def alarm_threshold(outcomes: int, min_outcomes: int) -> Fraction | None:
    """The chance at which, or below which, a canary with so many outcomes is called worse; None: nothing is said then.

    The answer at n outcomes may be wrong with a chance of FALSE_ALARMS * least / (n * (n + 1)); over all n from
    `least` on, that adds up to FALSE_ALARMS."""
    return (
        FALSE_ALARM_RATE * min_outcomes / (outcomes * (outcomes + 1))
        if min_outcomes <= outcomes <= MAX_CANARY_OUTCOMES
        else None
    )


def is_significantly_worse(old: OutcomeCount, new: OutcomeCount, *, min_outcomes: int) -> bool:
    """Whether a canary is to be rolled back. Asked at each of its outcomes; never before `least` of them."""
    threshold = alarm_threshold(new.outcomes, min_outcomes)
    if threshold is None or new.missed * old.outcomes <= old.missed * new.outcomes:
        return False
    return p_value(old, new) <= threshold
