"""Base instructions as a type of their own, so that no other text is used as such by mistake. Pure functions.

They are immutable: `thread_bases` rejects updates (store/schema.sql). Their origin is always named.
"""

import uuid

from msgspec import Struct

from molecule_core.wire.schemas.prompts import estimate_tokens, hash_text
from molecule_core.wire.schemas.thread_log import BaseInstructionsEntry, BaseInstructionsRef, BaseOrigin, Provenance

_ITEM_NAMESPACE = uuid.UUID("8b0a4f1e-6a53-5a0e-9b4c-2f0c9d1f7a11")


class BaseInstructions(Struct, frozen=True):
    """Base instructions of a thread and their origin."""

    text: str
    provenance: Provenance

    def to_entry(self, thread_id: str, version: int) -> BaseInstructionsEntry:
        """Return the log entry that activates them, with their text."""
        size, sha = len(self.text.encode()), hash_text(self.text)
        return BaseInstructionsEntry(
            version=version,
            sha256=sha,
            provenance=self.provenance,
            item_id=base_item_id(thread_id, version, sha),
            bytes=size,
            tokens=estimate_tokens(size),
            text=self.text,
        )


def make_base_instructions(
    text: str, origin: BaseOrigin, source: str, *, from_thread: str | None = None
) -> BaseInstructions:
    """Build base instructions from a text and its origin."""
    return BaseInstructions(text, Provenance(origin, source, from_thread))


def base_item_id(thread_id: str, version: int, sha256: str) -> str:
    """Return the item id that base instructions have in every request of a thread and of its forks."""
    return str(uuid.uuid5(_ITEM_NAMESPACE, f"{thread_id}/{version}/{sha256}"))


def to_base_ref(thread_id: str, entry: BaseInstructionsEntry) -> BaseInstructionsRef:
    """Return a reference to base instructions, without their text."""
    return BaseInstructionsRef(
        thread_id=thread_id,
        version=entry.version,
        sha256=entry.sha256,
        item_id=entry.item_id,
        provenance=entry.provenance,
        bytes=entry.bytes,
        tokens=entry.tokens,
    )
