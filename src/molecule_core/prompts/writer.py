"""The only hand that changes what workspaces share and the prompts that were told, beside retention (pruning.py)."""

from collections.abc import Sequence

import msgspec

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import InvalidField
from molecule_core.ground.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.prompts import rules
from molecule_core.prompts.model import Kept, Shared
from molecule_core.prompts.reader import shared_of
from molecule_core.store.database import Command, Decision, Event, Read, Store, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.queries import Params
from molecule_core.wire.prompts import Build, PromptBuilt, SharedContextUpdated, SharedFile


class PromptWriter:
    """Keeps what agents upload. One change of a workspace at a time."""

    def __init__(self, store: Store, org: OrgReader, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._clock = clock
        self._limits = limits

    async def share(self, workspace_id: str, files: Sequence[SharedFile]) -> Shared:
        """A workspace shares these files with its direct children, and no others. What is shared already, as it is,
        changes nothing and tells nobody. Raises InvalidField, NotFound, WorkspaceRemoved."""
        rules.checked(files, self._limits)
        org_id = self._org.living(workspace_id).org_id

        def decide() -> Decision[Shared]:
            self._org.living(workspace_id)
            old = shared_of((yield Read("shared_context", {"workspace_id": workspace_id})))
            now = self._clock.now()
            new = Shared(old.revision + 1, rules.renewed(old.files, files, now))
            if new.files == old.files:
                return WriteSet(old)
            row: Params = {
                "workspace_id": workspace_id,
                "revision": new.revision,
                "files": msgspec.json.encode(new.files).decode(),
                "updated_at": now,
            }
            told = SharedContextUpdated(new.revision, len(new.files))
            event = _event("SHARED_CONTEXT_UPDATED", workspace_id, new.revision, told)
            return WriteSet(new, [("save_shared_context", row)], [event], (org_key(org_id),))

        return await self._store.run(Command(org_id, (("shared", workspace_id),), decide))

    async def built(self, workspace_id: str, build: Build) -> int:
        """The agent of a workspace tells its prompt; returns its number. The same prompt as last time, with
        the same warnings, is not kept twice. Raises InvalidField, NotFound, WorkspaceRemoved."""
        rules.check_build(build, self._limits)
        text = msgspec.json.encode(build).decode()
        if len(text.encode()) > self._limits.prompt_bytes:
            raise InvalidField(
                reason=f"the prompt is larger than {self._limits.prompt_bytes} bytes as JSON; lower its budget"
            )
        org_id = self._org.living(workspace_id).org_id

        def decide() -> Decision[int]:
            self._org.living(workspace_id)
            last = yield Read("last_prompt", {"workspace_id": workspace_id})
            revision, hashed, kept_text = last[0] if last else (0, "", "")
            if last and hashed == build.hash and _warnings_of(kept_text) == build.warnings:
                return WriteSet(revision)
            revision += 1
            kept = Kept(revision, text, self._clock.now())
            writes: list[tuple[str, Params]] = [
                ("insert_prompt", {"workspace_id": workspace_id, "hash": build.hash, **msgspec.structs.asdict(kept)})
            ]
            if revision > self._limits.prompt_builds:
                upto = revision - self._limits.prompt_builds
                writes.append(("forget_prompts", {"workspace_id": workspace_id, "upto": upto}))
            told = PromptBuilt(revision, build.hash, build.tokens, build.trigger)
            event = _event("PROMPT_BUILT", workspace_id, revision, told)
            return WriteSet(revision, writes, [event], (org_key(org_id),))

        return await self._store.run(Command(org_id, (("prompt", workspace_id),), decide))


def _warnings_of(build: str) -> list[str]:
    return msgspec.json.decode(build, type=Build).warnings


def _event(name: str, workspace_id: str, revision: int, told: msgspec.Struct) -> Event:
    return Event(name, workspace_id, "prompt", workspace_id, revision, msgspec.json.encode(told))
