"""The activity of an organisation: what a reader's live channel shows, filtered, on both engines."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import asyncpg
import msgspec
import pytest
from anyio.lowlevel import checkpoint

from molecule_core.client.api import ApiClient
from molecule_core.store.queries import load_queries, load_schema
from molecule_core.views.event_buckets import count_by_time
from molecule_core.views.event_lines import (
    _PHASES,
    _TICKS,
    describe_event,
    direction_of,
    kind_of,
    may_have_direction,
    may_have_state,
)
from molecule_core.wire.schemas.event_log import EVENT_DIRECTIONS, EVENT_KINDS, EVENT_STATES
from molecule_core.wire.schemas.events import EVENTS
from testing.clocks import FakeClock
from testing.engines import Engine, new_database
from testing.live_clients import channel, token_of
from testing.raw_http import request
from testing.running_server import UNHURRIED, Running, Seat, running
from testing.search_world import SearchWorld
from testing.thread_world import Engine as ThreadEngine
from testing.thread_world import ThreadWorld, code, said
from testing.waits import bounded
from testing.workspaces import beat, remove
from tests.requirements import requirement

Item = dict[str, Any]
WORDS = ("kiwi", "plum", "fig")


class World(NamedTuple):
    """A searchable server with a tree of agents: two below Lead, one below Ops, and one in another organisation."""

    search: SearchWorld
    lead: Seat
    ops: Seat
    crew: Seat
    legal: Seat
    stranger: ApiClient
    other_org: str

    @property
    def server(self) -> Running:
        return self.search.server

    @property
    def seats(self) -> dict[str, Seat]:
        return {each.id: each for each in (self.lead, self.ops, self.crew, self.legal)}

    def below(self, workspace_id: str) -> set[str]:
        """A workspace and those below it."""
        below = {self.lead.id: set(self.seats), self.ops.id: {self.ops.id, self.crew.id}}
        return below.get(workspace_id, {workspace_id})

    async def page(self, by: ApiClient | None = None, part: str = "", **query: Any) -> Item:
        """One answer of the activity, of the operator if it is not somebody else's."""
        org_id = query.pop("org_id", self.search.org_id)
        found: Item = await bounded((by or self.search.operator).get(f"/orgs/{org_id}/activity{part}", **query))
        return found

    async def listed(self, by: ApiClient | None = None, **query: Any) -> list[Item]:
        """All events of a query, page by page."""
        events, cursor = list[Item](), None
        while True:
            page = await self.page(by, **query, **({} if cursor is None else {"cursor": cursor}))
            events += page["events"]
            following = page["next_cursor"]
            assert following is None or cursor is None or int(following) < int(cursor), "each page goes further back"
            cursor = following
            if cursor is None:
                return events


async def world_on(server: Running, clock: FakeClock) -> World:
    """The world of a server that has just begun."""
    lead = await server.seat("Lead")
    ops = await server.seat("Ops", parent_id=lead.id)
    crew = await server.seat("Crew", parent_id=ops.id)
    legal = await server.seat("Legal", parent_id=lead.id)
    other_org = await server.org("Other")
    stranger = await server.person("owner", other_org)
    await server.seat("Theirs", org_id=other_org)
    return World(await SearchWorld.on(server, clock), lead, ops, crew, legal, stranger, other_org)


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[World]:
    """A world whose requests read at most 40 events."""
    limits = msgspec.structs.replace(UNHURRIED, activity_scan_events=40)
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        yield await world_on(server, clock)


async def act(world: World, dice: random.Random) -> None:
    """Something that an agent or a person does."""
    seat, other = dice.choice([*world.seats.values()]), dice.choice([world.ops, world.legal])
    words, search = f"{dice.choice(WORDS)} {dice.choice(WORDS)}", world.search
    choice = dice.randrange(9)
    if choice == 0:
        await search.writes(seat, words)
    elif choice == 1:
        await search.writes(other, words, by=world.lead)
    elif choice == 2:
        await search.notifies(seat, words)
    elif choice == 3:
        await search.delegates(world.lead, other, words)
    elif choice == 4:
        await search.remembers(seat, words)
    elif choice == 5:
        await beat(seat, error_rate=dice.choice([0.0, 0.9]))
    elif choice == 6:
        await world.server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"role": words})
    elif choice == 7:
        await bounded(seat.api.post(f"/workspaces/{seat.id}/approvals", {"action": "deploy", "reason": words}))
    else:
        threads = ThreadWorld(world.server, search.operator, search.clock)
        thread = await threads.starts(seat, input=words)
        engine = ThreadEngine(seat.api, thread)
        await engine.claim()
        await engine.begin()
        await engine.adds(said(words))
    await search.indexed()


async def journal_of(server: Running, token: str) -> list[Item]:
    """All events that a live channel with this token sends from the beginning."""
    async with channel(server, token) as opened:
        await opened.subscribe(0)
        resumed = await opened.control("resumed")
        return [await opened.event() for _ in range(resumed["count"])]


def same(event: Item) -> tuple[Any, ...]:
    """What an event is, in a frame and in the activity."""
    names = ("seq", "event", "workspace_id", "timestamp", "entity", "payload")
    return tuple(msgspec.json.encode(event[name], order="sorted") for name in names)


async def found_by(world: World, words: str) -> Callable[[Item], bool]:
    """Whether an event is about something that the search finds."""
    cursor, refs = None, set[tuple[str, str, int | None]]()
    while True:
        page = await world.search.page(words, **({} if cursor is None else {"cursor": cursor}))
        refs |= {(each["kind"], each["id"], each["ordinal"]) for each in page["results"]}
        cursor = page["next_cursor"]
        if cursor is None:
            break

    def finds(event: Item) -> bool:
        kind, id_ = event["entity"]["kind"], event["entity"]["id"]
        if kind in ("activity", "message"):
            return bool({("message", id_, None), ("delegation", id_, None)} & refs)
        if event["event"] == "THREAD_ITEM":
            return ("thread", id_, event["entity"]["rev"]) in refs
        return (kind, id_, None) in refs

    return finds


Condition = Callable[[Item], bool]
Filter = tuple[dict[str, str], Condition]


def time_filter(dice: random.Random, events: list[Item]) -> Filter:
    """A range of time."""
    first, last = sorted(each["timestamp"] for each in dice.choices(events, k=2))
    if dice.random() < 0.3:
        return {"since": first}, lambda each: each["timestamp"] >= first
    return {"since": first, "until": last}, lambda each: first <= each["timestamp"] < last


def name_filter(dice: random.Random, events: list[Item]) -> Filter:
    """Two kinds, or the name of an event and a kind."""
    kinds, names = dice.sample(EVENT_KINDS, k=2), [dice.choice(events)["event"]]
    if dice.random() < 0.5:
        return {"kind": ",".join(kinds)}, lambda each: each["kind"] in kinds
    query = {"kind": kinds[0], "event": names[0]}
    return query, lambda each: each["kind"] == kinds[0] or each["event"] in names


def state_filter(dice: random.Random, _events: list[Item]) -> Filter:
    """A state."""
    state = dice.choice(EVENT_STATES)
    return {"state": state}, lambda each: each["state"] == state


def direction_filter(dice: random.Random, _events: list[Item]) -> Filter:
    """A direction."""
    direction = dice.choice(EVENT_DIRECTIONS)
    return {"direction": direction}, lambda each: each["direction"] == direction


def item_filter(dice: random.Random, events: list[Item]) -> Filter:
    """An item, a delegation or a thread."""
    id_, kind = (dice.choice(events)["entity"][name] for name in ("id", "kind"))
    if kind == "thread":
        return {"thread": id_}, lambda each: each["entity"]["id"] == id_ and each["entity"]["kind"] == "thread"
    if kind == "delegation":
        about = ("delegation", "activity", "message")
        return {"delegation": id_}, lambda each: each["entity"]["id"] == id_ and each["entity"]["kind"] in about
    return {"item": id_}, lambda each: each["entity"]["id"] == id_


def workspace_filter(world: World, dice: random.Random, events: list[Item]) -> Filter:
    """A workspace, alone or with those below it."""
    about = dice.choice([each["workspace_id"] for each in events if each["workspace_id"]])
    ids = world.below(about) if dice.random() < 0.5 else {about}
    return {
        "workspace": about,
        "subtree": "true" if len(ids) > 1 else "false",
    }, lambda each: each["workspace_id"] in ids


async def text_filter(world: World, dice: random.Random) -> Filter:
    """Words."""
    words = dice.choice([*WORDS, "kiwi plum", '"plum fig"', "cellar"])
    return {"q": words}, await found_by(world, words)


async def random_query(
    world: World, dice: random.Random, events: list[Item], *, is_person: bool
) -> tuple[dict[str, Any], Condition]:
    """A query, and the same as a condition."""
    filters = [make(dice, events) for make in (time_filter, name_filter, state_filter, direction_filter, item_filter)]
    filters.append(workspace_filter(world, dice, events))
    if is_person:
        filters.append(await text_filter(world, dice))
    chosen = dice.sample(filters, k=dice.choice([0, 1, 1, 2, 2, 3]))
    query = {name: value for params, _ in chosen for name, value in params.items()}
    if query.get("direction") != "out" or "workspace" not in query:
        return query, lambda each: all(condition(each) for _, condition in chosen)
    ids = {query["workspace"]} if query["subtree"] == "false" else world.below(query["workspace"])
    others = [condition for params, condition in chosen if not {"direction", "workspace"} & params.keys()]
    return query, lambda each: _is_sent_by(each, ids) and all(condition(each) for condition in others)


def _is_sent_by(event: Item, ids: set[str]) -> bool:
    """Whether agents sent what an event is about: it is theirs, or that of who received it."""
    if event["direction"] == "in":
        return event["line"].get("actor_id") in ids
    return event["direction"] == "out" and event["workspace_id"] in ids


@requirement("AC1")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.long
async def test_each_reader_gets_what_its_live_channel_shows_by_any_filters(world: World, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(24):
        await act(world, dice)
    person = await world.server.person("viewer")
    callers: dict[str, tuple[ApiClient, str]] = {
        "": (world.search.operator, await token_of(world.server, "viewer")),
        **{seat.id: (seat.api, seat.token) for seat in world.seats.values()},
    }
    for workspace_id, (api, token) in callers.items():
        journal = await journal_of(world.server, token)
        events = await world.listed(api, limit=dice.randint(3, 9))
        assert [same(each) for each in events] == [same(each) for each in reversed(journal)], workspace_id
        for _ in range(12 if workspace_id else 40):
            query, is_wanted = await random_query(world, dice, events, is_person=not workspace_id)
            found = await world.listed(api, **query, limit=dice.randint(1, 9))
            assert [each["seq"] for each in found] == [each["seq"] for each in events if is_wanted(each)], query
            await _check_following(world, api, query, found)
    assert [each["seq"] for each in await world.listed(person)] == [each["seq"] for each in await world.listed()]


async def _check_following(world: World, api: ApiClient, query: dict[str, Any], found: list[Item]) -> None:
    """Reading forwards from the beginning gives the same events in the other order."""
    after, events = 0, list[Item]()
    while True:
        page = await world.page(api, **query, after=after, limit=7)
        assert len(page["events"]) <= 7
        events += page["events"]
        after = page["newest_seq"]
        if page["next_cursor"] is None:
            break
        assert page["next_cursor"] == str(after)
    assert [each["seq"] for each in events] == [each["seq"] for each in reversed(found)], query


@requirement("AC1")
async def test_the_direction_is_that_of_messages_tasks_and_results_of_an_agent(world: World) -> None:
    await world.search.writes(world.ops, "from a person")
    await world.search.writes(world.ops, "from lead", by=world.lead)
    await world.search.notifies(world.ops, "to people")
    await world.search.delegates(world.ops, world.crew, "a task")
    await beat(world.ops, error_rate=0.9)

    async def texts(direction: str, **query: Any) -> list[str]:
        found = await world.listed(workspace=world.ops.id, direction=direction, **query)
        return [f"{each['line']['actor']}: {each['line'].get('text')}" for each in found]

    assert await texts("in") == ["Lead: from lead", "A person: from a person"]
    await world.search.writes(world.legal, "to legal", by=world.ops)
    assert set(await texts("out")) == {"Ops: a task", "Ops: to people", "Ops: to legal"}
    assert await texts("out", kind="organisation") == []
    assert await texts("in", state="failed") == []
    assert "Ops: a task" in [
        f"{each['line']['actor']}: {each['line']['text']}"
        for each in await world.listed(workspace=world.crew.id, direction="in")
    ]
    error = await code(world.page(direction="up"))
    assert error[0] == 422 or error[0] == 400


@requirement("AC1")
async def test_ids_of_others_read_as_unknown_and_agents_do_not_search(world: World) -> None:
    theirs = (await world.stranger.get("/workspaces"))[0]["id"]
    unknown = await code(world.page(workspace="nowhere"))
    assert await code(world.page(workspace=theirs)) == unknown == (404, "not_found")
    assert await code(world.page(world.stranger)) == await code(world.page(org_id="nowhere")) == unknown
    assert await code(world.page(world.legal.api, workspace=world.crew.id)) == unknown, "it is no peer of Legal"
    assert (await world.page(world.legal.api, workspace=world.ops.id))["events"] != []
    assert await code(world.page(world.ops.api, q="kiwi")) == (422, "invalid_field")
    wrong_values: list[dict[str, Any]] = [
        {"kind": "secrets"},
        {"event": "LIVE_TURN"},
        {"state": "lost"},
        {"since": "now"},
        {"subtree": "no"},
    ]
    for wrong in wrong_values:
        assert await code(world.page(**wrong)) == (422, "invalid_field"), wrong
    assert await code(world.page(q="!?")) == (400, "empty_search")


@requirement("AC1")
async def test_a_viewer_does_not_learn_what_memories_say(world: World) -> None:
    await world.search.remembers(world.ops, "the kiwi is secret")
    viewer = world.search.viewer
    assert [each["event"] for each in await world.listed(q="kiwi")] == ["MEMORY_WRITTEN"]
    assert await world.listed(viewer, q="kiwi") == []
    assert (await world.page(viewer, q="kiwi", after=0))["events"] == []


@requirement("AC1")
async def test_waiting_returns_the_next_event_that_matches(world: World) -> None:
    newest = (await world.page())["newest_seq"]
    waiting = asyncio.create_task(world.page(after=newest, wait=20, workspace=world.ops.id, q="kiwi"))
    await world.search.writes(world.legal, "a kiwi for Legal")
    await world.search.writes(world.ops, "a plum")
    assert not waiting.done()
    # Not indexed yet: its text is read from its row.
    params = {"message": {"parts": [{"kind": "text", "text": "a kiwi"}]}}
    await bounded(world.search.operator.post(f"/workspaces/{world.ops.id}/a2a", {"params": params}))
    page = await bounded(waiting)
    (event,) = page["events"]
    assert (event["event"], event["workspace_id"], event["line"]["text"]) == ("USER_MESSAGE", world.ops.id, "a kiwi")
    assert page["newest_seq"] >= event["seq"]


@requirement("AC1")
async def test_a_request_reads_a_limited_number_of_events_and_says_how_far(world: World) -> None:
    await world.search.writes(world.legal, "first of all")
    for number in range(60):
        await beat(world.ops, error_rate=0.9 if number % 2 else 0.0)
    page = await world.page(workspace=world.legal.id, event="USER_MESSAGE")
    assert (page["events"], page["next_cursor"] is not None, page["searched_to"] is not None) == ([], True, True)
    assert len(await world.listed(workspace=world.legal.id, event="USER_MESSAGE")) == 1
    counted = await world.page(part="/histogram")
    assert (counted["total"], counted["counted_since"] is not None) == (40, True)


@requirement("AC1")
async def test_the_histogram_counts_what_the_list_has(world: World) -> None:
    for number in range(5):
        await world.search.writes(world.ops if number % 2 else world.legal, f"plum {number}")
        await world.search.clock.advance(600)
    queries: list[dict[str, Any]] = [
        {"kind": "messages"},
        {"q": "plum"},
        {"workspace": world.ops.id},
        {"state": "done"},
        {"direction": "in"},
        {},
    ]
    for query in queries:
        counted = await world.page(part="/histogram", **query, buckets=10)
        found = await world.listed(**query)
        assert counted["total"] == len(found) == sum(each["count"] for each in counted["buckets"]), query
        assert len(counted["buckets"]) <= 11
        starts = [each["at"] for each in counted["buckets"]]
        for at, end, count in zip(starts, [*starts[1:], counted["until"]], counted["buckets"], strict=False):
            assert len([each for each in found if at <= each["timestamp"] < end]) == count["count"], (query, at)
    empty = await world.page(part="/histogram", q="cellar")
    assert (empty["buckets"], empty["total"], empty["until"]) == ([], 0, None)
    far: dict[str, Any] = {"since": "0001-01-01T00:00:00Z", "until": "9999-12-31T23:59:59Z"}
    assert (await world.page(part="/histogram", **far))["total"] > 0


async def _delete_old(world: World) -> None:
    """Runs retention to its end."""
    server = world.server.server
    for policy in server._retention._policies:
        async for batch in policy.batches(server._retention.cutoff, 100):
            if batch.command is not None:
                await server.store.run(batch.command)


@requirement("AC1")
async def test_after_retention_the_answer_says_from_when_on_it_is_complete(world: World) -> None:
    await world.search.writes(world.ops, "old plum")
    assert (await world.page())["kept_since"] is None
    await world.search.clock.advance(9 * 86_400)
    await world.search.writes(world.ops, "new plum")
    await _delete_old(world)
    events = await world.listed()
    page = await world.page()
    assert page["kept_since"] == events[-1]["timestamp"]
    assert events[-1]["seq"] > 1
    counted = await world.page(part="/histogram")
    assert (counted["kept_since"], counted["total"]) == (page["kept_since"], len(events))
    assert [each["line"]["text"] for each in await world.listed(q="plum", event="USER_MESSAGE")] == ["new plum"]


@requirement("AC1")
async def test_events_of_removed_members_stay_in_the_activity_of_their_team(world: World) -> None:
    await world.search.writes(world.crew, "before you go")
    await remove(world.server.admin, world.crew)
    found = await world.listed(workspace=world.ops.id, subtree="true", event="USER_MESSAGE,WORKSPACE_REMOVED")
    assert [(each["event"], each["workspace_name"]) for each in found] == [
        ("WORKSPACE_REMOVED", "Crew"),
        ("USER_MESSAGE", "Crew"),
    ]


# -- export ------------------------------------------------------------------------------------------------------------


async def exported(world: World, token: str, query: str = "") -> tuple[list[Item], Item | None]:
    """Events of an export, and its end if it has one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port)
    writer.write(request("GET", f"/orgs/{world.search.org_id}/activity/export{query}", token=token))
    head, _, body = (await bounded(reader.read())).partition(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-type: application/x-ndjson" in head and b'filename="activity.ndjson"' in head
    lines = [msgspec.json.decode(line) for line in body.splitlines()]
    return [line for line in lines if "seq" in line], next((line for line in lines if "export" in line), None)


@requirement("AC2")
async def test_an_export_has_all_events_of_a_query_and_says_that_it_is_complete(world: World) -> None:
    dice = random.Random(7)
    for _ in range(20):
        await act(world, dice)
    token = await token_of(world.server, "viewer")
    events, end = await exported(world, token)
    everything = await world.listed()
    assert [each["seq"] for each in events] == [each["seq"] for each in everything]
    assert len(everything) > 40, "more than one request reads"
    assert end == {"export": {"events": len(events), "kept_since": None, "is_text_complete": True}}
    some, _ = await exported(world, token, "?kind=messages&q=kiwi")
    assert [each["seq"] for each in some] == [each["seq"] for each in await world.listed(kind="messages", q="kiwi")]
    own, _ = await exported(world, world.crew.token)
    assert [each["seq"] for each in own] == [each["seq"] for each in await world.listed(world.crew.api)]


@requirement("AC2")
async def test_an_export_that_is_not_read_holds_one_page_and_ends_with_its_credential(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    limits = msgspec.structs.replace(UNHURRIED, activity_exports=1)
    async with running(engine, place, tmp_path, limits=limits) as server:
        seat = await server.seat("Ops")
        for _ in range(60):
            await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "x" * 200_000})
        path = f"/orgs/{(await server.admin.get('/orgs'))[0]['id']}/activity/export"
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 10)
        writer.write(request("GET", path, token=seat.token))
        await bounded(reader.readuntil(b"\r\n\r\n"))
        assert await code(server.admin.get(path)) == (429, "too_many_open")
        (route,) = [each for each in server.server.routes.routes if each.path.endswith("/activity/export")]
        exports = route.handler.__self__._exports  # type: ignore[attr-defined]
        (sending,) = exports
        assert sending._channel.unread_bytes() < 3 * limits.page_bytes
        await remove(server.admin, seat)
        rest = await bounded(_rest(reader))
        assert b'{"export"' not in rest
        writer.close()
        while exports:
            await bounded(checkpoint())


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """What a connection still brings."""
    parts = []
    try:
        while part := await reader.read(1 << 16):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


# -- statements --------------------------------------------------------------------------------------------------------

STATEMENTS = ("event_heads_before", "event_heads_after", "event_by_number", "event_time")


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_of_the_activity_search_the_key_of_the_journal(name: str) -> None:
    connection, query = apsw.Connection(":memory:"), load_queries("sqlite")[name]
    for _ in connection.execute(load_schema("sqlite")):
        pass
    plan = connection.execute(f"EXPLAIN QUERY PLAN {query.sql}", [None] * len(query.param_names)).fetchall()
    assert all(str(row[3]).startswith("SEARCH events USING PRIMARY KEY (org_id=? AND seq") for row in plan), plan


@pytest.mark.parametrize("name", STATEMENTS)
async def test_postgresql_reads_them_from_the_index_too(postgres: str, name: str) -> None:
    connection = await asyncpg.connect(await new_database(postgres))
    try:
        await connection.execute(load_schema("postgres"))
        await connection.execute(
            "INSERT INTO events SELECT 'org', n, 'USER_MESSAGE', 'w', 'workspace', 'activity', 'a', 0, n, NULL "
            "FROM generate_series(1, 20000) n"
        )
        await connection.execute("ANALYZE events")
        query = load_queries("postgres")[name]
        values = {"org_id": "'org'", "seq": "10000", "count": "100"}
        sql = query.with_placeholders(lambda param: values[param])
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {sql}"))
        assert "Index" in plan and "Seq Scan" not in plan and "Sort" not in plan, plan
    finally:
        await connection.close()


# -- words -------------------------------------------------------------------------------------------------------------


def test_every_journaled_event_has_a_kind_and_a_line() -> None:
    for name, definition in EVENTS.items():
        if definition.journaled:
            assert kind_of(name) in EVENT_KINDS
            line, _ = describe_event(name, "w", {}, lambda _id: "Ops")
            assert line.verb, name


STATE_PAYLOADS: tuple[Item, ...] = (
    *({"activity_type": type_, "status": status} for type_ in ("a2a_send", "error") for status in ("ok", "error")),
    *({"message": "x", "options": options} for options in ([], ["a"])),
    *({"tick": tick, "first_seq": 1, "last_seq": 1} for tick in (*_TICKS, "other")),
    *({"state": state, "seq": 1, "mail_type": "MESSAGE"} for state in ("kept", "sent", "discarded", "failed")),
    *({"target_id": "t", "phase": phase} for phase in (*_PHASES, "other")),
    *({"target_id": "t", "error": "x", "status": status} for status in ("failed", "cancelled")),
    *({"status": status} for status in ("completed", "failed", "interrupted")),
    {"name": "n", "state": "paused"},
    *({"name": "n", "run": {"outcome": each, "reason": ""}} for each in ("sent", "queued", "failed")),
    *(
        {"status": {"type": type_}, "active_flags": flags}
        for type_ in ("running", "completed", "errored", "shutdown")
        for flags in ([], ["waiting_on_approval"])
    ),
)


def test_the_filter_by_state_reads_the_payload_of_each_event_that_may_have_it() -> None:
    found = set[tuple[str, str]]()
    rest = {
        "seq": 1,
        "reason": "r",
        "messages": 2,
        "spent": 1,
        "leased": 1,
        "task_preview": "t",
        "response_preview": "r",
        "limit": "l",
    }
    approval = {"requester_name": "n", "workspace_id": "w", "action": "a", "holder": {"workspace_id": "h", "name": ""}}
    template = {"template_id": "t", "version": 1, "path": "root"}
    for name, definition in EVENTS.items():
        for payload in STATE_PAYLOADS if definition.journaled else ():
            _, state = describe_event(name, "w", {**rest, **approval, **template, **payload}, lambda _id: "Ops")
            if state is not None:
                found.add((name, state))
    possible = {(name, state) for name in EVENTS for state in EVENT_STATES if may_have_state(name, state)}
    assert found == possible


def test_the_filter_by_direction_reads_each_event_that_may_have_it() -> None:
    payloads: tuple[Item, ...] = ({}, *({"activity_type": type_} for type_ in ("a2a_receive", "a2a_send", "error")))
    found = {(name, direction_of(name, payload)) for name in EVENTS for payload in payloads}
    possible = {(name, each) for name in EVENTS for each in EVENT_DIRECTIONS if may_have_direction(name, each)}
    assert {each for each in found if each[1] is not None} == possible


@pytest.mark.parametrize(
    ("name", "payload", "words", "state"),
    [
        ("USER_MESSAGE", {"summary": "Ship it"}, "A person wrote to Ops: Ship it", None),
        (
            "BUDGET_EXHAUSTED",
            {"unit": "money", "spent": 19_900_000, "limit": 20_000_000, "leased": 0},
            "Ops is over budget: 19.90 of 20.00 spent, 0.00 leased",
            "waiting",
        ),
        (
            "SCHEDULE_RAN",
            {"name": "Books", "run": {"outcome": "failed", "reason": "the inbox is full"}},
            "Ops had a scheduled run fail: Books: the inbox is full",
            "failed",
        ),
        ("AGENT_MESSAGE", {"message": "Done\nnow"}, "Ops wrote to people: Done now", None),
        ("AGENT_MESSAGE", {"message": "Which?", "options": ["a"]}, "Ops asked people: Which?", "waiting"),
        (
            "ACTIVITY_LOGGED",
            {"activity_type": "a2a_receive", "kind": "peer_agent", "source_id": "lead", "summary": "Go"},
            "Lead wrote to Ops: Go",
            None,
        ),
        (
            "ACTIVITY_LOGGED",
            {"activity_type": "a2a_receive", "kind": "delegation", "source_id": "lead", "summary": "Go"},
            "Lead delegated to Ops: Go",
            None,
        ),
        (
            "ACTIVITY_LOGGED",
            {"activity_type": "error", "status": "error", "error_detail": "no disk"},
            "Ops reported an error: no disk",
            "failed",
        ),
        (
            "MESSAGE_TICK",
            {"tick": "handed_over", "first_seq": 3, "last_seq": 5},
            "Ops picked up messages 3 to 5",
            "working",
        ),
        ("DELEGATION_SENT", {"target_id": "lead", "task_preview": "Count"}, "Ops delegated to Lead: Count", "working"),
        (
            "DELEGATION_FAILED",
            {"target_id": "lead", "error": "too late", "status": "failed"},
            "Ops got no result from Lead: too late",
            "failed",
        ),
        (
            "APPROVAL_REQUESTED",
            {
                **{"requester_name": "Crew", "workspace_id": "crew", "action": "deploy", "reason": "ready"},
                "holder": {"kind": "workspace", "workspace_id": "w", "name": "Ops"},
            },
            "Crew requested approval from Ops: deploy: ready",
            "waiting",
        ),
        (
            "APPROVAL_DENIED",
            {
                **{"requester_name": "Ops", "workspace_id": "w", "action": "deploy", "reason": ""},
                "decided": {"by": {"kind": "person", "id": "p", "name": "Anna"}},
            },
            "Anna denied a request of Ops: deploy",
            "failed",
        ),
        ("WORKSPACE_MOVED", {"parent_id": "lead"}, "Ops was moved below Lead", None),
        ("PEOPLE_CHANGED", {"person_id": "p"}, "A person changed the people of the organisation", None),
    ],
)
def test_an_event_is_one_line_of_plain_words(name: str, payload: Item, words: str, state: str | None) -> None:
    names = {"w": "Ops", "lead": "Lead", "crew": "Crew"}
    line, found = describe_event(name, "" if name == "PEOPLE_CHANGED" else "w", payload, names.get)
    said_words = " ".join(each for each in (line.actor, line.verb, line.target) if each)
    assert (f"{said_words}: {line.text}" if line.text else said_words, found) == (words, state)


def test_buckets_are_round_and_not_too_many() -> None:
    for most, length in ((1, 10), (48, 3_600), (48, 86_400 * 30), (200, 86_400 * 3_000)):
        end = 1_790_000_000 * 1_000_000
        times = [end - number * length * 10_000 for number in range(100)]
        counted = count_by_time(times, None, end, most)
        assert sum(each.count for each in counted.buckets) == 100
        assert 1 <= len(counted.buckets) <= most + 1
    assert count_by_time([], None, 10, 48).buckets == []
