"""Links agents' messages to chains, freezes chains at a limit, and applies people's decisions.

Links are determined by the server, never taken from a body. Called by the message and broadcast writers."""

from collections.abc import Callable, Generator
from typing import Any

import msgspec

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import ChainEnded, ChainFrozen, ChainNotFrozen, NotFound
from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.chains.model import NEW_CHAIN, Cause, Chain, ChainLink, ChainState
from molecule_core.messages.reader import chain_from_row
from molecule_core.store.database import (
    Command,
    CommandSteps,
    CurrentNumber,
    JournalEvent,
    NextNumber,
    ReadQuery,
    RequestBatch,
    StepRequest,
    Store,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.wire.schemas.events import ChainEndedPayload, ChainFrozenPayload, ChainReleasedPayload


class ChainWriter:
    """Links, freezes, releases and ends chains."""

    def __init__(self, store: Store, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits

    def link_message(
        self,
        org_id: str,
        sender_id: str,
        named_id: str | None,
        *,
        target_id: str | None = None,
        text: str | None = None,
        count: int = 1,
    ) -> Generator[StepRequest, Any, ChainLink | WriteSet[Any]]:
        """Link a message of a workspace, or `count` copies, to the message that the workspace is working on.

        Returns a write set instead if the message exceeds a limit and freezes the chain. Raises ChainFrozen,
        ChainEnded. Numbers taken for a message that is rejected later stay unused."""
        cause = yield from self.find_cause(sender_id, named_id)
        if cause is None:
            return NEW_CHAIN
        link = rules.next_link(cause, target_id, text, self._limits)
        root_id = link.root_id or ""
        if cause.state == ChainState.ENDED:
            raise ChainEnded(root_id=root_id)
        if cause.state == ChainState.FROZEN:
            raise ChainFrozen(root_id=root_id, reason=cause.reason)
        messages = yield CurrentNumber("last_in_chain", root_id)
        reason = rules.exceeded_limit(cause, link, messages, count, self._limits)
        if reason is None:
            numbers = yield RequestBatch(
                [NextNumber("last_in_chain", root_id, link.most_messages, allow_gaps=True)] * count
            )
            if None not in numbers:
                return msgspec.structs.replace(link, chain_no=numbers[0], numbers=tuple(numbers))
            reason, messages = "messages", link.most_messages  # other commands of the group took the last ones
        # Only one command of a group freezes the chain; the others find it frozen.
        trips = yield NextNumber("chain_trips", root_id, (cause.trips or 0) + 1)
        if trips is None:
            raise ChainFrozen(root_id=root_id, reason=reason)
        return self._freeze(org_id, sender_id, cause, link, reason, messages, trips)

    def find_cause(self, sender_id: str, named_id: str | None) -> Generator[StepRequest, Any, Cause | None]:
        """Return the message that a workspace is working on.

        The named one if it was delivered; else the one it has claimed or acknowledged recently."""
        found = yield ReadQuery("cause_of", {"workspace_id": sender_id, "named": named_id})
        if not found:
            return None
        cause, oldest = Cause(*found[0]), self._clock.now() - self._limits.cause_seconds * SECOND
        return cause if cause.id == named_id or cause.held or cause.created_at >= oldest else None

    def _freeze(
        self, org_id: str, sender_id: str, cause: Cause, link: ChainLink, reason: str, messages: int, trips: int
    ) -> WriteSet[Any]:
        limits, root_id = self._limits, link.root_id or ""
        chain = Chain(
            root_id=root_id,
            org_id=org_id,
            workspace_id=sender_id,
            state=ChainState.FROZEN.value,
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
        payload = ChainFrozenPayload(root_id, sender_id, reason, chain.hops, messages)
        frozen = _save_chain(chain, "CHAIN_FROZEN", payload)
        return msgspec.structs.replace(frozen, error=ChainFrozen(root_id=root_id, reason=reason))

    async def release(self, org_id: str, root_id: str, decided_by: str, messages: int | None) -> Chain:
        """Release a frozen chain for `messages` more, or each limit once more. Raises NotFound, ChainNotFrozen."""

        def decide(chain: Chain, count: int) -> WriteSet[Chain]:
            if chain.state != ChainState.FROZEN:
                raise ChainNotFrozen(state=chain.state)
            updated = rules.released_chain(chain, count, messages, self._limits)
            updated = msgspec.structs.replace(updated, released_at=self._clock.now(), decided_by=decided_by)
            return _save_chain(
                updated,
                "CHAIN_RELEASED",
                ChainReleasedPayload(root_id, updated.most_hops, updated.most_messages, decided_by),
            )

        return await self._run_decision(org_id, root_id, decide)

    async def end(self, org_id: str, root_id: str, decided_by: str) -> Chain:
        """End a chain for good. Raises NotFound, ChainNotFrozen."""

        def decide(chain: Chain, count: int) -> WriteSet[Chain]:
            if chain.state == ChainState.ENDED:
                raise ChainNotFrozen(state=chain.state)
            now = self._clock.now()
            updated = msgspec.structs.replace(
                chain, state=ChainState.ENDED.value, messages=count, ended_at=now, decided_by=decided_by
            )
            return _save_chain(updated, "CHAIN_ENDED", ChainEndedPayload(root_id, decided_by))

        return await self._run_decision(org_id, root_id, decide)

    async def _run_decision(self, org_id: str, root_id: str, decide: Callable[[Chain, int], WriteSet[Chain]]) -> Chain:
        def deciding() -> CommandSteps[Chain]:
            rows = yield ReadQuery("chain", {"root_id": root_id, "org_id": org_id})
            if not rows:
                raise NotFound(what="chain")
            count = yield CurrentNumber("last_in_chain", root_id)
            return decide(chain_from_row(rows[0]), count)

        return await self._store.run(Command(org_id, (("chain", root_id),), deciding))


def _save_chain(chain: Chain, event: str, payload: msgspec.Struct) -> WriteSet[Chain]:
    journal_event = JournalEvent(
        event, chain.workspace_id, "chain", chain.root_id, chain.trips, msgspec.json.encode(payload)
    )
    return WriteSet(chain, [("save_chain", chain)], [journal_event], (org_key(chain.org_id),))
