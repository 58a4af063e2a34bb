"""Role rules. Pure functions."""

from collections.abc import Iterable

from molecule_core.access.model import Person, Role

_RANK = {Role.VIEWER: 0, Role.OPERATOR: 1, Role.OWNER: 2}


def role_includes(role: Role, needed: Role) -> bool:
    """Return whether a role includes another."""
    return _RANK[role] >= _RANK[needed]


def is_last_owner(person: Person, others: Iterable[Person]) -> bool:
    """Return whether the organisation would have no owner without this person."""
    return person.role == Role.OWNER.value and all(other.role != Role.OWNER.value for other in others)
