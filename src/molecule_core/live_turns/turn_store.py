"""Where live turns are kept: in the memory of the only process, or in a table that several processes share."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from molecule_core.common.clock import Clock
from molecule_core.live_turns.model import LiveTurn, TurnKey, TurnVersion, stops_key, turns_key
from molecule_core.store.database import Command, CommandSteps, ReadQuery, RequestBatch, Store, WriteSet

TurnChange = Callable[[LiveTurn | None, int], LiveTurn | None]
"""Returns the new version of a turn, given the known one and how many others of its workspace run; None: no change.

May raise."""


class TurnStore(Protocol):
    """Live turns of all workspaces. Changing one notifies the waiters of its organisation, and those of stops."""

    async def change(self, org_id: str, key: TurnKey, change: TurnChange) -> LiveTurn | None:
        """Change a turn, and return it as it is now. Raises what `change` raises."""

    async def versions(self, org_id: str) -> list[TurnVersion]:
        """Return the versions of the turns of an organisation that are not expired."""

    async def load(self, keys: Sequence[TurnKey]) -> list[LiveTurn]:
        """Return the turns with these keys."""

    async def of_workspace(self, workspace_id: str) -> list[LiveTurn]:
        """Return the turns of a workspace that are not expired."""


class MemoryTurns(TurnStore):
    """Live turns of the only process of a store, the longest unchanged first."""

    def __init__(self, notify: Callable[[Iterable[str]], None], clock: Clock) -> None:
        self._notify = notify
        self._clock = clock
        self._turns: OrderedDict[TurnKey, LiveTurn] = OrderedDict()
        self._by_workspace: dict[str, set[TurnKey]] = {}
        self._by_org: dict[str, set[TurnKey]] = {}

    async def change(self, org_id: str, key: TurnKey, change: TurnChange) -> LiveTurn | None:
        self._drop_expired()
        known = self._turns.get(key)
        group = self._unexpired(self._by_workspace.get(key.workspace_id, ()))
        others = sum(not each.ended for each in group if each.key != key)
        turn = change(known, others)
        if turn is None:
            return known
        self._turns[key] = turn
        self._turns.move_to_end(key)
        self._by_workspace.setdefault(key.workspace_id, set()).add(key)
        self._by_org.setdefault(org_id, set()).add(key)
        self._notify(_keys_to_notify(turn))
        return turn

    def _drop_expired(self) -> None:
        """Drop expired turns. Those behind one that lasts longer are dropped later."""
        now = self._clock.now()
        while self._turns:
            key, turn = next(iter(self._turns.items()))
            if turn.expires_at > now:
                return
            del self._turns[key]
            for group, name in ((self._by_workspace, key.workspace_id), (self._by_org, turn.org_id)):
                group[name].discard(key)
                if not group[name]:
                    del group[name]

    def _unexpired(self, keys: Iterable[TurnKey]) -> list[LiveTurn]:
        now = self._clock.now()
        return [self._turns[key] for key in sorted(keys) if self._turns[key].expires_at > now]

    async def versions(self, org_id: str) -> list[TurnVersion]:
        return [
            TurnVersion(each.key, each.rev, each.expires_at) for each in self._unexpired(self._by_org.get(org_id, ()))
        ]

    async def load(self, keys: Sequence[TurnKey]) -> list[LiveTurn]:
        return [self._turns[key] for key in keys if key in self._turns]

    async def of_workspace(self, workspace_id: str) -> list[LiveTurn]:
        return self._unexpired(self._by_workspace.get(workspace_id, ()))


class SharedTurns(TurnStore):
    """Live turns in the table `live_turns`, which is not logged: a crash of the database empties it."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def change(self, org_id: str, key: TurnKey, change: TurnChange) -> LiveTurn | None:
        def decide() -> CommandSteps[LiveTurn | None]:
            now = self._clock.now()
            own = {"workspace_id": key.workspace_id, "activity_id": key.activity_id, "now": now}
            found, others = yield RequestBatch((ReadQuery("live_turn", own), ReadQuery("count_other_live_turns", own)))
            known = _decode(found[0][0]) if found else None
            turn = change(known, others[0][0])
            if turn is None:
                return WriteSet(known)
            row = {
                "workspace_id": turn.workspace_id,
                "activity_id": turn.activity_id,
                "org_id": turn.org_id,
                "rev": turn.rev,
                "expires_at": turn.expires_at,
                "ended": int(turn.ended),
                "state": msgspec.json.encode(turn).decode(),
            }
            forgotten = ("forget_expired_live_turns", {"workspace_id": key.workspace_id, "now": now})
            return WriteSet(turn, [forgotten, ("save_live_turn", row)], notify=_keys_to_notify(turn))

        return await self._store.run(Command(org_id, (("live turns", key.workspace_id),), decide))

    async def versions(self, org_id: str) -> list[TurnVersion]:
        rows = await self._store.rows("live_turn_versions", {"org_id": org_id, "now": self._clock.now()})
        return [TurnVersion(TurnKey(row[0], row[1]), row[2], row[3]) for row in rows]

    async def load(self, keys: Sequence[TurnKey]) -> list[LiveTurn]:
        queries = [{**key._asdict(), "now": self._clock.now()} for key in keys]
        found = await self._store.rows_of_each("live_turn", queries) if queries else []
        return [_decode(rows[0][0]) for rows in found if rows]

    async def of_workspace(self, workspace_id: str) -> list[LiveTurn]:
        rows = await self._store.rows(
            "live_turns_of_workspace", {"workspace_id": workspace_id, "now": self._clock.now()}
        )
        return [_decode(row[0]) for row in rows]


def _keys_to_notify(turn: LiveTurn) -> tuple[str, ...]:
    stops = (stops_key(turn.workspace_id),) if turn.waits_for_stop else ()
    return (turns_key(turn.org_id), *stops)


def _decode(state: str) -> LiveTurn:
    return msgspec.json.decode(state, type=LiveTurn)
