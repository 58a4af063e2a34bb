"""A vendor's limit with real Claude Code: as Anthropic's API states it to subscribers, and to owners of a key."""

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from testing.running_server import Running, Seat, running
from tests.interop.bridged import answers, bridging_claude, home_in, model, question, seen
from tests.interop.model_endpoint import Refusal
from tests.requirements import requirement

pytestmark = pytest.mark.long
# Longer than a start of Claude Code on a shared machine, shorter than the waits of this test.
LIMIT_SECONDS = 25
MESSAGE = "This request would exceed your account's rate limit. Please try again later."
BODY = {"type": "error", "error": {"type": "rate_limit_error", "message": MESSAGE}, "request_id": "req_011CT"}


class Quota:
    """A quota that is used up from the first request on, for LIMIT_SECONDS. `headers`: how the vendor states it."""

    def __init__(self, headers: Callable[[int], dict[str, str]]) -> None:
        self._headers = headers
        self.ends_at = 0

    def refuse(self) -> Refusal | None:
        """Return the refusal until the quota begins anew."""
        now = time.time()
        self.ends_at = self.ends_at or int(now) + LIMIT_SECONDS
        return Refusal(429, self._headers(self.ends_at), BODY) if now < self.ends_at else None


def of_a_subscription(ends_at: int) -> dict[str, str]:
    """The 5-hour window of a subscription is used up: it is stated when it begins anew."""
    return {
        "retry-after": str(max(1, ends_at - int(time.time()))),
        "x-should-retry": "true",
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(ends_at),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-ratelimit-unified-overage-status": "rejected",
    }


def of_a_key(ends_at: int) -> dict[str, str]:
    """The requests per minute of an organisation are used up: only a delay is stated."""
    return {
        "retry-after": str(max(1, ends_at - int(time.time()))),
        "x-should-retry": "true",
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
    }


class Vendor(NamedTuple):
    """What a person has of the vendor: how the limit is stated, and the variables of Claude Code."""

    headers: Callable[[int], dict[str, str]]
    variables: dict[str, str]


SUBSCRIPTION = Vendor(
    of_a_subscription, {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-" + "0" * 40}
)
VENDORS = {"subscription": SUBSCRIPTION, "key": Vendor(of_a_key, {})}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """A server with instructions, as it is by default."""
    state = tmp_path / "server"
    state.mkdir()
    async with running("sqlite", str(state / "molecule.db"), state, push_instructions_enabled=True) as server:
        yield server


@requirement("G17", "P1")
@pytest.mark.parametrize("name", VENDORS)
async def test_a_limit_of_the_vendor_loses_nothing_tries_nothing_and_ends_by_itself(
    server: Running, tmp_path: Path, name: str, record_property: Callable[[str, object], None]
) -> None:
    seat, person, home = await server.seat(), await server.person("owner"), home_in(tmp_path)
    peer, vendor = await server.seat("Peer"), VENDORS[name]
    quota = Quota(vendor.headers)
    async with model(home) as endpoint:
        endpoint.refuse = quota.refuse
        async with bridging_claude(server.url, seat, home, endpoint, **vendor.variables) as bridge:
            await person.send(seat.id, question("p0"))
            until = await seen(lambda: limited_until(person, seat), bool)
            tried = endpoint.refused
            waiting = (await peer.api.send(seat.id, question("q0")))["activity_id"]
            await person.send(seat.id, question("p1"))
            ticks = await person.get(f"/workspaces/{seat.id}/messages/{waiting}/ticks")
            assert ticks["stuck"] == {"reason": f"limited until {until}"}
            said = await seen(lambda: answers(server, seat), lambda said: len(said) == 2)
            seconds = time.time() - quota.ends_at
            await seen(lambda: limited_until(person, seat), lambda found: found is None)
            (row,) = await seen(lambda: peer.api.claim(peer.id, wait=5), bool)
            assert (await person.get(f"/workspaces/{seat.id}/dead-letters"))["dead_letters"] == []
    assert (tried, endpoint.refused) == (1, 1), bridge.said
    assert said == ["answer p0; known: 1", "answer p1; known: 2"]
    assert "answer q0" in str(row)
    record_property(
        "figures", f"answered {seconds:.1f} s after the end of the limit, {endpoint.refused} request refused"
    )


async def limited_until(person: Any, seat: Seat) -> Any:
    """Until when the workspace is limited."""
    return (await person.get(f"/workspaces/{seat.id}"))["limited_until"]
