"""The journal as live channels tell it: facts with their payloads, encoded once however many listen.

Above: `edges/live.py`. Below: the journal, and the readers of the nouns that facts are about.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from molecule_core.delegations.model import progress_key
from molecule_core.delegations.reader import DelegationReader, Said
from molecule_core.ground.clock import SECOND, rfc3339
from molecule_core.messages.model import Shown, Told
from molecule_core.messages.reader import MessageReader
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.journal import TREE, Fact, Journal, org_key, pulse_key, tree_of
from molecule_core.store.wakeups import Look, Wakeups
from molecule_core.wire.events import EVENTS, Heartbeat, TaskUpdated
from molecule_core.wire.live import Entity, EventFrame

# Who waits is woken, or looks again by itself where a wake-up may get lost (`limits.look_again_seconds`).
_LONGEST_WAIT_SECONDS = 3600.0
# Progress of which the order is not sure.
_TWILIGHT_SECONDS = 30
# Events that one commit may bring, and then some.
_LARGEST_GROUP = 1024


class Scope(Struct, frozen=True):
    """Whose events: all of an organisation, or those about one workspace and, of its peers, what peers may see.

    `peers` are their ids, a comma before and behind each; `parent`: the one above it, of which it hears what children
    may; `trees`: whether it hears what happens elsewhere in trees that begin in it."""

    org_id: str
    workspace_id: str | None = None
    peers: str = ","
    parent: str = ""
    trees: bool = False

    @property
    def ears(self) -> Mapping[str, Any]:
        """The same as the journal reads it."""
        tree = tree_of(self.workspace_id) if self.workspace_id is not None and self.trees else ""
        return {"workspace_id": self.workspace_id, "peers": self.peers, "parent": self.parent, "tree": tree}


class Notice(Struct, frozen=True):
    """One event, ready to be sent: `tail` is its frame but for the opening brace and `prev`. `seq` is 0 for a
    transient event."""

    seq: int
    name: str
    workspace_id: str
    audience: str
    at: int
    payload: bytes
    tail: bytes
    row: Shown | None = None
    """The message that it tells of, if one came in."""

    @property
    def above(self) -> str:
        """The other workspace that hears it, if it happened in a tree that begins there."""
        return self.audience.removeprefix(TREE) if self.audience.startswith(TREE) else ""

    def frame(self, prev: int) -> bytes:
        """The whole frame on a channel whose last event was `prev`."""
        return b'{"prev":%d,%s' % (prev, self.tail) if self.seq else b"{" + self.tail

    def saying(self, payload: bytes) -> "Notice":
        """The same event with another payload."""
        return replace(self, payload=payload, tail=self.tail.replace(self.payload, payload, 1))


class Page(Struct, frozen=True):
    """Notices in order, and the number up to which nothing is missing between them."""

    notices: list[Notice]
    upto: int


class Heard:
    """Which progress of work was heard so far. What was said at about the same time may be committed in another order,
    and other processes have other clocks: so a while is looked at again, and what was heard of it is remembered."""

    def __init__(self, at: int) -> None:
        self._upto = at
        self._told: dict[str, int] = {}

    @property
    def since(self) -> int:
        """From where on to look."""
        return self._upto - _TWILIGHT_SECONDS * SECOND

    def fresh(self, said: list[Said]) -> list[Said]:
        """What of this was not heard before."""
        found = [each for each in said if self._told.get(each.delegation_id) != each.at]
        self._upto = max([self._upto, *(each.at for each in found)])
        self._told.update({each.delegation_id: each.at for each in found})
        self._told = {delegation_id: at for delegation_id, at in self._told.items() if at > self.since}
        return found


class Feed:
    """Reads what happened behind a number."""

    def __init__(
        self,
        store: Store,
        wakeups: Wakeups,
        org: OrgReader,
        messages: MessageReader,
        delegations: DelegationReader,
    ) -> None:
        self._journal = Journal(store)
        self._wakeups = wakeups
        self._org = org
        self._messages = messages
        self._delegations = delegations
        self._store = store
        self.head = self._journal.head
        self.oldest = self._journal.oldest

    def epoch(self) -> str:
        """Numbers of another epoch mean nothing here."""
        return self._store.epoch

    @property
    def closing(self) -> bool:
        """Whether the server is stopping."""
        return self._wakeups.closing

    async def after(self, scope: Scope, seq: int, count: int, upto: int | None = None) -> Page:
        """At most `count` notices behind a number; what only some may see, only up to another."""
        if scope.workspace_id is None:
            facts = await self._journal.after(scope.org_id, seq, count)
            return Page(await self._notices(facts), facts[-1].seq if facts else seq)
        end = await self.head(scope.org_id) if upto is None else upto
        facts = await self._journal.after_for(scope.org_id, seq, count, upto=end, ears=scope.ears)
        return Page(await self._notices(facts), facts[-1].seq if len(facts) == count else max(seq, end))

    async def count(self, scope: Scope, seq: int, upto: int) -> int:
        """How many notices lie behind a number and up to another."""
        if scope.workspace_id is None:
            return upto - seq
        return await self._journal.count_for(scope.org_id, seq, upto=upto, ears=scope.ears)

    async def wait(self, org_id: str, seq: int, count: int) -> Page:
        """The notices of an organisation behind a number; waits for the first, but never for ever. Ends before a fact
        that the tree in memory does not know yet, since who may see it is read there."""

        async def look() -> Look[Page]:
            facts = self._known(await self._journal.after(org_id, seq, count))
            return Look(Page(await self._notices(facts), facts[-1].seq) if facts else None)

        found = await self._wakeups.until(org_key(org_id), look, _LONGEST_WAIT_SECONDS)
        return found or Page([], seq)

    async def settled(self, org_id: str) -> int:
        """The number up to which the tree in memory knows what the journal tells."""
        head = await self.head(org_id)
        first = max(0, head - _LARGEST_GROUP)
        facts = await self._journal.after(org_id, first, _LARGEST_GROUP)
        known = self._known(facts)
        return head if len(known) == len(facts) else facts[len(known)].seq - 1

    def _known(self, facts: list[Fact]) -> list[Fact]:
        """The facts before the first one that memory lags behind: it is brought up to date right after the commit."""
        for place, fact in enumerate(facts):
            if fact.entity_kind == "workspace":
                workspace = self._org.workspace(fact.entity_id)
                if workspace is None or workspace.rev < fact.rev:
                    return facts[:place]
        return facts

    async def wait_for_beat(self, org_id: str, beat: int) -> None:
        """Returns once an agent of an organisation was heard behind a heartbeat, or after a while."""

        async def look() -> Look[bool]:
            return Look(True if self._org.heard_after(org_id, beat) else None)

        await self._wakeups.until(pulse_key(org_id), look, _LONGEST_WAIT_SECONDS)

    async def progress(self, org_id: str, heard: "Heard") -> list[Notice]:
        """How far work is, as far as that was not heard before; waits for the first, but never for ever."""

        async def look() -> Look[list[Said]]:
            return Look(heard.fresh(await self._delegations.said_since(org_id, heard.since)) or None)

        found = await self._wakeups.until(progress_key(org_id), look, _LONGEST_WAIT_SECONDS)
        return [_said(each) for each in found or ()]

    async def progress_since(self, org_id: str, since: int) -> list[Notice]:
        """How far the work is of which something was said since a time."""
        return [_said(each) for each in await self._delegations.said_since(org_id, since)]

    async def _notices(self, facts: Sequence[Fact]) -> list[Notice]:
        told = await self._messages.told([fact.entity_id for fact in facts if fact.payload is None])
        return [_notice(fact, told.get(fact.entity_id) if fact.payload is None else None) for fact in facts]

    def beat(self, workspace_id: str, at: int) -> Notice:
        """That an agent was heard."""
        pulse = self._org.pulse(workspace_id)
        said = Heartbeat(pulse.active_tasks, pulse.uptime_seconds, pulse.current_task, rfc3339(pulse.heard_at))
        return _transient("WORKSPACE_HEARTBEAT", workspace_id, said, at)

    def task(self, workspace_id: str, at: int) -> Notice:
        """What an agent works on."""
        pulse = self._org.pulse(workspace_id)
        return _transient("TASK_UPDATED", workspace_id, TaskUpdated(pulse.current_task, pulse.active_tasks), at)


def _notice(fact: Fact, told: Told | None) -> Notice:
    payload = (fact.payload or "{}").encode() if told is None else told.payload
    frame = EventFrame(
        event=fact.name,
        workspace_id=fact.workspace_id,
        timestamp=rfc3339(fact.at),
        payload=Raw(payload),
        entity=Entity(fact.entity_kind, fact.entity_id, fact.rev),
        seq=fact.seq,
        client_id=UNSET if told is None or told.client_id is None else told.client_id,
    )
    tail = msgspec.json.encode(frame)[1:]
    row = None if told is None else told.row
    return Notice(fact.seq, fact.name, fact.workspace_id, fact.audience, fact.at, payload, tail, row)


def _said(said: Said) -> Notice:
    entity = Entity("delegation", said.delegation_id, said.rev)
    return _transient(said.event, said.source_id, said.told, said.at, entity)


def _transient(name: str, workspace_id: str, said: Struct, at: int, entity: Entity | None = None) -> Notice:
    payload = msgspec.json.encode(said)
    frame = EventFrame(
        event=name,
        workspace_id=workspace_id,
        timestamp=rfc3339(at),
        payload=Raw(payload),
        entity=entity or Entity("workspace", workspace_id, 0),
    )
    return Notice(0, name, workspace_id, EVENTS[name].audience, at, payload, msgspec.json.encode(frame)[1:])
