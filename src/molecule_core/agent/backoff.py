"""Computes retry delays. Pure; the randomness is passed in."""

from molecule_core.common.ids import Randomness

_BITS = 16


class BackOff:
    """Exponential back-off from `first_seconds` to `max_seconds`.

    Each delay is drawn from the upper half of its range, so that many clients do not retry at once.
    """

    def __init__(self, first_seconds: float, max_seconds: float, randomness: Randomness) -> None:
        self._first_seconds = first_seconds
        self._max_seconds = max_seconds
        self._randomness = randomness
        self._tries = 0

    def next_delay(self) -> float:
        """Return the next delay in seconds."""
        full_delay = min(self._max_seconds, self._first_seconds * 2.0 ** min(self._tries, 64))
        self._tries += 1
        return full_delay * (0.5 + 0.5 * self._randomness.bits(_BITS) / (1 << _BITS))

    def reset(self) -> None:
        """Restart from the first delay after a success."""
        self._tries = 0
