"""Pure decisions about answers of A2A agents. Used by a2a_delivery and a2a_follower."""

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.a2a_agents.model import RemoteTask
from molecule_core.common.text import truncate_line
from molecule_core.messages.delivery_state import DeliveryFailure, PushResult
from molecule_core.wire.protocols.a2a_call import FINAL_STATES, INTERRUPTED_STATES, A2AAnswer
from molecule_core.wire.protocols.a2a_response import get_member

CONTINUED = "continued"
"""The state of a task that a later message continues."""
_MAX_QUOTED = 200
# Errors of the protocol: the agent understood and refuses. Others are failures of the agent itself.
_REFUSALS = frozenset((-32700, -32600, -32601, -32602, *range(-32009, -32000)))


def error_result(answer: A2AAnswer) -> PushResult:
    """Return the result of a push whose answer is an error, or neither a task nor a message."""
    if answer.error is None:
        text = "its answer is neither a task nor a message, and no error"
        return PushResult(error=text, refused=True, code=DeliveryFailure.BAD_ANSWER)
    code = "" if answer.code is None else f" (error {answer.code})"
    text = f"{truncate_line(answer.error, _MAX_QUOTED)}{code}"
    is_refusal = answer.code in _REFUSALS
    failure = DeliveryFailure.REFUSED if is_refusal else DeliveryFailure.AGENT_ERROR
    return PushResult(error=text, refused=True, code=failure)


def task_id_of(answer: A2AAnswer) -> str:
    """Return the id of the task in an answer; empty for a message."""
    found = get_member(answer.result, "id")
    return found if answer.state is not None and isinstance(found, str) else ""


def context_id_of(answer: A2AAnswer) -> str | None:
    """Return the context of an answer, if it names one."""
    found = get_member(answer.result, "contextId")
    return found if isinstance(found, str) and found else None


def question_id(answer: A2AAnswer) -> str | None:
    """Return what identifies the question of a task; None for a task that asks nothing.

    A poll sees the same question again, which must not be asked twice."""
    if not answer.is_interrupted:
        return None
    status: dict[str, Any] = get_member(answer.result, "status", {})
    message = get_member(status, "message")
    message_id = get_member(message, "messageId")
    content = message_id if isinstance(message_id, str) else msgspec.json.encode(get_member(message, "parts")).decode()
    return hashlib.sha256(f"{answer.state}\0{content}".encode()).hexdigest()[:32]


def with_answer(task: RemoteTask, answer: A2AAnswer, now: int, due: int) -> RemoteTask:
    """Return a task as an answer shows it."""
    return replace(
        task,
        task_id=task_id_of(answer) or task.task_id,
        context_id=context_id_of(answer) or task.context_id,
        state=answer.state or "message",
        failures=0,
        asked=question_id(answer) or task.asked,
        updated_at=now,
        due=due,
    )


def is_unfinished_state(state: str) -> bool:
    """Return whether the agent works on a task in this state."""
    return state not in (*FINAL_STATES, *INTERRUPTED_STATES, CONTINUED)


def is_same_question(task: RemoteTask, answer: A2AAnswer) -> bool:
    """Return whether a task still waits for the answer to the question that was asked before."""
    return answer.is_interrupted and question_id(answer) == task.asked
