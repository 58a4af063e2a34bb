"""Rules: who can read which memory, valid keys, parsing of searches. Pure."""

from hashlib import blake2b
from typing import NamedTuple

import msgspec

from molecule_core.common.errors import InvalidField, VersionMismatch
from molecule_core.common.search_terms import distinct_terms, split_terms
from molecule_core.common.secret_redaction import redact_secrets
from molecule_core.common.text import find_hidden_character, validate_line
from molecule_core.memory.model import MemoryDraft, MemoryScope
from molecule_core.org.rules import OrgTree, peers

DEFAULT_NAMESPACE = "general"
# 512 KiB: PostgreSQL takes at most 1 MiB of words for one text, and words beyond this are not searched for.
_MAX_TERM_BYTES = 512 << 10
# Lengths of prefixes that can be searched for; shorter ones would match almost everything. SQLite has an index for each
# length (schema.sql): without it a search would read all words with the prefix, of all workspaces.
_PREFIX_LENGTHS = range(3, 9)


def partition_of(scope: MemoryScope, workspace_id: str, org_id: str) -> str:
    """Return the partition of a memory. A reader names the partitions it can read; all others stay invisible.

    The name is stored among the words of its memories. Its underscore keeps it apart from the words of any text."""
    initial, owner = scope.value[0].lower(), org_id if scope is MemoryScope.GLOBAL else workspace_id
    return f"_{initial}{owner.replace('-', '')}"


def readable_partitions(tree: OrgTree, workspace_id: str, scope: MemoryScope | None) -> list[str]:
    """Return the partitions that an active workspace can read, of one scope or of all.

    LOCAL: its own. TEAM: its own and those of its peers: siblings, children, parent (`org.rules.peers`; skipping levels
    makes no peers). GLOBAL: its organisation's."""
    own = tree.workspace(workspace_id)
    if own is None:
        return []
    team = [own, *(peer for peer in peers(tree, own) if not peer.removed)]
    readable = {MemoryScope.LOCAL: [own.id], MemoryScope.TEAM: [each.id for each in team], MemoryScope.GLOBAL: [own.id]}
    return [
        partition_of(each, owner, own.org_id)
        for each in MemoryScope
        if scope in (None, each)
        for owner in readable[each]
    ]


def may_write_scope(tree: OrgTree, workspace_id: str, scope: MemoryScope) -> bool:
    """Return whether a workspace can write memories of a scope. Only roots can write GLOBAL ones.

    A root that is later moved below another workspace keeps what it wrote."""
    own = tree.workspace(workspace_id)
    return scope is not MemoryScope.GLOBAL or (own is not None and own.parent_id is None)


# -- writing -----------------------------------------------------------------------------------------------------------


def clean_draft(draft: MemoryDraft, *, max_bytes: int, namespace_length: int) -> tuple[MemoryDraft, int]:
    """Validate a memory and redact secrets; return it with their number. Raises InvalidField."""
    if not draft.content.strip():
        raise InvalidField(reason="content cannot be empty. Write what to remember.")
    if "\x00" in draft.content:
        raise InvalidField(reason="content cannot have a NUL character. Remove it.")
    size = len(draft.content.encode())
    if size > max_bytes:
        raise InvalidField(reason=f"content cannot have {size} bytes. Use at most {max_bytes}.")
    namespace = validate_line(draft.namespace, namespace_length, "namespace") or DEFAULT_NAMESPACE
    if redact_secrets(namespace)[1]:
        raise InvalidField(reason="namespace cannot be text that looks like a secret. Choose a word.")
    content, redacted = redact_secrets(draft.content)
    return draft._replace(content=content, namespace=namespace), redacted


def content_hash(draft: MemoryDraft) -> str:
    """Return the hash that identical memories of the same scope and namespace share."""
    return blake2b(msgspec.json.encode((draft.scope, draft.namespace, draft.content)), digest_size=16).hexdigest()


def search_terms(content: str, partition: str) -> str:
    """Return the indexed words of a memory: its partition and the words of its text."""
    return " ".join((partition, *distinct_terms(split_terms(content), _MAX_TERM_BYTES)))


class SearchQuery(NamedTuple):
    """A parsed search: all words must match, the last one also as a prefix if `prefix` is 1 (else 0)."""

    words: str
    prefix: int


def parse_search(text: str, max_words: int) -> SearchQuery | None:
    """Parse the text of a search, or return None if it has no words."""
    words = split_terms(text)[:max_words]
    if not words:
        return None
    return SearchQuery(" ".join((*dict.fromkeys(words[:-1]), words[-1])), int(len(words[-1]) in _PREFIX_LENGTHS))


# -- keys --------------------------------------------------------------------------------------------------------------


def check_key(key: str, max_length: int) -> None:
    """Check that a key can be part of a URL path. Raises InvalidField."""
    if not key or len(key) > max_length:
        raise InvalidField(reason=f"key cannot have {len(key)} characters. Use 1 to {max_length}.")
    if key != key.strip() or (bad := find_hidden_character(key)):
        what = "a space at its start or end" if key != key.strip() else f"the hidden character U+{ord(bad or ' '):04X}"
        raise InvalidField(reason=f"key cannot have {what}. Remove it.")
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise InvalidField(
            reason="key cannot have an empty part, '.' or '..' between slashes. Use names between the slashes."
        )


def check_version(current: int, expected: int | None) -> None:
    """Check that a key has the version that its writer expects. Raises VersionMismatch."""
    if expected is not None and expected != current:
        raise VersionMismatch(expected_version=expected, current_version=current)
