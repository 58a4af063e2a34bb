"""Query strings and paths from strangers, on every route that is read with GET."""

import re
from typing import Any
from urllib.parse import quote

import pytest

from molecule_core.api.routing import RUNNER, WORKSPACE, Route
from molecule_core.wire.protocols.a2a_rpc import A2A_MEDIA_TYPE
from testing.raw_http import Reply, ask
from testing.running_server import ADMIN_TOKEN, Running, Seat
from tests.api.http.request_targets import BODYLESS, ELSEWHERE, json_targets
from tests.requirements import requirement

PATHS = ("activity", "activities", "chat-history")
NOT_NUMBERS = (
    "",
    "-1",
    "-0.5",
    "1.5",
    "1e3",
    "NaN",
    "Infinity",
    "0x10",
    "1,000",
    "one",
    "%00",
    "%zz",
    "9" * 20,
    "9" * 400,
)
HOSTILE = (
    *("", "%00", "a%00b", "%", "%zz", "%ff", "%ed%a0%80", "%c0%af", "%F4%90%80%80"),
    *("%E2%80%AE", "%F3%A0%81%81", "'", "%27%20OR%201=1--", "..%2f..%2fetc%2fpasswd", "%7B%7D", "a" * 5000),
    *(
        "-9223372036854775809",
        "9223372036854775808",
        "NaN",
        "0000-00-00",
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
    ),
)


async def _get(server: Running, target: str, token: str = ADMIN_TOKEN) -> Reply:
    # A search needs words; of a repeated parameter the last one counts.
    return await ask(server.port, "GET", target.replace("/search?", "/search?q=plum&"), token=token)


async def _wrote(seat: Seat, other: Seat, text: str) -> str:
    """The id of a row in a seat's inbox."""
    return str((await other.api.send(seat.id, text))["activity_id"])


async def _reads(server: Running) -> list[tuple[Route, str, str]]:
    """Every route that is read with GET and names no more than a seat, a thread or a chain: with its path, and a token
    that it takes."""
    seat, org = await server.seat(), (await server.admin.get("/orgs"))[0]["id"]
    thread = await seat.api.post(f"/workspaces/{seat.id}/threads", {"base_instructions": "Be kind."})
    names = {"{id}": seat.id, "{org_id}": org, "{thread_id}": thread["thread_id"], "{root_id}": seat.id}
    found = []
    for route in server.server.routes.routes:
        path = route.path
        for name, value in names.items():
            path = path.replace(name, value)
        if route.method == "GET" and route.status == 200 and "{" not in path and not path.endswith("/mcp"):
            found.append((route, path, seat.token if route.access.kinds == {WORKSPACE} else ADMIN_TOKEN))
    return found


@requirement("S14")
async def test_a_number_that_is_none_is_refused_by_its_name(server: Running) -> None:
    wrong: dict[str, Any] = {}
    reached = set()
    for route, path, token in await _reads(server):
        for name in [name for name, each in route.query.items() if each.schema["type"] == "integer"]:
            reached.add((route.path, name))
            for value in NOT_NUMBERS:
                reply = await _get(server, f"{path}?{name}={value}", token)
                if reply.status != 422 or name not in reply.error:
                    wrong[f"{path}?{name}={value[:20]}"] = (reply.status, reply.body)
    assert wrong == {}
    assert len(reached) > 20


@requirement("S14")
async def test_a_word_that_is_no_choice_is_refused_with_all_that_are(server: Running) -> None:
    wrong: dict[str, Any] = {}
    reached = set()
    for route, path, token in await _reads(server):
        for name, each in route.query.items():
            choices = each.schema.get("enum", ["true"])
            if "true" in choices:
                continue
            reached.add((route.path, name))
            reply = await _get(server, f"{path}?{name}=no-such", token)
            if reply.status != 422 or not all(choice in reply.error for choice in (name, *choices)):
                wrong[f"{path}?{name}"] = (reply.status, reply.body)
            for choice in choices:
                if (good := await _get(server, f"{path}?{name}={choice}", token)).status != 200:
                    wrong[f"{path}?{name}={choice}"] = (good.status, good.body)
    assert wrong == {}
    assert len(reached) > 8


@requirement("A3")
async def test_a_field_that_a_route_does_not_declare_is_not_read(server: Running) -> None:
    """What /openapi.json does not tell is not there: nobody relies on it by chance."""
    wrong = {}
    for route, path, token in await _reads(server):
        for name in {"limit", "before", "after", "state", "wait", "org_id"} - {*route.query}:
            if (reply := await _get(server, f"{path}?{name}=%00", token)).status not in (200, 404):
                wrong[f"{path}?{name}"] = (reply.status, reply.body)
    assert wrong == {}


@requirement("S14")
async def test_a_number_that_is_too_large_is_cut_to_what_is_allowed(server: Running) -> None:
    seat, other = await server.seat(), await server.seat()
    await _wrote(seat, other, "hello")
    for query in ("limit=9999999999999999999", "since_secs=9999999999999999999", "claim=9999999999999999999"):
        reply = await _get(server, f"/workspaces/{seat.id}/activity?{query}", seat.token)
        assert (reply.status, len(reply.json)) == (200, 1), query


@requirement("S14")
async def test_a_time_that_is_none_is_refused_with_one_that_is(server: Running) -> None:
    seat = await server.seat()
    for value in ("yesterday", "2026-11-21", "2026-11-21T22:41:07", "1795300867", "NaN", "2026-13-01T00:00:00Z", "%00"):
        for path in PATHS:
            reply = await _get(server, f"/workspaces/{seat.id}/{path}?before_ts={value}")
            assert (reply.status, "2026-11-21T22:41:07Z" in reply.error) == (422, True), (path, value)


@requirement("S14")
async def test_no_query_that_one_can_think_of_brings_a_mistake_of_ours(server: Running) -> None:
    wrong = {}
    for route, path, token in await _reads(server):
        for name in (*route.query, "undeclared"):
            for value in [each for each in HOSTILE if name != "wait" or not each.isdigit()]:
                reply = await _get(server, f"{path}?{name}={value}", token)
                is_empty_search = name == "q" and reply.status == 400 and reply.json["code"] == "empty_search"
                is_a2a_error = route.media_type == A2A_MEDIA_TYPE and reply.status == 400
                if reply.status not in (200, 404, 410, 422) and not is_empty_search and not is_a2a_error:
                    wrong[f"{route.path}?{name}={value[:30]}"] = (reply.status, reply.body[:200])
    assert wrong == {}


@requirement("S14", "S13")
async def test_an_id_in_a_path_may_be_any_text_and_is_just_unknown(server: Running) -> None:
    await server.seat()
    wrong = {}
    for route in [each for each in server.server.routes.routes if "{" in each.path and not each.catch_all]:
        for value in [each for each in HOSTILE if each]:
            path = route.path.replace("{id}", value).replace("{org_id}", value)
            body: Any = {} if route.method in ("POST", "PATCH") else None
            reply = await ask(server.port, route.method, path, body, token=ADMIN_TOKEN)
            if reply.status not in (400, 404, 422) and not (reply.status == 403 and ADMIN_ONLY_REFUSES in reply.error):
                wrong[f"{route.method} {path[:60]}"] = (reply.status, reply.body[:200])
    assert wrong == {}


@requirement("S14", "S13")
async def test_what_a_path_names_behind_its_seat_may_hold_a_nul_and_is_just_unknown(server: Running) -> None:
    targets = await json_targets(server)
    bodies = {target.name: target.valid() for target in targets}
    seat, talk = targets[0].seat, next(iter(targets[0].done.talks.values()))
    names = {"id": seat.id, "org_id": (await server.admin.get("/orgs"))[0]["id"]}
    names |= {"person_id": next(iter(await server.admin.get(f"/orgs/{names['org_id']}/people")))["id"]}
    names |= {"thread_id": talk.id, "turn_id": talk.turn}
    runner = await server.admin.post(f"/orgs/{names['org_id']}/runners", {"name": "Desk"})
    names |= {"runner_id": runner["id"]}
    tokens = {WORKSPACE: seat.token, RUNNER: runner["token"]}
    wrong, reached = {}, set()
    for route in server.server.routes.routes:
        token = next((tokens[kind] for kind in tokens if kind in route.access.kinds), ADMIN_TOKEN)
        body = bodies.get(f"{route.method} {route.path}", LEAST.get(route.path, {}))
        for name in set(re.findall(r"\{(\w+)\}", route.path)) - {"id", "org_id", "path"}:
            reached.add(name)
            for value in ("%00", "a%00b"):
                path = route.path.format_map({**dict.fromkeys(PLACES, "a"), **names, name: value})
                sent = None if route.method in ("GET", "DELETE") else body
                reply = await ask(server.port, route.method, path, sent, token=token)
                if reply.status != (422 if route.method == "PUT" else 404):  # to be made under that name, or looked up
                    wrong[f"{route.method} {path}"] = (reply.status, reply.body[:200])
    assert wrong == {}
    assert reached == {*PLACES}


PLACES = (
    *("activity_id", "queue_id", "file_id", "delegation_id", "approval_id", "thread_id", "turn_id", "root_id"),
    *("template_id", "person_id", "peer_id", "token_id", "invitation_id", "memory_id", "key"),
    *("runner_id", "request_id", "client_id", "grant_id", "task_id", "config_id", "workspace_id", "budget_id"),
    "schedule_id",
)
"""All that paths name beside seats, organisations and the files of the canvas, which are in no store."""
LEAST: dict[str, dict[str, Any]] = {
    "/orgs/{org_id}/instruction-templates/{template_id}/canary": {"version": 1, "percent": 10},
    "/runner/requests/{request_id}/confirm": {"status": "done"},
    "/workspaces/{id}/approvals/{approval_id}/answer": {"text": "yes"},
    "/workspaces/{id}/approvals/{approval_id}/use": {"action_hash": "h"},
}
ADMIN_ONLY_REFUSES = "does not accept a admin credential"


@requirement("S14")
@pytest.mark.parametrize("query", ["a=%ff", "%ff=1", "a=%ed%a0%80", "a=%c0%af"])
async def test_a_query_that_is_not_utf_8_is_refused_with_what_to_do(server: Running, query: str) -> None:
    seat = await server.seat()
    reply = await _get(server, f"/workspaces/{seat.id}/activity?{query}")
    assert (reply.status, "Encode it as UTF-8 with percent signs." in reply.error) == (422, True)


@requirement("S14")
async def test_a_query_of_too_many_fields_is_refused(server: Running) -> None:
    seat = await server.seat()
    few, many = "&".join(["a=1"] * 50), "&".join(["a=1"] * 51)
    statuses = [(await _get(server, f"/workspaces/{seat.id}/activity?{each}")).status for each in (few, many)]
    assert statuses == [200, 422]


@requirement("S14")
async def test_a_huge_query_is_refused_as_headers_that_are_too_large(plain: Running) -> None:
    reply = await _get(plain, "/health?" + "a" * (1 << 20))
    assert (reply.status, reply.json["code"]) == (431, "headers_too_large")
    assert (await _get(plain, "/health?" + "a" * 30_000)).status == 200


@requirement("S13")
async def test_a_changed_cursor_never_shows_a_row_of_somebody_else(server: Running) -> None:
    own, peer = await server.seat("Own"), await server.seat("Peer")
    foreign = await server.seat("Foreign", org_id=await server.org("Elsewhere"))
    mine = [await _wrote(own, peer, f"for own {n}") for n in range(3)]
    theirs = [await _wrote(peer, own, "for the peer"), (await server.admin.send(foreign.id, "foreign"))["activity_id"]]
    cursors = {
        quote(each[:i] + c + each[i + 1 :]) for each in (mine[0], *theirs) for i in range(len(each)) for c in "0f-\x00"
    }
    cursors |= {each[:-1] for each in mine} | {each + "0" for each in mine} | {"", "0", "-1", "1", "2", own.id, *theirs}
    seen: dict[str, Any] = {}
    for cursor in sorted(cursors - {*mine}):
        for target in (f"activity?since_id={cursor}", f"chat-history?after={cursor}"):
            reply = await _get(server, f"/workspaces/{own.id}/{target}", own.token)
            rows = str(reply.json) if reply.status == 200 else ""
            if reply.status not in (200, 410, 422) or "for the peer" in rows or "foreign" in rows:
                seen[target] = (reply.status, reply.body[:200])
    assert seen == {}
    after = await own.api.get(f"/workspaces/{own.id}/activity", since_id=mine[0])
    assert [row["id"] for row in after if row["activity_type"] == "a2a_receive"] == mine[1:]


@requirement("S13")
async def test_another_organisations_cursor_answers_like_one_that_was_never_issued(server: Running) -> None:
    own, foreign = await server.seat(), await server.seat("Foreign", org_id=await server.org("Elsewhere"))
    there = (await server.admin.send(foreign.id, "secret"))["activity_id"]
    unknown = there[:-1] + ("0" if there[-1] != "0" else "1")
    for target in ("activity?since_id=", "activity?claim=5&since_id=", "chat-history?after="):
        replies = [await _get(server, f"/workspaces/{own.id}/{target}{each}", own.token) for each in (there, unknown)]
        assert replies[0] == replies[1]


async def test_the_targets_of_these_tests_are_all_routes_with_a_body(plain: Running) -> None:
    names = {target.name for target in await json_targets(plain)}
    rows = plain.server.routes.routes
    writing = [row for row in rows if row.method in ("POST", "PATCH", "PUT") and row.path not in BODYLESS]
    assert names == {f"{row.method} {row.path}" for row in writing if row.path not in ELSEWHERE}
