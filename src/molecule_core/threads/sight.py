"""What a model sees of a thread: a pure function of logs. An engine sends exactly this, and nothing else.

Order: base instructions, layers, then the summary of the last compaction and all behind it. What a peer says is fenced
as data, and is never the user's word.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from molecule_core.threads.model import Line
from molecule_core.wire import threadlog as log
from molecule_core.wire.markup import escaped, quoted
from molecule_core.wire.prompts import tokens_of
from molecule_core.wire.threadlog import BaseRef, Entry
from molecule_core.wire.threads import SightItem


class Seen(NamedTuple):
    """A line of a log with what it says. `own`: of the thread itself, not of one that it was forked from."""

    line: Line
    entry: Entry
    own: bool


def sight(lines: Sequence[Seen], base: BaseRef, text: str) -> list[SightItem]:
    """What the model will see. `base` and `text`: the base instructions in force."""
    said = _since_summary(lines)
    torn = _torn(said)
    items = [_base_item(base, text), *layers_in(lines)]
    for each in said:
        if each.line.item_id in torn:
            continue
        item = _shown(each)
        if item is not None:
            items.append(item)
    return items


def tokens_in(items: Iterable[SightItem]) -> int:
    """About how many tokens all of them are."""
    return sum(each.tokens for each in items)


def fenced(entry: log.PeerMessage) -> str:
    """What a peer says, as a model reads it: marked as what it is, and escaped."""
    head = f"type={quoted(entry.mail_type)} author={quoted(entry.author)} recipient={quoted(entry.recipient)}"
    return f"<peer_message {head}>{escaped(entry.text)}</peer_message>"


def _torn(said: Sequence[Seen]) -> set[str]:
    """Calls of the source that had no output where the fork begins: their outputs will never come here. Those of the
    same name that the thread itself has are others."""
    still: dict[tuple[str, str], list[str]] = {}
    for each in said:
        if each.own:
            continue
        match each.entry:
            case log.ToolCall(call_id=name):
                still.setdefault((each.line.thread_id, name), []).append(each.line.item_id)
            case log.ToolOutput(call_id=name):
                del still.get((each.line.thread_id, name), [])[:1]
            case _:
                pass
    return {name for names in still.values() for name in names}


def _since_summary(lines: Sequence[Seen]) -> list[Seen]:
    """The last compaction and what it does not cover."""
    last = next((each for each in reversed(lines) if isinstance(each.entry, log.Compaction)), None)
    if last is None or not isinstance(last.entry, log.Compaction):
        return list(lines)
    upto, thread_id = last.entry.upto, last.line.thread_id
    behind = [
        each
        for each in lines[_first_of(lines, thread_id) :]
        if (each.line.thread_id != thread_id or each.line.ordinal > upto) and not isinstance(each.entry, log.Compaction)
    ]
    return [last, *behind]


def _first_of(lines: Sequence[Seen], thread_id: str) -> int:
    """Where a thread's own lines begin: all that it was forked from lies before, and is covered with it."""
    return next(place for place, each in enumerate(lines) if each.line.thread_id == thread_id)


def _base_item(base: BaseRef, text: str) -> SightItem:
    said = base.provenance
    return SightItem(
        item_id=base.item_id,
        role="developer",
        type="base",
        text=text,
        origin=f"{said.type}: {said.source}",
        tokens=base.tokens,
        version=base.version,
    )


def layers_in(lines: Iterable[Seen]) -> list[SightItem]:
    """The last version of each layer."""
    newest: dict[str, SightItem] = {}
    for each in lines:
        if isinstance(each.entry, log.Layer):
            newest[each.entry.layer] = _item(
                each, "developer", each.entry.text, each.entry.origin, version=each.entry.version, type=each.entry.layer
            )
    return [newest[name] for name in ("developer", "context") if name in newest]


def _shown(each: Seen) -> SightItem | None:
    entry, found = each.entry, None
    match entry:
        case log.UserMessage():
            found = _item(
                each, "user", entry.text, f"{entry.author.kind}: {entry.author.name}", author=entry.author.name
            )
        case log.PeerMessage():
            found = _item(each, "peer", fenced(entry), f"peer: {entry.author}", author=entry.author)
        case log.AgentMessage():
            found = _item(each, "assistant", entry.text, "model")
        case log.Reasoning():
            found = _item(each, "assistant", entry.text, "model", data=entry.data)
        case log.ToolCall():
            size = len(msgspec.json.encode(entry.arguments))
            more: dict[str, Any] = {"call_id": entry.call_id, "tool": entry.tool, "arguments": entry.arguments}
            found = _item(each, "assistant", "", "model", size=size, **more)
        case log.ToolOutput():
            found = _item(each, "tool", entry.text, "tool", call_id=entry.call_id, is_error=entry.is_error)
        case log.ContextNote():
            found = _item(each, "developer", entry.text, entry.origin)
        case log.Compaction():
            found = _item(each, "developer", entry.summary, f"compaction ({entry.kind})")
        case _:
            pass
    return found


def _item(each: Seen, role: Any, text: str, origin: str, *, size: int = 0, **more: Any) -> SightItem:
    line = each.line
    kind = more.pop("type", line.type)
    return SightItem(
        item_id=line.item_id,
        role=role,
        type=kind,
        text=text,
        origin=origin,
        tokens=tokens_of(size + len(text.encode())),
        ordinal=line.ordinal,
        turn_id=line.turn_id,
        **more,
    )


def seen_of(lines: Iterable[Line], thread_id: str) -> list[Seen]:
    """Lines with what they say, as a thread sees them."""
    return [Seen(line, log.entry_of(line.body), line.thread_id == thread_id) for line in lines]
