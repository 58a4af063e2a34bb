"""From a token to its holder."""

import hmac
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from molecule_core.access.memory import Remembered
from molecule_core.access.model import ADMIN, METRICS, Caller, Invitation, Kind, Person, Role, Token
from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import NotFound
from molecule_core.ground.tokens import PERSON_PREFIX, SESSION_PREFIX, WORKSPACE_PREFIX, hash_of, id_of, prefix_of
from molecule_core.store.database import Row, Store
from molecule_core.store.mirrors import Mirror, Reads


class AccessReader(Mirror):
    """Knows who holds which credential, as far as memory has it; what changes is forgotten there, by the writer or, if
    another process has changed it, here."""

    KINDS = ("credential", "holder")

    def __init__(
        self, store: Store, clock: Clock, admin_token: str, memory: Remembered, metrics_token: str = ""
    ) -> None:
        self._store = store
        self._clock = clock
        self._admin_hash = hash_of(admin_token)
        self._metrics_hash = hash_of(metrics_token) if metrics_token else ""
        self._memory = memory
        self._when_ended: Callable[[str, int], None] = lambda _hash, _at: None
        self._when_changed: Callable[[str], None] = lambda _holder: None

    @property
    def changes(self) -> int:
        """Counts the moments in which some credential ended, or came to allow something else."""
        return self._memory.changes

    def known(self, token: str) -> Caller | None:
        """Who holds this token, if it was looked up before and lives."""
        return self._living(self._memory.get(hash_of(token)))

    async def caller(self, token: str) -> Caller | None:
        """Who holds this token; None if nobody does (any more)."""
        hashed = hash_of(token)
        found = self._memory.get(hashed)
        while found is None:
            before = self._memory.changes
            found = await self._look_up(token, hashed)
            if self._memory.changes != before:  # what was read may have ended meanwhile
                found = None
                continue
            if found is None:
                return None
            self._memory.put(hashed, found)
        return self._living(found)

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

    def tell(self, ended: Callable[[str, int], None], changed: Callable[[str], None]) -> None:
        """Names who is told what other processes have done: the hash of each credential that ends and when
        (microseconds), and the id of each person who may do something else than before."""
        self._when_ended, self._when_changed = ended, changed

    async def load(self, read: Reads, kind: str, keys: list[str]) -> Iterable[str]:
        """Another process has ended or changed these; whoever comes next with one is looked up."""
        if kind == "holder":
            for key in keys:
                self._memory.forget_holder(key)
                self._when_changed(key)
            return ()
        self._memory.forget(keys)
        # Of all credentials only a workspace's may live on for a while after it was told to end.
        for key, rows in zip(keys, await read("workspace_by_token", [{"hash": key} for key in keys]), strict=True):
            self._when_ended(key, (rows[0][2] or 0) if rows else 0)
        return ()

    async def load_all(self, _read: Reads) -> None:
        """Everybody is looked up again."""
        self._memory.forget_all()

    async def persons(self, org_id: str) -> list[Person]:
        """The persons of an organisation, oldest first."""
        return [Person(*row) for row in await self._store.rows("persons_of_org", {"org_id": org_id})]

    async def person(self, org_id: str, person_id: str) -> Person:
        """A person of an organisation. Raises NotFound."""
        for person in await self.persons(org_id):
            if person.id == person_id:
                return person
        raise NotFound(what="person")

    async def workspace_tokens(self, workspace_id: str) -> list[Token]:
        """The live tokens of a workspace, oldest first."""
        wish = {"workspace_id": workspace_id, "now": self._clock.now()}
        return [token_of(row) for row in await self._store.rows("tokens_of_workspace", wish)]

    async def person_tokens(self, person_id: str) -> list[Token]:
        """The live tokens of a person, oldest first."""
        wish = {"person_id": person_id, "now": self._clock.now()}
        return [token_of(row) for row in await self._store.rows("tokens_of_person", wish)]

    async def invitations(self, org_id: str) -> list[Invitation]:
        """The invitations of an organisation that still let somebody in, oldest first."""
        wish = {"org_id": org_id, "now": self._clock.now()}
        return [Invitation(*row) for row in await self._store.rows("open_invitations", wish)]


def token_of(row: Row) -> Token:
    """A row of a list of tokens."""
    hashed, hint, created_at, expires_at = row
    return Token(id_of(hashed), hint, created_at, expires_at, hashed)


def _workspace(rows: Sequence[Row]) -> Caller | None:
    if not rows:
        return None
    workspace_id, org_id, expires_at = rows[0]
    caller = Caller(kind=Kind.WORKSPACE, id=workspace_id, org_id=org_id, role=Role.OPERATOR, name="")
    return replace(caller, expires_at=expires_at)


def _person(rows: Sequence[Row]) -> Caller | None:
    if not rows:
        return None
    person_id, org_id, role, name, expires_at = rows[0]
    return Caller(kind=Kind.PERSON, id=person_id, org_id=org_id, role=Role(role), name=name, expires_at=expires_at)
