"""Chains: of which chain an agent's message is, when a chain is stopped, and what a person decides about it.

The server keeps this; nothing of it is taken from a body. Above: the writer and the broadcasts. Below: the rules.
"""

from collections.abc import Callable, Generator
from typing import Any

import msgspec

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import ChainEnded, ChainFrozen, ChainNotFrozen, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.lineage import BEGINS, Cause, Chain, Link, State
from molecule_core.messages.reader import chain_of
from molecule_core.store.database import Command, Decision, Event, Peek, Read, Several, Step, Store, Take, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.wire.events import EndedChain, FrozenChain, ReleasedChain


class Chains:
    """Follows, stops, releases and ends chains."""

    def __init__(self, store: Store, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits

    def place(
        self,
        org_id: str,
        sender_id: str,
        named: str | None,
        *,
        target_id: str | None = None,
        text: str | None = None,
        count: int = 1,
    ) -> Generator[Step, Any, Link | WriteSet[Any]]:
        """Where a message of a workspace (or `count` copies of it) stands: behind what the workspace is at work on.
        A write set instead if it stops its chain by that. Raises ChainFrozen, ChainEnded.

        Its numbers only count: they may stay unused if the message is refused after that."""
        cause = yield from self.cause(sender_id, named)
        if cause is None:
            return BEGINS
        link = rules.link_to(cause, target_id, text, self._limits)
        root_id = link.root_id or ""
        if cause.state == State.ENDED:
            raise ChainEnded(root_id=root_id)
        if cause.state == State.FROZEN:
            raise ChainFrozen(root_id=root_id, reason=cause.reason)
        messages = yield Peek("last_in_chain", root_id)
        reason = rules.trip_of(cause, link, messages, count, self._limits)
        if reason is None:
            numbers = yield Several([Take("last_in_chain", root_id, link.most_messages, loose=True)] * count)
            if None not in numbers:
                return msgspec.structs.replace(link, numbers=tuple(numbers))
            reason, messages = "messages", link.most_messages  # others of its group were before it
        # One of a group that runs into the limit stops the chain; the others find it stopped.
        trips = yield Take("chain_trips", root_id, (cause.trips or 0) + 1)
        if trips is None:
            raise ChainFrozen(root_id=root_id, reason=reason)
        return self._frozen(org_id, sender_id, cause, link, reason, messages, trips)

    def cause(self, sender_id: str, named: str | None) -> Generator[Step, Any, Cause | None]:
        """The message that a workspace is at work on: the one that it names, if it had it; else what it holds, or has
        handled not long ago."""
        found = yield Read("cause_of", {"workspace_id": sender_id, "named": named})
        cause = Cause(*found[0]) if found else None
        if cause is None or not rules.is_cause(cause, named, self._clock.now(), self._limits.cause_seconds):
            return None
        return cause

    def _frozen(
        self, org_id: str, sender_id: str, cause: Cause, link: Link, reason: str, messages: int, trips: int
    ) -> WriteSet[Any]:
        limits, root_id = self._limits, link.root_id or ""
        chain = Chain(
            root_id=root_id,
            org_id=org_id,
            workspace_id=sender_id,
            state=State.FROZEN.value,
            reason=reason,
            trips=trips,
            hops=cause.hop,
            messages=messages,
            small_talk=cause.small_talk or 0,
            most_hops=limits.chain_hops if cause.most_hops is None else cause.most_hops,
            most_messages=limits.chain_messages if cause.most_messages is None else cause.most_messages,
            most_small_talk=limits.pingpong if cause.most_small_talk is None else cause.most_small_talk,
            frozen_at=self._clock.now(),
        )
        told = FrozenChain(root_id, sender_id, reason, chain.hops, messages)
        saved = _saved(chain, "CHAIN_FROZEN", told)
        saved.refusal = ChainFrozen(root_id=root_id, reason=reason)
        return saved

    async def release(self, org_id: str, root_id: str, by: str, messages: int | None) -> Chain:
        """A person lets a chain go on for so many messages, or up to each limit once more. Raises NotFound,
        ChainNotFrozen."""

        def decide(chain: Chain, count: int) -> WriteSet[Chain]:
            if chain.state != State.FROZEN:
                raise ChainNotFrozen(state=chain.state)
            new = rules.released(chain, count, messages, self._limits)
            new = msgspec.structs.replace(new, released_at=self._clock.now(), decided_by=by)
            return _saved(new, "CHAIN_RELEASED", ReleasedChain(root_id, new.most_hops, new.most_messages, by))

        return await self._decided(org_id, root_id, decide)

    async def end(self, org_id: str, root_id: str, by: str) -> Chain:
        """A person ends a chain for good. Raises NotFound, ChainNotFrozen."""

        def decide(chain: Chain, count: int) -> WriteSet[Chain]:
            if chain.state == State.ENDED:
                raise ChainNotFrozen(state=chain.state)
            now = self._clock.now()
            new = msgspec.structs.replace(chain, state=State.ENDED.value, messages=count, ended_at=now, decided_by=by)
            return _saved(new, "CHAIN_ENDED", EndedChain(root_id, by))

        return await self._decided(org_id, root_id, decide)

    async def _decided(self, org_id: str, root_id: str, decide: Callable[[Chain, int], WriteSet[Chain]]) -> Chain:
        def deciding() -> Decision[Chain]:
            rows = yield Read("chain", {"root_id": root_id, "org_id": org_id})
            if not rows:
                raise NotFound(what="chain")
            count = yield Peek("last_in_chain", root_id)
            return decide(chain_of(rows[0]), count)

        return await self._store.run(Command(org_id, (("chain", root_id),), deciding))


def _saved(chain: Chain, event: str, told: msgspec.Struct) -> WriteSet[Any]:
    fact = Event(event, chain.workspace_id, "chain", chain.root_id, chain.trips, msgspec.json.encode(told))
    return WriteSet(chain, [("save_chain", chain)], [fact], (org_key(chain.org_id),))
