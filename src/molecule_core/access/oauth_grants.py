"""Writes OAuth clients, what people granted them, and their codes and tokens. No other module changes these tables.

Codes and tokens are stored as hashes. A code is exchanged once, a refresh token is used once; a second use ends the
grant, because one of the two users is not the client (docs/decisions/0106-oauth-for-web-connectors.md)."""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import msgspec

from molecule_core.access.credential_cache import CredentialCache
from molecule_core.access.model import GrantRequest, IssuedGrantTokens, OAuthGrant, Person, RegisteredClient, Role
from molecule_core.access.oauth_rules import GrantRefused, is_proven
from molecule_core.access.rules import role_includes
from molecule_core.common.clock import DAY, SECOND, Clock
from molecule_core.common.errors import CapacityExceeded, InsufficientRole, NotFound
from molecule_core.common.ids import IdGenerator, Randomness
from molecule_core.common.limits import Limits
from molecule_core.common.tokens import (
    OAUTH_ACCESS_PREFIX,
    OAUTH_CODE_PREFIX,
    OAUTH_REFRESH_PREFIX,
    hash_token,
    new_token,
)
from molecule_core.store.database import (
    Command,
    CommandSteps,
    JournalEvent,
    ReadQuery,
    Row,
    Statement,
    StepRequest,
    Store,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.wire.schemas.events import OAuthGrantPayload

ACCESS, REFRESH = "access", "refresh"
_UNUSED_DAYS = 1
_WRONG_CODE = "the code is unknown, expired or used, or was not issued for this client, address or resource"
_WRONG_TOKEN = "the refresh token is unknown, expired, used or revoked, or was not issued for this client or resource"


class OAuthGrantWriter:
    """Registers clients, grants them access, exchanges codes, rotates and ends tokens."""

    def __init__(
        self,
        store: Store,
        cache: CredentialCache,
        *,
        clock: Clock,
        ids: IdGenerator,
        randomness: Randomness,
        limits: Limits,
    ) -> None:
        self._store = store
        self._cache = cache
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._limits = limits
        self.on_tokens_ended: Callable[[Sequence[str]], None] = lambda _hashes: None
        """Called with the hashes of ended access tokens after the commit, to close their streams."""

    # -- clients -------------------------------------------------------------------------------------------------------

    async def register_client(self, org_id: str, name: str, redirect_uris: Iterable[str]) -> RegisteredClient:
        """Register a client of an organisation; with an empty one, a client that registers itself.

        Raises CapacityExceeded."""
        client = RegisteredClient(
            self._ids.new_random(), org_id, name, tuple(dict.fromkeys(redirect_uris)), self._clock.now()
        )
        most = self._limits.oauth_clients if org_id else self._limits.oauth_dynamic_clients
        row = {**msgspec.structs.asdict(client), "redirect_uris": msgspec.json.encode(client.redirect_uris).decode()}
        unused: list[Statement] = []
        if not org_id:
            unused = [("forget_unused_oauth_clients", {"before": client.created_at - _UNUSED_DAYS * DAY})]

        def decide() -> CommandSteps[RegisteredClient]:
            found = yield ReadQuery("oauth_clients_of_org", {"org_id": org_id, "count": most})
            if len(found) >= most:
                # What was never used goes even if the new client must wait for that.
                error = CapacityExceeded(what="registered OAuth clients", most=most)
                return WriteSet(client, unused, error=error)
            return WriteSet(client, [*unused, ("insert_oauth_client", row)])

        return await self._store.run(Command(org_id, (("oauth clients", org_id),), decide))

    async def remove_client(self, org_id: str, client_id: str) -> RegisteredClient:
        """Remove a client of an organisation, and end what it was granted. Raises NotFound."""

        def decide() -> CommandSteps[RegisteredClient]:
            rows = yield ReadQuery("oauth_client", {"id": client_id})
            if not rows or rows[0][1] != org_id:
                raise NotFound(what="OAuth client")
            removed = WriteSet(client_from_row(rows[0]), [("delete_oauth_client", {"id": client_id})])
            query = ReadQuery("live_oauth_grants_of_client", {"client_id": client_id, "now": self._clock.now()})
            return removed + (yield from self._end_grants((yield query)))

        return await self._store.run(Command(org_id, (("oauth clients", org_id), ("people", org_id)), decide))

    # -- grants --------------------------------------------------------------------------------------------------------

    async def create_grant(self, request: GrantRequest, *, is_registered: bool) -> str:
        """Grant a client what it asked for, and return its code. It has access once it has exchanged the code.

        Raises NotFound, InsufficientRole, CapacityExceeded."""
        code, now = new_token(OAUTH_CODE_PREFIX, self._randomness), self._clock.now()
        grant = OAuthGrant(
            self._ids.new(),
            request.org_id,
            request.workspace_id,
            request.person_id,
            request.client_id,
            request.client_name,
            request.scope,
            now,
            now + request.seconds * SECOND,
        )
        code_row = {
            "hash": hash_token(code),
            "grant_id": grant.id,
            "redirect_uri": request.redirect_uri,
            "challenge": request.challenge,
            "expires_at": now + self._limits.oauth_code_seconds * SECOND,
        }

        def decide() -> CommandSteps[str]:
            if is_registered and not (yield ReadQuery("oauth_client", {"id": request.client_id})):
                raise NotFound(what="OAuth client")
            persons = [Person(*row) for row in (yield ReadQuery("persons_of_org", {"org_id": request.org_id}))]
            person = next((each for each in persons if each.id == request.person_id), None)
            if person is None or not role_includes(Role(person.role), Role.OPERATOR):
                role = "none" if person is None else person.role
                raise InsufficientRole(role=role, needed=Role.OPERATOR.value)
            live = yield ReadQuery(
                "live_oauth_grants_of_workspace", {"workspace_id": request.workspace_id, "now": self._clock.now()}
            )
            if len(live) >= self._limits.oauth_grants:
                raise CapacityExceeded(what="apps that are connected to this workspace", most=self._limits.oauth_grants)
            row = {**msgspec.structs.asdict(grant), "resource": request.resource}
            writes: list[Statement] = [("insert_oauth_grant", row), ("insert_oauth_code", code_row)]
            if is_registered:
                writes.append(("use_oauth_client", {"id": request.client_id, "now": now}))
            return WriteSet(code, writes)

        keys = (("people", request.org_id), ("oauth grants", request.workspace_id))
        return await self._store.run(Command(request.org_id, keys, decide))

    async def exchange_code(
        self, code: str, *, client_id: str, redirect_uri: str, verifier: str, resource: str
    ) -> IssuedGrantTokens:
        """Exchange a code for the first tokens of its grant. A failed attempt ends the code and the grant.

        Raises GrantRefused."""
        code_hash, params = hash_token(code), {"hash": hash_token(code)}
        found = await self._store.rows("oauth_code_by_hash", params)
        if not found:
            raise GrantRefused("invalid_grant", _WRONG_CODE)
        grant_id, org_id = found[0][:2]

        def decide() -> CommandSteps[IssuedGrantTokens]:
            now = self._clock.now()
            rows = yield ReadQuery("oauth_code_by_hash", params)
            grants = yield ReadQuery("oauth_grant", {"id": grant_id, "now": now})
            if not rows or not grants:
                raise GrantRefused("invalid_grant", _WRONG_CODE)
            grant = OAuthGrant(*grants[0])
            *_, owner, address, challenge, target, expires_at, used_at = rows[0]
            is_right = (
                used_at is None
                and expires_at > now
                and owner == client_id
                and address == redirect_uri
                and resource in ("", target)
                and is_proven(challenge, verifier)
            )
            used = WriteSet(None, [("use_oauth_code", {"hash": code_hash, "now": now})])
            if not is_right:
                ended = yield from self._end_grants(grants)
                return self._refuse("invalid_grant", _WRONG_CODE, used + ended)
            started = WriteSet(
                None,
                [("start_oauth_grant", {"id": grant_id, "now": now})],
                [_grant_event(grant, "granted")],
                (org_key(org_id),),
            )
            return self._new_tokens(grant) + used + started

        return await self._store.run(self._grant_command(org_id, grant_id, decide))

    async def refresh(self, token: str, *, client_id: str, resource: str, scope: str) -> IssuedGrantTokens:
        """Exchange a refresh token for new tokens, once. Another use of it ends the grant. Raises GrantRefused."""
        params = {"hash": hash_token(token)}
        found = await self._store.rows("oauth_token_by_hash", params)
        if not found:
            raise GrantRefused("invalid_grant", _WRONG_TOKEN)
        grant_id, org_id = found[0][:2]

        def decide() -> CommandSteps[IssuedGrantTokens]:
            now = self._clock.now()
            rows = yield ReadQuery("oauth_token_by_hash", params)
            grants = yield ReadQuery("oauth_grant", {"id": grant_id, "now": now})
            if not rows or not grants:
                raise GrantRefused("invalid_grant", _WRONG_TOKEN)
            grant = OAuthGrant(*grants[0])
            _, _, owner, target, kind, expires_at, ended_at = rows[0]
            if kind != REFRESH or owner != client_id or expires_at <= now or resource not in ("", target):
                raise GrantRefused("invalid_grant", _WRONG_TOKEN)
            if ended_at is not None:
                return self._refuse("invalid_grant", _WRONG_TOKEN, (yield from self._end_grants(grants)))
            if scope and set(scope.split()) != set(grant.scope.split()):
                raise GrantRefused("invalid_scope", f"the scope of this grant is {grant.scope}")
            live = yield ReadQuery("live_oauth_tokens", {"grant_id": grant_id, "now": now})
            # The last access token stays valid for requests that are under way; earlier ones end.
            access = [row[0] for row in live if row[1] == ACCESS][1:]
            return self._new_tokens(grant) + self._end_tokens([params["hash"], *access])

        return await self._store.run(self._grant_command(org_id, grant_id, decide))

    async def revoke_token(self, token: str, client_id: str) -> None:
        """End the grant of a token of a client (RFC 7009). Does nothing for a token that is not the client's."""
        found = await self._store.rows("oauth_token_by_hash", {"hash": hash_token(token)})
        if not found or found[0][2] != client_id:
            return
        grant_id, org_id = found[0][:2]

        def decide() -> CommandSteps[None]:
            query = ReadQuery("oauth_grant", {"id": grant_id, "now": self._clock.now()})
            return (yield from self._end_grants((yield query)))

        await self._store.run(self._grant_command(org_id, grant_id, decide))

    async def revoke_grant(self, org_id: str, workspace_id: str, grant_id: str) -> OAuthGrant:
        """End a grant of a workspace. Raises NotFound."""

        def decide() -> CommandSteps[OAuthGrant]:
            rows = yield ReadQuery("oauth_grant", {"id": grant_id, "now": self._clock.now()})
            if not rows or rows[0][2] != workspace_id:
                raise NotFound(what="connected app")
            return (yield from self._end_grants(rows)).returning(OAuthGrant(*rows[0]))

        return await self._store.run(self._grant_command(org_id, grant_id, decide))

    def end_grants_of_person(self, person_id: str) -> Generator[StepRequest, Any, WriteSet[None]]:
        """End what a person granted, as a part of the command that removes the person or takes the role away."""
        rows = yield ReadQuery("live_oauth_grants_of_person", {"person_id": person_id, "now": self._clock.now()})
        return (yield from self._end_grants(rows))

    def end_grants_of_workspace(self, workspace_id: str) -> WriteSet[None]:
        """End the grants of a workspace, as a part of the command that removes it."""
        params = {"workspace_id": workspace_id, "now": self._clock.now()}
        return WriteSet(
            None,
            [("end_oauth_grants_of_workspace", params)],
            after_commit=lambda: self._cache.invalidate_holder(workspace_id),
        )

    def _grant_command(self, org_id: str, grant_id: str, decide: Callable[[], CommandSteps[Any]]) -> Command[Any]:
        return Command(org_id, (("oauth grant", grant_id),), decide)

    def _new_tokens(self, grant: OAuthGrant) -> WriteSet[IssuedGrantTokens]:
        now = self._clock.now()
        expires_at = min(now + self._limits.oauth_access_seconds * SECOND, grant.expires_at)
        tokens = new_token(OAUTH_ACCESS_PREFIX, self._randomness), new_token(OAUTH_REFRESH_PREFIX, self._randomness)
        rows = [
            {"hash": hash_token(token), "grant_id": grant.id, "kind": kind, "created_at": now, "expires_at": end}
            for token, kind, end in zip(tokens, (ACCESS, REFRESH), (expires_at, grant.expires_at), strict=True)
        ]
        issued = IssuedGrantTokens(*tokens, grant.scope, expires_at)
        return WriteSet(issued, [("insert_oauth_token", row) for row in rows])

    def _end_grants(self, rows: Sequence[Row]) -> Generator[StepRequest, Any, WriteSet[None]]:
        """End live grants with all their tokens."""
        ended, now = WriteSet(None), self._clock.now()
        for grant in (OAuthGrant(*row) for row in rows):
            live = yield ReadQuery("live_oauth_tokens", {"grant_id": grant.id, "now": now})
            writes: list[Statement] = [("end_oauth_grant", {"id": grant.id, "now": now})]
            events = [] if grant.started_at is None else [_grant_event(grant, "ended")]
            change = WriteSet(None, writes, events, (org_key(grant.org_id),))
            ended = ended + change + self._end_tokens([row[0] for row in live])
        return ended

    def _end_tokens(self, hashes: Sequence[str]) -> WriteSet[None]:
        now = self._clock.now()

        def after_commit() -> None:
            self._cache.invalidate(hashes)
            self.on_tokens_ended(hashes)

        writes: list[Statement] = [("end_oauth_token", {"hash": each, "now": now}) for each in hashes]
        return WriteSet(None, writes, after_commit=after_commit if hashes else None)

    def _refuse(self, error: str, reason: str, change: WriteSet[Any]) -> WriteSet[Any]:
        """Return a change that is committed although the request is refused."""
        return msgspec.structs.replace(change, error=GrantRefused(error, reason))


def _grant_event(grant: OAuthGrant, state: str) -> JournalEvent:
    payload = OAuthGrantPayload(grant.id, state, grant.client_name, grant.person_id, grant.scope)
    return JournalEvent(
        "OAUTH_GRANT_CHANGED", grant.workspace_id, "oauth_grant", grant.id, 0, msgspec.json.encode(payload)
    )


def client_from_row(row: Row) -> RegisteredClient:
    """Build a client from a row."""
    id_, org_id, name, redirect_uris, created_at = row
    return RegisteredClient(id_, org_id, name, tuple(msgspec.json.decode(redirect_uris)), created_at)


class OAuthGrantReader:
    """Reads OAuth clients and grants."""

    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits

    async def client(self, client_id: str) -> RegisteredClient | None:
        """Return a registered client, if there is one with this id."""
        rows = await self._store.rows("oauth_client", {"id": client_id})
        return client_from_row(rows[0]) if rows else None

    async def clients(self, org_id: str) -> list[RegisteredClient]:
        """Return the registered clients of an organisation, oldest first."""
        params = {"org_id": org_id, "count": self._limits.oauth_clients}
        return [client_from_row(row) for row in await self._store.rows("oauth_clients_of_org", params)]

    async def grants(self, workspace_id: str) -> list[OAuthGrant]:
        """Return the live grants of a workspace that their clients use, oldest first."""
        params = {"workspace_id": workspace_id, "now": self._clock.now()}
        return [OAuthGrant(*row) for row in await self._store.rows("live_oauth_grants_of_workspace", params)]
