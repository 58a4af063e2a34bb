"""Parses rows of the public API for the demo agents. Pure; rows can have any content."""

from collections.abc import Iterator
from typing import Any

from molecule_core.demo.model import Checks, DemoApproval, DemoMessage, DemoPeer, DemoSkill, DemoWorkspace, Estimate
from molecule_core.demo.text_analysis import ANY_NUMBER, significant_stems
from molecule_core.wire.schemas.activity import APPROVAL_KINDS, Intent, MessageKind
from molecule_core.wire.schemas.delegations import DelegationStatus

_MAX_TAGS = 50


def parse_message_row(row: dict[str, Any]) -> DemoMessage:
    """Parse a row of the inbox.

    Only messages of persons and peers want an answer. A peer's reply wants none, or two agents could answer each other
    for ever."""
    return _build_message(
        row.get("request_body"),
        id=row["id"],
        attempt=row["attempt"],
        sender=row["source_id"],
        kind=row["kind"],
        intent=row["intent"],
        handle=_as_object(row.get("instructions")).get("reply_handle"),
    )


def parse_pushed_message(body: Any, *, id: str, attempt: int) -> DemoMessage:
    """Parse a pushed message, which has only its body; `id` and `attempt` come from the headers."""
    metadata = _as_object(_as_object(_params(body).get("message")).get("metadata"))
    kind, intent = metadata.get("kind"), metadata.get("intent")
    return _build_message(body, id=id, attempt=attempt, sender=None, kind=kind, intent=intent, handle=None)


def _build_message(
    body: Any, *, id: str, attempt: int, sender: str | None, kind: Any, intent: Any, handle: Any
) -> DemoMessage:
    message = _as_object(_params(body).get("message"))
    metadata = _as_object(message.get("metadata"))
    parts, named = message.get("parts"), metadata.get("delegation_id")
    shown = parts if isinstance(parts, list) else []
    # The last part of a task with checks lists them.
    texts = [_as_object(part).get("text") for part in (shown[:-1] if "accept" in metadata else shown)]
    is_reply = kind == MessageKind.PEER and isinstance(metadata.get("in_reply_to"), str)
    is_returned = isinstance(metadata.get("needs_work"), list)
    text = "\n".join(text for text in texts if isinstance(text, str))
    return DemoMessage(
        id=id,
        attempt=attempt,
        text=_quoted_lines(text) if is_returned else text,
        sender=sender,
        handle=handle if isinstance(handle, str) else "",
        delegation_id=named
        if isinstance(named, str)
        and kind in (MessageKind.DELEGATION, MessageKind.DELEGATION_RESULT, MessageKind.SYSTEM)
        else "",
        is_result=kind == MessageKind.DELEGATION_RESULT,
        is_failed=kind == MessageKind.DELEGATION_RESULT and metadata.get("status") != DelegationStatus.COMPLETED,
        is_returned=is_returned,
        wants_answer=kind in (MessageKind.USER, MessageKind.PEER, MessageKind.DELEGATION, MessageKind.APPROVAL_DECISION)
        and intent == Intent.REQUEST
        and not is_reply,
        approval=parse_approval(metadata) if kind in APPROVAL_KINDS else None,
        needs_decision=kind == MessageKind.APPROVAL_REQUEST,
    )


def _quoted_lines(text: str) -> str:
    """Return the quoted lines of a text: the task, in a message that returns an answer to it."""
    return "\n".join(line[2:] for line in text.splitlines() if line.startswith("> "))


def parse_approval(value: Any) -> DemoApproval | None:
    """Parse an approval from the API or from the metadata of a message."""
    item = _as_object(value)
    id_, status, revision, hashed = (item.get(name) for name in ("approval_id", "status", "revision", "action_hash"))
    if not (isinstance(id_, str) and isinstance(status, str) and isinstance(revision, int) and isinstance(hashed, str)):
        return None
    decided = _as_object(item.get("decided"))
    by, note = _as_object(decided.get("by")).get("name"), decided.get("note")
    return DemoApproval(
        id=id_,
        status=status,
        revision=revision,
        action_hash=hashed,
        by=by if isinstance(by, str) else "",
        note=note if isinstance(note, str) else "",
    )


def _params(body: Any) -> dict[str, Any]:
    return _as_object(_as_object(body).get("params"))


def parse_peer_row(row: dict[str, Any], own_id: str, parent_id: str | None) -> DemoPeer:
    """Parse a row of the peer list."""
    card = _as_object(row["agent_card"])
    skills = card.get("skills")
    texts = [row["name"], row["role"] or "", *_iter_strings(card.get("description")), *_iter_strings(skills)]
    return DemoPeer(
        id=row["id"],
        name=row["name"],
        place="below" if row["parent_id"] == own_id else "above" if row["id"] == parent_id else "beside",
        has_skills=bool(skills),
        stems=significant_stems("\n".join(texts)),
    )


def build_agent_card(seat: DemoWorkspace) -> dict[str, Any]:
    """Return the agent card of a workspace, with the words that its skills know as tags."""
    skills: list[dict[str, Any]] = [{"id": seat.behaviour, "name": seat.behaviour.capitalize(), "tags": []}]
    if seat.examples:
        skills[0]["examples"] = list(seat.examples)
    for number, skill in enumerate(seat.craft, start=1):
        skills.append({"id": f"craft-{number}", "name": skill.title, "tags": _skill_tags(skill)})
    return {"name": seat.name, "description": seat.role, "skills": skills}


def _skill_tags(skill: DemoSkill) -> list[str]:
    words: list[str] = []
    if isinstance(skill, Checks):
        words = [word for item in skill.items for word in item.when if word != ANY_NUMBER]
    if isinstance(skill, Estimate):
        words = list(skill.days)
    return list(dict.fromkeys(words))[:_MAX_TAGS]


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _iter_strings(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value, without member names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _iter_strings(inner)
