"""How often each caller may ask: token buckets in memory, refilled by the handed-in clock.

A bucket holds a minute's worth and is kept as one number: when it will be full again. That is exact, costs no timer,
and a bucket that is full need not be kept at all: what was not touched for a minute is forgotten.

Above: `api/http/application.py`. Below: the ground.
"""

import enum
import ipaddress
import math
from typing import Any, NamedTuple, NoReturn

from molecule_core.common.clock import Clock
from molecule_core.common.errors import RateLimited
from molecule_core.common.limits import Limits

_MINUTE = 60.0
# Buckets of one kind that are kept in a minute; if more callers come, the oldest begin anew.
_MAX_BUCKETS = 100_000
_EPSILON = 1e-6
_FULL_SECONDS = _MINUTE + _EPSILON
# The network that one customer of an IPv6 provider has: whoever has one address there has all of them.
_IPV6_NETWORK_BITS = 64


class RateClass(enum.Enum):
    """What a request takes from its sender's allowance."""

    REQUEST = "a request"
    SEND = "a request and, of a workspace, a message"
    LOGIN = "a try to log in"


SEND_RATE = RateClass.SEND


class RateStatus(NamedTuple):
    """A minute's allowance, what is left of it, and the seconds until all of it is back."""

    limit: int
    remaining: int
    reset: int


def address_key(peer: Any) -> str:
    """What requests from one place have in common: an IPv4 address, or the network of an IPv6 address."""
    host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{int(address) >> (128 - _IPV6_NETWORK_BITS):x}::"


class TokenBuckets:
    """A bucket for each key. Two generations: what was touched in this minute, and in the one before."""

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
        """Takes so much out of a bucket, at most all that it can hold. Raises RateLimited, and takes nothing then."""
        return self.status_at(self.consume_at(key, self._clock.monotonic(), count))

    def consume_at(self, key: str, now: float, count: int = 1) -> float:
        """The same; returns the seconds until the bucket is full again."""
        if now - self._rotated_at > _MINUTE or len(self._young) >= _MAX_BUCKETS:
            self._old, self._young, self._rotated_at = self._young, {}, now
        full_at = self._young.get(key) or self._old.get(key, now)
        backlog = full_at - now if full_at > now else 0.0
        new_backlog = backlog + self._cost * (count if count < self._limit else self._limit)
        if new_backlog > _FULL_SECONDS:
            self._raise_limited(backlog, new_backlog - _MINUTE)
        self._young[key] = now + new_backlog
        return new_backlog

    def current_status(self, key: str) -> RateStatus:
        """How a bucket stands."""
        now = self._clock.monotonic()
        return self.status_at(self._backlog_of(key, now))

    def check_available(self, key: str) -> None:
        """Raises RateLimited if a bucket is empty; takes nothing."""
        now = self._clock.monotonic()
        backlog = self._backlog_of(key, now)
        if backlog + self._cost > _FULL_SECONDS:
            self._raise_limited(backlog, backlog + self._cost - _MINUTE)

    def _raise_limited(self, backlog: float, retry_seconds: float) -> NoReturn:
        raise RateLimited(retry_after=max(1, math.ceil(retry_seconds)), standing=self.status_at(backlog))

    def _backlog_of(self, key: str, now: float) -> float:
        return max(0.0, (self._young.get(key) or self._old.get(key, now)) - now)

    def status_at(self, backlog: float) -> RateStatus:
        """What a bucket that will be full in so many seconds still holds."""
        return RateStatus(self._limit, int((_MINUTE - backlog) / self._cost + _EPSILON), -int(-backlog // 1))


class RateLimiter:
    """The buckets of a server process."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._requests = TokenBuckets(limits.requests_per_minute, clock)
        self._sends = TokenBuckets(limits.sends_per_minute, clock)
        self._org_sends = TokenBuckets(limits.org_sends_per_minute, clock)
        self._anonymous = TokenBuckets(limits.anonymous_per_minute, clock)
        self._logins = TokenBuckets(limits.logins_per_minute, clock)
        self._clock = clock
        self.charge_request = self._requests.consume
        self.charge_anonymous = self._anonymous.consume
        self.check_anonymous = self._anonymous.check_available
        self.anonymous_status = self._anonymous.current_status
        self.charge_login = self._logins.consume

    def charge_sends(self, workspace_id: str, org_id: str, count: int = 1) -> RateStatus:
        """Takes messages of a workspace: first from its own bucket, so that a flood empties no other. Raises
        RateLimited."""
        if count < 1:
            return self._sends.current_status(workspace_id)
        now = self._clock.monotonic()
        backlog = self._sends.consume_at(workspace_id, now, count)
        self._org_sends.consume_at(org_id, now, count)
        return self._sends.status_at(backlog)


class ClientAddress:
    """Where the requests of one connection come from, and how their sender stands after the last one."""

    __slots__ = ("_rate_limiter", "address", "rate_status")

    def __init__(self, peer: Any, rate_limiter: RateLimiter) -> None:
        self._rate_limiter = rate_limiter
        self.address = address_key(peer)
        self.rate_status: RateStatus | None = None

    def current_status(self) -> RateStatus:
        """How the address stands."""
        return self._rate_limiter.anonymous_status(self.address)
