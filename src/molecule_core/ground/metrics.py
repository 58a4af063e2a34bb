"""What a server counts of itself, and how Prometheus reads it. docs/metrics.md is generated from the table here.

Counting costs an addition of plain integers; everything else is worked out when somebody looks.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 2.5, 30.0)
_BOUNDS = (*(f"{bound:g}" for bound in _BUCKETS), "+Inf")


Tally = Mapping[tuple[str, ...], int]
"""How much is added: by family and labels."""


class Family(NamedTuple):
    """One metric: what kind it is, what it says, and its labels."""

    kind: Literal["counter", "gauge", "histogram"]
    says: str
    labels: tuple[str, ...] = ()


FAMILIES: dict[str, Family] = {
    "molecule_build_info": Family("gauge", "1; which version runs on which store", ("version", "store")),
    "molecule_http_requests_total": Family(
        "counter", "requests answered, by route and class of status", ("method", "route", "status")
    ),
    "molecule_http_request_seconds": Family(
        "histogram", "from a request that is whole to its answer; a long-poll's wait counts", ("method", "route")
    ),
    "molecule_messages_accepted_total": Family("counter", "messages that got a receipt; a repetition counts again"),
    "molecule_messages_refused_total": Family("counter", "messages that got a refusal instead"),
    "molecule_messages_handed_out_total": Family("counter", "rows that agents were given, by claim or cursor"),
    "molecule_acks_total": Family("counter", "acks that agents sent; one may be for many messages"),
    "molecule_inbox_unhandled": Family("gauge", "messages that no agent has handled yet"),
    "molecule_inbox_unhandled_max": Family("gauge", "the same of the fullest inbox"),
    "molecule_long_polls": Family("gauge", "reads of activity that are being held"),
    "molecule_waits": Family("gauge", "all that sleep until something happens: polls, channels, the worker of timers"),
    "molecule_live_listeners": Family("gauge", "open live channels", ("kind",)),
    "molecule_live_cuts_total": Family("counter", "live channels that the server ended", ("reason",)),
    "molecule_mcp_sessions": Family("gauge", "MCP sessions that are kept"),
    "molecule_mcp_sessions_total": Family("counter", "MCP sessions that were begun or taken up again", ("how",)),
    "molecule_mcp_channels": Family("gauge", "MCP requests being answered, and standing streams"),
    "molecule_mcp_cuts_total": Family("counter", "MCP answers and streams that the server ended", ("reason",)),
    "molecule_instructions_total": Family(
        "counter", "messages that were handed over with instructions, by form", ("runtime", "template", "form")
    ),
    "molecule_instruction_tokens_total": Family(
        "counter", "tokens of these instructions, estimated", ("runtime", "template")
    ),
    "molecule_instruction_failures_total": Family(
        "counter", "renderings that failed: the message went out without instructions", ("template",)
    ),
    "molecule_instruction_rollbacks_total": Family("counter", "canaries that did worse and were ended", ("template",)),
    "molecule_obligations_total": Family(
        "counter",
        "what became of messages that wanted an answer: answered, declined, answered_outside, overdue",
        ("runtime", "template", "outcome"),
    ),
    "molecule_delegations_total": Family(
        "counter", "delegations that have ended, by status and reason (`none`: completed)", ("status", "reason")
    ),
    "molecule_delegations_open": Family("gauge", "delegations that have not ended"),
    "molecule_approvals_total": Family("counter", "approvals that have ended, by how", ("status",)),
    "molecule_approvals_open": Family("gauge", "approvals that are not decided"),
    "molecule_threads": Family(
        "gauge", "threads that are not closed: idle, queued (a turn waits), running, waiting (for somebody)", ("state",)
    ),
    "molecule_thread_turns_begun_total": Family("counter", "turns that engines began, or went on with after a death"),
    "molecule_thread_turns_total": Family("counter", "turns of threads that have ended, by how", ("status",)),
    "molecule_thread_spawns_total": Family(
        "counter", "agents that agents asked for: spawned, or the limit or rule that refused it", ("outcome",)
    ),
    "molecule_thread_waits_total": Family("counter", "waits of agents for agents that are over, by how", ("outcome",)),
    "molecule_thread_letters_total": Family("counter", "letters between agents, by how far they came", ("state",)),
    "molecule_thread_tokens_total": Family("counter", "tokens of models that engines reported", ("direction",)),
    "molecule_heartbeats_total": Family("counter", "heartbeats and registrations"),
    "molecule_orgs": Family("gauge", "organisations"),
    "molecule_workspaces": Family("gauge", "living workspaces, by status", ("status",)),
    "molecule_store_groups_total": Family("counter", "groups of commands, by how they ended", ("outcome",)),
    "molecule_store_commands_total": Family("counter", "commands in these groups"),
    "molecule_store_group_seconds": Family("histogram", "a group: decided, written and on disk"),
    "molecule_store_queue": Family("gauge", "commands that wait for the one writer"),
    "molecule_retention_rows_total": Family("counter", "rows that retention deleted", ("what",)),
    "molecule_retention_rounds_total": Family("counter", "rounds of retention that came to their end"),
    "molecule_loop_lag_seconds": Family("gauge", "how long a callback waited for its turn, at this scrape"),
    "molecule_process_memory_bytes": Family("gauge", "resident memory"),
    "molecule_process_cpu_seconds_total": Family("counter", "processor time"),
    "molecule_process_open_files": Family("gauge", "open files and sockets"),
    "molecule_process_open_files_limit": Family("gauge", "how many there may be"),
}


class Histogram:
    """Durations in a few buckets."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.seconds = 0.0

    def took(self, seconds: float) -> None:
        """One that took so long."""
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.seconds += seconds


class RouteMeter(Histogram):
    """What one route has answered, by class of status (the first digit), and how quickly."""

    __slots__ = ("statuses",)

    def __init__(self) -> None:
        super().__init__()
        self.statuses = [0] * 6

    def answered(self, status: int, seconds: float) -> None:
        """One answer."""
        self.statuses[status // 100] += 1
        self.counts[bisect_left(_BUCKETS, seconds)] += 1  # as `took` does, without the price of a call
        self.seconds += seconds


class StoreMeter(Histogram):
    """What the one writer of a store has done."""

    __slots__ = ("commands", "committed", "failed", "replayed")

    def __init__(self) -> None:
        super().__init__()
        self.commands = self.committed = self.failed = self.replayed = 0


class MessageMeter:
    """What happened to messages at the edge."""

    __slots__ = ("accepted", "acks", "handed_out", "polls", "refused")

    def __init__(self) -> None:
        self.accepted = self.acks = self.handed_out = self.polls = self.refused = 0


class InstructionMeter:
    """What agents were told with their messages, and what they did. Only runtimes and templates that come with Molecule
    have names here: what people call theirs is free text, and as many as they like."""

    __slots__ = ("_runtimes", "_templates", "failures", "outcomes", "rollbacks", "tokens", "told")

    def __init__(self, runtimes: Iterable[str] = (), templates: Iterable[str] = ()) -> None:
        self._runtimes = frozenset(runtimes)
        self._templates = frozenset(templates)
        self.told: Counter[tuple[str, ...]] = Counter()
        self.tokens: Counter[tuple[str, ...]] = Counter()
        self.failures: Counter[tuple[str, ...]] = Counter()
        self.rollbacks: Counter[tuple[str, ...]] = Counter()
        self.outcomes: Counter[tuple[str, ...]] = Counter()

    def told_with(self, runtime: str, template: str, form: str, tokens: int) -> None:
        """A message was handed over with instructions."""
        labels = self._runtime(runtime), self._template(template)
        self.told[*labels, form] += 1
        self.tokens[labels] += tokens

    def came_to(self, runtime: str, template: str | None, outcome: str) -> None:
        """A message that wanted an answer has an outcome; `template`: none if nothing was told with it."""
        self.outcomes[self._runtime(runtime), self._template(template), outcome] += 1

    def failed(self, template: str) -> None:
        """A template could not be rendered."""
        self.failures[self._template(template),] += 1

    def rolled_back(self, template: str) -> None:
        """A canary was ended because it did worse."""
        self.rollbacks[self._template(template),] += 1

    def samples(self) -> "Iterator[Sample]":
        """All of it."""
        for family, counted in (
            ("molecule_instructions_total", self.told),
            ("molecule_instruction_tokens_total", self.tokens),
            ("molecule_instruction_failures_total", self.failures),
            ("molecule_instruction_rollbacks_total", self.rollbacks),
            ("molecule_obligations_total", self.outcomes),
        ):
            yield from (Sample(family, count, labels) for labels, count in counted.items())

    def _runtime(self, runtime: str) -> str:
        return runtime if runtime in self._runtimes else "other"

    def _template(self, template: str | None) -> str:
        if template is None:
            return "none"
        return template if template in self._templates else "own"


class DelegationMeter:
    """How delegations have ended: each of `outcomes` (status, reason) is told from the start."""

    __slots__ = ("_ended",)

    def __init__(self, outcomes: Iterable[tuple[str, str]]) -> None:
        self._ended = Counter(dict.fromkeys(outcomes, 0))

    def ended(self, status: str, reason: str) -> None:
        """One has ended."""
        self._ended[status, reason] += 1

    def samples(self) -> "Iterator[Sample]":
        """All of it."""
        yield from (Sample("molecule_delegations_total", count, labels) for labels, count in self._ended.items())


class ApprovalMeter:
    """How approvals have ended: each of `outcomes` is told from the start."""

    __slots__ = ("_ended",)

    def __init__(self, outcomes: Iterable[str]) -> None:
        self._ended = Counter(dict.fromkeys(outcomes, 0))

    def ended(self, status: str) -> None:
        """One has ended."""
        self._ended[status] += 1

    def samples(self) -> "Iterator[Sample]":
        """All of it."""
        yield from (Sample("molecule_approvals_total", count, (status,)) for status, count in self._ended.items())


class ThreadMeter:
    """What threads have done: each key of `zeros` is told from the start."""

    __slots__ = ("_counted",)

    def __init__(self, zeros: Tally) -> None:
        self._counted = Counter(zeros)

    def add(self, tally: Tally) -> None:
        """Something was done, and is on disk."""
        self._counted.update(tally)

    def samples(self) -> "Iterator[Sample]":
        """All of it."""
        yield from (Sample(family, count, tuple(labels)) for (family, *labels), count in self._counted.items())


class Sample(NamedTuple):
    """One value. `labels` are those of its family, in order."""

    family: str
    value: float | Histogram
    labels: tuple[str, ...] = ()


def exposition(samples: Iterable[Sample]) -> str:
    """The text format of Prometheus. KeyError: a sample is of no family in the table."""
    by_family: dict[str, list[Sample]] = {}
    for sample in samples:
        by_family.setdefault(sample.family, []).append(sample)
    lines: list[str] = []
    for name, found in by_family.items():
        family = FAMILIES[name]
        lines += (f"# HELP {name} {family.says}", f"# TYPE {name} {family.kind}")
        for sample in found:
            lines += _lines(sample, [*zip(family.labels, sample.labels, strict=True)])
    return "\n".join(lines) + "\n"


def _lines(sample: Sample, labels: list[tuple[str, str]]) -> Iterator[str]:
    if not isinstance(sample.value, Histogram):
        yield f"{sample.family}{_shown(labels)} {sample.value:.15g}"
        return
    so_far = 0
    for bound, count in zip(_BOUNDS, sample.value.counts, strict=True):
        so_far += count
        yield f"{sample.family}_bucket{_shown([*labels, ('le', bound)])} {so_far}"
    yield f"{sample.family}_sum{_shown(labels)} {sample.value.seconds:.9g}"
    yield f"{sample.family}_count{_shown(labels)} {so_far}"


def _shown(labels: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
