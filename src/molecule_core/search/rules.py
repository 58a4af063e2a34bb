"""Rules: which rows have which text, what a query means, numbers of documents, snippets. Pure."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from molecule_core.common.search_terms import distinct_terms, locate_terms, split_terms
from molecule_core.common.text import hide_control_characters
from molecule_core.messages.chat_view import message_parts
from molecule_core.search.model import (
    SearchKind,
    SearchTerms,
    Snippet,
    SourceDocument,
    SourceRef,
    distinct,
)
from molecule_core.store.database import Row
from molecule_core.wire.protocols.a2a_response import part_as_text
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.activity import ActivityMethod, ActivityType, MessageKind

# 512 KiB: PostgreSQL takes at most 1 MiB of words for one text.
_MAX_TERM_BYTES = 512 << 10
# As in memories: shorter ones match almost everything, and SQLite has an index for each of these lengths (schema.sql).
# Without it a prefix reads the entries of all words that begin so, on the event loop.
_PREFIX_LENGTHS = range(3, 9)
# A number is the time in milliseconds and these bits, which distinguish the documents of one millisecond.
_NUMBER_BITS = 8
# 4 s: the farthest from its time that a document of a crowded millisecond is numbered.
_MAX_SPREAD_BITS = 20
AFTER_NEWEST = (1 << 63) - 1
_PARTITION_INITIALS = {
    SearchKind.MESSAGE: "m",
    SearchKind.DELEGATION: "d",
    SearchKind.THREAD: "t",
    SearchKind.MEMORY: "r",
}
# Stored as part of a delegation, or as the copy of a message that is indexed in another log.
_DELEGATION_KINDS = (MessageKind.DELEGATION, MessageKind.DELEGATION_RESULT)
_COPIES = (ActivityMethod.BROADCAST, ActivityMethod.DELEGATE, ActivityMethod.DELEGATE_RESULT)
# A snippet begins this many characters before its first match, if that is at most a few before a blank.
_LEAD_CHARACTERS = 48
_MAX_WORD_CUT = 16


# -- what is indexed ---------------------------------------------------------------------------------------------------


def message_document(row: Row) -> SourceDocument | None:
    """Return the document of a log row, as selected by `searchable_message`; None if another one has its text."""
    id_, org_id, workspace_id, at, activity_type, method, kind, source_id, target_id, chat, *texts = row
    summary, error_detail, request_body = texts
    if activity_type == ActivityType.DELEGATION or kind in _DELEGATION_KINDS or method in _COPIES:
        return None
    if activity_type == ActivityType.SEND and method == ActivityMethod.SEND:
        return None
    parts = [] if request_body is None else message_parts(request_body)
    text = "\n".join(filter(None, map(_part_text, parts)))
    if activity_type not in (ActivityType.SEND, ActivityType.RECEIVE) or not text:
        text = "\n".join(each for each in (summary, error_detail) if each)
    return SourceDocument(
        ref=SourceRef(SearchKind.MESSAGE, id_),
        org_id=org_id,
        at=at,
        owner_id=workspace_id,
        workspace_ids=distinct(workspace_id, source_id, target_id),
        text=text,
        in_chat=bool(chat),
    )


def _part_text(part: Any) -> str:
    """Return the text of a part; empty for one of a form that the server does not write."""
    try:
        return part_as_text(part)
    except (AttributeError, KeyError, TypeError):
        return ""


def delegation_document(row: Row) -> SourceDocument:
    """Return the document of a delegation, as selected by `searchable_delegation`."""
    id_, org_id, source_id, target_id, at, *texts = row
    return SourceDocument(
        ref=SourceRef(SearchKind.DELEGATION, id_),
        org_id=org_id,
        at=at,
        owner_id=source_id,
        workspace_ids=distinct(source_id, target_id),
        text="\n".join(each for each in texts if each),
    )


def entry_document(row: Row) -> SourceDocument | None:
    """Return the document of an entry of a thread, as selected by `searchable_entry`; None if it holds no text."""
    thread_id, ordinal, org_id, workspace_id, at, body = row
    text = _entry_text(log.decode_entry(body))
    if not text:
        return None
    return SourceDocument(
        ref=SourceRef(SearchKind.THREAD, thread_id, ordinal),
        org_id=org_id,
        at=at,
        owner_id=workspace_id,
        workspace_ids=(workspace_id,),
        text=text,
    )


def _entry_text(entry: log.ThreadEntry) -> str:
    match entry:
        case (
            log.UserMessageEntry()
            | log.PeerMessageEntry()
            | log.AgentMessageEntry()
            | log.ReasoningEntry()
            | log.ToolOutputEntry()
        ):
            return entry.text
        case log.ToolCallEntry():
            return f"{entry.tool}\n{msgspec.json.encode(entry.arguments).decode()}"
        case log.CompactionEntry():
            return entry.summary
        case _:
            return ""


def memory_document(row: Row) -> SourceDocument:
    """Return the document of a memory, as selected by `searchable_memory`."""
    id_, org_id, workspace_id, at, content = row
    return SourceDocument(
        ref=SourceRef(SearchKind.MEMORY, id_),
        org_id=org_id,
        at=at,
        owner_id=workspace_id,
        workspace_ids=(workspace_id,),
        text=content,
    )


def indexed_words(document: SourceDocument, max_characters: int) -> str:
    """Return what the index has of a document: its partition, its workspaces, and each word of its text once."""
    words = distinct_terms(split_terms(document.text[:max_characters]), _MAX_TERM_BYTES)
    marks = map(workspace_mark, document.workspace_ids)
    return " ".join((partition_of(document.org_id, document.ref.kind), *marks, *words))


def partition_of(org_id: str, kind: SearchKind) -> str:
    """Return the partition of documents: what an organisation has of a kind.

    It is stored among the words. Its underscore keeps it apart from the words of any text."""
    return f"_{_PARTITION_INITIALS[kind]}{_id_letters(org_id)}"


def workspace_mark(workspace_id: str) -> str:
    """Return the word by which the documents of a workspace are found."""
    return f"_w{_id_letters(workspace_id)}"


def _id_letters(id_: str) -> str:
    """Return an id as letters and digits that no database can take for anything else."""
    letters = id_.replace("-", "")
    return letters if letters.isascii() and letters.isalnum() else id_.encode().hex()


def document_number(document: SourceDocument, attempt: int) -> int:
    """Return a number for a document, by which newer ones are found first. Each attempt gives another one."""
    bits = min(_NUMBER_BITS + attempt, _MAX_SPREAD_BITS)
    name = f"{document.org_id}\0{document.ref.kind}\0{document.ref.id}\0{document.ref.ordinal}\0{attempt}"
    chance = int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) % (1 << bits)
    return first_number(document.at) + chance


def first_number(at: int) -> int:
    """Return the lowest number of a document of this time (microseconds)."""
    return min(max(at, 0) // 1000 << _NUMBER_BITS, AFTER_NEWEST)


def time_of_number(number: int) -> int:
    """Return the time (microseconds) of documents with about this number."""
    return (number >> _NUMBER_BITS) * 1000


def last_number(at: int) -> int:
    """Return a number above all of documents of this time."""
    return min(first_number(at) + (1 << _MAX_SPREAD_BITS) + (1 << _NUMBER_BITS), AFTER_NEWEST)


# -- what is asked -----------------------------------------------------------------------------------------------------


def parse_query(text: str, max_words: int) -> SearchTerms | None:
    """Parse a query, or return None if it has no words.

    Words between two quotation marks must be adjacent. The last word is also a prefix, unless it is in quotation
    marks. Other characters only separate words."""
    words: list[str] = []
    phrases: list[tuple[str, ...]] = []
    segments = text.split('"')
    is_prefix = False
    for number, segment in enumerate(segments):
        found = split_terms(segment)[: max_words - len(words)]
        if not found:
            continue
        is_quoted = number % 2 == 1 and number < len(segments) - 1
        is_prefix = not is_quoted and len(found[-1]) in _PREFIX_LENGTHS
        words += found
        if is_quoted and len(found) > 1:
            phrases.append(tuple(found))
    if not words:
        return None
    # The last word stays the last: the statement makes a prefix of it.
    return SearchTerms(
        (*dict.fromkeys(each for each in words[:-1] if each != words[-1]), words[-1]), is_prefix, tuple(phrases)
    )


def has_words(text: str, terms: SearchTerms, max_characters: int) -> bool:
    """Return whether a text has all words and phrases of a query, as the index would find it."""
    found = set(split_terms(text[:max_characters]))
    is_found = found.issuperset(terms.words[:-1]) and any(
        each == terms.words[-1] or (terms.is_prefix and each.startswith(terms.words[-1])) for each in found
    )
    return is_found and has_phrases(text, terms.phrases, max_characters)


def has_phrases(text: str, phrases: Sequence[tuple[str, ...]], max_characters: int) -> bool:
    """Return whether a text has the words of each phrase next to each other."""
    if not phrases:
        return True
    words = f" {' '.join(split_terms(text[:max_characters]))} "
    return all(f" {' '.join(each)} " in words for each in phrases)


def make_snippet(text: str, terms: SearchTerms, *, max_characters: int, length: int) -> Snippet:
    """Return the part of a text around the first match of a query. Line breaks and hidden characters become blanks."""
    text = text[:max_characters]
    start, spans = 0, list[tuple[int, int]]()
    for first, end in locate_terms(text, terms.matches):
        if not spans:
            start = _snippet_start(text, first)
        elif first >= start + length:
            break
        spans.append((first - start, min(end - start, length)))
    return Snippet(hide_control_characters(text[start : start + length]), spans)


def _snippet_start(text: str, first: int) -> int:
    """Return where a snippet begins whose first match begins at `first`: at the beginning of a word, if one is near."""
    start = max(0, first - _LEAD_CHARACTERS)
    if start == 0:
        return 0
    for position in range(start, min(start + _MAX_WORD_CUT, first)):
        if text[position - 1].isspace():
            return position
    return start
