"""Who may read which memory, what a key may be called, what a search looks for. Pure."""

from hashlib import blake2b
from typing import NamedTuple

import msgspec

from molecule_core.ground.errors import InvalidField, VersionMismatch
from molecule_core.ground.secrets import redact_secrets
from molecule_core.ground.text import clean_line, hidden_character
from molecule_core.ground.words import distinct, words_of
from molecule_core.memory.model import Draft, Scope
from molecule_core.org.rules import Tree, peers

DEFAULT_NAMESPACE = "general"
# PostgreSQL takes at most 1 MiB of words for one text; nobody looks for what stands behind so many.
_MOST_WORD_BYTES = 512 << 10
# So long may the beginning of a word be that is searched for. Shorter ones would find almost everything. SQLite keeps
# an index for each of these lengths (schema.sql): without it a search would read all words that begin so, of everybody.
_PREFIX_LENGTHS = range(3, 9)


def shelf_of(scope: Scope, workspace_id: str, org_id: str) -> str:
    """Where a memory lies. Whoever reads names the shelves that it may read; all others are as if they were not there.

    A shelf's name stands among the words of its memories: one of its own kind, which no text can hold."""
    letter, owner = scope.value[0].lower(), org_id if scope is Scope.GLOBAL else workspace_id
    return f"_{letter}{owner.replace('-', '')}"


def shelves_of(tree: Tree, workspace_id: str, scope: Scope | None) -> list[str]:
    """The shelves that a living workspace may read, of one scope or of all.

    LOCAL: its own. TEAM: its own and those of its peers: siblings, children, parent (org.rules.peers; skipping levels
    makes nobody a peer). GLOBAL: its organisation's."""
    own = tree.workspace(workspace_id)
    if own is None:
        return []
    team = [own, *(peer for peer in peers(tree, own) if not peer.removed)]
    readable = {
        Scope.LOCAL: [own.id],
        Scope.TEAM: [each.id for each in team],
        Scope.GLOBAL: [own.id],
    }
    return [shelf_of(each, owner, own.org_id) for each in Scope if scope in (None, each) for owner in readable[each]]


def may_write(tree: Tree, workspace_id: str, scope: Scope) -> bool:
    """GLOBAL memories are for those at the top of the organisation. (One that is moved below another later leaves what
    it wrote.)"""
    own = tree.workspace(workspace_id)
    return scope is not Scope.GLOBAL or (own is not None and own.parent_id is None)


# -- what is written ---------------------------------------------------------------------------------------------------


def clean_draft(draft: Draft, *, most_bytes: int, namespace_length: int) -> tuple[Draft, int]:
    """What is to be remembered as it may be kept, and how many secrets were taken out. Raises InvalidField."""
    if not draft.content.strip():
        raise InvalidField(reason="content is empty; say what is to be remembered")
    if "\x00" in draft.content:
        raise InvalidField(reason="content holds a NUL character; remove it")
    size = len(draft.content.encode())
    if size > most_bytes:
        raise InvalidField(reason=f"content has {size} bytes; at most {most_bytes} are taken")
    namespace = clean_line(draft.namespace, namespace_length, "namespace") or DEFAULT_NAMESPACE
    if redact_secrets(namespace)[1]:
        raise InvalidField(reason="namespace looks like a secret; choose a word")
    content, redacted = redact_secrets(draft.content)
    return draft._replace(content=content, namespace=namespace), redacted


def hash_of(draft: Draft) -> str:
    """What two memories have in common that say the same at the same place."""
    return blake2b(msgspec.json.encode((draft.scope, draft.namespace, draft.content)), digest_size=16).hexdigest()


def indexed(content: str, shelf: str) -> str:
    """What the search keeps of a memory: its shelf and its words."""
    return " ".join((shelf, *distinct(words_of(content), _MOST_WORD_BYTES)))


class Search(NamedTuple):
    """What a search looks for: these words, the last also as the beginning of longer ones (`prefix`: 0 or 1)."""

    words: str
    prefix: int


def search_for(text: str, most_words: int) -> Search | None:
    """What somebody means who writes this into a search field; None: nothing that could be found."""
    words = words_of(text)[:most_words]
    if not words:
        return None
    return Search(" ".join((*dict.fromkeys(words[:-1]), words[-1])), int(len(words[-1]) in _PREFIX_LENGTHS))


# -- keys --------------------------------------------------------------------------------------------------------------


def check_key(key: str, most: int) -> None:
    """Whether a key can be named in a path. Raises InvalidField."""
    if not key or len(key) > most:
        raise InvalidField(reason=f"key has {len(key)} characters; it takes 1 to {most}")
    if key != key.strip() or (bad := hidden_character(key)):
        what = "a blank at an end" if key != key.strip() else f"the hidden character U+{ord(bad or ' '):04X}"
        raise InvalidField(reason=f"key holds {what}; remove it")
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise InvalidField(reason="key holds an empty part, '.' or '..' between slashes, which a path cannot name")


def check_version(current: int, expected: int | None) -> None:
    """Whether a key stands as its writer believes. Raises VersionMismatch."""
    if expected is not None and expected != current:
        raise VersionMismatch(expected_version=expected, current_version=current)
