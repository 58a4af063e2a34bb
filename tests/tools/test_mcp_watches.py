"""What a client follows: notified of changes only, each in its own workspace, at most so many."""

import asyncio

import pytest

from molecule_core.tools.mcp_features import (
    CHECK_SECONDS,
    MAX_WATCHES,
    CallerWorkspace,
    Changes,
    Notification,
    Watch,
    WatchSet,
    changed_ids,
    coalesce,
)
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.spec import ToolError
from molecule_core.wire.protocols.jsonrpc import RpcError
from testing.clocks import FakeClock, settle
from testing.waits import bounded
from tests.tools.mcp_session import no_download
from tests.tools.test_mcp_prompts import Registry


class Journal:
    """A journal whose events a test makes, and the versions of the things in it."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[frozenset[str] | None] = asyncio.Queue()
        self.versions: dict[str, int | ToolError | None] = {}
        self.sent: list[str] = []
        self.loads = 0
        requester: Requester = Registry()
        self.workspace = CallerWorkspace("own", requester, no_download, self.changes)
        self.watches = WatchSet(self.send)

    async def changes(self) -> Changes:
        yield frozenset()
        while (ids := await self.events.get()) is not None:
            yield ids

    async def send(self, notification: Notification) -> None:
        self.sent.append(notification.method)

    def watch(self, id_: str) -> Watch:
        async def load() -> tuple[object, Notification] | None:
            self.loads += 1
            version = self.versions.get(id_, 0)
            if isinstance(version, ToolError):
                raise version
            return None if version is None else (version, Notification(id_, {}))

        return Watch(self.workspace, id_, load)

    async def change(self, id_: str, version: "int | ToolError | None") -> None:
        """Something gets a version."""
        self.versions[id_] = version
        self.events.put_nowait(frozenset((id_,)))
        await settle()


@pytest.fixture
def journal() -> Journal:
    """One in which nothing is followed yet."""
    return Journal()


async def test_only_what_is_followed_and_has_changed_is_notified(journal: Journal) -> None:
    await journal.watches.add("a", journal.watch("a"))
    await settle()
    await journal.change("a", 1)
    await journal.change("a", 1)
    await journal.change("b", 1)
    assert journal.sent == ["a"]
    journal.watches.remove("a")
    await journal.change("a", 2)
    assert journal.sent == ["a"]
    await journal.watches.close()


async def test_what_changed_while_the_journal_was_away_is_found(journal: Journal) -> None:
    await journal.watches.add("a", journal.watch("a"))
    await settle()
    journal.versions["a"] = 5
    journal.events.put_nowait(frozenset())
    await settle()
    assert journal.sent == ["a"]
    await journal.watches.close()


@pytest.mark.parametrize("end", [None, ToolError("gone", "not_found")])
async def test_what_is_gone_is_followed_no_longer(journal: Journal, end: ToolError | None) -> None:
    await journal.watches.add("a", journal.watch("a"))
    await settle()
    await journal.change("a", end)
    assert (len(journal.watches), journal.sent) == (0, [])
    await journal.watches.close()


async def test_a_server_that_is_away_ends_no_subscription(journal: Journal) -> None:
    await journal.watches.add("a", journal.watch("a"))
    await settle()
    await journal.change("a", ToolError("busy", "busy"))
    await journal.change("a", 1)
    assert (len(journal.watches), journal.sent) == (1, ["a"])
    await journal.watches.close()


async def test_a_session_follows_a_hundred_things_each_once(journal: Journal) -> None:
    for number in range(MAX_WATCHES):
        await journal.watches.add(str(number), journal.watch(str(number)))
    await journal.watches.add("0", journal.watch("0"))
    with pytest.raises(RpcError, match="cannot follow more than 100"):
        await journal.watches.add("one more", journal.watch("one more"))
    assert len(journal.watches) == MAX_WATCHES
    await journal.watches.close()


async def test_events_that_come_together_are_read_once_a_second(journal: Journal) -> None:
    clock = FakeClock()
    found: list[frozenset[str]] = []

    async def read() -> None:
        async for ids in coalesce(journal.changes(), clock):
            found.append(ids)

    reading = asyncio.create_task(read())
    await settle()
    assert found == [frozenset()]
    for id_ in ("a", "b", "a"):
        journal.events.put_nowait(frozenset((id_,)))
    await settle()
    assert len(found) == 1
    await clock.advance(CHECK_SECONDS)
    assert found[1:] == [{"a", "b"}]
    journal.events.put_nowait(frozenset(("c",)))
    journal.events.put_nowait(None)
    await bounded(reading)
    assert found[2:] == [{"c"}]


def test_an_event_names_what_it_is_about() -> None:
    assert changed_ids({"thread_id": "t", "delegation_id": "d", "approval_id": None, "id": "x"}) == {"t", "d"}
    assert changed_ids([1]) == changed_ids(None) == frozenset()
