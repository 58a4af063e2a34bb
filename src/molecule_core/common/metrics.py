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


MetricIncrements = Mapping[tuple[str, ...], int]
"""How much is added: by family and labels."""


class MetricFamily(NamedTuple):
    """One metric: what kind it is, what it says, and its labels."""

    kind: Literal["counter", "gauge", "histogram"]
    description: str
    labels: tuple[str, ...] = ()


FAMILIES: dict[str, MetricFamily] = {
    "molecule_build_info": MetricFamily("gauge", "1; which version runs on which store", ("version", "store")),
    "molecule_http_requests_total": MetricFamily(
        "counter", "requests answered, by route and class of status", ("method", "route", "status")
    ),
    "molecule_http_request_seconds": MetricFamily(
        "histogram", "from a request that is whole to its answer; a long-poll's wait counts", ("method", "route")
    ),
    "molecule_messages_accepted_total": MetricFamily(
        "counter", "messages that got a receipt; a repetition counts again"
    ),
    "molecule_messages_refused_total": MetricFamily("counter", "messages that got a refusal instead"),
    "molecule_messages_handed_out_total": MetricFamily("counter", "rows that agents were given, by claim or cursor"),
    "molecule_acks_total": MetricFamily("counter", "acks that agents sent; one may be for many messages"),
    "molecule_inbox_unhandled": MetricFamily("gauge", "messages that no agent has handled yet"),
    "molecule_inbox_unhandled_max": MetricFamily("gauge", "the same of the fullest inbox"),
    "molecule_long_polls": MetricFamily("gauge", "reads of activity that are being held"),
    "molecule_waits": MetricFamily(
        "gauge", "all that sleep until something happens: polls, channels, the worker of timers"
    ),
    "molecule_live_listeners": MetricFamily("gauge", "open live channels", ("kind",)),
    "molecule_live_cuts_total": MetricFamily("counter", "live channels that the server ended", ("reason",)),
    "molecule_mcp_sessions": MetricFamily("gauge", "MCP sessions that are kept"),
    "molecule_mcp_sessions_total": MetricFamily("counter", "MCP sessions that were begun or taken up again", ("how",)),
    "molecule_mcp_channels": MetricFamily("gauge", "MCP requests being answered, and standing streams"),
    "molecule_mcp_cuts_total": MetricFamily("counter", "MCP answers and streams that the server ended", ("reason",)),
    "molecule_instructions_total": MetricFamily(
        "counter", "messages that were handed over with instructions, by form", ("runtime", "template", "form")
    ),
    "molecule_instruction_tokens_total": MetricFamily(
        "counter", "tokens of these instructions, estimated", ("runtime", "template")
    ),
    "molecule_instruction_failures_total": MetricFamily(
        "counter", "renderings that failed: the message went out without instructions", ("template",)
    ),
    "molecule_instruction_rollbacks_total": MetricFamily(
        "counter", "canaries that did worse and were ended", ("template",)
    ),
    "molecule_obligations_total": MetricFamily(
        "counter",
        "what became of messages that wanted an answer: answered, declined, answered_outside, overdue",
        ("runtime", "template", "outcome"),
    ),
    "molecule_delegations_total": MetricFamily(
        "counter", "delegations that have ended, by status and reason (`none`: completed)", ("status", "reason")
    ),
    "molecule_delegations_open": MetricFamily("gauge", "delegations that have not ended"),
    "molecule_approvals_total": MetricFamily("counter", "approvals that have ended, by how", ("status",)),
    "molecule_approvals_open": MetricFamily("gauge", "approvals that are not decided"),
    "molecule_threads": MetricFamily(
        "gauge", "threads that are not closed: idle, queued (a turn waits), running, waiting (for somebody)", ("state",)
    ),
    "molecule_thread_turns_begun_total": MetricFamily(
        "counter", "turns that engines began, or went on with after a death"
    ),
    "molecule_thread_turns_total": MetricFamily("counter", "turns of threads that have ended, by how", ("status",)),
    "molecule_thread_spawns_total": MetricFamily(
        "counter", "agents that agents asked for: spawned, or the limit or rule that refused it", ("outcome",)
    ),
    "molecule_thread_waits_total": MetricFamily(
        "counter", "waits of agents for agents that are over, by how", ("outcome",)
    ),
    "molecule_thread_letters_total": MetricFamily(
        "counter", "letters between agents, by how far they came", ("state",)
    ),
    "molecule_thread_tokens_total": MetricFamily("counter", "tokens of models that engines reported", ("direction",)),
    "molecule_heartbeats_total": MetricFamily("counter", "heartbeats and registrations"),
    "molecule_orgs": MetricFamily("gauge", "organisations"),
    "molecule_workspaces": MetricFamily("gauge", "living workspaces, by status", ("status",)),
    "molecule_store_groups_total": MetricFamily("counter", "groups of commands, by how they ended", ("outcome",)),
    "molecule_store_commands_total": MetricFamily("counter", "commands in these groups"),
    "molecule_store_group_seconds": MetricFamily("histogram", "a group: decided, written and on disk"),
    "molecule_store_queue": MetricFamily("gauge", "commands that wait for the one writer"),
    "molecule_retention_rows_total": MetricFamily("counter", "rows that retention deleted", ("what",)),
    "molecule_retention_rounds_total": MetricFamily("counter", "rounds of retention that came to their end"),
    "molecule_loop_lag_seconds": MetricFamily("gauge", "how long a callback waited for its turn, at this scrape"),
    "molecule_process_memory_bytes": MetricFamily("gauge", "resident memory"),
    "molecule_process_cpu_seconds_total": MetricFamily("counter", "processor time"),
    "molecule_process_open_files": MetricFamily("gauge", "open files and sockets"),
    "molecule_process_open_files_limit": MetricFamily("gauge", "how many there may be"),
}


class Histogram:
    """Durations in a few buckets."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        """One that took so long."""
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.seconds += seconds


class RouteMeter(Histogram):
    """What one route has answered, by class of status (the first digit), and how quickly."""

    __slots__ = ("statuses",)

    def __init__(self) -> None:
        super().__init__()
        self.statuses = [0] * 6

    def record_response(self, status: int, seconds: float) -> None:
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

    __slots__ = ("accepted", "acks", "delivered", "polls", "rejected")

    def __init__(self) -> None:
        self.accepted = self.acks = self.delivered = self.polls = self.rejected = 0


class InstructionMeter:
    """What agents were told with their messages, and what they did. Only runtimes and templates that come with Molecule
    have names here: what people call theirs is free text, and as many as they like."""

    __slots__ = ("_runtimes", "_templates", "failures", "outcomes", "rollbacks", "tokens", "deliveries")

    def __init__(self, runtimes: Iterable[str] = (), templates: Iterable[str] = ()) -> None:
        self._runtimes = frozenset(runtimes)
        self._templates = frozenset(templates)
        self.deliveries: Counter[tuple[str, ...]] = Counter()
        self.tokens: Counter[tuple[str, ...]] = Counter()
        self.failures: Counter[tuple[str, ...]] = Counter()
        self.rollbacks: Counter[tuple[str, ...]] = Counter()
        self.outcomes: Counter[tuple[str, ...]] = Counter()

    def count_delivery(self, runtime: str, template: str, form: str, tokens: int) -> None:
        """A message was handed over with instructions."""
        labels = self._runtime_label(runtime), self._template_label(template)
        self.deliveries[*labels, form] += 1
        self.tokens[labels] += tokens

    def count_outcome(self, runtime: str, template: str | None, outcome: str) -> None:
        """A message that wanted an answer has an outcome; `template`: none if nothing was told with it."""
        self.outcomes[self._runtime_label(runtime), self._template_label(template), outcome] += 1

    def count_failure(self, template: str) -> None:
        """A template could not be rendered."""
        self.failures[self._template_label(template),] += 1

    def count_rollback(self, template: str) -> None:
        """A canary was ended because it did worse."""
        self.rollbacks[self._template_label(template),] += 1

    def samples(self) -> "Iterator[MetricSample]":
        """All of it."""
        for family, counts in (
            ("molecule_instructions_total", self.deliveries),
            ("molecule_instruction_tokens_total", self.tokens),
            ("molecule_instruction_failures_total", self.failures),
            ("molecule_instruction_rollbacks_total", self.rollbacks),
            ("molecule_obligations_total", self.outcomes),
        ):
            yield from (MetricSample(family, count, labels) for labels, count in counts.items())

    def _runtime_label(self, runtime: str) -> str:
        return runtime if runtime in self._runtimes else "other"

    def _template_label(self, template: str | None) -> str:
        if template is None:
            return "none"
        return template if template in self._templates else "own"


class DelegationMeter:
    """How delegations have ended: each of `outcomes` (status, reason) is told from the start."""

    __slots__ = ("_counts",)

    def __init__(self, outcomes: Iterable[tuple[str, str]]) -> None:
        self._counts = Counter(dict.fromkeys(outcomes, 0))

    def count_end(self, status: str, reason: str) -> None:
        """One has ended."""
        self._counts[status, reason] += 1

    def samples(self) -> "Iterator[MetricSample]":
        """All of it."""
        yield from (MetricSample("molecule_delegations_total", count, labels) for labels, count in self._counts.items())


class ApprovalMeter:
    """How approvals have ended: each of `outcomes` is told from the start."""

    __slots__ = ("_counts",)

    def __init__(self, outcomes: Iterable[str]) -> None:
        self._counts = Counter(dict.fromkeys(outcomes, 0))

    def count_end(self, status: str) -> None:
        """One has ended."""
        self._counts[status] += 1

    def samples(self) -> "Iterator[MetricSample]":
        """All of it."""
        yield from (
            MetricSample("molecule_approvals_total", count, (status,)) for status, count in self._counts.items()
        )


class ThreadMeter:
    """What threads have done: each key of `zeros` is told from the start."""

    __slots__ = ("_counts",)

    def __init__(self, initial_counts: MetricIncrements) -> None:
        self._counts = Counter(initial_counts)

    def add(self, increments: MetricIncrements) -> None:
        """Something was done, and is on disk."""
        self._counts.update(increments)

    def samples(self) -> "Iterator[MetricSample]":
        """All of it."""
        yield from (MetricSample(family, count, tuple(labels)) for (family, *labels), count in self._counts.items())


class MetricSample(NamedTuple):
    """One value. `labels` are those of its family, in order."""

    family: str
    value: float | Histogram
    labels: tuple[str, ...] = ()


def render_exposition(samples: Iterable[MetricSample]) -> str:
    """The text format of Prometheus. KeyError: a sample is of no family in the table."""
    by_family: dict[str, list[MetricSample]] = {}
    for sample in samples:
        by_family.setdefault(sample.family, []).append(sample)
    lines: list[str] = []
    for name, found in by_family.items():
        family = FAMILIES[name]
        lines += (f"# HELP {name} {family.description}", f"# TYPE {name} {family.kind}")
        for sample in found:
            lines += _sample_lines(sample, [*zip(family.labels, sample.labels, strict=True)])
    return "\n".join(lines) + "\n"


def _sample_lines(sample: MetricSample, labels: list[tuple[str, str]]) -> Iterator[str]:
    if not isinstance(sample.value, Histogram):
        yield f"{sample.family}{_render_labels(labels)} {sample.value:.15g}"
        return
    cumulative = 0
    for bound, count in zip(_BOUNDS, sample.value.counts, strict=True):
        cumulative += count
        yield f"{sample.family}_bucket{_render_labels([*labels, ('le', bound)])} {cumulative}"
    yield f"{sample.family}_sum{_render_labels(labels)} {sample.value.seconds:.9g}"
    yield f"{sample.family}_count{_render_labels(labels)} {cumulative}"


def _render_labels(labels: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels) + "}" if labels else ""


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
