"""Decisions about threads: claims, input, limits, names, mail, waits. Pure functions."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from molecule_core.common.limits import Limits
from molecule_core.threads.model import ROOT_PATH, Mail, Thread
from molecule_core.usage.model import UsageTokens
from molecule_core.wire.schemas.thread_log import (
    AgentState,
    ThreadFlag,
    TurnTrigger,
    UsageEntry,
    WaitOutcome,
    WakePolicy,
)

_TASK_NAME = re.compile(r"[a-z0-9_]{1,64}")
MIN_WAIT_SECONDS = 1
ALLOW_ROOT_FOLLOWUPS = "root_followups"
"""The permission of a root thread that lets its descendants wake it."""


# -- input -------------------------------------------------------------------------------------------------------------


class InputAction(StrEnum):
    """What to do with input."""

    STEER = "steer"
    """Add it to the running turn."""
    QUEUE = "queue"
    """Queue a turn for it."""
    CLOSED = "closed"
    NO_TURN = "idle"
    """Reject it: there is no turn to steer."""
    TURN_MISMATCH = "other"
    """Reject it: another turn than the expected one is running."""


def answers_input(trigger: TurnTrigger | None) -> bool:
    """Return whether a turn runs in which the model answers input. A compaction answers none."""
    return trigger not in (None, "compact")


def resolve_input(thread: Thread, mode: str, expected: str | None, running_trigger: TurnTrigger | None) -> InputAction:
    """Return what to do with input in the modes auto, queue and steer.

    `running_trigger`: why the running turn was accepted, if one is running."""
    if thread.closed:
        return InputAction.CLOSED
    if mode == "queue" or (mode == "auto" and not answers_input(running_trigger)):
        return InputAction.QUEUE
    if not answers_input(running_trigger):
        return InputAction.NO_TURN
    return InputAction.STEER if expected in (None, thread.turn_id) else InputAction.TURN_MISMATCH


# -- leases ------------------------------------------------------------------------------------------------------------


def may_claim(thread: Thread, owner: str, now: int) -> bool:
    """Return whether an engine may claim a thread: it is free, its own, or its lease has expired."""
    return thread.owner in (None, owner) or thread.owner_until <= now


def is_fenced(thread: Thread, generation: int) -> bool:
    """Return whether a writer is too late: the thread was claimed again or released."""
    return thread.owner is None or thread.generation != generation  # control: engine-generation


def stop_reason(thread: Thread, turn_id: str, tree_tokens: int, limits: Limits) -> str | None:
    """Return why a turn must stop (closed, interrupted, budget), or None."""
    if thread.closed:
        return "closed"
    if thread.turn_id != turn_id:
        return "interrupted"
    return "budget" if exceeded_budget(thread, tree_tokens, limits) is not None else None


# -- limits ------------------------------------------------------------------------------------------------------------


class LimitExceeded(NamedTuple):
    """A reached limit: its name, its use and maximum, what it limits, and what to do."""

    limit: str
    use: int
    most: int
    what: str
    remedy: str


def exceeded_budget(thread: Thread, tree_tokens: int, limits: Limits) -> LimitExceeded | None:
    """Return the exceeded token budget, or None."""
    if thread.turn_id is not None and thread.turn_tokens >= limits.turn_tokens:
        most = limits.turn_tokens
        return LimitExceeded(
            "turn_tokens", thread.turn_tokens, most, "tokens of this turn", "Continue in another turn."
        )
    if thread.tokens >= limits.thread_tokens:
        most = limits.thread_tokens
        return LimitExceeded("thread_tokens", thread.tokens, most, "tokens of this thread", "Start another thread.")
    if tree_tokens >= limits.thread_tree_tokens:
        most = limits.thread_tree_tokens
        return LimitExceeded(
            "thread_tree_tokens", tree_tokens, most, "tokens of this tree", "Start another root thread."
        )
    return None


class TreeUsage(NamedTuple):
    """Use of the limits by a tree, and spawns by the spawning workspace."""

    live: int
    lifetime: int
    tokens: int
    recent_spawns: int


def exceeded_spawn_limit(depth: int, usage: TreeUsage, limits: Limits) -> LimitExceeded | None:
    """Return the limit that forbids another thread at this depth, or None."""
    checks = (
        ("thread_depth", depth - 1, limits.thread_depth, "levels of agents", "Do the work in this thread."),
        ("thread_live", usage.live, limits.thread_live, "running agents", "Wait for one of them to end, or close it."),
        (
            "thread_lifetime",
            usage.lifetime,
            limits.thread_lifetime,
            "agents of this tree",
            "Start another root thread.",
        ),
        (
            "thread_tree_tokens",
            usage.tokens,
            limits.thread_tree_tokens,
            "tokens of this tree",
            "Start another root thread.",
        ),
        (
            "thread_spawns_per_minute",
            usage.recent_spawns,
            limits.thread_spawns_per_minute,
            "agents per minute",
            "Wait a minute.",
        ),
    )
    return next((LimitExceeded(name, use, most, what, do) for name, use, most, what, do in checks if use >= most), None)


def exceeded_wake_limit(thread: Thread, usage: TreeUsage, limits: Limits) -> LimitExceeded | None:
    """Return the limit that forbids waking an idle agent, or None."""
    if thread.open or thread.path == ROOT_PATH or usage.live < limits.thread_live:
        return None
    return LimitExceeded(
        "thread_live", usage.live, limits.thread_live, "running agents", "Wait for one of them to end."
    )


# -- names -------------------------------------------------------------------------------------------------------------


def task_name_error(name: str | None) -> str | None:
    """Return why a task name is invalid, or None."""
    if not name:
        return "task_name is missing. Add it."
    return None if _TASK_NAME.fullmatch(name) else "task_name is not valid. Use 1 to 64 characters of a-z, 0-9 and _."


def resolve_path(sender: str, target: str) -> str | None:
    """Resolve a target to a path; None if it is not a path.

    Paths from `root` on are absolute; others are relative to the sender, and `..` is the parent."""
    steps = [each for each in target.strip("/").split("/") if each != "."]
    if steps[:1] == [ROOT_PATH]:
        return "/".join(steps)
    segments = sender.split("/")
    for each in steps:
        if each == "..":
            if len(segments) == 1:
                return None
            segments.pop()
        elif _TASK_NAME.fullmatch(each):
            segments.append(each)
        else:
            return None
    return "/".join(segments)


def is_below(path: str, above: str) -> bool:
    """Return whether a path is a descendant of another one."""
    return path.startswith(f"{above}/")


# -- visibility --------------------------------------------------------------------------------------------------------


def readable_by(workspace_id: str | None, tree: Sequence[Thread]) -> set[str]:
    """Return the agents of a tree whose last messages a workspace may read: its own and all their descendants.

    None: all agents."""
    own = [each.path for each in tree if each.workspace_id == workspace_id]
    return {
        each.thread_id
        for each in tree
        if workspace_id is None or any(each.path == path or is_below(each.path, path) for path in own)
    }


def redact_messages(states: Sequence[AgentState], readable_ids: Set[str]) -> list[AgentState]:
    """Remove the last messages of agents that the reader may not read."""
    return [each if each.thread_id in readable_ids else replace(each, message=None) for each in states]


# -- mail --------------------------------------------------------------------------------------------------------------


def final_text(status: str, final: str | None, error: str | None) -> str:
    """Return the text of an end for the requester."""
    if status == "completed":
        return final or "(ended without an answer)"
    return f"Agent errored: {error or 'no reason given'}" if status == "failed" else "Agent was interrupted."


def last_final_text(thread: Thread) -> str:
    """Return the text of a thread's last end for its requester.

    Closing a thread at work interrupts its turn first, so its requester read that it was interrupted."""
    status = "failed" if thread.end_status == "errored" else thread.end_status or ""
    return final_text(status, thread.end_message, thread.end_message)


def latest_final_mail(mails: Iterable[Mail], authors: Mapping[str, Thread]) -> dict[str, Mail]:
    """Return, by author, the mail that reports the author's last end: the newest of each, if the text matches.

    Mail about an earlier end does not report the last one."""
    newest = {mail.author_id or "": mail for mail in mails if mail.mail_type == "FINAL_ANSWER"}
    return {
        name: mail for name, mail in newest.items() if name in authors and mail.text == last_final_text(authors[name])
    }


def should_wake_now(policy: WakePolicy, still_open: int, digests: int) -> bool:
    """Return whether the end of a child wakes its requester.

    By policy: at once, never, or once nothing else that it requested is open. The last end delivers the `digests` that
    waited for it, whatever its own policy."""
    return policy == "wake" or (still_open == 0 and (policy == "digest" or digests > 0))


# -- waits -------------------------------------------------------------------------------------------------------------


class WaitTimeout(NamedTuple):
    """A wait timeout in seconds, and the note if it was clamped."""

    seconds: float
    clamped: str | None


def resolve_wait_timeout(seconds: float | None, limits: Limits) -> WaitTimeout | None:
    """Clamp a wait timeout; None if it is invalid."""
    if seconds is None:
        return WaitTimeout(limits.thread_wait_seconds, None)
    if not seconds > 0:
        return None
    most = limits.thread_wait_most_seconds
    clamped_seconds = min(max(seconds, MIN_WAIT_SECONDS), most)
    clamp_note = (
        None
        if clamped_seconds == seconds
        else f"timeout {seconds:g} s was changed to {clamped_seconds:g} s ({MIN_WAIT_SECONDS} to {most})"
    )
    return WaitTimeout(clamped_seconds, clamp_note)


def agent_state(thread: Thread, outcome: WaitOutcome | None = None) -> AgentState:
    """Return the state of a thread as other agents see it."""
    return AgentState(
        thread_id=thread.thread_id,
        path=thread.path,
        nickname=thread.nickname,
        role=thread.role,
        status=thread.agent_status,
        message=thread.message,
        outcome=outcome,
    )


def last_end_state(thread: Thread) -> AgentState:
    """Return the state at a thread's last end; it may be running again. An interrupted turn also ends a wait."""
    ended = "interrupted" if thread.end_status == "interrupted" else "ended"
    return AgentState(
        thread_id=thread.thread_id,
        path=thread.path,
        nickname=thread.nickname,
        role=thread.role,
        status=thread.end_status or thread.status,  # type: ignore[arg-type]
        message=thread.end_message,
        outcome=ended,  # type: ignore[arg-type]
    )


class WaitEvaluation(NamedTuple):
    """Result of evaluating a wait: the states of ended targets, and whether the wait is over.

    `is_idle`: these ends were reported before, and no target is at work."""

    states: list[AgentState]
    is_over: bool
    is_idle: bool = False


def is_at_rest(thread: Thread) -> bool:
    """Return whether a thread has ended and no turn of it is running or queued."""
    return thread.ends > 0 and not thread.open


def evaluate_wait(
    targets: Sequence[str], found: Mapping[str, Thread], known_ids: frozenset[str], after: Mapping[str, int], mode: str
) -> WaitEvaluation:
    """Return which targets have ended since they were last reported; if no target is at work, which have ended at all.

    `known_ids`: targets that existed when the wait began. If one of them is gone, the source is lost, which is not an
    end."""
    states, done, at_rest = list[AgentState](), 0, list[Thread]()
    for each in targets:
        thread = found.get(each)
        if thread is None:
            outcome: WaitOutcome = "source_lost" if each in known_ids else "unknown"  # control: source-lost
            states.append(
                AgentState(thread_id=each, path="", nickname="", role=None, status="not_found", outcome=outcome)
            )
            done += 1
        elif thread.ends > after.get(each, 0):
            states.append(last_end_state(thread))
            done += 1
        elif is_at_rest(thread):
            at_rest.append(thread)
    is_settled = done + len(at_rest) == len(targets)  # control: waited-at-rest
    if is_settled and not done:
        return WaitEvaluation([last_end_state(each) for each in at_rest], bool(targets), is_idle=True)
    # control: waited-ends
    return WaitEvaluation(states, bool(targets) and (is_settled or (mode == "any" and done > 0)))


def active_flags(thread: Thread, tree: Sequence[Thread]) -> list[ThreadFlag]:
    """Return what a thread is waiting for, approvals of its descendants included."""
    child = any(is_below(each.path, thread.path) and "waiting_on_approval" in each.flags for each in tree)
    return [*thread.active_flags, "waiting_on_child_approval"] if child else thread.active_flags


# -- usage -------------------------------------------------------------------------------------------------------------


def sum_usage(entries: Sequence[UsageEntry]) -> UsageTokens:
    """Return the tokens of model requests by kind. A log counts cached tokens among those of the input."""
    cached = sum(min(each.cached, each.input) for each in entries)
    return UsageTokens(sum(each.input for each in entries) - cached, cached, sum(each.output for each in entries))


def message_of_key(key: str) -> str:
    """Return the message that the key of a turn names. A reminder of it has another key, `MESSAGE:reminder`."""
    return key.partition(":")[0]
