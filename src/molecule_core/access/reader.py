"""From a token to its holder."""

import hmac
from collections.abc import Sequence

from molecule_core.access.model import ADMIN, METRICS, Caller, Kind, Person, Role
from molecule_core.ground.clock import Clock
from molecule_core.ground.tokens import PERSON_PREFIX, SESSION_PREFIX, WORKSPACE_PREFIX, hash_of, prefix_of
from molecule_core.store.database import Row, Store

# A known token costs one dictionary look-up; above this many the oldest is forgotten and looked up again.
_REMEMBERED = 200_000


class AccessReader:
    """Knows who holds which credential. Remembers what it looked up: a token never changes its
    holder."""

    def __init__(self, store: Store, clock: Clock, admin_token: str, metrics_token: str = "") -> None:
        self._store = store
        self._clock = clock
        self._admin_hash = hash_of(admin_token)
        self._metrics_hash = hash_of(metrics_token) if metrics_token else ""
        self._known: dict[str, Caller] = {}
        self._ended: set[str] = set()

    def known(self, token: str) -> Caller | None:
        """Who holds this token, if it was looked up before and lives."""
        return self._living(self._known.get(hash_of(token)))

    async def caller(self, token: str) -> Caller | None:
        """Who holds this token; None if nobody does (any more)."""
        hashed = hash_of(token)
        known = self._known.get(hashed)
        if known is None:
            known = await self._look_up(token, hashed)
            if hashed in self._ended:
                return None
            if known is not None:
                self._remember(hashed, known)
        return self._living(known)

    def _living(self, caller: Caller | None) -> Caller | None:
        if caller is None or caller.expires_at is None or caller.expires_at > self._clock.now():
            return caller
        return None

    async def _look_up(self, token: str, hashed: str) -> Caller | None:
        if hmac.compare_digest(hashed, self._admin_hash):
            return ADMIN
        if hmac.compare_digest(hashed, self._metrics_hash):
            return METRICS
        prefix = prefix_of(token)
        if prefix == WORKSPACE_PREFIX:
            return _workspace(await self._store.rows("workspace_by_token", {"hash": hashed}))
        if prefix == PERSON_PREFIX:
            return _person(await self._store.rows("person_by_token", {"hash": hashed}))
        if prefix == SESSION_PREFIX:
            return _person(await self._store.rows("person_by_session", {"hash": hashed}))
        return None

    def _remember(self, hashed: str, caller: Caller) -> None:
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[hashed] = caller

    def forget(self, token: str) -> None:
        """A session has ended: it opens nothing any more."""
        hashed = hash_of(token)
        self._ended.add(hashed)  # a look-up that began before may end after this
        self._known.pop(hashed, None)

    async def persons(self, org_id: str) -> list[Person]:
        """The persons of an organisation, oldest first."""
        return [Person(*row) for row in await self._store.rows("persons_of_org", {"org_id": org_id})]


def _workspace(rows: Sequence[Row]) -> Caller | None:
    if not rows:
        return None
    workspace_id, org_id = rows[0]
    return Caller(kind=Kind.WORKSPACE, id=workspace_id, org_id=org_id, role=Role.OPERATOR, name="")


def _person(rows: Sequence[Row]) -> Caller | None:
    if not rows:
        return None
    person_id, org_id, role, name, expires_at = rows[0]
    return Caller(kind=Kind.PERSON, id=person_id, org_id=org_id, role=Role(role), name=name, expires_at=expires_at)
