"""Who may read which memory, what a key may be called, what a search looks for. Pure."""

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
# PostgreSQL takes at most 1 MiB of words for one text; nobody looks for what stands behind so many.
_MAX_TERM_BYTES = 512 << 10
# So long may the beginning of a word be that is searched for. Shorter ones would find almost everything. SQLite keeps
# an index for each of these lengths (schema.sql): without it a search would read all words that begin so, of everybody.
_PREFIX_LENGTHS = range(3, 9)


def partition_of(scope: MemoryScope, workspace_id: str, org_id: str) -> str:
    """Where a memory lies. Whoever reads names the shelves that it may read; all others are as if they were not there.

    A shelf's name stands among the words of its memories: one of its own kind, which no text can hold."""
    letter, owner = scope.value[0].lower(), org_id if scope is MemoryScope.GLOBAL else workspace_id
    return f"_{letter}{owner.replace('-', '')}"


def readable_partitions(tree: OrgTree, workspace_id: str, scope: MemoryScope | None) -> list[str]:
    """The shelves that a living workspace may read, of one scope or of all.

    LOCAL: its own. TEAM: its own and those of its peers: siblings, children, parent (org.rules.peers; skipping levels
    makes nobody a peer). GLOBAL: its organisation's."""
    own = tree.workspace(workspace_id)
    if own is None:
        return []
    team = [own, *(peer for peer in peers(tree, own) if not peer.removed)]
    readable = {
        MemoryScope.LOCAL: [own.id],
        MemoryScope.TEAM: [each.id for each in team],
        MemoryScope.GLOBAL: [own.id],
    }
    return [
        partition_of(each, owner, own.org_id)
        for each in MemoryScope
        if scope in (None, each)
        for owner in readable[each]
    ]


def may_write_scope(tree: OrgTree, workspace_id: str, scope: MemoryScope) -> bool:
    """GLOBAL memories are for those at the top of the organisation. (One that is moved below another later leaves what
    it wrote.)"""
    own = tree.workspace(workspace_id)
    return scope is not MemoryScope.GLOBAL or (own is not None and own.parent_id is None)


# -- what is written ---------------------------------------------------------------------------------------------------


def clean_draft(draft: MemoryDraft, *, max_bytes: int, namespace_length: int) -> tuple[MemoryDraft, int]:
    """What is to be remembered as it may be kept, and how many secrets were taken out. Raises InvalidField."""
    if not draft.content.strip():
        raise InvalidField(reason="content is empty; say what is to be remembered")
    if "\x00" in draft.content:
        raise InvalidField(reason="content holds a NUL character; remove it")
    size = len(draft.content.encode())
    if size > max_bytes:
        raise InvalidField(reason=f"content has {size} bytes; at most {max_bytes} are taken")
    namespace = validate_line(draft.namespace, namespace_length, "namespace") or DEFAULT_NAMESPACE
    if redact_secrets(namespace)[1]:
        raise InvalidField(reason="namespace looks like a secret; choose a word")
    content, redacted = redact_secrets(draft.content)
    return draft._replace(content=content, namespace=namespace), redacted


def content_hash(draft: MemoryDraft) -> str:
    """What two memories have in common that say the same at the same place."""
    return blake2b(msgspec.json.encode((draft.scope, draft.namespace, draft.content)), digest_size=16).hexdigest()


def search_terms(content: str, partition: str) -> str:
    """What the search keeps of a memory: its shelf and its words."""
    return " ".join((partition, *distinct_terms(split_terms(content), _MAX_TERM_BYTES)))


class SearchQuery(NamedTuple):
    """What a search looks for: these words, the last also as the beginning of longer ones (`prefix`: 0 or 1)."""

    words: str
    prefix: int


def parse_search(text: str, max_words: int) -> SearchQuery | None:
    """What somebody means who writes this into a search field; None: nothing that could be found."""
    words = split_terms(text)[:max_words]
    if not words:
        return None
    return SearchQuery(" ".join((*dict.fromkeys(words[:-1]), words[-1])), int(len(words[-1]) in _PREFIX_LENGTHS))


# -- keys --------------------------------------------------------------------------------------------------------------


def check_key(key: str, max_length: int) -> None:
    """Whether a key can be named in a path. Raises InvalidField."""
    if not key or len(key) > max_length:
        raise InvalidField(reason=f"key has {len(key)} characters; it takes 1 to {max_length}")
    if key != key.strip() or (bad := find_hidden_character(key)):
        what = "a blank at an end" if key != key.strip() else f"the hidden character U+{ord(bad or ' '):04X}"
        raise InvalidField(reason=f"key holds {what}; remove it")
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise InvalidField(reason="key holds an empty part, '.' or '..' between slashes, which a path cannot name")


def check_version(current: int, expected: int | None) -> None:
    """Whether a key stands as its writer believes. Raises VersionMismatch."""
    if expected is not None and expected != current:
        raise VersionMismatch(expected_version=expected, current_version=current)
