"""/metrics: what it says is what happened, to whom it says it; page, dashboard and alerts know the same names."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from molecule_core.client.api import ApiError
from molecule_core.common.clock import DAY, SECOND
from molecule_core.common.errors import BadSettings
from molecule_core.common.metrics import FAMILIES, Histogram, MetricSample, render_exposition
from molecule_core.common.settings import load_settings
from molecule_core.common.state_files import BACKUP_STAMP
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import all_live, channel, streaming
from testing.push_agents import PushNetwork, said
from testing.raw_http import Reply, ask
from testing.running_server import ADMIN_TOKEN, UNHURRIED, Running, running
from testing.waits import eventually
from tests.requirements import requirement

ROOT = Path(__file__).resolve().parents[3]
METRICS_TOKEN = "a-token-for-the-scraper-alone"
_LINE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
_LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\.)*)"')
_PARTS = ("_bucket", "_sum", "_count")

Figures = dict[str, dict[tuple[tuple[str, str], ...], float]]


def read(text: str) -> Figures:
    """The text format, read strictly: HELP, TYPE, then the samples of one family, and no sample twice."""
    found: Figures = {}
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in found, f"{family} comes twice"
            found[family] = {}
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert (name, kind) == (family, FAMILIES[family].kind)
        else:
            match = _LINE.fullmatch(line)
            assert match, line
            name, labels, value = match.groups()
            assert name.removesuffix(next((part for part in _PARTS if name.endswith(part)), "")) == family, line
            key = (("", name.removeprefix(family)), *_LABEL.findall(labels or ""))
            assert key not in found[family], line
            found[family][key] = float(value)
    assert text.endswith("\n")
    return found


async def scraped(server: Running, token: str = ADMIN_TOKEN) -> Figures:
    reply = await ask(server.port, "GET", "/metrics", token=token)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return read(reply.body.decode())


def one(figures: Figures, family: str, **labels: str) -> float:
    """A single value."""
    return figures[family].get((("", ""), *labels.items()), 0)


# -- what it says ------------------------------------------------------------------------------------------------------


@requirement("O4")
async def test_the_figures_are_what_happened(server: Running) -> None:
    seat, other = await server.seat("Ops"), await server.seat("Other")
    for number in range(5):
        await server.admin.send(seat.id, f"hello {number}", message_id=f"m-{number}")
    await server.admin.send(other.id, "hello")
    with pytest.raises(ApiError):
        await server.admin.send(seat.id, "another", message_id="m-1")
    rows = await seat.api.claim(seat.id, wait=0)
    await seat.api.ack(seat.id, rows[0])
    await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id})
    await ask(server.port, "GET", "/nowhere")
    figures = await scraped(server)

    assert one(figures, "molecule_messages_accepted_total") == 6
    assert one(figures, "molecule_messages_refused_total") == 1
    assert one(figures, "molecule_messages_handed_out_total") == 5
    assert one(figures, "molecule_acks_total") == 1
    assert one(figures, "molecule_inbox_unhandled") == 5
    assert one(figures, "molecule_inbox_unhandled_max") == 4
    assert one(figures, "molecule_heartbeats_total") == 1
    assert one(figures, "molecule_workspaces", status="online") == 1
    assert one(figures, "molecule_workspaces", status="awaiting_agent") == 1
    send = {"method": "POST", "route": "/workspaces/{id}/a2a"}
    assert one(figures, "molecule_http_requests_total", **send, status="2xx") == 6
    assert one(figures, "molecule_http_requests_total", **send, status="4xx") == 1
    assert one(figures, "molecule_http_requests_total", method="", route="", status="4xx") == 1
    took = figures["molecule_http_request_seconds"]
    assert took[("", "_count"), *send.items()] == 7
    assert took[("", "_bucket"), *send.items(), ("le", "+Inf")] == 7
    assert one(figures, "molecule_store_groups_total", outcome="committed") >= 10
    assert one(figures, "molecule_store_commands_total") >= one(
        figures, "molecule_store_groups_total", outcome="committed"
    )
    assert one(figures, "molecule_process_memory_bytes") > 10_000_000
    assert one(figures, "molecule_process_open_files") > 5


@requirement("O4", "M14")
async def test_messages_to_a_push_agent_count_whatever_its_sender_is_answered(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    net, url = PushNetwork(), "https://agent.example/a2a"
    net.answers(url, said("done"))
    async with running(engine, place, tmp_path, fetcher=net) as server:
        path = f"/workspaces/{(await server.seat('Ops', delivery_mode='push', url=url)).id}/a2a"

        async def send(text: str, patience: int = 20) -> None:
            message = {"role": "user", "messageId": f"m-{patience}", "parts": [{"kind": "text", "text": text}]}
            headers = {"x-timeout": str(patience)}
            await server.admin.call("POST", path, body={"params": {"message": message}}, headers=headers)

        await send("hi")
        await send("hi", patience=0)
        with pytest.raises(ApiError):
            await send("")  # refused before it is written
        with pytest.raises(ApiError):
            await send("something else")  # and when it is: its id is taken
        figures = await scraped(server)
    assert one(figures, "molecule_messages_accepted_total") == 2
    assert one(figures, "molecule_messages_refused_total") == 2


@requirement("O4")
async def test_channels_and_waits_are_counted_while_they_last(server: Running) -> None:
    async with channel(server), streaming(server):
        await all_live(server)
        figures = await scraped(server)
        assert one(figures, "molecule_live_listeners", kind="websocket") == 1
        assert one(figures, "molecule_live_listeners", kind="stream") == 1
        assert one(figures, "molecule_waits") >= 2
    seat = await server.seat("Gone")
    async with channel(server, seat.token) as opened:
        await all_live(server)
        await server.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true"})
        assert (await opened.bye()).code == 4001
    assert one(await scraped(server), "molecule_live_cuts_total", reason="session ended") == 1


@requirement("O4")
async def test_every_family_of_the_table_is_told_by_a_server_that_has_done_everything(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path) as server:
        seat = await server.seat("Ops")
        async with channel(server, seat.token) as opened:
            await all_live(server)
            told = set(await scraped(server))
            await server.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true"})
            await opened.bye()
        server.server._retention.deleted_rows["messages"] = 3
        server.server.instructions.meter.count_delivery("claude-code", "claude-code-default", "full", 200)
        server.server.instructions.meter.count_outcome("claude-code", "claude-code-default", "answered")
        server.server.instructions.meter.count_failure("claude-code-default")
        server.server.instructions.meter.count_rollback("claude-code-default")
        figures = await scraped(server)
    assert told | set(figures) == set(FAMILIES)
    ((labels, value),) = figures["molecule_build_info"].items()
    assert value == 1
    assert dict(labels)["store"] == engine
    assert one(figures, "molecule_retention_rows_total", what="messages") == 3


# Times of a route begin with its first request, and responses of kinds that it rarely has with the first of them.
LATER = {"molecule_http_request_seconds"}
RARE = {("status", "1xx"), ("status", "3xx")}


@requirement("O4")
async def test_every_counter_is_there_with_zero_before_it_counts(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path) as server:
        before = await scraped(server)
        seat = await server.seat("Ops", runtime="codex")
        await server.admin.send(seat.id, "hello")
        await seat.api.ack(seat.id, (await seat.api.claim(seat.id, wait=0))[0])
        await ask(server.port, "GET", "/nowhere")
        await ask(server.port, "POST", "/login", b'{"code":"wrong"}')
        async with channel(server, seat.token) as opened:
            await all_live(server)
            await server.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true"})
            await opened.bye()
        server.server.instructions.meter.count_delivery("mine", "claude-code-default", "delta", 200)
        server.server.instructions.meter.count_outcome("codex", None, "declined")
        server.server.instructions.meter.count_failure("of ours")
        after = await scraped(server)
    assert all(before[name] for name, family in FAMILIES.items() if family.kind == "counter")
    counters = [name for name, family in FAMILIES.items() if family.kind != "gauge" and name not in LATER]
    new = {(name, key) for name in counters for key in set(after[name]) - set(before[name]) if not RARE & set(key)}
    assert new == set()


@requirement("O4")
async def test_mail_and_approvals_that_need_a_person_are_counted(engine: Engine, place: str, tmp_path: Path) -> None:
    clock = FakeClock()
    names = ("molecule_inbox_unclaimed", "molecule_messages_overdue", "molecule_dead_letters")
    async with running(engine, place, tmp_path, clock=clock) as server:
        untaken, silent, gone = [await server.seat(name) for name in ("Untaken", "Silent", "Gone")]

        async def counts() -> list[float]:
            figures = await scraped(server)
            await clock.advance(60)
            return [one(figures, name) for name in names]

        assert await counts() == [0, 0, 0]
        assert one(await scraped(server), "molecule_approvals_oldest_seconds") == 0
        await server.admin.send(untaken.id, "no agent takes this")
        await server.admin.send(silent.id, "no agent answers this")
        await silent.api.claim(silent.id, wait=0)
        message = {"role": "user", "parts": [{"kind": "text", "text": "this expires"}]}
        body = {"method": "message/send", "params": {"message": message, "expires_in_seconds": 1}}
        await server.admin.post(f"/workspaces/{gone.id}/a2a", body)
        request = {"action": "deploy", "reason": "a release", "details": {}}
        await silent.api.post(f"/workspaces/{silent.id}/approvals", request)
        asked_at = clock.at
        await eventually(counts, lambda found: found == [1, 1, 1])
        age = one(await scraped(server), "molecule_approvals_oldest_seconds")
    assert age == (clock.at - asked_at) // SECOND > 0


@requirement("O4", "P6")
async def test_the_age_of_the_last_backup_counts_from_the_first_start_until_there_is_one(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    clock = FakeClock()
    async with running(engine, place, tmp_path, clock=clock) as server:
        clock.at += 3 * DAY
        assert one(await scraped(server), "molecule_backup_age_seconds") == 3 * DAY // SECOND
        stamp = server.server.settings.state_folder / BACKUP_STAMP
        stamp.touch()
        made = clock.at - 90 * SECOND
        os.utime(stamp, ns=(made * 1000, made * 1000))
        figures = await scraped(server)
    assert one(figures, "molecule_backup_age_seconds") == 90
    free = shutil.disk_usage(tmp_path).free
    for folder in ("state", "files"):
        assert abs(one(figures, "molecule_disk_free_bytes", folder=folder) - free) < free / 2


@requirement("O4", "S20")
async def test_refused_requests_are_counted_by_why(engine: Engine, place: str, tmp_path: Path) -> None:
    limits = replace(UNHURRIED, logins_per_minute=2)
    async with running(engine, place, tmp_path, limits=limits) as server:
        headers, body = (("X-Molecule-Client", "canvas"),), {"code": "wrong"}
        assert (await ask(server.port, "POST", "/login", body)).status == 403  # of another page: no login attempt
        codes = [(await ask(server.port, "POST", "/login", body, headers=headers)).status for _ in range(4)]
        assert (await ask(server.port, "GET", "/workspaces", token="wrong")).status == 401
        figures = await scraped(server)
    assert codes == [401, 429, 429, 429]
    assert one(figures, "molecule_logins_refused_total") == 1
    assert one(figures, "molecule_rate_limited_total") == 3
    assert one(figures, "molecule_credentials_refused_total") == 1


@requirement("O4")
def test_the_text_is_escaped_and_buckets_add_up() -> None:
    histogram = Histogram()
    for seconds in (0.001, 0.005, 0.006, 1, 1000):
        histogram.observe(seconds)
    text = render_exposition(
        [
            MetricSample("molecule_http_request_seconds", histogram, ("GET", 'a"b\\c\nd')),
            MetricSample("molecule_store_queue", 2),
        ]
    )
    figures = read(text)
    buckets = [value for key, value in figures["molecule_http_request_seconds"].items() if key[0][1] == "_bucket"]
    assert buckets == [2, 3, 3, 3, 4, 4, 5]
    assert '{method="GET",route="a\\"b\\\\c\\nd",le="0.005"} 2' in text
    with pytest.raises(KeyError):
        render_exposition([MetricSample("molecule_unheard_of", 1)])
    with pytest.raises(ValueError, match="zip"):
        render_exposition([MetricSample("molecule_workspaces", 1)])


# -- to whom -----------------------------------------------------------------------------------------------------------


@requirement("O4", "M9", "S20")
async def test_the_scrapers_token_opens_the_figures_and_nothing_else(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, metrics_token=METRICS_TOKEN) as server:
        seat = await server.seat("Ops")
        assert await scraped(server, METRICS_TOKEN)
        assert (await ask(server.port, "GET", "/metrics")).status == 401
        assert (await ask(server.port, "GET", "/metrics", token=METRICS_TOKEN + "x")).status == 401
        assert (await ask(server.port, "GET", "/metrics", token=seat.token)).status == 403
        replies: list[Reply] = []
        for route in server.server.routes.routes:
            if route.access.kinds and route.path != "/metrics":
                path = route.path.replace("{id}", seat.id).replace("{org_id}", server.server.registry.orgs()[0].id)
                replies.append(await ask(server.port, route.method, path, token=METRICS_TOKEN))
        assert len(replies) > 25
        assert {reply.status for reply in replies} == {403}


@requirement("O4")
async def test_without_a_token_of_its_own_nobody_but_the_admin_reads_the_figures(server: Running) -> None:
    assert (await ask(server.port, "GET", "/metrics", token="")).status == 401
    assert (await ask(server.port, "GET", "/metrics", token=METRICS_TOKEN)).status == 401


@requirement("O4", "O3")
def test_a_short_token_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadSettings, match=r"metrics_token is too short\. Use at least 24 characters") as refused:
        load_settings({"MOLECULE_METRICS_TOKEN": "hunter2"}, {})
    assert "hunter2" not in str(refused.value)


@requirement("O4", "O3")
async def test_the_figures_hold_no_name_no_id_and_no_credential(server: Running) -> None:
    seat = await server.seat("Secret Agent")
    await seat.api.claim(seat.id, wait=0)
    await ask(server.port, "GET", f"/workspaces/{seat.id}?token={seat.token}", token=seat.token)
    text = (await ask(server.port, "GET", "/metrics", token=ADMIN_TOKEN)).body.decode()
    for word in (seat.id, seat.token, ADMIN_TOKEN, "Secret", server.server.registry.orgs()[0].id):
        assert word not in text


# -- who uses the names ------------------------------------------------------------------------------------------------


def used_in(text: str) -> set[str]:
    """The metrics that a text names."""
    return set(re.findall(r"\bmolecule_[a-z_]+\b", text))


def families_of(names: set[str]) -> Iterator[str]:
    for name in names:
        yield next(
            (base for part in _PARTS if (base := name.removesuffix(part)) in FAMILIES and name.endswith(part)), name
        )


@requirement("O4")
def test_the_page_names_every_metric_with_its_labels() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| (\w+ \| [^|]*) \|", page, re.MULTILINE))
    assert told == {
        name: f"{family.kind} | {', '.join(f'`{label}`' for label in family.labels)}"
        for name, family in FAMILIES.items()
    }
    for name, family in FAMILIES.items():
        assert name.endswith("_total") == (family.kind == "counter"), name


@requirement("O4", "O9")
def test_every_panel_of_the_dashboard_shows_metrics_that_there_are() -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len(panels) > 10
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    shown: set[str] = set()
    for panel in panels:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            names = used_in(target["expr"])
            assert names, target
            assert target["expr"].count("(") == target["expr"].count(")")
            shown |= set(families_of(names))
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            labels |= set(re.findall(r'[{,](\w+)=~?"', target["expr"]))
            known = {label for name in families_of(names) for label in FAMILIES[name].labels}
            assert labels <= known, target
    assert shown == set(FAMILIES)


@requirement("O4", "O9")
async def test_every_alert_reads_series_that_a_new_server_shows(server: Running) -> None:
    """An alert over a series that is not there is silent, whatever happens."""
    shown = (await ask(server.port, "GET", "/metrics", token=ADMIN_TOKEN)).body.decode()
    for group in yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            for name, labels in re.findall(r"\b(molecule_[a-z_]+)(?:\{([^}]*)\})?", rule["expr"]):
                lines = [line for line in shown.splitlines() if re.match(rf"{name}[ {{]", line)]
                for label, operator, wanted in re.findall(r'(\w+)(=~?)"([^"]*)"', labels):
                    pattern = wanted if operator == "=~" else re.escape(wanted)
                    lines = [line for line in lines if re.search(rf'{label}="({pattern})"', line)]
                assert lines, f"{rule['alert']}: {name}{{{labels}}}"


@requirement("O4", "O9")
def test_every_alert_watches_metrics_that_there_are_and_is_explained() -> None:
    text = (ROOT / "deploy" / "alerts.yml").read_text()
    page = (ROOT / "docs" / "how-to" / "metrics.md").read_text()
    alerts = [(rule["alert"], rule["expr"]) for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    assert len(alerts) > 5
    assert text.count("- alert:") == len(alerts) == text.count("summary:") == text.count("severity:")
    for name, expression in alerts:
        assert set(families_of(used_in(expression))) <= set(FAMILIES), name
        assert used_in(expression) or "up{" in expression
        assert f"`{name}`" in page, f"docs/how-to/metrics.md does not say what to do about {name}"
    assert "rule_files:\n  - alerts.yml" in (ROOT / "deploy" / "prometheus.yml").read_text()
