"""Follows the live turns of an organisation, and encodes what has changed once for all live channels."""

from typing import Literal

from msgspec import Struct

from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.live_turns.model import LiveTurn, TurnKey, turns_key
from molecule_core.live_turns.reader import LiveTurnReader
from molecule_core.store.journal import subtree_audience
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.views.feed import EncodedEvent, transient_event
from molecule_core.wire.schemas.live_turns import LiveTurnPayload

# 1 h is only an upper bound: a waiter is notified, or polls again where a wake-up may get lost.
_MAX_WAIT_SECONDS = 3600.0


class TurnUpdate(Struct, frozen=True):
    """A change of a live turn. `event`: what has changed since the version `known`; None: the turn is forgotten."""

    key: TurnKey
    known: LiveTurn | None
    turn: LiveTurn | None
    event: EncodedEvent


class TurnFeed:
    """Live turns of one organisation, as they were sent last."""

    def __init__(self, reader: LiveTurnReader, wakeups: Notifier, org_id: str, *, clock: Clock) -> None:
        self._reader = reader
        self._wakeups = wakeups
        self._org_id = org_id
        self._clock = clock
        self.turns: dict[TurnKey, LiveTurn] = {}

    @property
    def closing(self) -> bool:
        """Return whether the server is stopping."""
        return self._wakeups.closing

    async def wait_for_updates(self, seconds: float | None) -> list[TurnUpdate]:
        """Wait for changes, for at most `seconds`, and return them."""

        async def poll() -> Poll[list[TurnUpdate]]:
            versions = await self._reader.versions(self._org_id)
            changed = [each.key for each in versions if self._rev_of(each.key) != each.rev]
            updates = [self._update(each) for each in await self._reader.load(changed)]
            for key in self.turns.keys() - {each.key for each in versions}:
                updates += self._forget(key)
            if updates or not versions:
                return Poll(updates or None)
            expires_in = (min(each.expires_at for each in versions) - self._clock.now()) / SECOND
            return Poll(None, next_poll_in=max(expires_in, 0.0))

        maximum = _MAX_WAIT_SECONDS if seconds is None else seconds
        return await self._wakeups.wait_until(turns_key(self._org_id), poll, maximum) or []

    def _rev_of(self, key: TurnKey) -> int | None:
        known = self.turns.get(key)
        return None if known is None else known.rev

    def _update(self, turn: LiveTurn) -> TurnUpdate:
        known = self.turns.get(turn.key)
        self.turns[turn.key] = turn
        return TurnUpdate(turn.key, known, turn, self._encode(turn, known))

    def _forget(self, key: TurnKey) -> list[TurnUpdate]:
        known = self.turns.pop(key)
        return [TurnUpdate(key, known, None, self._encode(known, known, lost=not known.ended))]

    def whole_event(self, turn: LiveTurn) -> EncodedEvent:
        """Encode all that is known of a turn, for a subscriber that lacks an earlier version."""
        return self._encode(turn, None)

    def _encode(self, turn: LiveTurn, known: LiveTurn | None, *, lost: bool = False) -> EncodedEvent:
        payload = turn_payload(turn, known, lost=lost)
        audience = subtree_audience(turn.root_workspace_id) if turn.root_workspace_id else None
        return transient_event("LIVE_TURN", turn.workspace_id, payload, self._clock.now(), audience=audience)


def turn_payload(turn: LiveTurn, known: LiveTurn | None, *, lost: bool = False) -> LiveTurnPayload:
    """Return what a subscriber is sent that has the version `known` of a turn, or nothing of it."""
    status: Literal["lost"] | None = "lost" if lost else None
    is_whole = known is None or known.text_end < turn.text_at or known.started_at != turn.started_at
    if known is None or is_whole:
        text_at, tools = turn.text_at, turn.tools
    else:
        text_at, before = known.text_end, set(known.tools)
        tools = tuple(each for each in turn.tools if each not in before)
    return LiveTurnPayload(
        activity_id=turn.activity_id,
        thread_id=turn.thread_id,
        status=status or turn.status,
        status_text=turn.status_text,
        started_at=to_rfc3339(turn.started_at),
        text_at=text_at,
        text=turn.text[text_at - turn.text_at :],
        tools=list(tools),
        whole=is_whole,
        stop_requested_by=turn.stop_requested_by,
    )
