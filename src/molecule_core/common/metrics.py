"""Metrics of a server process and their Prometheus text format. docs/metrics.md is generated from `FAMILIES`.

Counting is an addition of plain integers; everything else is computed at a scrape.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 2.5, 30.0)
_BOUNDS = (*(f"{bound:g}" for bound in _BUCKETS), "+Inf")


MetricIncrements = Mapping[tuple[str, ...], int]
"""Amounts to add, by family and labels."""


class MetricFamily(NamedTuple):
    """One metric: kind, description and label names."""

    kind: Literal["counter", "gauge", "histogram"]
    description: str
    labels: tuple[str, ...] = ()


FAMILIES: dict[str, MetricFamily] = {
    "molecule_build_info": MetricFamily("gauge", "1; the version and the store that it runs on", ("version", "store")),
    "molecule_http_requests_total": MetricFamily(
        "counter", "requests answered, by route and status class", ("method", "route", "status")
    ),
    "molecule_http_request_seconds": MetricFamily(
        "histogram", "from the complete request to its response; the wait of a long-poll counts", ("method", "route")
    ),
    "molecule_messages_accepted_total": MetricFamily(
        "counter", "messages that got a receipt; a repeated one counts again"
    ),
    "molecule_messages_refused_total": MetricFamily("counter", "messages that were rejected"),
    "molecule_messages_handed_out_total": MetricFamily("counter", "rows delivered to agents, by claim or cursor"),
    "molecule_acks_total": MetricFamily("counter", "acks sent by agents; one may cover many messages"),
    "molecule_inbox_unhandled": MetricFamily("gauge", "messages that are not handled yet"),
    "molecule_inbox_unhandled_max": MetricFamily("gauge", "the same of the fullest inbox"),
    "molecule_long_polls": MetricFamily("gauge", "long-polls of activity that are waiting"),
    "molecule_waits": MetricFamily("gauge", "all sleeping waiters: polls, live connections, the timer worker"),
    "molecule_live_listeners": MetricFamily("gauge", "open live connections", ("kind",)),
    "molecule_live_cuts_total": MetricFamily("counter", "live connections that the server closed", ("reason",)),
    "molecule_mcp_sessions": MetricFamily("gauge", "open MCP sessions"),
    "molecule_mcp_sessions_total": MetricFamily("counter", "MCP sessions that were started or resumed", ("how",)),
    "molecule_mcp_channels": MetricFamily("gauge", "MCP requests in progress, and open streams"),
    "molecule_mcp_cuts_total": MetricFamily("counter", "MCP responses and streams that the server closed", ("reason",)),
    "molecule_instructions_total": MetricFamily(
        "counter", "messages delivered with instructions, by form", ("runtime", "template", "form")
    ),
    "molecule_instruction_tokens_total": MetricFamily(
        "counter", "estimated tokens of these instructions", ("runtime", "template")
    ),
    "molecule_instruction_failures_total": MetricFamily(
        "counter", "failed renderings: the message was delivered without instructions", ("template",)
    ),
    "molecule_instruction_rollbacks_total": MetricFamily(
        "counter", "canaries that did worse and were rolled back", ("template",)
    ),
    "molecule_obligations_total": MetricFamily(
        "counter",
        "outcomes of messages that wanted an answer: answered, declined, answered_outside, overdue",
        ("runtime", "template", "outcome"),
    ),
    "molecule_delegations_total": MetricFamily(
        "counter", "ended delegations, by status and reason (`none`: completed)", ("status", "reason")
    ),
    "molecule_delegations_open": MetricFamily("gauge", "delegations that have not ended"),
    "molecule_approvals_total": MetricFamily("counter", "ended approvals, by status", ("status",)),
    "molecule_approvals_open": MetricFamily("gauge", "approvals that are not decided"),
    "molecule_threads": MetricFamily(
        "gauge", "threads that are not closed: idle, queued (a turn waits), running, waiting", ("state",)
    ),
    "molecule_thread_turns_begun_total": MetricFamily(
        "counter", "turns that engines started, or resumed after a crash"
    ),
    "molecule_thread_turns_total": MetricFamily("counter", "ended turns of threads, by status", ("status",)),
    "molecule_thread_spawns_total": MetricFamily(
        "counter", "spawn requests of agents: spawned, or the limit or rule that rejected it", ("outcome",)
    ),
    "molecule_thread_waits_total": MetricFamily(
        "counter", "ended waits of agents for agents, by outcome", ("outcome",)
    ),
    "molecule_thread_letters_total": MetricFamily(
        "counter", "messages between agents of threads, by state", ("state",)
    ),
    "molecule_thread_tokens_total": MetricFamily("counter", "model tokens reported by engines", ("direction",)),
    "molecule_heartbeats_total": MetricFamily("counter", "heartbeats and registrations"),
    "molecule_orgs": MetricFamily("gauge", "organisations"),
    "molecule_workspaces": MetricFamily("gauge", "workspaces that are not removed, by status", ("status",)),
    "molecule_store_groups_total": MetricFamily("counter", "groups of commands, by outcome", ("outcome",)),
    "molecule_store_commands_total": MetricFamily("counter", "commands in these groups"),
    "molecule_store_group_seconds": MetricFamily("histogram", "time to decide, write and commit a group"),
    "molecule_store_queue": MetricFamily("gauge", "commands queued for the writer"),
    "molecule_retention_rows_total": MetricFamily("counter", "rows that retention deleted", ("what",)),
    "molecule_retention_rounds_total": MetricFamily("counter", "completed rounds of retention"),
    "molecule_loop_lag_seconds": MetricFamily("gauge", "delay of a callback on the event loop, at this scrape"),
    "molecule_process_memory_bytes": MetricFamily("gauge", "resident memory"),
    "molecule_process_cpu_seconds_total": MetricFamily("counter", "processor time"),
    "molecule_process_open_files": MetricFamily("gauge", "open files and sockets"),
    "molecule_process_open_files_limit": MetricFamily("gauge", "limit of open files and sockets"),
}


class Histogram:
    """Durations in a few buckets."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.seconds += seconds


class RouteMeter(Histogram):
    """Responses of one route by status class (the first digit), and their durations."""

    __slots__ = ("statuses",)

    def __init__(self) -> None:
        super().__init__()
        self.statuses = [0] * 6

    def record_response(self, status: int, seconds: float) -> None:
        """Count one response."""
        self.statuses[status // 100] += 1
        self.counts[bisect_left(_BUCKETS, seconds)] += 1  # as `observe`, without the cost of a call
        self.seconds += seconds


class StoreMeter(Histogram):
    """Counters of the store's writer."""

    __slots__ = ("commands", "committed", "failed", "replayed")

    def __init__(self) -> None:
        super().__init__()
        self.commands = self.committed = self.failed = self.replayed = 0


class MessageMeter:
    """Counters of messages at the API."""

    __slots__ = ("accepted", "acks", "delivered", "polls", "rejected")

    def __init__(self) -> None:
        self.accepted = self.acks = self.delivered = self.polls = self.rejected = 0


class InstructionMeter:
    """Counters of delivered instructions and their outcomes.

    Only built-in runtimes and templates are labels: names that people choose are unbounded."""

    __slots__ = ("_runtimes", "_templates", "deliveries", "failures", "outcomes", "rollbacks", "tokens")

    def __init__(self, runtimes: Iterable[str] = (), templates: Iterable[str] = ()) -> None:
        self._runtimes = frozenset(runtimes)
        self._templates = frozenset(templates)
        self.deliveries: Counter[tuple[str, ...]] = Counter()
        self.tokens: Counter[tuple[str, ...]] = Counter()
        self.failures: Counter[tuple[str, ...]] = Counter()
        self.rollbacks: Counter[tuple[str, ...]] = Counter()
        self.outcomes: Counter[tuple[str, ...]] = Counter()

    def count_delivery(self, runtime: str, template: str, form: str, tokens: int) -> None:
        """Count a message that was delivered with instructions."""
        labels = self._runtime_label(runtime), self._template_label(template)
        self.deliveries[*labels, form] += 1
        self.tokens[labels] += tokens

    def count_outcome(self, runtime: str, template: str | None, outcome: str) -> None:
        """Count the outcome of a message that wanted an answer. `template`: None if it had no instructions."""
        self.outcomes[self._runtime_label(runtime), self._template_label(template), outcome] += 1

    def count_failure(self, template: str) -> None:
        """Count a template that could not be rendered."""
        self.failures[self._template_label(template),] += 1

    def count_rollback(self, template: str) -> None:
        """Count a canary that was rolled back."""
        self.rollbacks[self._template_label(template),] += 1

    def samples(self) -> "Iterator[MetricSample]":
        """Yield all samples."""
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
    """Counters of ended delegations. Each of `outcomes` (status, reason) is reported as 0 from the start."""

    __slots__ = ("_counts",)

    def __init__(self, outcomes: Iterable[tuple[str, str]]) -> None:
        self._counts = Counter(dict.fromkeys(outcomes, 0))

    def count_end(self, status: str, reason: str) -> None:
        """Count an ended delegation."""
        self._counts[status, reason] += 1

    def samples(self) -> "Iterator[MetricSample]":
        """Yield all samples."""
        yield from (MetricSample("molecule_delegations_total", count, labels) for labels, count in self._counts.items())


class ApprovalMeter:
    """Counters of ended approvals. Each of `outcomes` is reported as 0 from the start."""

    __slots__ = ("_counts",)

    def __init__(self, outcomes: Iterable[str]) -> None:
        self._counts = Counter(dict.fromkeys(outcomes, 0))

    def count_end(self, status: str) -> None:
        """Count an ended approval."""
        self._counts[status] += 1

    def samples(self) -> "Iterator[MetricSample]":
        """Yield all samples."""
        yield from (
            MetricSample("molecule_approvals_total", count, (status,)) for status, count in self._counts.items()
        )


class ThreadMeter:
    """Counters of threads. Each key of `initial_counts` is reported from the start."""

    __slots__ = ("_counts",)

    def __init__(self, initial_counts: MetricIncrements) -> None:
        self._counts = Counter(initial_counts)

    def add(self, increments: MetricIncrements) -> None:
        """Add increments of a committed change."""
        self._counts.update(increments)

    def samples(self) -> "Iterator[MetricSample]":
        """Yield all samples."""
        yield from (MetricSample(family, count, tuple(labels)) for (family, *labels), count in self._counts.items())


class MetricSample(NamedTuple):
    """One value. `labels` has the label values of its family, in order."""

    family: str
    value: float | Histogram
    labels: tuple[str, ...] = ()


def render_exposition(samples: Iterable[MetricSample]) -> str:
    """Render samples in the text format of Prometheus. Raises KeyError for a sample of an unknown family."""
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
