"""Tokens of runners, and the end of the workspace tokens that runners were given. All are parts of other commands."""

from collections.abc import Sequence

from molecule_core.access.credential_cache import CredentialCache
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.common.tokens import RUNNER_PREFIX, hash_token, new_token
from molecule_core.store.database import Statement, WriteSet


class RunnerTokenWriter:
    """Creates and revokes the token of a runner. It is returned once, by the call that creates it."""

    def __init__(self, cache: CredentialCache, *, clock: Clock, randomness: Randomness) -> None:
        self._cache = cache
        self._clock = clock
        self._randomness = randomness

    def new_token(self, org_id: str, runner_id: str) -> WriteSet[str]:
        """Return the token of a new runner, as a part of the command that creates it."""
        token = new_token(RUNNER_PREFIX, self._randomness)
        row = {"hash": hash_token(token), "org_id": org_id, "runner_id": runner_id, "created_at": self._clock.now()}
        return WriteSet(token, [("insert_runner_token", row)])

    def revoke_token(self, token_hash: str) -> WriteSet[None]:
        """Revoke the token of a runner, as a part of the command that removes it."""
        writes: list[Statement] = [("revoke_runner_token", {"hash": token_hash, "now": self._clock.now()})]
        return WriteSet(None, writes, after_commit=lambda: self._cache.invalidate((token_hash,)))

    def revoke_workspace_tokens(self, hashes: Sequence[str]) -> WriteSet[None]:
        """Revoke workspace tokens that a runner was given, as a part of the command that ends its use of them."""
        if not hashes:
            return WriteSet(None)
        now = self._clock.now()
        writes: list[Statement] = [("revoke_workspace_token", {"hash": each, "now": now}) for each in hashes]
        return WriteSet(None, writes, after_commit=lambda: self._cache.invalidate(hashes))
