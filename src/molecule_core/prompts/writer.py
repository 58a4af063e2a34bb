"""Writes shared files and reported prompts, beside retention (retention.py)."""

from collections.abc import Sequence

import msgspec

from molecule_core.common.clock import Clock
from molecule_core.common.errors import InvalidField
from molecule_core.common.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.prompts import rules
from molecule_core.prompts.model import SharedFiles, StoredPrompt
from molecule_core.prompts.reader import shared_files_from_rows
from molecule_core.store.database import Command, CommandSteps, JournalEvent, ReadQuery, Statement, Store, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.queries import Params
from molecule_core.wire.schemas.prompts import PromptBuild, PromptBuiltPayload, SharedContextUpdatedPayload, SharedFile


class PromptWriter:
    """Stores what agents upload. Commands of one kind on a workspace run one at a time."""

    def __init__(self, store: Store, org: OrgReader, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._clock = clock
        self._limits = limits

    async def save_shared_files(self, workspace_id: str, files: Sequence[SharedFile]) -> SharedFiles:
        """Replace the files that a workspace shares with its direct children.

        Unchanged files write nothing and emit no event. Raises InvalidField, NotFound, WorkspaceRemoved."""
        rules.check_files(files, self._limits)
        org_id = self._org.active_workspace(workspace_id).org_id

        def decide() -> CommandSteps[SharedFiles]:
            self._org.active_workspace(workspace_id)
            old = shared_files_from_rows((yield ReadQuery("shared_context", {"workspace_id": workspace_id})))
            now = self._clock.now()
            new = SharedFiles(old.revision + 1, rules.merge_files(old.files, files, now))
            if new.files == old.files:
                return WriteSet(old)
            row: Params = {
                "workspace_id": workspace_id,
                "revision": new.revision,
                "files": msgspec.json.encode(new.files).decode(),
                "updated_at": now,
            }
            payload = SharedContextUpdatedPayload(new.revision, len(new.files))
            event = _prompt_event("SHARED_CONTEXT_UPDATED", workspace_id, new.revision, payload)
            return WriteSet(new, [("save_shared_context", row)], [event], (org_key(org_id),))

        return await self._store.run(Command(org_id, (("shared", workspace_id),), decide))

    async def record_prompt(self, workspace_id: str, build: PromptBuild) -> int:
        """Store the prompt that an agent reports and return its revision.

        The same prompt with the same warnings as last time is not stored again. Raises InvalidField, NotFound,
        WorkspaceRemoved."""
        rules.check_build(build, self._limits)
        text = msgspec.json.encode(build).decode()
        if len(text.encode()) > self._limits.prompt_bytes:
            raise InvalidField(
                reason=f"the prompt is larger than the limit of {self._limits.prompt_bytes} bytes as JSON. "
                "Lower its budget."
            )
        org_id = self._org.active_workspace(workspace_id).org_id

        def decide() -> CommandSteps[int]:
            self._org.active_workspace(workspace_id)
            last = yield ReadQuery("last_prompt", {"workspace_id": workspace_id})
            revision, last_hash, stored_build = last[0] if last else (0, "", "")
            if last and last_hash == build.hash and _warnings_of(stored_build) == build.warnings:
                return WriteSet(revision)
            revision += 1
            prompt = StoredPrompt(revision, text, self._clock.now())
            writes: list[Statement] = [
                ("insert_prompt", {"workspace_id": workspace_id, "hash": build.hash, **msgspec.structs.asdict(prompt)})
            ]
            if revision > self._limits.prompt_builds:
                upto = revision - self._limits.prompt_builds
                writes.append(("forget_prompts", {"workspace_id": workspace_id, "upto": upto}))
            payload = PromptBuiltPayload(revision, build.hash, build.tokens, build.trigger)
            event = _prompt_event("PROMPT_BUILT", workspace_id, revision, payload)
            return WriteSet(revision, writes, [event], (org_key(org_id),))

        return await self._store.run(Command(org_id, (("prompt", workspace_id),), decide))


def _warnings_of(build: str) -> list[str]:
    return msgspec.json.decode(build, type=PromptBuild).warnings


def _prompt_event(name: str, workspace_id: str, revision: int, payload: msgspec.Struct) -> JournalEvent:
    return JournalEvent(name, workspace_id, "prompt", workspace_id, revision, msgspec.json.encode(payload))
