"""Resolves tokens to callers; reads persons, tokens and invitations."""

import hmac
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from molecule_core.access.credential_cache import CredentialCache
from molecule_core.access.model import ADMIN, METRICS, Caller, CredentialKind, Invitation, Person, Role, Token
from molecule_core.access.oauth_rules import ACT_SCOPE
from molecule_core.common.clock import Clock
from molecule_core.common.errors import NotFound
from molecule_core.common.tokens import (
    OAUTH_ACCESS_PREFIX,
    PERSON_PREFIX,
    RUNNER_PREFIX,
    SESSION_PREFIX,
    WORKSPACE_PREFIX,
    hash_token,
    token_id_from_hash,
    token_prefix,
)
from molecule_core.store.cache_sync import BatchReader, SyncedCache
from molecule_core.store.database import Row, Store


class AccessReader(SyncedCache):
    """Resolves tokens through the credential cache.

    The writer invalidates what it changes; this class invalidates what other processes change.
    `cache.invalidation_count` grows whenever a credential ends or its permissions change."""

    KINDS = ("credential", "holder")

    def __init__(
        self, store: Store, clock: Clock, admin_token: str, cache: CredentialCache, metrics_token: str = ""
    ) -> None:
        self._store = store
        self._clock = clock
        self._admin_hash = hash_token(admin_token)
        self._metrics_hash = hash_token(metrics_token) if metrics_token else ""
        self.cache = cache
        self._on_credential_end: Callable[[str, int], None] = lambda _hash, _at: None
        self._on_holder_change: Callable[[str], None] = lambda _holder: None

    def cached_caller(self, token: str, resource: str = "") -> Caller | None:
        """Return the caller of a token if it is cached, unexpired and not for another resource."""
        caller = self.cache.callers.get(hash_token(token))
        if caller is None or caller.resource not in ("", resource):
            return None
        return caller if caller.expires_at is None or caller.expires_at > self._clock.now() else None

    async def resolve_caller(self, token: str, resource: str = "") -> Caller | None:
        """Return the caller of a token, or None if it is unknown, ended, expired or for another resource."""
        hashed = hash_token(token)
        while hashed not in self.cache.callers:
            before = self.cache.invalidation_count
            found = await self._look_up(token, hashed)
            if self.cache.invalidation_count != before:  # the row that was read may be outdated
                continue
            if found is None:
                return None
            self.cache.put(hashed, found)
        return self.cached_caller(token, resource)

    async def _look_up(self, token: str, hashed: str) -> Caller | None:
        if hmac.compare_digest(hashed, self._admin_hash):
            return ADMIN
        if hmac.compare_digest(hashed, self._metrics_hash):
            return METRICS
        lookup = _LOOKUPS.get(token_prefix(token) or "")
        if lookup is None:
            return None
        query_name, to_caller = lookup
        return to_caller(await self._store.rows(query_name, {"hash": hashed}))

    def on_credential_change(self, on_end: Callable[[str, int], None], on_holder_change: Callable[[str], None]) -> None:
        """Set the callbacks for changes made by other processes.

        `on_end` gets the hash of a credential and when it ends (microseconds); `on_holder_change` the id of a person
        whose permissions changed."""
        self._on_credential_end, self._on_holder_change = on_end, on_holder_change

    async def load(self, read: BatchReader, kind: str, keys: list[str]) -> Iterable[str]:
        """Invalidate credentials and holders that another process changed."""
        if kind == "holder":
            for key in keys:
                self.cache.invalidate_holder(key)
                self._on_holder_change(key)
            return ()
        self.cache.invalidate(keys)
        # Only workspace tokens can have a grace time before they end.
        for key, rows in zip(keys, await read("workspace_by_token", [{"hash": key} for key in keys]), strict=True):
            self._on_credential_end(key, (rows[0][2] or 0) if rows else 0)
        return ()

    async def load_all(self, _read: BatchReader) -> None:
        """Invalidate all cached credentials."""
        self.cache.invalidate_all()

    async def persons(self, org_id: str) -> list[Person]:
        """Return the persons of an organisation, oldest first."""
        return [Person(*row) for row in await self._store.rows("persons_of_org", {"org_id": org_id})]

    async def person(self, org_id: str, person_id: str) -> Person:
        """Return a person of an organisation. Raises NotFound."""
        for person in await self.persons(org_id):
            if person.id == person_id:
                return person
        raise NotFound(what="person")

    async def workspace_tokens(self, workspace_id: str) -> list[Token]:
        """Return the live tokens of a workspace, oldest first."""
        params = {"workspace_id": workspace_id, "now": self._clock.now()}
        return [token_from_row(row) for row in await self._store.rows("tokens_of_workspace", params)]

    async def person_tokens(self, person_id: str) -> list[Token]:
        """Return the live tokens of a person, oldest first."""
        params = {"person_id": person_id, "now": self._clock.now()}
        return [token_from_row(row) for row in await self._store.rows("tokens_of_person", params)]

    async def invitations(self, org_id: str) -> list[Invitation]:
        """Return the open invitations of an organisation, oldest first."""
        params = {"org_id": org_id, "now": self._clock.now()}
        return [Invitation(*row) for row in await self._store.rows("open_invitations", params)]


def token_from_row(row: Row) -> Token:
    """Build a token from a row of a token list."""
    hashed, hint, created_at, expires_at = row
    return Token(token_id_from_hash(hashed), hint, created_at, expires_at, hashed)


def _workspace_caller(rows: Sequence[Row]) -> Caller | None:
    if not rows:
        return None
    workspace_id, org_id, expires_at = rows[0]
    caller = Caller(kind=CredentialKind.WORKSPACE, id=workspace_id, org_id=org_id, role=Role.OPERATOR, name="")
    return replace(caller, expires_at=expires_at)


def _oauth_caller(rows: Sequence[Row]) -> Caller | None:
    """Return the workspace of an access token, which may do no more than its grant says."""
    if not rows:
        return None
    workspace_id, org_id, expires_at, resource, person_id, grant_id, scope = rows[0]
    caller = Caller(kind=CredentialKind.WORKSPACE, id=workspace_id, org_id=org_id, role=Role.OPERATOR, name="")
    return replace(
        caller,
        expires_at=expires_at,
        resource=resource,
        granted_by=person_id,
        grant_id=grant_id,
        is_read_only=ACT_SCOPE not in scope.split(),
    )


def _runner_caller(rows: Sequence[Row]) -> Caller | None:
    if not rows:
        return None
    runner_id, org_id = rows[0]
    return Caller(kind=CredentialKind.RUNNER, id=runner_id, org_id=org_id, role=Role.VIEWER, name="")


def _person_caller(rows: Sequence[Row]) -> Caller | None:
    if not rows:
        return None
    person_id, org_id, role, name, expires_at = rows[0]
    return Caller(
        kind=CredentialKind.PERSON, id=person_id, org_id=org_id, role=Role(role), name=name, expires_at=expires_at
    )


# Query of each kind of token by the hash, and what its rows become.
_LOOKUPS: dict[str, tuple[str, Callable[[Sequence[Row]], Caller | None]]] = {
    WORKSPACE_PREFIX: ("workspace_by_token", _workspace_caller),
    PERSON_PREFIX: ("person_by_token", _person_caller),
    SESSION_PREFIX: ("person_by_session", _person_caller),
    RUNNER_PREFIX: ("runner_by_token", _runner_caller),
    OAUTH_ACCESS_PREFIX: ("workspace_by_oauth_token", _oauth_caller),
}
