"""Token buckets in memory, and the key of a client address.

A bucket holds one minute's tokens and is stored as the time at which it is full again. That is exact and needs no
timer, and full buckets need no storage: buckets untouched for a minute are dropped.
"""

import ipaddress
import math
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from molecule_core.common.clock import Clock
from molecule_core.common.errors import RateLimited

_MINUTE = 60.0
# Bound of one kind of bucket per minute; with more keys, the oldest buckets start full again.
_MAX_BUCKETS = 100_000
_EPSILON = 1e-6
_FULL_SECONDS = _MINUTE + _EPSILON
# Network of one customer of an IPv6 provider; the customer controls all of its addresses.
_IPV6_NETWORK_BITS = 64


class RateStatus(NamedTuple):
    """Tokens per minute, tokens left, and seconds until the bucket is full."""

    limit: int
    remaining: int
    reset: int


def address_key(peer: Any) -> str:
    """Return the rate limit key of a peer: its IPv4 address, or the network of its IPv6 address."""
    host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{int(address) >> (128 - _IPV6_NETWORK_BITS):x}::"


class TokenBuckets:
    """Token buckets by key, in two generations: touched in this minute, and in the one before."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._limit = per_minute
        self._cost = _MINUTE / per_minute
        self._clock = clock
        self._young: dict[str, float] = {}
        self._old: dict[str, float] = {}
        self._rotated_at = clock.monotonic()

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def consume(self, key: str, count: int = 1) -> RateStatus:
        """Take tokens, at most a full bucket. Raises RateLimited, and then takes none."""
        now = self._clock.monotonic()
        if now - self._rotated_at > _MINUTE or len(self._young) >= _MAX_BUCKETS:
            self._old, self._young, self._rotated_at = self._young, {}, now
        full_at = self._young.get(key) or self._old.get(key, now)
        backlog = full_at - now if full_at > now else 0.0
        new_backlog = backlog + self._cost * (count if count < self._limit else self._limit)
        if new_backlog > _FULL_SECONDS:
            self._raise_limited(backlog, new_backlog - _MINUTE)
        self._young[key] = now + new_backlog
        return self._status_at(new_backlog)

    def current_status(self, key: str) -> RateStatus:
        """Return the status of a bucket."""
        now = self._clock.monotonic()
        return self._status_at(self._backlog_of(key, now))

    def check_available(self, key: str) -> None:
        """Raise RateLimited if a bucket is empty; take nothing."""
        now = self._clock.monotonic()
        backlog = self._backlog_of(key, now)
        if backlog + self._cost > _FULL_SECONDS:
            self._raise_limited(backlog, backlog + self._cost - _MINUTE)

    def _raise_limited(self, backlog: float, retry_seconds: float) -> NoReturn:
        raise RateLimited(retry_after=max(1, math.ceil(retry_seconds)), rate_status=self._status_at(backlog))

    def _backlog_of(self, key: str, now: float) -> float:
        return max(0.0, (self._young.get(key) or self._old.get(key, now)) - now)

    def _status_at(self, backlog: float) -> RateStatus:
        """Return the status of a bucket that is full in `backlog` seconds."""
        return RateStatus(self._limit, int((_MINUTE - backlog) / self._cost + _EPSILON), -int(-backlog // 1))


class ClientAddress:
    """Address of a connection's peer, the rate limit key of its last request, and the status after it.

    `address`: the key of the peer, or of the client that a trusted proxy named for the last request."""

    __slots__ = ("_status_of", "address", "peer", "peer_key", "rate_status")

    def __init__(self, peer: Any, status_of: Callable[[str], RateStatus]) -> None:
        """Create the key of a peer. `status_of` returns the current status of a key."""
        self._status_of = status_of
        self.peer = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        self.address = self.peer_key = address_key(peer)
        self.rate_status: RateStatus | None = None

    def current_status(self) -> RateStatus:
        """Return the status of the address."""
        return self._status_of(self.address)
