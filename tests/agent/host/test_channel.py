"""Push into a host that acknowledges nothing and loses in silence what comes too soon. Time stands still."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from molecule_core.agent import message_format
from molecule_core.agent.config import AgentSettings
from molecule_core.agent.host.channel import CHANNEL_METHOD, HostChannel
from molecule_core.agent.host.detection import shows_channel, wants_channel
from molecule_core.agent.host.permission_relay import PendingPermissions
from molecule_core.agent.mailbox.inbox import EntryKey, MergedInbox
from molecule_core.wire.schemas.inbox import InboxMessage
from testing.clocks import FakeClock, settle
from tests.agent.inbox_messages import letter
from tests.requirements import requirement


class Pushed:
    """A channel, its inbox, and what was pushed."""

    def __init__(self, clock: FakeClock) -> None:
        self.inbox = MergedInbox()
        self.clock = clock
        self.told: list[dict[str, Any]] = []
        self.noted: list[EntryKey] = []
        self.is_replaced = False

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        assert method == CHANNEL_METHOD
        self.told.append(params)

    def look(self) -> None:
        for key in self.noted:
            self.inbox.mark_handled(key)

    @property
    def ids(self) -> list[str]:
        """What was pushed, in order."""
        return [each["meta"]["activity_id"] for each in self.told]


@asynccontextmanager
async def pushing(clock: FakeClock, **wishes: Any) -> AsyncIterator[Pushed]:
    """A channel of a host that has just said that it is ready."""
    pushed = Pushed(clock)
    wanted = AgentSettings(**{"channel_delay_seconds": 1.0, "repush_seconds": 60, "repush_most_seconds": 240, **wishes})
    channel = HostChannel(
        pushed.inbox,
        pushed.notify,
        clock=clock,
        settings=wanted,
        single=False,
        apply_notes=pushed.look,
        is_replaced=lambda: pushed.is_replaced,
    )
    running = asyncio.create_task(channel.run())
    await settle()
    try:
        yield pushed
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@requirement("G13", "G15")
async def test_what_came_before_the_host_listens_is_pushed_a_moment_later(clock: FakeClock) -> None:
    async with pushing(clock) as pushed:
        early = letter()
        pushed.inbox.add_message(early)
        await clock.advance(0.9)
        assert pushed.told == []
        await clock.advance(0.2)
        assert pushed.ids == [early.activity_id]


@requirement("G15")
async def test_what_comes_later_is_pushed_at_once_each_with_its_own_id(clock: FakeClock) -> None:
    async with pushing(clock) as pushed:
        await clock.advance(1)
        messages = [letter(), letter("w-2"), letter(peer_id="p")]
        for message in messages:
            pushed.inbox.add_message(message)
        await settle()
        assert pushed.ids == [message.activity_id for message in messages]
        assert all("pushes" not in each["meta"] for each in pushed.told)


@requirement("G15")
async def test_what_no_tool_call_named_is_pushed_again_later_and_later(clock: FakeClock) -> None:
    async with pushing(clock) as pushed:
        pushed.inbox.add_message(letter())
        await clock.advance(1)
        for wait, count in ((59, 1), (1, 2), (119, 2), (1, 3), (239, 3), (1, 4), (239, 4), (1, 5)):
            await clock.advance(wait)
            assert len(pushed.told) == count
        assert [each["meta"].get("pushes", "1") for each in pushed.told] == ["1", "2", "3", "4", "5"]


@requirement("G13", "G15")
async def test_a_message_that_cannot_be_pushed_holds_up_no_other_one(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pushing(clock) as pushed:
        poison, good = letter(), letter()
        as_ever = message_format.channel_text

        def breaks(message: InboxMessage, **how: Any) -> tuple[str, dict[str, str]]:
            assert message is not poison
            return as_ever(message, **how)

        monkeypatch.setattr(message_format, "channel_text", breaks)
        pushed.inbox.add_message(poison)
        pushed.inbox.add_message(good)
        await clock.advance(1)
        await clock.advance(60)
        assert pushed.ids == [good.activity_id] * 2


@requirement("G15")
async def test_what_is_handled_is_not_pushed_again(clock: FakeClock) -> None:
    async with pushing(clock) as pushed:
        message = letter()
        pushed.inbox.add_message(message)
        await clock.advance(1)
        pushed.inbox.mark_handled(("w-1", message.activity_id))
        await clock.advance(10_000)
        assert len(pushed.told) == 1


@requirement("G14", "G15")
async def test_what_another_process_has_handled_is_not_pushed(clock: FakeClock) -> None:
    async with pushing(clock) as pushed:
        message = letter()
        pushed.inbox.add_message(message)
        pushed.noted.append(("w-1", message.activity_id))
        await clock.advance(1)
        assert pushed.told == []


@requirement("G15")
@pytest.mark.parametrize(
    ("wish", "client", "wanted"),
    [
        ("auto", "claude-code", True),
        ("auto", "Claude-Code", True),
        ("auto", "codex-mcp-client", False),
        ("auto", "", False),
        ("on", "anything", True),
        ("off", "claude-code", False),
    ],
)
def test_a_host_is_pushed_to_by_what_it_is_or_as_is_set(wish: str, client: str, wanted: bool) -> None:
    assert wants_channel(wish, {"name": client}) is wanted


@requirement("G16")
def test_permission_requests_are_kept_harmless_and_bounded() -> None:
    permissions = PendingPermissions()
    for number in range(150):
        permissions.add_request({"request_id": f"r{number}", "tool_name": "Bash\n<channel>", "description": 5})
    assert permissions.add_request({"tool_name": "no id"}) is None

    assert len(permissions.recent_requests) == 100
    assert (permissions.recent_requests[-1].request_id, permissions.recent_requests[-1].tool_name) == (
        "r149",
        "Bash &lt;channel>",
    )
    assert permissions.recent_requests[-1].description == ""


@requirement("G15h")
async def test_nothing_is_pushed_to_a_host_that_hooks_wake(clock: FakeClock) -> None:
    async with pushing(clock) as pushed:
        pushed.is_replaced = True
        pushed.inbox.add_message(letter("a1"))
        await clock.advance(10)
        assert pushed.told == []
        assert not next(iter(pushed.inbox.entries())).is_known


@requirement("G15h")
def test_a_host_shows_a_channel_only_if_it_was_started_so() -> None:
    assert shows_channel(["claude", "--channels", "plugin:molecule"])
    assert shows_channel(["claude", "--dangerously-load-development-channels=server:molecule"])
    assert not shows_channel(["claude", "-p", "tell me about channels"])
