"""Secrets that sign the pushes to an agent. No other module changes their table.

They are stored as they are, because the server signs with them (docs/decisions/0074-signed-pushes.md)."""

from collections.abc import Generator
from typing import Any

import msgspec

from molecule_core.access.model import RotatedPushSecret
from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.ids import Randomness
from molecule_core.common.tokens import PUSH_SECRET_PREFIX, hash_token, new_token
from molecule_core.store.database import (
    Command,
    CommandSteps,
    JournalEvent,
    ReadQuery,
    Statement,
    StepRequest,
    Store,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.wire.schemas.events import CredentialsRotatedPayload


class PushSecretWriter:
    """Creates, rotates and deletes the secrets of pushes. A secret is returned once, by the call that creates it."""

    def __init__(self, store: Store, *, clock: Clock, randomness: Randomness) -> None:
        self._store = store
        self._clock = clock
        self._randomness = randomness

    def new_secret(self, org_id: str, workspace_id: str) -> WriteSet[str]:
        """Return a new secret, as a part of the command that creates its workspace or rotates it."""
        secret = new_token(PUSH_SECRET_PREFIX, self._randomness)
        row = {
            "hash": hash_token(secret),
            "org_id": org_id,
            "workspace_id": workspace_id,
            "secret": secret,
            "created_at": self._clock.now(),
        }
        return WriteSet(secret, [("insert_push_secret", row)])

    def forget(self, workspace_id: str) -> WriteSet[None]:
        """Delete the secrets of a workspace, as a part of the command that removes it."""
        return WriteSet(None, [("forget_push_secrets", {"workspace_id": workspace_id})])

    async def rotate(self, org_id: str, workspace_id: str, grace_seconds: int) -> RotatedPushSecret:
        """Create a secret; the one before also signs for a grace time, which may be 0. Older ones end at once.

        The first secret of a workspace is created in the same way."""
        created = self.new_secret(org_id, workspace_id)

        def decide() -> CommandSteps[RotatedPushSecret]:
            now = self._clock.now()
            ends_at = now + grace_seconds * SECOND
            rows = yield ReadQuery("push_secrets", {"workspace_id": workspace_id, "now": now})
            writes: list[Statement] = [
                ("end_push_secret", {"hash": hashed, "ends_at": ends_at if end is None else min(now, end)})
                for hashed, _, end in rows
            ]
            count = sum(end is None for *_, end in rows)
            payload = msgspec.json.encode(CredentialsRotatedPayload(1, count, to_rfc3339(ends_at)))
            event = JournalEvent("EXTERNAL_CREDENTIALS_ROTATED", workspace_id, "credentials", workspace_id, 0, payload)
            result = RotatedPushSecret(created.result, count, ends_at)
            return created.returning(result) + WriteSet(None, writes, [event], (org_key(org_id),))

        return await self._store.run(Command(org_id, (("push secrets", workspace_id),), decide))


def load_push_secrets(workspace_id: str, now: int) -> Generator[StepRequest, Any, tuple[str, ...]]:
    """Load the secrets that sign a push now, the current one first; none if the workspace has no secret."""
    rows = yield ReadQuery("push_secrets", {"workspace_id": workspace_id, "now": now})
    return tuple(row[1] for row in rows)


async def read_push_secrets(store: Store, workspace_id: str, now: int) -> tuple[str, ...]:
    """Read the same outside a command."""
    return tuple(row[1] for row in await store.rows("push_secrets", {"workspace_id": workspace_id, "now": now}))
