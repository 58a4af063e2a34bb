"""What is counted of threads when lines are added to their logs. Pure; the names are those of ground/metrics.py."""

from molecule_core.ground.errors import InvalidField, MayNotTalk, MoleculeError, NotFound
from molecule_core.ground.metrics import Tally
from molecule_core.ground.refusals import InvalidTask, ThreadClosed, ThreadLimit
from molecule_core.wire.threadlog import Collab, Entry, TurnEnded, TurnStarted, Usage

SPAWNED, OTHER = "spawned", "other"
LIMITS = ("thread_depth", "thread_live", "thread_lifetime", "thread_tree_tokens", "thread_spawns_per_minute")
"""Those that refuse a spawn."""
_WHY: dict[type[MoleculeError], str] = {
    InvalidTask: "task_name",
    InvalidField: "field",
    MayNotTalk: "may_not_talk",
    NotFound: "not_found",
    ThreadClosed: "closed",
}
SPAWNS = (SPAWNED, *LIMITS, *_WHY.values(), OTHER)
"""What becomes of a call of spawn: an agent, or why not."""
TURNS = ("completed", "failed", "interrupted")
WAITS = ("completed", "timed_out", "interrupted", "failed")
LETTERS = ("accepted", "delivered", "answered", "failed")


def tally_of(entry: Entry) -> Tally:
    """What a line of a log adds."""
    match entry:
        case TurnStarted():
            return {("molecule_thread_turns_begun_total",): 1}
        case TurnEnded():
            return {("molecule_thread_turns_total", entry.status): 1}
        case Usage():
            return {
                ("molecule_thread_tokens_total", "input"): entry.input,
                ("molecule_thread_tokens_total", "output"): entry.output,
            }
        case Collab(tool="wait") if entry.status != "inProgress":
            return {("molecule_thread_waits_total", "timed_out" if entry.timed_out else entry.status): 1}
        case Collab(tool="spawn", status="completed"):
            return {("molecule_thread_spawns_total", SPAWNED): 1}
        case _:
            return {}


def refused(refusal: MoleculeError) -> Tally:
    """What a call of spawn adds that came to nothing."""
    why = refusal.details["limit"] if isinstance(refusal, ThreadLimit) else _WHY.get(type(refusal), OTHER)
    return {("molecule_thread_spawns_total", why if why in SPAWNS else OTHER): 1}


def letter(state: str) -> Tally:
    """What a letter adds that has come so far."""
    return {("molecule_thread_letters_total", state): 1}


def zeros() -> Tally:
    """All that may be told, before anything has happened."""
    return {
        ("molecule_thread_turns_begun_total",): 0,
        **{("molecule_thread_turns_total", each): 0 for each in TURNS},
        **{("molecule_thread_spawns_total", each): 0 for each in SPAWNS},
        **{("molecule_thread_waits_total", each): 0 for each in WAITS},
        **{("molecule_thread_letters_total", each): 0 for each in LETTERS},
        **{("molecule_thread_tokens_total", each): 0 for each in ("input", "output")},
    }
