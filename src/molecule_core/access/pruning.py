"""Retention of credentials: what has opened nothing for long goes."""

from collections.abc import AsyncIterator

from molecule_core.store.database import Store
from molecule_core.store.pruning import LOOKED, Batch, Prunes, deletion

# What it is called, the statement that finds it, the statement that deletes one.
_KINDS = (
    ("login links", "spent_logins", "forget_login"),
    ("sessions", "spent_sessions", "forget_session"),
    ("tokens of persons", "spent_person_tokens", "forget_person_token"),
    ("tokens of workspaces", "spent_workspace_tokens", "forget_workspace_token"),
    ("invitations", "spent_invitations", "forget_invitation"),
)


class AccessPruning(Prunes):
    """The part of login links, sessions, tokens and invitations that were used, ended, revoked or expired by then."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def batches(self, before: int, count: int) -> AsyncIterator[Batch]:
        for what, finds, forgets in _KINDS:
            last, full = "", True
            while full:
                found = await self._store.rows(finds, {"before": before, "hash": last, "count": count})
                full = len(found) == count
                if not found:
                    yield LOOKED
                    break
                last = found[-1][0]
                yield Batch(what, len(found), deletion("", [(forgets, {"hash": row[0]}) for row in found]))
