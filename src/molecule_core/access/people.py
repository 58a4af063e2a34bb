"""Persons, their roles, and invitations. A part of the access writer, which hands these verbs on."""

from collections.abc import Sequence
from typing import Any

import msgspec

from molecule_core.access.memory import Remembered
from molecule_core.access.model import Caller, Invitation, Login, Person, Role
from molecule_core.access.rules import is_last_owner
from molecule_core.ground.clock import DAY, HOUR, Clock
from molecule_core.ground.errors import InvalidLogin, LastOwner, NotFound
from molecule_core.ground.ids import Ids, Randomness
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import clean_name
from molecule_core.ground.tokens import INVITATION_PREFIX, SESSION_PREFIX, hash_of, new_token
from molecule_core.store.database import Command, Decision, Event, Read, Row, Store, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.queries import Params
from molecule_core.wire.events import PeopleChanged


class PeopleWriter:
    """Changes who belongs to an organisation. One change of its people at a time, so that one owner always remains."""

    def __init__(
        self, store: Store, memory: Remembered, *, clock: Clock, ids: Ids, randomness: Randomness, limits: Limits
    ) -> None:
        self._store = store
        self._memory = memory
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._limits = limits

    # -- persons -------------------------------------------------------------------------------------------------------

    async def change(self, org_id: str, person_id: str, *, name: str | None, role: Role | None) -> Person:
        """Another name or role, in force at once. Raises InvalidName, NotFound, LastOwner."""
        clean = None if name is None else clean_name(name, self._limits.name_length)

        def decide() -> Decision[Person]:
            old, others = _parted((yield Read("persons_of_org", {"org_id": org_id})), person_id)
            new_role = old.role if role is None else role.value
            if new_role != Role.OWNER.value and is_last_owner(old, others):
                raise LastOwner(name=old.name)
            new = msgspec.structs.replace(old, name=clean or old.name, role=new_role)
            if new == old:
                return WriteSet(old)
            writes: list[tuple[str, Params]] = [("update_person", new)]
            if new_role != Role.OWNER.value:
                writes.append(self._end_invitations_by(org_id, person_id))
            return self._changed(new, writes, new)

        return await self._store.run(self._command(org_id, decide))

    async def remove(self, org_id: str, person_id: str) -> Person:
        """A person belongs to the organisation no more: sessions, tokens and open invitations end with it.

        Raises NotFound, LastOwner."""

        def decide() -> Decision[Person]:
            old, others = _parted((yield Read("persons_of_org", {"org_id": org_id})), person_id)
            if is_last_owner(old, others):
                raise LastOwner(name=old.name)
            gone: list[tuple[str, Params]] = [("remove_person", {"id": person_id, "now": self._clock.now()})]
            return self._changed(old, [*gone, self._end_invitations_by(org_id, person_id)], old)

        return await self._store.run(self._command(org_id, decide))

    def _command(self, org_id: str, decide: Any) -> Command[Any]:
        return Command(org_id, (("people", org_id),), decide)

    def _end_invitations_by(self, org_id: str, person_id: str) -> tuple[str, Params]:
        return "end_invitations_by", {"org_id": org_id, "person_id": person_id, "now": self._clock.now()}

    def _changed(self, person: Person, writes: list[tuple[str, Params]], answer: Any) -> WriteSet[Any]:
        return WriteSet(
            answer,
            writes,
            [changed_people(person)],
            rings=(org_key(person.org_id),),
            then=lambda: self._memory.forget_holder(person.id),
        )

    # -- invitations ---------------------------------------------------------------------------------------------------

    async def invite(self, by: Caller, org_id: str, name: str, role: Role) -> tuple[Invitation, str]:
        """An invitation and the code of its link, shown this once. Raises InvalidName."""
        now, code = self._clock.now(), new_token(INVITATION_PREFIX, self._randomness)
        invitation = Invitation(
            id=self._ids.new(),
            org_id=org_id,
            name=clean_name(name, self._limits.name_length),
            role=role.value,
            invited_by=by.id,
            created_at=now,
            expires_at=now + self._limits.invitation_hours * HOUR,
        )
        row = {"hash": hash_of(code), **msgspec.structs.asdict(invitation)}

        def decide() -> Decision[tuple[Invitation, str]]:
            yield from ()
            return WriteSet((invitation, code), [("insert_invitation", row)])

        return await self._store.run(self._command(org_id, decide))

    async def withdraw(self, org_id: str, invitation_id: str) -> None:
        """An invitation lets nobody in any more. Raises NotFound."""

        def decide() -> Decision[None]:
            now = self._clock.now()
            found = yield Read("open_invitations", {"org_id": org_id, "now": now})
            if invitation_id not in {row[0] for row in found}:
                raise NotFound(what="invitation")
            return WriteSet(None, [("end_invitation", {"id": invitation_id, "now": now})])

        await self._store.run(self._command(org_id, decide))

    async def accept(self, code: str) -> Login:
        """Exchanges an invitation for a new person and a session, once. Raises InvalidLogin."""
        used, token = {"hash": hash_of(code)}, new_token(SESSION_PREFIX, self._randomness)
        found = await self._store.rows("invitation_by_hash", used)
        if not found:
            raise InvalidLogin

        def decide() -> Decision[Login]:
            now = self._clock.now()
            rows = yield Read("invitation_by_hash", used)
            if not rows:
                raise InvalidLogin
            invitation, ended_at = Invitation(*rows[0][:-1]), rows[0][-1]
            if ended_at is not None or invitation.expires_at <= now:
                raise InvalidLogin
            person = Person(self._ids.new(), invitation.org_id, invitation.name, invitation.role, now)
            expires_at = now + self._limits.session_days * DAY
            session = {"hash": hash_of(token), "person_id": person.id, "created_at": now, "expires_at": expires_at}
            writes: list[tuple[str, Params]] = [
                ("end_invitation", {"id": invitation.id, "now": now}),
                ("insert_person", person),
                ("insert_session", session),
            ]
            return self._changed(person, writes, Login(person, token, expires_at))

        return await self._store.run(self._command(str(found[0][1]), decide))


def changed_people(person: Person) -> Event:
    """The fact that an organisation has other people than before."""
    return Event("PEOPLE_CHANGED", "", "person", person.id, 0, msgspec.json.encode(PeopleChanged(person.id)))


def _parted(rows: Sequence[Row], person_id: str) -> tuple[Person, list[Person]]:
    """One person, and the others. Raises NotFound."""
    persons = [Person(*row) for row in rows]
    for each in persons:
        if each.id == person_id:
            return each, [other for other in persons if other is not each]
    raise NotFound(what="person")
