"""Ids and secrets, generated from an injected clock and randomness."""

import os
import random
from typing import Protocol

from molecule_core.common.clock import Clock

_ID_RANDOM_BITS = 74
# Microseconds need 52 bits until the year 2112.
_NUMBER_RANDOM_BITS = 11
# Of the 128 bits of a UUID, six are its version and variant.
_UUID_RANDOM_BITS = 122
_RANDOM_MASK = (1 << _ID_RANDOM_BITS) - 1


class Randomness(Protocol):
    """Source of randomness."""

    def bits(self, count: int, /) -> int:
        """Return this many random bits; good for ids and jitter, not for secrets."""

    def secret(self, count: int) -> bytes:
        """Return this many bytes, fit for a credential."""


class SystemRandomness:
    """The machine's randomness: a seeded generator for ids (no system call each), the kernel for secrets."""

    def __init__(self) -> None:
        self.bits = random.Random(os.urandom(32)).getrandbits

    def secret(self, count: int) -> bytes:
        """Return this many bytes, fit for a credential."""
        return os.urandom(count)


class IdGenerator:
    """Generator of UUIDs (RFC 9562): time-ordered ones (version 7) and random ones (version 4).

    Each time-ordered one is greater than the one before, also within a millisecond."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._last = 0
        self._last_number = 0

    def new(self) -> str:
        """Create an id as lower-case text, `019c1f0e-....-7...-....-............`."""
        fresh = ((self._clock.now() // 1000) << _ID_RANDOM_BITS) | self._randomness.bits(_ID_RANDOM_BITS)
        self._last = fresh = fresh if fresh > self._last else self._last + 1
        # 48 bits of time and 74 of randomness, with version and variant between them, as RFC 9562 requires.
        ms, rand = fresh >> _ID_RANDOM_BITS, fresh & _RANDOM_MASK
        high, low = rand >> 62, rand & 0xFFFF_FFFF_FFFF
        return f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7{high:03x}-{0x8000 | rand >> 48 & 0x3FFF:04x}-{low:012x}"

    def new_random(self) -> str:
        """Create a random id, `........-....-4...-....-............`, any part of which differs from other ids."""
        fresh = self._randomness.bits(_UUID_RANDOM_BITS)
        high, mid, low = fresh >> 74, fresh >> 62 & 0xFFF, fresh & (1 << 62) - 1
        text = f"{high:012x}4{mid:03x}{1 << 63 | low:016x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def new_number(self) -> int:
        """Create a time-ordered number of 63 bits, greater than the one before.

        Numbers of two processes within the same microsecond differ only by their 11 random bits."""
        fresh = self._clock.now() << _NUMBER_RANDOM_BITS | self._randomness.bits(_NUMBER_RANDOM_BITS)
        self._last_number = fresh = fresh if fresh > self._last_number else self._last_number + 1
        return fresh


def id_timestamp(id_: str) -> int:
    """Return the creation time of an id in microseconds, with millisecond precision."""
    return int(id_[:8] + id_[9:13], 16) * 1000
