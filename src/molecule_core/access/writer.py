"""The only hand that changes persons and tokens."""

from molecule_core.access.model import Person, Role
from molecule_core.ground.clock import DAY, Clock
from molecule_core.ground.ids import Ids, Randomness
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import clean_name
from molecule_core.ground.tokens import PERSON_PREFIX, WORKSPACE_PREFIX, hash_of, hint_of, new_token
from molecule_core.store.database import Command, Decision, Store, WriteSet
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
