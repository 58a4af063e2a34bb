"""Builds the context that a model sees: a pure function of logs. Engines send exactly this and nothing else.

Order: base instructions, layers, the summary of the last compaction, the input of the turn that was open then, and all
later entries. Messages of peers are fenced as data and never appear as the user's input. A summary is the model's own
text (role `assistant`): it may quote peers, so it must not have the authority of the platform (decision 0065).
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from molecule_core.threads.model import LogEntryRow
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.prompts import estimate_tokens
from molecule_core.wire.schemas.thread_log import BaseInstructionsRef, ThreadEntry
from molecule_core.wire.schemas.threads import ModelContextItem
from molecule_core.wire.schemas.xml import escape_text, quote_attribute


class ContextEntry(NamedTuple):
    """A log row with its decoded entry. `is_own`: of the thread itself, not of one that it was forked from."""

    row: LogEntryRow
    entry: ThreadEntry
    is_own: bool


def build_context(entries: Sequence[ContextEntry], base: BaseInstructionsRef, text: str) -> list[ModelContextItem]:
    """Build the context of a model. `base`, `text`: the active base instructions."""
    visible = _from_last_compaction(entries)
    unanswered = _unanswered_calls(visible)
    items = [_base_item(base, text), *latest_layers(entries)]
    for each in visible:
        if each.row.item_id in unanswered:
            continue
        item = _to_context_item(each)
        if item is not None:
            items.append(item)
    return items


def total_tokens(items: Iterable[ModelContextItem]) -> int:
    """Return the estimated number of tokens."""
    return sum(each.tokens for each in items)


def render_peer_message(entry: log.PeerMessageEntry) -> str:
    """Render a peer's message for a model: labelled as such, and escaped."""
    head = (
        f"type={quote_attribute(entry.mail_type)} author={quote_attribute(entry.author)} "
        f"recipient={quote_attribute(entry.recipient)}"
    )
    return f"<peer_message {head}>{escape_text(entry.text)}</peer_message>"


def _unanswered_calls(visible: Sequence[ContextEntry]) -> set[str]:
    """Return calls of the source without an output before the fork: their outputs will never come here.

    Calls of the thread itself may have the same ids; they are not meant."""
    open_items: dict[tuple[str, str], list[str]] = {}
    for each in visible:
        if each.is_own:
            continue
        match each.entry:
            case log.ToolCallEntry(call_id=name):
                open_items.setdefault((each.row.thread_id, name), []).append(each.row.item_id)
            case log.ToolOutputEntry(call_id=name):
                del open_items.get((each.row.thread_id, name), [])[:1]
            case _:
                pass
    return {name for names in open_items.values() for name in names}


def _from_last_compaction(entries: Sequence[ContextEntry]) -> list[ContextEntry]:
    """Return the last compaction, the input of its own turn, and the entries that it does not cover."""
    last = next((each for each in reversed(entries) if isinstance(each.entry, log.CompactionEntry)), None)
    if last is None or not isinstance(last.entry, log.CompactionEntry):
        return list(entries)
    thread_id = last.row.thread_id
    kept = [
        each
        for each in entries[_first_own_index(entries, thread_id) :]
        if not isinstance(each.entry, log.CompactionEntry) and not _is_covered(each, last.row, last.entry.upto)
    ]
    return [last, *kept]


def _is_covered(each: ContextEntry, compaction: LogEntryRow, upto: int) -> bool:
    """Return whether a compaction replaces an entry. The input of its own turn stays: it is not answered yet."""
    row = each.row
    if row.thread_id != compaction.thread_id or row.ordinal > upto:
        return False
    is_input = isinstance(each.entry, log.UserMessageEntry | log.PeerMessageEntry)
    return not (is_input and row.turn_id is not None and row.turn_id == compaction.turn_id)


def _first_own_index(entries: Sequence[ContextEntry], thread_id: str) -> int:
    """Return the index of a thread's first own entry; inherited entries come before it and are covered with it."""
    return next(index for index, each in enumerate(entries) if each.row.thread_id == thread_id)


def _base_item(base: BaseInstructionsRef, text: str) -> ModelContextItem:
    provenance = base.provenance
    return ModelContextItem(
        item_id=base.item_id,
        role="developer",
        type="base",
        text=text,
        origin=f"{provenance.type}: {provenance.source}",
        tokens=base.tokens,
        version=base.version,
    )


def latest_layers(entries: Iterable[ContextEntry]) -> list[ModelContextItem]:
    """Return the last version of each layer."""
    newest: dict[str, ModelContextItem] = {}
    for each in entries:
        if isinstance(each.entry, log.InstructionLayerEntry):
            newest[each.entry.layer] = _make_item(
                each, "developer", each.entry.text, each.entry.origin, version=each.entry.version, type=each.entry.layer
            )
    return [newest[name] for name in ("developer", "context") if name in newest]


def _to_context_item(each: ContextEntry) -> ModelContextItem | None:
    entry, found = each.entry, None
    match entry:
        case log.UserMessageEntry():
            found = _make_item(
                each, "user", entry.text, f"{entry.author.kind}: {entry.author.name}", author=entry.author.name
            )
        case log.PeerMessageEntry():
            found = _make_item(each, "peer", render_peer_message(entry), f"peer: {entry.author}", author=entry.author)
        case log.AgentMessageEntry():
            found = _make_item(each, "assistant", entry.text, "model")
        case log.ReasoningEntry():
            found = _make_item(each, "assistant", entry.text, "model", data=entry.data)
        case log.ToolCallEntry():
            size = len(msgspec.json.encode(entry.arguments))
            more: dict[str, Any] = {"call_id": entry.call_id, "tool": entry.tool, "arguments": entry.arguments}
            found = _make_item(each, "assistant", "", "model", size=size, **more)
        case log.ToolOutputEntry():
            found = _make_item(each, "tool", entry.text, "tool", call_id=entry.call_id, is_error=entry.is_error)
        case log.ContextNoteEntry():
            found = _make_item(each, "developer", entry.text, entry.origin)
        case log.CompactionEntry():
            found = _make_item(each, "assistant", entry.summary, f"compaction ({entry.kind})")
        case _:
            pass
    return found


def _make_item(
    each: ContextEntry, role: Any, text: str, origin: str, *, size: int = 0, **more: Any
) -> ModelContextItem:
    row = each.row
    kind = more.pop("type", row.type)
    return ModelContextItem(
        item_id=row.item_id,
        role=role,
        type=kind,
        text=text,
        origin=origin,
        tokens=estimate_tokens(size + len(text.encode())),
        ordinal=row.ordinal,
        turn_id=row.turn_id,
        **more,
    )


def to_context_entries(entries: Iterable[LogEntryRow], thread_id: str) -> list[ContextEntry]:
    """Decode log rows for the context of a thread."""
    return [ContextEntry(row, log.decode_entry(row.body), row.thread_id == thread_id) for row in entries]
