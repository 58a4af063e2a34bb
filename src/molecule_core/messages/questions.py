"""Questions with options from agents to people: which have no answer yet.

A question is closed by the choice of one of its options, or by any other later message of a person to its agent."""

from typing import Any

from molecule_core.common.limits import Limits
from molecule_core.messages.model import Activity
from molecule_core.messages.rules import chosen_question
from molecule_core.store.database import Statement


def open_question(activity: Activity, limits: Limits) -> list[Statement]:
    """Store a question as open. The oldest ones of its workspace beyond the limit count as closed."""
    key = {"workspace_id": activity.workspace_id}
    question = {"org_id": activity.org_id, "activity_id": activity.id, "asked_at": activity.created_at}
    return [
        ("insert_question", {**key, "seq": activity.seq, **question}),
        ("forget_oldest_questions", {**key, "most": limits.open_questions}),
    ]


def close_answered_questions(activity: Activity, metadata: dict[str, Any]) -> Statement:
    """Close what a person's message answers: the question that it names, or all before it."""
    key, question = {"workspace_id": activity.workspace_id}, chosen_question(metadata)
    if question is not None:
        return ("close_question", {**key, "activity_id": question})
    return ("close_questions_before", {**key, "seq": activity.seq})
