"""Deletes credentials that expired or were revoked long ago."""

from collections.abc import AsyncIterator

from molecule_core.store.database import Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command

# The name in reports, the query that finds rows, the query that deletes one.
_CREDENTIAL_QUERIES = (
    ("login links", "spent_logins", "forget_login"),
    ("sessions", "spent_sessions", "forget_session"),
    ("tokens of persons", "spent_person_tokens", "forget_person_token"),
    ("tokens of workspaces", "spent_workspace_tokens", "forget_workspace_token"),
    ("secrets of pushes", "spent_push_secrets", "forget_push_secret"),
    ("tokens of runners", "spent_runner_tokens", "forget_runner_token"),
    ("codes of OAuth clients", "spent_oauth_codes", "forget_oauth_code"),
    ("tokens of OAuth clients", "spent_oauth_tokens", "forget_oauth_token"),
    ("grants to OAuth clients", "spent_oauth_grants", "forget_oauth_grant"),
    ("invitations", "spent_invitations", "forget_invitation"),
)


class CredentialRetention(RetentionPolicy):
    """Retention policy for credentials that were used, ended, revoked or expired."""

    kinds = tuple(what for what, *_ in _CREDENTIAL_QUERIES)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        for what, find_query, delete_query in _CREDENTIAL_QUERIES:
            last, full = "", True
            while full:
                found = await self._store.rows(find_query, {"before": before, "hash": last, "count": count})
                full = len(found) == count
                if not found:
                    yield EMPTY_BATCH
                    break
                last = found[-1][0]
                yield RetentionBatch(
                    what, len(found), deletion_command("", [(delete_query, {"hash": row[0]}) for row in found])
                )
