"""Writes persons and their credentials. No other module changes these tables."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from molecule_core.access.credential_cache import CredentialCache
from molecule_core.access.model import (
    Caller,
    Invitation,
    IssuedToken,
    Login,
    Person,
    PersonJoined,
    Role,
    RotatedToken,
    Token,
)
from molecule_core.access.oauth_grants import OAuthGrantWriter
from molecule_core.access.push_secrets import PushSecretWriter
from molecule_core.access.reader import token_from_row
from molecule_core.access.rules import is_last_owner
from molecule_core.access.runner_tokens import RunnerTokenWriter
from molecule_core.common.clock import DAY, HOUR, SECOND, Clock, to_rfc3339
from molecule_core.common.errors import InvalidLogin, LastOwner, NotFound, OtherSession, TooManyTokens
from molecule_core.common.ids import IdGenerator, Randomness
from molecule_core.common.limits import Limits
from molecule_core.common.text import validate_name
from molecule_core.common.tokens import (
    INVITATION_PREFIX,
    LOGIN_PREFIX,
    PERSON_PREFIX,
    SESSION_PREFIX,
    WORKSPACE_PREFIX,
    hash_token,
    new_token,
    token_hint,
    token_id_from_hash,
    token_prefix,
)
from molecule_core.store.database import (
    Command,
    CommandSteps,
    JournalEvent,
    ReadQuery,
    Row,
    Statement,
    Store,
    T,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.wire.schemas.events import CredentialsRotatedPayload, PeopleChangedPayload


class AccessWriter:
    """Issues and revokes credentials. A token is returned once, by the call that creates it, and stored as a hash."""

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
        self.oauth = OAuthGrantWriter(store, cache, clock=clock, ids=ids, randomness=randomness, limits=limits)
        self.people = PeopleWriter(store, cache, self.oauth, clock=clock, ids=ids, randomness=randomness, limits=limits)
        self.push_secrets = PushSecretWriter(store, clock=clock, randomness=randomness)
        self.runner_tokens = RunnerTokenWriter(cache, clock=clock, randomness=randomness)
        self._store = store
        self._cache = cache
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._limits = limits

    # -- workspace tokens ----------------------------------------------------------------------------------------------

    def new_workspace_token(self, org_id: str, workspace_id: str) -> WriteSet[IssuedToken]:
        """Return a new token, as a part of the command that creates its workspace or issues it."""
        token = new_token(WORKSPACE_PREFIX, self._randomness)
        info = Token(
            token_id_from_hash(hash_token(token)), token_hint(token), self._clock.now(), None, hash_token(token)
        )
        row = {
            "hash": info.hash,
            "hint": info.hint,
            "org_id": org_id,
            "workspace_id": workspace_id,
            "created_at": info.created_at,
        }
        return WriteSet(IssuedToken(info, token), [("insert_workspace_token", row)])

    async def issue_workspace_token(self, org_id: str, workspace_id: str) -> IssuedToken:
        """Issue another token for a workspace. Raises TooManyTokens."""
        issued = self.new_workspace_token(org_id, workspace_id)

        def decide() -> CommandSteps[IssuedToken]:
            self._check_token_quota((yield self._live_tokens_query(workspace_id)))
            return issued + self._record_rotation(org_id, workspace_id, CredentialsRotatedPayload(1, 0, None), ())

        return await self._store.run(self._token_command(org_id, workspace_id, decide))

    async def revoke_workspace_token(self, org_id: str, workspace_id: str, token_id: str) -> Token:
        """Revoke a token of a workspace. Raises NotFound."""

        def decide() -> CommandSteps[Token]:
            token = _find_token((yield self._live_tokens_query(workspace_id)), token_id)
            now = self._clock.now()
            revoked = WriteSet(token, [("revoke_workspace_token", {"hash": token.hash, "now": now})])
            rotation = CredentialsRotatedPayload(0, 1, to_rfc3339(now))
            return revoked + self._record_rotation(org_id, workspace_id, rotation, (token.hash,))

        return await self._store.run(self._token_command(org_id, workspace_id, decide))

    async def rotate_workspace_tokens(self, org_id: str, workspace_id: str, grace_seconds: int) -> RotatedToken:
        """Issue a new token and end all others after a grace time, which may be 0. Raises TooManyTokens."""
        issued = self.new_workspace_token(org_id, workspace_id)

        def decide() -> CommandSteps[RotatedToken]:
            live = yield self._live_tokens_query(workspace_id)
            if grace_seconds:
                self._check_token_quota(live)
            ends_at = self._clock.now() + grace_seconds * SECOND
            old = [token_from_row(row) for row in live]
            ending = [each for each in old if each.expires_at is None or each.expires_at > ends_at]
            ended = WriteSet(
                None, [("end_workspace_token", {"hash": each.hash, "ends_at": ends_at}) for each in ending]
            )
            hashes = [each.hash for each in ending]
            rotation = CredentialsRotatedPayload(1, len(hashes), to_rfc3339(ends_at))
            result = RotatedToken(issued.result, hashes, ends_at)
            return issued.returning(result) + ended + self._record_rotation(org_id, workspace_id, rotation, hashes)

        return await self._store.run(self._token_command(org_id, workspace_id, decide))

    def _token_command(self, org_id: str, workspace_id: str, decide: Callable[[], CommandSteps[T]]) -> Command[T]:
        return Command(org_id, (("tokens", workspace_id),), decide)

    def _live_tokens_query(self, workspace_id: str) -> ReadQuery:
        return ReadQuery("tokens_of_workspace", {"workspace_id": workspace_id, "now": self._clock.now()})

    def _check_token_quota(self, live: Sequence[Row]) -> None:
        if len(live) >= self._limits.live_tokens:
            raise TooManyTokens(limit=self._limits.live_tokens)

    def _record_rotation(
        self, org_id: str, workspace_id: str, rotation: CredentialsRotatedPayload, ended_hashes: Sequence[str]
    ) -> WriteSet[None]:
        """Return what every change of a workspace's tokens emits and invalidates."""
        payload = msgspec.json.encode(rotation)
        event = JournalEvent("EXTERNAL_CREDENTIALS_ROTATED", workspace_id, "credentials", workspace_id, 0, payload)
        return WriteSet(None, [], [event], (org_key(org_id),), lambda: self._cache.invalidate(ended_hashes))

    # -- persons and their tokens --------------------------------------------------------------------------------------

    async def add_person(self, org_id: str, name: str, role: Role) -> tuple[Person, str]:
        """Add a person with a first token, valid for `limits.person_token_days`. Raises InvalidName."""
        now = self._clock.now()
        person = Person(self._ids.new(), org_id, validate_name(name, self._limits.name_length), role.value, now)
        issued = self._new_person_token(person.id)

        def decide() -> CommandSteps[tuple[Person, str]]:
            yield from ()
            result, event, joined = (person, issued.result.token), people_changed_event(person), PersonJoined(person.id)
            added = WriteSet(result, [("insert_person", person)], [event], (org_key(org_id),), domain_events=[joined])
            return added + issued

        return await self._store.run(Command(org_id, (("people", org_id),), decide))

    def _new_person_token(self, person_id: str) -> WriteSet[IssuedToken]:
        token, now = new_token(PERSON_PREFIX, self._randomness), self._clock.now()
        expires_at = now + self._limits.person_token_days * DAY
        info = Token(token_id_from_hash(hash_token(token)), token_hint(token), now, expires_at, hash_token(token))
        row = {
            "hash": info.hash,
            "hint": info.hint,
            "person_id": person_id,
            "created_at": now,
            "expires_at": expires_at,
        }
        return WriteSet(IssuedToken(info, token), [("insert_person_token", row)])

    async def issue_person_token(self, person: Person) -> IssuedToken:
        """Issue another token for a person, valid for `limits.person_token_days`. Raises TooManyTokens."""
        issued = self._new_person_token(person.id)

        def decide() -> CommandSteps[IssuedToken]:
            self._check_token_quota(
                (yield ReadQuery("tokens_of_person", {"person_id": person.id, "now": self._clock.now()}))
            )
            return issued

        return await self._store.run(Command(person.org_id, (("person", person.id),), decide))

    async def revoke_person_token(self, person: Person, token_id: str) -> Token:
        """Revoke a token of a person. Raises NotFound."""

        def decide() -> CommandSteps[Token]:
            now = self._clock.now()
            token = _find_token((yield ReadQuery("tokens_of_person", {"person_id": person.id, "now": now})), token_id)
            ended: list[Statement] = [("revoke_person_token", {"hash": token.hash, "now": now})]
            return WriteSet(token, ended, after_commit=lambda: self._cache.invalidate((token.hash,)))

        return await self._store.run(Command(person.org_id, (("person", person.id),), decide))

    async def get_or_create_owner(self, org_id: str, name: str) -> Person:
        """Return the first owner of an organisation; create one with this name if there is none."""

        def decide() -> CommandSteps[Person]:
            for row in (yield ReadQuery("persons_of_org", {"org_id": org_id})):
                if row[3] == Role.OWNER.value:
                    return WriteSet(Person(*row))
            person = Person(self._ids.new(), org_id, name, Role.OWNER.value, self._clock.now())
            return WriteSet(person, [("insert_person", person)], [people_changed_event(person)], (org_key(org_id),))

        return await self._store.run(Command(org_id, (("people", org_id),), decide))

    # -- login ---------------------------------------------------------------------------------------------------------

    async def issue_login(self, person: Person) -> tuple[str, int]:
        """Return a single-use login code and when it expires (microseconds)."""
        code, now = new_token(LOGIN_PREFIX, self._randomness), self._clock.now()
        expires_at = now + self._limits.login_seconds * SECOND
        row = {"hash": hash_token(code), "person_id": person.id, "created_at": now, "expires_at": expires_at}

        def decide() -> CommandSteps[tuple[str, int]]:
            yield from ()
            return WriteSet((code, expires_at), [("insert_login", row)])

        return await self._store.run(Command(person.org_id, (), decide))

    async def log_in(self, code: str, current: Sequence[Caller] = ()) -> Login:
        """Exchange the code of a login link or an invitation for a session, once.

        `current`: who is logged in and did not agree to another login. Raises InvalidLogin; OtherSession if the code is
        for another person, and it stays valid."""
        if token_prefix(code) == INVITATION_PREFIX:
            return await self.people.accept_invitation(code, current)
        code_hash, token = hash_token(code), new_token(SESSION_PREFIX, self._randomness)

        def decide() -> CommandSteps[Login]:
            now = self._clock.now()
            found = yield ReadQuery("login_by_hash", {"hash": code_hash})
            if not found or found[0][6] is not None or found[0][5] <= now:
                raise InvalidLogin
            person, expires_at = Person(*found[0][:5]), now + self._limits.session_days * DAY
            if current and all(each.id != person.id for each in current):
                raise OtherSession(current=_current_name(current, person.org_id), other=person.name)
            session = {"hash": hash_token(token), "person_id": person.id, "created_at": now, "expires_at": expires_at}
            writes: list[Statement] = [("use_login", {"hash": code_hash, "now": now}), ("insert_session", session)]
            return WriteSet(Login(person, token, expires_at), writes)

        return await self._store.run(Command("", (("login", code_hash),), decide))

    async def log_out(self, token: str) -> None:
        """End a session. Does nothing if it has ended."""
        ended: dict[str, Any] = {"hash": hash_token(token), "now": self._clock.now()}

        def decide() -> CommandSteps[None]:
            yield from ()
            return WriteSet(
                None, [("end_session", ended)], after_commit=lambda: self._cache.invalidate((ended["hash"],))
            )

        await self._store.run(Command("", (("session", ended["hash"]),), decide))


def _current_name(current: Sequence[Caller], org_id: str) -> str:
    """Return the name of who is logged in: in the organisation of a link, else in the first one."""
    return next((each.name for each in current if each.org_id == org_id), current[0].name)


def _find_token(rows: Sequence[Row], token_id: str) -> Token:
    """Return the token with an id from rows. Raises NotFound."""
    for row in rows:
        if token_id_from_hash(row[0]) == token_id:
            return token_from_row(row)
    raise NotFound(what="token")


class PeopleWriter:
    """Writes the people of an organisation. Commands run one at a time, so that one owner always remains."""

    def __init__(
        self,
        store: Store,
        cache: CredentialCache,
        oauth: OAuthGrantWriter,
        *,
        clock: Clock,
        ids: IdGenerator,
        randomness: Randomness,
        limits: Limits,
    ) -> None:
        self._store = store
        self._cache = cache
        self._oauth = oauth
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._limits = limits

    # -- persons -------------------------------------------------------------------------------------------------------

    async def update_person(self, org_id: str, person_id: str, *, name: str | None, role: Role | None) -> Person:
        """Change the name or role of a person, effective at once. Raises InvalidName, NotFound, LastOwner."""
        clean = None if name is None else validate_name(name, self._limits.name_length)

        def decide() -> CommandSteps[Person]:
            old, others = _split_person((yield ReadQuery("persons_of_org", {"org_id": org_id})), person_id)
            new_role = old.role if role is None else role.value
            if new_role != Role.OWNER.value and is_last_owner(old, others):
                raise LastOwner(name=old.name)
            new = msgspec.structs.replace(old, name=clean or old.name, role=new_role)
            if new == old:
                return WriteSet(old)
            writes: list[Statement] = [("update_person", new)]
            if new_role != Role.OWNER.value:
                writes.append(self._end_invitations_by(org_id, person_id))
            change = WriteSet(new, writes) + self._record_change(new)
            if new_role == Role.VIEWER.value:
                change = change + (yield from self._oauth.end_grants_of_person(person_id))
            return change

        return await self._store.run(self._people_command(org_id, decide))

    async def remove_person(self, org_id: str, person_id: str) -> Person:
        """Remove a person with their sessions, tokens and open invitations. Raises NotFound, LastOwner."""

        def decide() -> CommandSteps[Person]:
            old, others = _split_person((yield ReadQuery("persons_of_org", {"org_id": org_id})), person_id)
            if is_last_owner(old, others):
                raise LastOwner(name=old.name)
            removed = WriteSet(old, [("remove_person", {"id": person_id, "now": self._clock.now()})])
            invitations_ended = WriteSet(None, [self._end_invitations_by(org_id, person_id)])
            grants_ended = yield from self._oauth.end_grants_of_person(person_id)
            return removed + invitations_ended + grants_ended + self._record_change(old)

        return await self._store.run(self._people_command(org_id, decide))

    def _people_command(self, org_id: str, decide: Any) -> Command[Any]:
        return Command(org_id, (("people", org_id),), decide)

    def _end_invitations_by(self, org_id: str, person_id: str) -> Statement:
        return "end_invitations_by", {"org_id": org_id, "person_id": person_id, "now": self._clock.now()}

    def _record_change(self, person: Person) -> WriteSet[None]:
        """Return what every change of a person emits and invalidates."""
        return WriteSet(
            None,
            events=[people_changed_event(person)],
            notify=(org_key(person.org_id),),
            after_commit=lambda: self._cache.invalidate_holder(person.id),
        )

    # -- invitations ---------------------------------------------------------------------------------------------------

    async def create_invitation(self, by: Caller, org_id: str, name: str, role: Role) -> tuple[Invitation, str]:
        """Create an invitation; return it with the code of its link, which is shown only here. Raises InvalidName."""
        now, code = self._clock.now(), new_token(INVITATION_PREFIX, self._randomness)
        invitation = Invitation(
            id=self._ids.new(),
            org_id=org_id,
            name=validate_name(name, self._limits.name_length),
            role=role.value,
            invited_by=by.id,
            created_at=now,
            expires_at=now + self._limits.invitation_hours * HOUR,
        )
        row = {"hash": hash_token(code), **msgspec.structs.asdict(invitation)}

        def decide() -> CommandSteps[tuple[Invitation, str]]:
            yield from ()
            return WriteSet((invitation, code), [("insert_invitation", row)])

        return await self._store.run(self._people_command(org_id, decide))

    async def withdraw_invitation(self, org_id: str, invitation_id: str) -> None:
        """Withdraw an invitation. Raises NotFound."""

        def decide() -> CommandSteps[None]:
            now = self._clock.now()
            found = yield ReadQuery("open_invitations", {"org_id": org_id, "now": now})
            if invitation_id not in {row[0] for row in found}:
                raise NotFound(what="invitation")
            return WriteSet(None, [("end_invitation", {"id": invitation_id, "now": now})])

        await self._store.run(self._people_command(org_id, decide))

    async def accept_invitation(self, code: str, current: Sequence[Caller] = ()) -> Login:
        """Exchange an invitation for a new person and a session, once.

        `current`: who is logged in and did not agree to another login. Raises InvalidLogin, OtherSession."""
        hash_params, token = {"hash": hash_token(code)}, new_token(SESSION_PREFIX, self._randomness)
        found = await self._store.rows("invitation_by_hash", hash_params)
        if not found:
            raise InvalidLogin

        def decide() -> CommandSteps[Login]:
            now = self._clock.now()
            rows = yield ReadQuery("invitation_by_hash", hash_params)
            if not rows:
                raise InvalidLogin
            invitation, ended_at = Invitation(*rows[0][:-1]), rows[0][-1]
            if ended_at is not None or invitation.expires_at <= now:
                raise InvalidLogin
            if current:
                raise OtherSession(current=_current_name(current, invitation.org_id), other=invitation.name)
            person = Person(self._ids.new(), invitation.org_id, invitation.name, invitation.role, now)
            expires_at = now + self._limits.session_days * DAY
            session = {"hash": hash_token(token), "person_id": person.id, "created_at": now, "expires_at": expires_at}
            writes: list[Statement] = [
                ("end_invitation", {"id": invitation.id, "now": now}),
                ("insert_person", person),
                ("insert_session", session),
            ]
            login = Login(person, token, expires_at)
            joined = WriteSet(login, writes, domain_events=[PersonJoined(person.id)])
            return joined + self._record_change(person)

        return await self._store.run(self._people_command(str(found[0][1]), decide))


def people_changed_event(person: Person) -> JournalEvent:
    """Return the event for a change of an organisation's people."""
    return JournalEvent(
        "PEOPLE_CHANGED", "", "person", person.id, 0, msgspec.json.encode(PeopleChangedPayload(person.id))
    )


def _split_person(rows: Sequence[Row], person_id: str) -> tuple[Person, list[Person]]:
    """Return one person, and the others. Raises NotFound."""
    persons = [Person(*row) for row in rows]
    for each in persons:
        if each.id == person_id:
            return each, [other for other in persons if other is not each]
    raise NotFound(what="person")
