"""Metrics of threads, derived from log entries. Pure functions; common/metrics.py defines the names."""

from molecule_core.common.errors import CommunicationDenied, InvalidField, MoleculeError, NotFound
from molecule_core.common.metrics import MetricIncrements
from molecule_core.threads.errors import InvalidTask, ThreadClosedError, ThreadLimit
from molecule_core.wire.schemas.thread_log import (
    CollabCallEntry,
    ThreadEntry,
    TurnEndedEntry,
    TurnStartedEntry,
    UsageEntry,
)

SPAWNED, OTHER_REASON = "spawned", "other"
SPAWN_LIMITS = ("thread_depth", "thread_live", "thread_lifetime", "thread_tree_tokens", "thread_spawns_per_minute")
"""The limits that reject a spawn."""
_REJECTION_LABELS: dict[type[MoleculeError], str] = {
    InvalidTask: "task_name",
    InvalidField: "field",
    CommunicationDenied: "may_not_talk",
    NotFound: "not_found",
    ThreadClosedError: "closed",
}
SPAWN_OUTCOMES = (SPAWNED, *SPAWN_LIMITS, *_REJECTION_LABELS.values(), OTHER_REASON)
"""Outcomes of a spawn call: an agent, or the reason of its rejection."""
TURN_OUTCOMES = ("completed", "failed", "interrupted")
WAIT_OUTCOMES = ("completed", "timed_out", "interrupted", "failed")
MAIL_STATES = ("accepted", "delivered", "answered", "failed")


def metrics_for_entry(entry: ThreadEntry) -> MetricIncrements:
    """Return the increments of a log entry."""
    match entry:
        case TurnStartedEntry():
            return {("molecule_thread_turns_begun_total",): 1}
        case TurnEndedEntry():
            return {("molecule_thread_turns_total", entry.status): 1}
        case UsageEntry():
            return {
                ("molecule_thread_tokens_total", "input"): entry.input,
                ("molecule_thread_tokens_total", "output"): entry.output,
            }
        case CollabCallEntry(tool="wait") if entry.status != "inProgress":
            return {("molecule_thread_waits_total", "timed_out" if entry.timed_out else entry.status): 1}
        case CollabCallEntry(tool="spawn", status="completed"):
            return {("molecule_thread_spawns_total", SPAWNED): 1}
        case _:
            return {}


def metrics_for_rejected_spawn(error: MoleculeError) -> MetricIncrements:
    """Return the increments of a rejected spawn call."""
    reason = (
        error.details["limit"] if isinstance(error, ThreadLimit) else _REJECTION_LABELS.get(type(error), OTHER_REASON)
    )
    return {("molecule_thread_spawns_total", reason if reason in SPAWN_OUTCOMES else OTHER_REASON): 1}


def metrics_for_mail(state: str) -> MetricIncrements:
    """Return the increments of mail that reached a state."""
    return {("molecule_thread_letters_total", state): 1}


def initial_metrics() -> MetricIncrements:
    """Return all metrics at zero."""
    return {
        ("molecule_thread_turns_begun_total",): 0,
        **{("molecule_thread_turns_total", each): 0 for each in TURN_OUTCOMES},
        **{("molecule_thread_spawns_total", each): 0 for each in SPAWN_OUTCOMES},
        **{("molecule_thread_waits_total", each): 0 for each in WAIT_OUTCOMES},
        **{("molecule_thread_letters_total", each): 0 for each in MAIL_STATES},
        **{("molecule_thread_tokens_total", each): 0 for each in ("input", "output")},
    }
