"""Metrics of a server process and their Prometheus text format. docs/reference/metrics.md is generated from `FAMILIES`.

Counting is an addition of plain integers; everything else is computed at a scrape.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Literal, NamedTuple

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_UNAUTHORIZED, _TOO_MANY_REQUESTS = 401, 429
_OUTCOMES = ("answered", "declined", "answered_outside", "overdue")
_FORMS = ("full", "compact", "delta")
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
    "molecule_build_info": MetricFamily(
        "gauge", "Always 1; the labels have the version and the store engine.", ("version", "store")
    ),
    "molecule_http_requests_total": MetricFamily(
        "counter", "HTTP requests answered, by route and status class.", ("method", "route", "status")
    ),
    "molecule_http_request_seconds": MetricFamily(
        "histogram",
        "Time from the complete request to the response, including the wait of a long-poll. A route is listed from its "
        "first request on.",
        ("method", "route"),
    ),
    "molecule_rate_limited_total": MetricFamily("counter", "Requests that were rejected with 429."),
    "molecule_credentials_refused_total": MetricFamily(
        "counter", "Requests that were rejected with 401: no credential, or one that is unknown, expired or revoked."
    ),
    "molecule_logins_refused_total": MetricFamily(
        "counter", "Login attempts that were rejected: an unknown, used or expired code."
    ),
    "molecule_messages_accepted_total": MetricFamily("counter", "Accepted messages; a repeated message counts again."),
    "molecule_messages_refused_total": MetricFamily("counter", "Rejected messages."),
    "molecule_messages_handed_out_total": MetricFamily("counter", "Messages delivered to agents, by claim or cursor."),
    "molecule_acks_total": MetricFamily("counter", "Acknowledgements sent by agents; each can cover many messages."),
    "molecule_inbox_unhandled": MetricFamily("gauge", "Messages in all inboxes that are not handled yet."),
    "molecule_inbox_unhandled_max": MetricFamily("gauge", "Messages in the fullest inbox that are not handled yet."),
    "molecule_inbox_unclaimed": MetricFamily(
        "gauge", "Requests that no agent has claimed in time, or has claimed again after its lease."
    ),
    "molecule_messages_overdue": MetricFamily("gauge", "Messages whose answer is overdue now."),
    "molecule_dead_letters": MetricFamily(
        "gauge", "Dead letters that are neither requeued nor discarded, in all organisations."
    ),
    "molecule_long_polls": MetricFamily("gauge", "Waiting long-polls."),
    "molecule_waits": MetricFamily("gauge", "Waiting tasks: long-polls, live connections and the timer worker."),
    "molecule_live_listeners": MetricFamily("gauge", "Open live connections.", ("kind",)),
    "molecule_live_cuts_total": MetricFamily("counter", "Live connections that the server closed.", ("reason",)),
    "molecule_mcp_sessions": MetricFamily("gauge", "Open MCP sessions."),
    "molecule_mcp_sessions_total": MetricFamily("counter", "MCP sessions that were started or resumed.", ("how",)),
    "molecule_mcp_channels": MetricFamily("gauge", "MCP requests in progress, and open MCP streams."),
    "molecule_mcp_cuts_total": MetricFamily(
        "counter", "MCP responses and streams that the server closed.", ("reason",)
    ),
    "molecule_instructions_total": MetricFamily(
        "counter", "Messages delivered with instructions, by form.", ("runtime", "template", "form")
    ),
    "molecule_instruction_tokens_total": MetricFamily(
        "counter", "Estimated tokens of the delivered instructions.", ("runtime", "template")
    ),
    "molecule_instruction_failures_total": MetricFamily(
        "counter",
        "Templates that could not be rendered; the message was delivered without instructions.",
        ("template",),
    ),
    "molecule_instruction_rollbacks_total": MetricFamily(
        "counter", "Canaries that performed worse and were rolled back.", ("template",)
    ),
    "molecule_obligations_total": MetricFamily(
        "counter",
        "Outcomes of messages that required an answer: answered, declined, answered_outside or overdue.",
        ("runtime", "template", "outcome"),
    ),
    "molecule_delegations_total": MetricFamily(
        "counter", "Ended delegations, by status and reason (`none`: completed).", ("status", "reason")
    ),
    "molecule_delegations_open": MetricFamily("gauge", "Delegations that have not ended."),
    "molecule_approvals_total": MetricFamily("counter", "Ended approvals, by status.", ("status",)),
    "molecule_approvals_open": MetricFamily("gauge", "Open approvals."),
    "molecule_approvals_oldest_seconds": MetricFamily("gauge", "Age of the oldest open approval; 0 without one."),
    "molecule_threads": MetricFamily(
        "gauge", "Open threads, by state: idle, queued (a turn waits), running or waiting.", ("state",)
    ),
    "molecule_thread_turns_begun_total": MetricFamily(
        "counter", "Turns that engines started, or resumed after a crash."
    ),
    "molecule_thread_turns_total": MetricFamily("counter", "Ended turns, by status.", ("status",)),
    "molecule_thread_spawns_total": MetricFamily(
        "counter", "Spawn requests of agents: spawned, or the limit or rule that rejected the request.", ("outcome",)
    ),
    "molecule_thread_waits_total": MetricFamily(
        "counter", "Ended waits of agents for other agents, by outcome.", ("outcome",)
    ),
    "molecule_thread_letters_total": MetricFamily("counter", "Messages between threads, by state.", ("state",)),
    "molecule_thread_tokens_total": MetricFamily("counter", "Model tokens reported by engines.", ("direction",)),
    "molecule_heartbeats_total": MetricFamily("counter", "Heartbeats and registrations of agents."),
    "molecule_orgs": MetricFamily("gauge", "Organisations."),
    "molecule_workspaces": MetricFamily("gauge", "Workspaces that are not removed, by status.", ("status",)),
    "molecule_store_groups_total": MetricFamily("counter", "Groups of store commands, by outcome.", ("outcome",)),
    "molecule_store_commands_total": MetricFamily("counter", "Store commands."),
    "molecule_store_group_seconds": MetricFamily(
        "histogram", "Time to decide, write and commit a group of store commands."
    ),
    "molecule_store_queue": MetricFamily("gauge", "Commands queued for the store's writer."),
    "molecule_retention_rows_total": MetricFamily("counter", "Rows deleted by retention.", ("what",)),
    "molecule_retention_rounds_total": MetricFamily("counter", "Completed rounds of retention."),
    "molecule_backup_age_seconds": MetricFamily(
        "gauge", "Time since the last `molecule backup` of this state folder; since the first start if there is none."
    ),
    "molecule_disk_free_bytes": MetricFamily(
        "gauge", "Free space on the disk of a folder: the state folder, or that of uploaded files.", ("folder",)
    ),
    "molecule_loop_lag_seconds": MetricFamily("gauge", "Delay of a callback on the event loop during this scrape."),
    "molecule_process_memory_bytes": MetricFamily("gauge", "Resident memory of the process."),
    "molecule_process_cpu_seconds_total": MetricFamily("counter", "CPU time of the process."),
    "molecule_process_open_files": MetricFamily("gauge", "Open files and sockets of the process."),
    "molecule_process_open_files_limit": MetricFamily("gauge", "Limit of open files and sockets of the process."),
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


class RefusalMeter:
    """Counters of requests that were rejected for who sent them, or how many."""

    __slots__ = ("credentials", "logins", "rate_limited")

    def __init__(self) -> None:
        self.credentials = self.logins = self.rate_limited = 0

    def record_error(self, status: int, *, is_login: bool) -> None:
        """Count a response with an error status."""
        if status == _TOO_MANY_REQUESTS:
            self.rate_limited += 1
        elif status == _UNAUTHORIZED and is_login:
            self.logins += 1
        elif status == _UNAUTHORIZED:
            self.credentials += 1


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

    Only built-in runtimes and templates are labels: names that people choose are unbounded. Every series is reported as
    0 from the start."""

    __slots__ = ("_runtimes", "_templates", "deliveries", "failures", "outcomes", "rollbacks", "tokens")

    def __init__(self, runtimes: Iterable[str] = (), templates: Iterable[str] = ()) -> None:
        self._runtimes = frozenset(runtimes)
        self._templates = frozenset(templates)
        all_runtimes, used = (*sorted(self._runtimes), "other"), (*sorted(self._templates), "own")
        self.deliveries = _zero_counts(all_runtimes, used, _FORMS)
        self.tokens = _zero_counts(all_runtimes, used)
        self.failures = _zero_counts(used)
        self.rollbacks = _zero_counts(used)
        self.outcomes = _zero_counts(all_runtimes, (*used, "none"), _OUTCOMES)

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


def _zero_counts(*labels: tuple[str, ...]) -> Counter[tuple[str, ...]]:
    """Return a count of 0 for each combination of label values."""
    return Counter(dict.fromkeys(product(*labels), 0))


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
