"""The only hand that changes persons and tokens."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from molecule_core.access.memory import Remembered
from molecule_core.access.model import Issued, Login, Person, Role, Rotated, Token
from molecule_core.access.people import PeopleWriter, changed_people
from molecule_core.access.reader import token_of
from molecule_core.ground.clock import DAY, SECOND, Clock, rfc3339
from molecule_core.ground.errors import InvalidLogin, NotFound, TooManyTokens
from molecule_core.ground.ids import Ids, Randomness
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import clean_name
from molecule_core.ground.tokens import (
    INVITATION_PREFIX,
    LOGIN_PREFIX,
    PERSON_PREFIX,
    SESSION_PREFIX,
    WORKSPACE_PREFIX,
    hash_of,
    hint_of,
    id_of,
    new_token,
    prefix_of,
)
from molecule_core.store.database import Command, Decision, Event, Read, Row, Store, T, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.queries import Params
from molecule_core.wire.events import CredentialsRotated


class AccessWriter:
    """Issues credentials. A token is returned once, by the call that makes it, and stored as a hash."""

    def __init__(
        self, store: Store, memory: Remembered, *, clock: Clock, ids: Ids, randomness: Randomness, limits: Limits
    ) -> None:
        self.people = PeopleWriter(store, memory, clock=clock, ids=ids, randomness=randomness, limits=limits)
        self._store = store
        self._memory = memory
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._limits = limits

    # -- tokens of workspaces ------------------------------------------------------------------------------------------

    def issue_for_workspace(self, org_id: str, workspace_id: str) -> tuple[str, list[tuple[str, Params]]]:
        """A new token and the statements that make it valid, for the command that creates the workspace."""
        issued, write = self._new_workspace_token(org_id, workspace_id)
        return issued.token, [write]

    def _new_workspace_token(self, org_id: str, workspace_id: str) -> tuple[Issued, tuple[str, Params]]:
        token = new_token(WORKSPACE_PREFIX, self._randomness)
        about = Token(id_of(hash_of(token)), hint_of(token), self._clock.now(), None, hash_of(token))
        row = {
            "hash": about.hash,
            "hint": about.hint,
            "org_id": org_id,
            "workspace_id": workspace_id,
            "created_at": about.created_at,
        }
        return Issued(about, token), ("insert_workspace_token", row)

    async def issue_workspace_token(self, org_id: str, workspace_id: str) -> Issued:
        """One more token of a workspace. Raises TooManyTokens."""
        issued, write = self._new_workspace_token(org_id, workspace_id)

        def decide() -> Decision[Issued]:
            self._check_room((yield self._live_tokens(workspace_id)))
            return self._rotated(org_id, workspace_id, [write], CredentialsRotated(1, 0, None), (), issued)

        return await self._store.run(self._of_workspace(org_id, workspace_id, decide))

    async def revoke_workspace_token(self, org_id: str, workspace_id: str, token_id: str) -> Token:
        """A token of a workspace opens nothing any more. Raises NotFound."""

        def decide() -> Decision[Token]:
            token = _found((yield self._live_tokens(workspace_id)), token_id)
            now = self._clock.now()
            ended: list[tuple[str, Params]] = [("revoke_workspace_token", {"hash": token.hash, "now": now})]
            told = CredentialsRotated(0, 1, rfc3339(now))
            return self._rotated(org_id, workspace_id, ended, told, (token.hash,), token)

        return await self._store.run(self._of_workspace(org_id, workspace_id, decide))

    async def rotate(self, org_id: str, workspace_id: str, grace_seconds: int) -> Rotated:
        """A new token; all others end at once, or after a while. Raises TooManyTokens."""
        issued, write = self._new_workspace_token(org_id, workspace_id)

        def decide() -> Decision[Rotated]:
            live = yield self._live_tokens(workspace_id)
            if grace_seconds:
                self._check_room(live)
            ends_at = self._clock.now() + grace_seconds * SECOND
            old = [token_of(row) for row in live]
            ending = [each for each in old if each.expires_at is None or each.expires_at > ends_at]
            ends: list[tuple[str, Params]] = [
                ("end_workspace_token", {"hash": each.hash, "ends_at": ends_at}) for each in ending
            ]
            hashes = [each.hash for each in ending]
            told = CredentialsRotated(1, len(hashes), rfc3339(ends_at))
            answer = Rotated(issued, hashes, ends_at)
            return self._rotated(org_id, workspace_id, [write, *ends], told, hashes, answer)

        return await self._store.run(self._of_workspace(org_id, workspace_id, decide))

    def _of_workspace(self, org_id: str, workspace_id: str, decide: Callable[[], Decision[T]]) -> Command[T]:
        return Command(org_id, (("tokens", workspace_id),), decide)

    def _live_tokens(self, workspace_id: str) -> Read:
        return Read("tokens_of_workspace", {"workspace_id": workspace_id, "now": self._clock.now()})

    def _check_room(self, live: Sequence[Row]) -> None:
        if len(live) >= self._limits.live_tokens:
            raise TooManyTokens(limit=self._limits.live_tokens)

    def _rotated(
        self,
        org_id: str,
        workspace_id: str,
        writes: list[tuple[str, Params]],
        told: CredentialsRotated,
        ended: Sequence[str],
        answer: T,
    ) -> WriteSet[T]:
        payload = msgspec.json.encode(told)
        event = Event("EXTERNAL_CREDENTIALS_ROTATED", workspace_id, "credentials", workspace_id, 0, payload)
        return WriteSet(answer, writes, [event], (org_key(org_id),), lambda: self._memory.forget(ended))

    # -- persons and their tokens --------------------------------------------------------------------------------------

    async def add_person(self, org_id: str, name: str, role: Role) -> tuple[Person, str]:
        """A new person with a first token, which lives `limits.person_token_days`. Raises InvalidName."""
        now = self._clock.now()
        person = Person(self._ids.new(), org_id, clean_name(name, self._limits.name_length), role.value, now)
        issued, write = self._new_person_token(person.id)

        def decide() -> Decision[tuple[Person, str]]:
            yield from ()
            answer = (person, issued.token)
            return WriteSet(answer, [("insert_person", person), write], [changed_people(person)], (org_key(org_id),))

        return await self._store.run(Command(org_id, (("people", org_id),), decide))

    def _new_person_token(self, person_id: str) -> tuple[Issued, tuple[str, Params]]:
        token, now = new_token(PERSON_PREFIX, self._randomness), self._clock.now()
        expires_at = now + self._limits.person_token_days * DAY
        about = Token(id_of(hash_of(token)), hint_of(token), now, expires_at, hash_of(token))
        row = {
            "hash": about.hash,
            "hint": about.hint,
            "person_id": person_id,
            "created_at": now,
            "expires_at": expires_at,
        }
        return Issued(about, token), ("insert_person_token", row)

    async def issue_person_token(self, person: Person) -> Issued:
        """One more token of a person, which lives `limits.person_token_days`. Raises TooManyTokens."""
        issued, write = self._new_person_token(person.id)

        def decide() -> Decision[Issued]:
            self._check_room((yield Read("tokens_of_person", {"person_id": person.id, "now": self._clock.now()})))
            return WriteSet(issued, [write])

        return await self._store.run(Command(person.org_id, (("person", person.id),), decide))

    async def revoke_person_token(self, person: Person, token_id: str) -> Token:
        """A token of a person opens nothing any more. Raises NotFound."""

        def decide() -> Decision[Token]:
            now = self._clock.now()
            token = _found((yield Read("tokens_of_person", {"person_id": person.id, "now": now})), token_id)
            ended: list[tuple[str, Params]] = [("revoke_person_token", {"hash": token.hash, "now": now})]
            return WriteSet(token, ended, then=lambda: self._memory.forget((token.hash,)))

        return await self._store.run(Command(person.org_id, (("person", person.id),), decide))

    async def owner(self, org_id: str, name: str) -> Person:
        """The first owner of an organisation; a new one of that name if it has none."""

        def decide() -> Decision[Person]:
            for row in (yield Read("persons_of_org", {"org_id": org_id})):
                if row[3] == Role.OWNER.value:
                    return WriteSet(Person(*row))
            person = Person(self._ids.new(), org_id, name, Role.OWNER.value, self._clock.now())
            return WriteSet(person, [("insert_person", person)], [changed_people(person)], (org_key(org_id),))

        return await self._store.run(Command(org_id, (("people", org_id),), decide))

    # -- logging in ----------------------------------------------------------------------------------------------------

    async def issue_login(self, person: Person) -> tuple[str, int]:
        """A code that logs a person in once, and when it expires (microseconds)."""
        code, now = new_token(LOGIN_PREFIX, self._randomness), self._clock.now()
        expires_at = now + self._limits.login_seconds * SECOND
        row = {"hash": hash_of(code), "person_id": person.id, "created_at": now, "expires_at": expires_at}

        def decide() -> Decision[tuple[str, int]]:
            yield from ()
            return WriteSet((code, expires_at), [("insert_login", row)])

        return await self._store.run(Command(person.org_id, (), decide))

    async def log_in(self, code: str) -> Login:
        """Exchanges the code of a login link or of an invitation for a session, once. Raises InvalidLogin."""
        if prefix_of(code) == INVITATION_PREFIX:
            return await self.people.accept(code)
        used, token = hash_of(code), new_token(SESSION_PREFIX, self._randomness)

        def decide() -> Decision[Login]:
            now = self._clock.now()
            found = yield Read("login_by_hash", {"hash": used})
            if not found or found[0][6] is not None or found[0][5] <= now:
                raise InvalidLogin
            person, expires_at = Person(*found[0][:5]), now + self._limits.session_days * DAY
            session = {"hash": hash_of(token), "person_id": person.id, "created_at": now, "expires_at": expires_at}
            writes: list[tuple[str, Params]] = [("use_login", {"hash": used, "now": now}), ("insert_session", session)]
            return WriteSet(Login(person, token, expires_at), writes)

        return await self._store.run(Command("", (("login", used),), decide))

    async def log_out(self, token: str) -> None:
        """Ends a session; no harm if it has ended."""
        ended: dict[str, Any] = {"hash": hash_of(token), "now": self._clock.now()}

        def decide() -> Decision[None]:
            yield from ()
            return WriteSet(None, [("end_session", ended)], then=lambda: self._memory.forget((ended["hash"],)))

        await self._store.run(Command("", (("session", ended["hash"]),), decide))


def _found(rows: Sequence[Row], token_id: str) -> Token:
    """A token out of a list. Raises NotFound."""
    for row in rows:
        if id_of(row[0]) == token_id:
            return token_of(row)
    raise NotFound(what="token")
