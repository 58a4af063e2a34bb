"""How long to wait before trying again. Pure, but for the dice that are handed in.

Above: membership, channel. Below: ground.
"""

from molecule_core.common.ids import Randomness

_BITS = 16


class BackOff:
    """Doubles from `first` to `most` seconds; each wait is drawn from the upper half, so that many do not come at
    once."""

    def __init__(self, first_seconds: float, max_seconds: float, randomness: Randomness) -> None:
        self._first_seconds = first_seconds
        self._max_seconds = max_seconds
        self._randomness = randomness
        self._tries = 0

    def next_delay(self) -> float:
        """The next wait, in seconds."""
        full_delay = min(self._max_seconds, self._first_seconds * 2.0 ** min(self._tries, 64))
        self._tries += 1
        return full_delay * (0.5 + 0.5 * self._randomness.bits(_BITS) / (1 << _BITS))

    def reset(self) -> None:
        """It worked: begin anew."""
        self._tries = 0
