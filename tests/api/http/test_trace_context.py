"""Trace context: checked strictly, kept, handed on; spans are made where somebody asked for them, and only there."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from molecule_core.client.api import ApiError
from molecule_core.common.errors import BadSettings
from molecule_core.common.tracing import Tracing, create_tracing
from molecule_core.wire.protocols.trace_context import parse_traceparent
from testing.engines import Engine
from testing.push_agents import PushNetwork, said
from testing.running_server import Running, Seat, running
from testing.step_counts import examples
from tests.requirements import requirement

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
LINE = f"00-{TRACE}-{PARENT}-01"
WRONG = [
    "",
    LINE[:-1],
    LINE + "0",
    LINE + "-more",
    LINE.upper(),
    f" {LINE}",
    f"{LINE}\n",
    f"ff-{TRACE}-{PARENT}-01",
    f"00-{'0' * 32}-{PARENT}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE[:-1]}g-{PARENT}-01",
    f"00_{TRACE}_{PARENT}_01",
    f"01-{TRACE}-{PARENT}-01more",
    f"01-{TRACE}-{PARENT}-01-" + "x" * 300,
    "00-\u0660af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
]


@requirement("O7")
def test_a_line_is_read_as_the_standard_says() -> None:
    assert parse_traceparent(LINE) == LINE
    assert parse_traceparent(f"01-{TRACE}-{PARENT}-03") == f"00-{TRACE}-{PARENT}-03"
    assert parse_traceparent(f"cc-{TRACE}-{PARENT}-01-what-comes-later") == LINE
    assert [line for line in WRONG if parse_traceparent(line) is not None] == []
    assert [parse_traceparent(each) for each in (None, 7, [LINE], {"traceparent": LINE})] == [None] * 4


@requirement("O7")
@examples(300)
@given(st.text(alphabet="0123456789abcdefg-F \n", min_size=50, max_size=60))
def test_whatever_is_kept_is_a_whole_line(text: str) -> None:
    kept = parse_traceparent(text)
    assert kept is None or re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", kept)


async def sent(server: Running, seat: Seat, header: str | None = None, inside: Any = None) -> None:
    """A message with a trace in its header, in its metadata, or in neither."""
    message = {"role": "user", "parts": [{"kind": "text", "text": "hello"}]}
    metadata = {} if inside is None else {"metadata": {"traceparent": inside}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message, **metadata}}
    headers = {} if header is None else {"traceparent": header}
    await server.admin.call("POST", f"/workspaces/{seat.id}/a2a", body=body, headers=headers)


@requirement("O7")
async def test_a_trace_is_handed_to_the_receiver_by_every_way_of_reading(server: Running) -> None:
    seat = await server.seat("Ops")
    await sent(server, seat, LINE)
    await sent(server, seat, inside=LINE)
    await sent(server, seat, LINE, "00-" + "1" * 32 + "-" + "2" * 16 + "-01")
    path = f"/workspaces/{seat.id}/activity"
    first = (await seat.api.get(path))[-1]["id"]
    pages = [
        await seat.api.get(path),
        await seat.api.get(path, since_id=first, type="a2a_receive"),
        await seat.api.get(path, since_id=first, source="canvas"),
        await seat.api.claim(seat.id, wait=0),
    ]
    assert [len(page) for page in pages] == [3, 2, 2, 2]
    assert {row["trace_parent"] for page in pages for row in page} == {LINE}


@requirement("O7")
async def test_a_line_that_is_wrong_is_as_if_there_were_none(server: Running) -> None:
    seat = await server.seat("Ops")
    for wrong in (line for line in WRONG if line.isascii() and line.strip() == line):
        await sent(server, seat, wrong)
    for value in (7, None, ["x"], {"a": 1}, LINE[:-1]):
        await sent(server, seat, inside=value)
    rows = await seat.api.claim(seat.id, wait=0)
    assert len(rows) > 12
    assert [row for row in rows if "trace_parent" in row] == []


# -- spans -------------------------------------------------------------------------------------------------------------


@requirement("O7")
async def test_a_message_has_a_span_for_each_part_of_its_road(engine: Engine, place: str, tmp_path: Path) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider.get_tracer("test"))
    async with running(engine, place, tmp_path, tracing=tracing) as server:
        seat = await server.seat("Ops")
        await sent(server, seat, LINE)
        (row,) = await seat.api.claim(seat.id, wait=0)
        await sent(server, seat)
        with pytest.raises(ApiError):
            await server.admin.post(f"/workspaces/{seat.id}/a2a", {"params": {"message": {"parts": []}}})
        token = seat.token
    spans = exporter.get_finished_spans()
    by_name: dict[str, Any] = {span.name: span for span in spans[:3]}
    assert sorted(by_name) == ["molecule.deliver", "molecule.send", "molecule.store"]
    send = by_name["molecule.send"]
    assert (send.parent.span_id, send.context.trace_id) == (int(PARENT, 16), int(TRACE, 16))
    for name in ("molecule.store", "molecule.deliver"):
        assert (by_name[name].parent.span_id, by_name[name].context.trace_id) == (send.context.span_id, int(TRACE, 16))
    assert row["trace_parent"] == f"00-{TRACE}-{send.context.span_id:016x}-01"
    assert by_name["molecule.deliver"].start_time < by_name["molecule.deliver"].end_time
    of_their_own = {span.context.trace_id for span in spans[3:]}
    assert int(TRACE, 16) not in of_their_own
    told = "\n".join(span.to_json() for span in spans)
    assert "hello" not in told
    assert token not in told


@requirement("O7", "M14")
async def test_a_message_to_a_push_agent_has_its_spans_too(engine: Engine, place: str, tmp_path: Path) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    net, url = PushNetwork(), "https://agent.example/a2a"
    net.answers(url, said("done"))
    async with running(engine, place, tmp_path, tracing=Tracing(provider.get_tracer("test")), fetcher=net) as server:
        await sent(server, await server.seat("Ops", delivery_mode="push", url=url), LINE)
    by_name: dict[str, Any] = {span.name: span for span in exporter.get_finished_spans()}
    send, store = by_name["molecule.send"], by_name["molecule.store"]
    assert (send.parent.span_id, send.context.trace_id) == (int(PARENT, 16), int(TRACE, 16))
    assert store.parent.span_id == send.context.span_id


@requirement("O7")
async def test_nothing_is_made_where_nobody_asked(server: Running) -> None:
    assert server.server._tracing is None
    assert create_tracing("", {}, "0") is None


@requirement("O7")
@pytest.mark.parametrize(
    ("endpoint", "environ"), [("http://127.0.0.1:1/v1/traces", {}), ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"})]
)
def test_who_asks_without_the_extra_is_told_how_to_get_it(endpoint: str, environ: dict[str, str]) -> None:
    """The tests' own environment has the SDK, and not what sends spans away."""
    with pytest.raises(BadSettings, match=r"WHEEL\[opentelemetry\]"):
        create_tracing(endpoint, environ, "0")
