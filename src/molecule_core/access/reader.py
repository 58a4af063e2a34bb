"""From a token to its holder."""

import hmac
from collections.abc import Callable, Iterable, Sequence

from molecule_core.access.model import ADMIN, Caller, Kind, Person, Role
from molecule_core.ground.clock import Clock
from molecule_core.ground.tokens import PERSON_PREFIX, SESSION_PREFIX, WORKSPACE_PREFIX, hash_of, prefix_of
from molecule_core.store.database import Row, Store
from molecule_core.store.mirrors import Mirror, Reads

# A known token costs one dictionary look-up; above this many the oldest is forgotten and looked up again.
_REMEMBERED = 200_000


class AccessReader(Mirror):
    """Knows who holds which credential. Remembers what it looked up: a token never changes its holder, and what else
    may change is said: here by `forget` and `forget_holder`, by other processes as a change of these kinds."""

    KINDS = ("credential", "holder")

    def __init__(self, store: Store, clock: Clock, admin_token: str) -> None:
        self._store = store
        self._clock = clock
        self._admin_hash = hash_of(admin_token)
        self._known: dict[str, Caller] = {}
        self._ended: set[str] = set()
        self._when_ended: list[Callable[[str], None]] = []
        # Counts what was forgotten: a look-up that began before may bring back what holds no more.
        self._forgotten = 0

    def known(self, token: str) -> Caller | None:
        """Who holds this token, if it was looked up before and lives."""
        return self._living(self._known.get(hash_of(token)))

    async def caller(self, token: str) -> Caller | None:
        """Who holds this token; None if nobody does (any more)."""
        hashed = hash_of(token)
        known = self._known.get(hashed)
        while known is None:
            before = self._forgotten
            found = await self._look_up(token, hashed)
            if found is None or hashed in self._ended:
                return None
            if before == self._forgotten:
                known = found
                self._remember(hashed, known)
        return self._living(known)

    def _living(self, caller: Caller | None) -> Caller | None:
        if caller is None or caller.expires_at is None or caller.expires_at > self._clock.now():
            return caller
        return None

    async def _look_up(self, token: str, hashed: str) -> Caller | None:
        if hmac.compare_digest(hashed, self._admin_hash):
            return ADMIN
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
        self._end(hash_of(token))

    def forget_holder(self, holder_id: str) -> None:
        """What a person or workspace may do has changed, or one of their tokens ended: each is looked up again."""
        self._forgotten += 1
        for hashed in [hashed for hashed, caller in self._known.items() if caller.id == holder_id]:
            del self._known[hashed]

    def when_ended(self, tell: Callable[[str], None]) -> None:
        """Names who is told the hash of each credential that another process has ended."""
        self._when_ended.append(tell)

    def _end(self, hashed: str) -> None:
        self._ended.add(hashed)  # a look-up that began before may end after this
        self._known.pop(hashed, None)

    async def load(self, _read: Reads, kind: str, keys: list[str]) -> Iterable[str]:
        """Another process has ended or changed these; who comes next with one is looked up."""
        for key in keys:
            if kind == "credential":
                self._end(key)
                for tell in self._when_ended:
                    tell(key)
            else:
                self.forget_holder(key)
        return ()

    async def load_all(self, _read: Reads) -> None:
        """Everybody is looked up again."""
        self._forgotten += 1
        self._known.clear()

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
