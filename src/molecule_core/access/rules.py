"""Which role may do what. Pure."""

from molecule_core.access.model import Role

_RANK = {Role.VIEWER: 0, Role.OPERATOR: 1, Role.OWNER: 2}


def may(role: Role, needed: Role) -> bool:
    """Whether a role includes another."""
    return _RANK[role] >= _RANK[needed]
