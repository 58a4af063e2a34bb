"""Shared context and told prompts over the wire: who reads what, what is refused, what is told, what is kept."""

from pathlib import Path
from typing import Any

from molecule_core.common.clock import to_rfc3339
from molecule_core.common.limits import Limits
from molecule_core.wire.schemas.prompts import hash_text
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import channel
from testing.running_server import UNHURRIED, Running, Seat, running
from testing.waits import refused
from testing.workspaces import remove
from tests.messages.test_retention import Ground
from tests.requirements import requirement

UNREAL = ("", "/etc/passwd", "../up.md", "a/../b", "a//b", "./a", "a\\b", "C:/x", "~/x", "a\nb", "a\u202eb", "a" * 201)


async def share(seat: Seat, *files: tuple[str, str]) -> Any:
    """A workspace shares files."""
    body = [{"path": path, "content": content} for path, content in files]
    return await seat.api.call("PUT", f"/workspaces/{seat.id}/shared-context", body=body)


def section(part: int, title: str, text: str, **more: Any) -> dict[str, Any]:
    """A section of a prompt."""
    size = {"bytes": len(text.encode()), "tokens": 1, "hash": hash_text(text)}
    return {"part": part, "kind": "k", "title": title, "source": f"file:{title}", "text": text, **size, **more}


def build(*sections: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A prompt."""
    whole = hash_text("".join(each["text"] for each in sections))
    trigger = {"kind": "start", "detail": ""}
    return {"sections": sections, "trigger": trigger, "hash": whole, "tokens": len(sections), "budget": 100, **more}


async def tell(seat: Seat, told: dict[str, Any]) -> Any:
    """An agent tells its prompt."""
    return await seat.api.call("PUT", f"/workspaces/{seat.id}/prompt", body=told)


@requirement("SP4")
async def test_what_is_shared_is_read_by_direct_children_people_and_oneself_alone(server: Running) -> None:
    lead, beside = await server.seat("Lead"), await server.seat("Beside")
    child = await server.seat("Child", parent_id=lead.id)
    below = await server.seat("Below", parent_id=child.id)
    path, viewer = f"/workspaces/{lead.id}/shared-context", await server.person("viewer")
    stranger = await server.person("owner", await server.org("Elsewhere"))

    assert (await child.api.get(path)) == {"workspace_id": lead.id, "revision": 0, "files": []}
    shared = await share(lead, ("docs/plan.md", "Grün first"), ("b.md", ""))
    assert [(each["path"], each["content"], each["bytes"]) for each in shared["files"]] == [
        ("docs/plan.md", "Grün first", 11),
        ("b.md", "", 0),
    ]
    for reader in (child.api, lead.api, viewer, server.admin):
        assert await reader.get(path) == {**shared, "workspace_id": lead.id, "revision": 1}
    assert (await refused(beside.api.get(path))).code == "shared_with_children"
    assert (await refused(below.api.get(path))).code == "shared_with_children"
    assert (await refused(stranger.get(path))).code == "not_found"
    for writer in (child.api, beside.api, viewer, server.admin):
        assert (await refused(writer.call("PUT", path, body=[]))).status in (403, 404)
    # Who is moved away reads the new parent's files, and no longer the old one's.
    await server.admin.call("PATCH", f"/workspaces/{child.id}", body={"parent_id": beside.id})
    assert (await refused(child.api.get(path))).status == 403


@requirement("SP4")
async def test_hostile_paths_and_sizes_are_refused_and_leave_what_was_shared(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    limits = Limits(
        requests_per_minute=10**9, shared_files=2, shared_file_bytes=10, shared_context_bytes=15, prompt_sections=2
    )
    async with running(engine, place, tmp_path, limits=limits) as server:
        ops = await server.seat("Ops")
        await share(ops, ("a.md", "kept"))
        bad: list[list[tuple[str, str]]] = [
            *([(path, "")] for path in UNREAL),
            [("a", ""), ("b", ""), ("c", "")],
            [("a", "x" * 11)],
            [("a", "x" * 8), ("b", "x" * 8)],
            [("a", ""), ("A", "")],
        ]
        for files in bad:
            assert (await refused(share(ops, *files))).code == "invalid_field", files
        assert [each["content"] for each in (await share(ops, ("a.md", "kept")))["files"]] == ["kept"]
        assert (await ops.api.get(f"/workspaces/{ops.id}/shared-context"))["revision"] == 1
        fits = section(1, "a", "x")
        for told in (
            build(fits, fits, fits),
            build(section(2, "a", "x"), section(1, "b", "x")),
            build({**fits, "bytes": 2}),
            build({**fits, "part": 7}),
            {"sections": "x"},
        ):
            assert (await refused(tell(ops, told))).status == 422, told
        assert (await refused(ops.api.get(f"/workspaces/{ops.id}/prompt"))).code == "no_prompt_yet"


@requirement("SP4", "SP7")
async def test_children_and_people_hear_of_shared_files_and_nobody_else(server: Running) -> None:
    lead, beside = await server.seat("Lead"), await server.seat("Beside")
    child = await server.seat("Child", parent_id=lead.id)
    below = await server.seat("Below", parent_id=child.id)
    async with (
        channel(server, lead.token) as own,
        channel(server, child.token) as near,
        channel(server, below.token) as far,
        channel(server, beside.token) as side,
        channel(server) as people,
    ):
        await share(lead, ("a.md", "one"))
        await share(lead, ("a.md", "one"))
        await tell(lead, build(section(1, "a", "one")))
        for each in (own, near, people):
            event = await each.event("SHARED_CONTEXT_UPDATED")
            assert event["payload"] == {"revision": 1, "files": 1}
        for each in (own, people):
            event = await each.event()
            assert (event["event"], event["payload"]["revision"]) == ("PROMPT_BUILT", 1)
        await server.admin.call("PATCH", f"/workspaces/{child.id}", body={"role": "seen"})
        await server.admin.call("PATCH", f"/workspaces/{beside.id}", body={"role": "seen"})
        # What they hear next is what came behind it: nothing of it was for them.
        assert [(await each.event())["event"] for each in (near, far, side)] == ["WORKSPACE_UPDATED"] * 3
    # Who was away reads the same from the journal.
    async with channel(server, child.token) as near, channel(server, below.token) as far:
        for each, heard in ((near, True), (far, False)):
            await each.subscribe(after=0)
            await each.event("WORKSPACE_UPDATED")
            names = [frame.get("event") for frame in each.frames]
            assert ("SHARED_CONTEXT_UPDATED" in names, "PROMPT_BUILT" in names) == (heard, False)


@requirement("SP1", "SP7")
async def test_a_told_prompt_is_shown_with_what_differs_and_the_last_ones_are_kept(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits = Limits(requests_per_minute=10**9, prompt_builds=2, prompt_diff_lines=3, prompt_bytes=4000)
    async with running(engine, place, tmp_path, limits=limits, clock=clock) as server:
        ops, peer, person = await server.seat("Ops"), await server.seat("Peer"), await server.person("viewer")
        path = f"/workspaces/{ops.id}/prompt"
        first = build(section(1, "who", "You are\nOps"), section(5, "Peer", "can cook"))
        assert await tell(ops, first) == {"revision": 1, "hash": first["hash"], "status": "ok"}
        seen = await person.get(path)
        assert (seen["previous"], seen["diff"]) == (None, [])
        defaults: dict[str, Any] = {
            "warnings": [],
            "session_hash": None,
            "revision": 1,
            "built_at": to_rfc3339(clock.now()),
        }
        whole = [{**each, "shortened": None} for each in first["sections"]]
        assert seen["build"] == {**first, **defaults, "sections": whole}
        assert (await tell(ops, first))["revision"] == 1

        second = build(section(1, "who", "You are\nthe Ops"), section(6, "end", "a\nb"), session_hash="s1")
        assert (await tell(ops, second))["revision"] == 2
        seen = await ops.api.get(path)
        assert (seen["build"]["revision"], seen["previous"]["revision"]) == (2, 1)
        changes = [
            (each["title"], each["change"], [(x["kind"], x["text"]) for x in each["lines"]]) for each in seen["diff"]
        ]
        assert changes == [("who", "changed", [(" ", "You are"), ("-", "Ops"), ("+", "the Ops")])]

        assert (await refused(tell(ops, build(section(1, "big", "x" * 4000))))).code == "invalid_field"
        await tell(ops, build(section(1, "who", "3")))
        ground = Ground(server, clock, engine, place)
        assert await ground.seen("SELECT revision FROM prompt_builds ORDER BY revision") == [(2,), (3,)]
        for reader in (peer.api, server.api(None)):
            assert (await refused(reader.get(path))).status in (401, 403, 404)


async def test_a_first_prompt_may_have_an_empty_hash(server: Running) -> None:
    seat = await server.seat("Ops")

    assert (await tell(seat, build(hash="")))["revision"] == 1
    assert (await tell(seat, build(hash="")))["revision"] == 1
    assert (await seat.api.get(f"/workspaces/{seat.id}/prompt"))["build"]["hash"] == ""


@requirement("SP4", "M20")
async def test_what_was_shared_and_told_goes_some_time_after_its_workspace(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=UNHURRIED) as server:
        gone, stays = await server.seat("Gone"), await server.seat("Stays")
        for seat in (gone, stays):
            await share(seat, ("a", "b"))
            await tell(seat, build(section(1, "a", "b")))
        ground = Ground(server, clock, engine, place)
        await remove(server.admin, gone)
        assert (await refused(server.admin.get(f"/workspaces/{gone.id}/prompt"))).status == 410
        await clock.advance(86_400 * 400)
        await ground.round()
        for table in ("shared_contexts", "prompt_builds"):
            assert await ground.seen(f"SELECT workspace_id FROM {table}") == [(stays.id,)]  # noqa: S608
