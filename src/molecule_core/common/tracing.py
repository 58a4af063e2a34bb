"""OpenTelemetry spans. Without the optional extra, or without an endpoint, no spans are made.

A message has three spans: `molecule.send` (accept), its child `molecule.store` (write), and `molecule.deliver` (from
receipt to delivery). Each continues the `traceparent` that the message came with.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from molecule_core.common.errors import BadSettings
from molecule_core.common.extras import install_advice

_NANOSECONDS = 1000  # in a microsecond
# The standard's own variables also enable spans.
_ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_FIELD = "traceparent"

SpanAttributes = Mapping[str, str]


class Span:
    """One started span."""

    def __init__(self, tracing: "Tracing", span: Any) -> None:
        self._tracing = tracing
        self._span = span
        self.trace_parent = tracing.traceparent_of(span)
        """The `traceparent` for later spans of the same message."""

    def begin_child(self, name: str) -> "Span":
        """Start a child span."""
        return self._tracing.begin_span(name, self.trace_parent, {})

    def end(self, error: str = "") -> None:
        """End the span. `error` is an error code, never its text."""
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(self._tracing.error_status)
        self._span.end()


class Tracing:
    """Factory of spans, with an OpenTelemetry tracer."""

    def __init__(self, tracer: Any) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation import tracecontext

        self._tracer = tracer
        self._trace = trace
        self._propagator = tracecontext.TraceContextTextMapPropagator()
        self.error_status = trace.Status(trace.StatusCode.ERROR)

    def begin_span(self, name: str, parent: str | None, attributes: SpanAttributes, at: int | None = None) -> Span:
        """Start a span below a `traceparent`, or at the root. `at` is its start in microseconds, default now."""
        context = self._propagator.extract({_FIELD: parent} if parent else {})
        start = None if at is None else at * _NANOSECONDS
        return Span(self, self._tracer.start_span(name, context, attributes=dict(attributes), start_time=start))

    def traceparent_of(self, span: Any) -> str:
        """Return the `traceparent` of a span."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._trace.set_span_in_context(span))
        return carrier.get(_FIELD, "")


def traces_url(endpoint: str) -> str:
    """Return the address that spans are posted to: a collector's base address gets the standard's path."""
    return endpoint if urlsplit(endpoint).path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"


def create_tracing(endpoint: str, environ: Mapping[str, str], version: str) -> Tracing | None:
    """Create tracing to an OTLP/HTTP endpoint, or to that of the standard's variables; None if neither is set.

    Raises BadSettings if the extra is not installed."""
    if not endpoint and not any(environ.get(name) for name in _ENDPOINT_VARIABLES):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise BadSettings(reason=f"otel_endpoint requires a package. {install_advice('opentelemetry')}") from None
    resource = Resource.create({"service.name": "molecule", "service.version": version})
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(endpoint=traces_url(endpoint)) if endpoint else OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider.get_tracer("molecule", version))
