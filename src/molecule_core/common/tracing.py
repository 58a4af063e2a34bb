"""Spans, for who asks for them: OpenTelemetry is an extra, and without it, or without an endpoint, nothing is made.

A message's road has three: it is taken in (`molecule.send`), written (`molecule.store`, below that), and handed to its
receiver (`molecule.deliver`, from its receipt to the hand-over). Each goes on from the `traceparent` that came with it.
"""

from collections.abc import Mapping
from typing import Any

from molecule_core.common.errors import BadSettings

_NANOSECONDS = 1000  # in one of our microseconds
# The standard's own variables: whoever has set one wants spans.
_ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_FIELD = "traceparent"

SpanAttributes = Mapping[str, str]


class Span:
    """One span that has begun."""

    def __init__(self, tracing: "Tracing", span: Any) -> None:
        self._tracing = tracing
        self._span = span
        self.trace_parent = tracing.traceparent_of(span)
        """What a later part of the road goes on from."""

    def begin_child(self, name: str) -> "Span":
        """A part of this one, which begins now."""
        return self._tracing.begin_span(name, self.trace_parent, {})

    def end(self, error: str = "") -> None:
        """It is over; `error`: the code of a refusal, never its text."""
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(self._tracing.error_status)
        self._span.end()


class Tracing:
    """Makes spans with a tracer of OpenTelemetry."""

    def __init__(self, tracer: Any) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation import tracecontext

        self._tracer = tracer
        self._trace = trace
        self._propagator = tracecontext.TraceContextTextMapPropagator()
        self.error_status = trace.Status(trace.StatusCode.ERROR)

    def begin_span(self, name: str, parent: str | None, attributes: SpanAttributes, at: int | None = None) -> Span:
        """A span below a `traceparent`, or at the root; from a time (microseconds) or from now."""
        context = self._propagator.extract({_FIELD: parent} if parent else {})
        start = None if at is None else at * _NANOSECONDS
        return Span(self, self._tracer.start_span(name, context, attributes=dict(attributes), start_time=start))

    def traceparent_of(self, span: Any) -> str:
        """The `traceparent` of a span."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._trace.set_span_in_context(span))
        return carrier.get(_FIELD, "")


def create_tracing(endpoint: str, environ: Mapping[str, str], version: str) -> Tracing | None:
    """What sends spans to an endpoint of OTLP over HTTP, or to that of the standard's variables; None: nobody asked.

    Raises BadSettings: the extra is not installed."""
    if not endpoint and not any(environ.get(name) for name in _ENDPOINT_VARIABLES):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise BadSettings(
            reason="otel_endpoint asks for traces: pip install 'molecule-core[opentelemetry]', or take it away"
        ) from None
    resource = Resource.create({"service.name": "molecule", "service.version": version})
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(endpoint=endpoint) if endpoint else OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider.get_tracer("molecule", version))
