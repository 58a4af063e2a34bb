"""What a relay makes of refusals while it waits for a decision, and when it uses it up. Its server is a stand-in, and
time stands still."""

import asyncio
from typing import Any

import pytest

from molecule_core.agent.client.retry import to_tool_error, unreachable_error
from molecule_core.agent.host.host_approvals import HostApprovals
from molecule_core.agent.host.permission_relay import PendingPermissions, PermissionRelay
from molecule_core.agent.host.tool_scopes import ToolScopes
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.tools.runners.message_tools import IDEMPOTENCY_HEADER
from molecule_core.tools.spec import ToolError
from testing.clocks import FakeClock, SeededRandomness, settle
from tests.requirements import requirement

ASKED = {"request_id": "abcde", "tool_name": "Bash", "description": "clean up", "input_preview": "rm -r build"}


def refused(status: int, code: str = "") -> ToolError:
    """A refusal of the server, or of somebody before it."""
    return to_tool_error(ApiError(status, {"error": "no", "code": code}), is_token_renewable=True)


LATER = [
    refused(401, "invalid_credential"),
    refused(302),
    refused(200),
    refused(502),
    unreachable_error(NoAnswerError("gone")),
]
USED = refused(409, "approval_used")


class Platform:
    """An approval that is given at once, and what stands in the way of hearing it, and of using it up."""

    def __init__(self, *, waits: tuple[ToolError, ...] = (), uses: tuple[ToolError, ...] = ()) -> None:
        self.waits, self.uses = list(waits), list(uses)
        self.denial = ""
        """Why the tool is outside what the delegations of the workspace may do."""
        self.told: list[str] = []
        self.keys: list[str] = []
        """Under which each use was said."""

    async def call(self, method: str, path: str, **more: Any) -> Any:
        """One request."""
        if path.endswith("/scope"):
            return {"allowed": not self.denial, "reason": self.denial}
        if path.endswith("/use"):
            self.keys.append(more["headers"][IDEMPOTENCY_HEADER])
            if self.uses:
                raise self.uses.pop(0)
            return {}
        if method == "GET" and self.waits:
            raise self.waits.pop(0)
        item: dict[str, Any] = {"approval_id": "a1", "workspace_id": "w1", "details": {}, "edited": None}
        item |= {"action": "permission:Bash"}
        item |= {"status": "pending" if method == "POST" else "approved", "revision": 1, "action_hash": "h"}
        item |= {"holder": {"kind": "person", "workspace_id": None, "name": "Ann"}, "decided": None}
        return {**item, "expires_at": "", "seq": 1}

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """The host is told."""
        self.told.append(params["behavior"])


async def relayed(platform: Platform, clock: FakeClock) -> list[str]:
    """What the host is told in the next minutes."""
    permissions = PendingPermissions()
    approvals = HostApprovals("w1", platform, clock=clock, randomness=SeededRandomness())
    scopes = ToolScopes("w1", platform, clock=clock, randomness=SeededRandomness())
    relay = PermissionRelay(approvals, scopes, platform.notify, process_key="l", is_replaced=lambda: False)
    running = asyncio.create_task(relay.run(permissions))
    assert permissions.add_request(ASKED) is not None
    for _ in range(12):
        await settle()
        await clock.advance(30)
    running.cancel()
    await asyncio.wait((running,))
    await relay.stop(1)
    return platform.told


@requirement("G16", "Q1", "G6")
async def test_a_decision_reaches_the_host_though_the_way_to_it_was_closed_for_a_while(clock: FakeClock) -> None:
    platform = Platform(waits=(*LATER, *LATER))
    assert await relayed(platform, clock) == ["allow"]


@requirement("G16", "Q1", "G6")
@pytest.mark.parametrize(
    ("uses", "told"),
    [
        ((LATER[0], LATER[1]), ["allow"]),
        ((LATER[3], LATER[4]), ["allow"]),
        ((USED,), ["deny"]),
        ((refused(409, "not_approved"),), ["deny"]),
        ((LATER[4], USED), []),  # it may have been this question that used it up
        ((refused(404, "not_found"),), []),
        ((refused(403, "forbidden"),), []),
    ],
)
async def test_only_the_servers_word_on_an_approval_denies_what_a_person_has_approved(
    uses: tuple[ToolError, ...], told: list[str], clock: FakeClock
) -> None:
    platform = Platform(uses=uses)
    assert await relayed(platform, clock) == told
    assert len(set(platform.keys)) == 1, "said again it is the same use"


@requirement("AU4")
async def test_what_a_delegation_does_not_allow_is_denied_without_asking_a_person() -> None:
    platform = Platform()
    platform.denial = "the tool Bash is outside what this work may do"
    assert await relayed(platform, FakeClock()) == ["deny"]
    assert platform.keys == []
