"""How often each caller may ask: token buckets in memory, refilled by the handed-in clock.

A bucket holds a minute's worth and is kept as one number: when it will be full again. That is exact, costs no timer,
and a bucket that is full need not be kept at all: what was not touched for a minute is forgotten.

Above: `edges/app.py`. Below: the ground.
"""

import enum
import ipaddress
import math
from typing import Any, NamedTuple, NoReturn

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import RateLimited
from molecule_core.ground.limits import Limits

_MINUTE = 60.0
# Buckets of one kind that are kept in a minute; if more callers come, the oldest begin anew.
_MOST_BUCKETS = 100_000
_EPSILON = 1e-6
_FULL = _MINUTE + _EPSILON
# The network that one customer of an IPv6 provider has: whoever has one address there has all of them.
_IPV6_NETWORK_BITS = 64


class Counts(enum.Enum):
    """What a request takes from its sender's allowance."""

    REQUEST = "a request"
    SEND = "a request and, of a workspace, a message"
    LOGIN = "a try to log in"


SENDING = Counts.SEND


class Standing(NamedTuple):
    """A minute's allowance, what is left of it, and the seconds until all of it is back."""

    limit: int
    remaining: int
    reset: int


def address_of(peer: Any) -> str:
    """What requests from one place have in common: an IPv4 address, or the network of an IPv6 address."""
    host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{int(address) >> (128 - _IPV6_NETWORK_BITS):x}::"


class Buckets:
    """A bucket for each key. Two generations: what was touched in this minute, and in the one before."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._limit = per_minute
        self._cost = _MINUTE / per_minute
        self._clock = clock
        self._young: dict[str, float] = {}
        self._old: dict[str, float] = {}
        self._turned = clock.monotonic()

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def take(self, key: str, count: int = 1) -> Standing:
        """Takes so much out of a bucket, at most all that it can hold. Raises RateLimited, and takes nothing then."""
        return self.standing(self.spend(key, self._clock.monotonic(), count))

    def spend(self, key: str, now: float, count: int = 1) -> float:
        """The same; returns the seconds until the bucket is full again."""
        if now - self._turned > _MINUTE or len(self._young) >= _MOST_BUCKETS:
            self._old, self._young, self._turned = self._young, {}, now
        full_at = self._young.get(key) or self._old.get(key, now)
        behind = full_at - now if full_at > now else 0.0
        then = behind + self._cost * (count if count < self._limit else self._limit)
        if then > _FULL:
            self._refuse(behind, then - _MINUTE)
        self._young[key] = now + then
        return then

    def look(self, key: str) -> Standing:
        """How a bucket stands."""
        now = self._clock.monotonic()
        return self.standing(self._behind(key, now))

    def check(self, key: str) -> None:
        """Raises RateLimited if a bucket is empty; takes nothing."""
        now = self._clock.monotonic()
        behind = self._behind(key, now)
        if behind + self._cost > _FULL:
            self._refuse(behind, behind + self._cost - _MINUTE)

    def _refuse(self, behind: float, missing: float) -> NoReturn:
        raise RateLimited(retry_after=max(1, math.ceil(missing)), standing=self.standing(behind))

    def _behind(self, key: str, now: float) -> float:
        return max(0.0, (self._young.get(key) or self._old.get(key, now)) - now)

    def standing(self, behind: float) -> Standing:
        """What a bucket that will be full in so many seconds still holds."""
        return Standing(self._limit, int((_MINUTE - behind) / self._cost + _EPSILON), -int(-behind // 1))


class Rates:
    """The buckets of a server process."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._requests = Buckets(limits.requests_per_minute, clock)
        self._sends = Buckets(limits.sends_per_minute, clock)
        self._org_sends = Buckets(limits.org_sends_per_minute, clock)
        self._strangers = Buckets(limits.anonymous_per_minute, clock)
        self._logins = Buckets(limits.logins_per_minute, clock)
        self._clock = clock
        self.request = self._requests.take
        self.stranger = self._strangers.take
        self.check_stranger = self._strangers.check
        self.look = self._strangers.look
        self.login = self._logins.take

    def sends(self, workspace_id: str, org_id: str, count: int = 1) -> Standing:
        """Takes messages of a workspace: first from its own bucket, so that a flood empties no other. Raises
        RateLimited."""
        if count < 1:
            return self._sends.look(workspace_id)
        now = self._clock.monotonic()
        behind = self._sends.spend(workspace_id, now, count)
        self._org_sends.spend(org_id, now, count)
        return self._sends.standing(behind)


class Visitor:
    """Where the requests of one connection come from, and how their sender stands after the last one."""

    __slots__ = ("_rates", "address", "standing")

    def __init__(self, peer: Any, rates: Rates) -> None:
        self._rates = rates
        self.address = address_of(peer)
        self.standing: Standing | None = None

    def look(self) -> Standing:
        """How the address stands."""
        return self._rates.look(self.address)
