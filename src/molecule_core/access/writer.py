"""The only hand that changes persons and tokens."""

from molecule_core.access.model import Login, Person, Role
from molecule_core.ground.clock import DAY, SECOND, Clock
from molecule_core.ground.errors import InvalidLogin
from molecule_core.ground.ids import Ids, Randomness
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import clean_name
from molecule_core.ground.tokens import (
    LOGIN_PREFIX,
    PERSON_PREFIX,
    SESSION_PREFIX,
    WORKSPACE_PREFIX,
    hash_of,
    hint_of,
    new_token,
)
from molecule_core.store.database import Command, Decision, Read, Store, WriteSet
from molecule_core.store.queries import Params


class AccessWriter:
    """Issues credentials. A token is returned once, by the call that makes it, and stored as a hash."""

    def __init__(self, store: Store, *, clock: Clock, ids: Ids, randomness: Randomness, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._limits = limits

    def issue_for_workspace(self, org_id: str, workspace_id: str) -> tuple[str, list[tuple[str, Params]]]:
        """A new token and the statements that make it valid, for the command that creates the workspace."""
        token = new_token(WORKSPACE_PREFIX, self._randomness)
        row = {
            "hash": hash_of(token),
            "hint": hint_of(token),
            "org_id": org_id,
            "workspace_id": workspace_id,
            "created_at": self._clock.now(),
        }
        return token, [("insert_workspace_token", row)]

    async def add_person(self, org_id: str, name: str, role: Role) -> tuple[Person, str]:
        """A new person with a first token, which lives `limits.person_token_days`. Raises InvalidName."""
        now = self._clock.now()
        person = Person(self._ids.new(), org_id, clean_name(name, self._limits.name_length), role.value, now)
        token = new_token(PERSON_PREFIX, self._randomness)
        row = {
            "hash": hash_of(token),
            "hint": hint_of(token),
            "person_id": person.id,
            "created_at": now,
            "expires_at": now + self._limits.person_token_days * DAY,
        }

        def decide() -> Decision[tuple[Person, str]]:
            yield from ()
            return WriteSet((person, token), [("insert_person", person), ("insert_person_token", row)])

        return await self._store.run(Command(org_id, (("person", person.id),), decide))

    async def owner(self, org_id: str, name: str) -> Person:
        """The first owner of an organisation; a new one of that name if it has none."""

        def decide() -> Decision[Person]:
            for row in (yield Read("persons_of_org", {"org_id": org_id})):
                if row[3] == Role.OWNER.value:
                    return WriteSet(Person(*row))
            person = Person(self._ids.new(), org_id, name, Role.OWNER.value, self._clock.now())
            return WriteSet(person, [("insert_person", person)])

        return await self._store.run(Command(org_id, (("owner", org_id),), decide))

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
        """Exchanges a code for a session, once. Raises InvalidLogin."""
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
        ended = {"hash": hash_of(token), "now": self._clock.now()}

        def decide() -> Decision[None]:
            yield from ()
            return WriteSet(None, [("end_session", ended)])

        await self._store.run(Command("", (("session", ended["hash"]),), decide))
