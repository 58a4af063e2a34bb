"""Files between people and agents: told in order, given to whom they are for, forgotten when nobody mentions them."""

from pathlib import Path
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from testing.callers import UNKNOWN, cast_of
from testing.clocks import FakeClock, SeededRandomness
from testing.engines import Engine
from testing.raw_http import Reply, ask
from testing.running_server import ADMIN_TOKEN, Running, running
from testing.upload_forms import id_of, mention, on_disk, place_of, upload, uploaded
from testing.waits import eventually
from tests.polling_agent import PollingAgent
from tests.requirements import requirement

DAY = 86_400
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
DEMANDED = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
}


async def get(server: Running, path: str, token: str) -> Reply:
    """Reads a path."""
    return await ask(server.port, "GET", path, token=token)


@requirement("M35", "M11")
async def test_a_polling_agent_is_told_of_files_before_the_message_that_mentions_them(server: Running) -> None:
    seat = await server.seat("Ops")
    files = await uploaded(server, seat.id, ADMIN_TOKEN, ("a.png", PNG, "image/png"), ("empty.txt", b""))
    assert [each["uri"] for each in files] == [f"platform-pending:{seat.id}/{id_of(each)}" for each in files]
    assert (await mention(server, seat, ADMIN_TOKEN, "look", *files)).status == 200

    rows = await seat.api.claim(seat.id)
    assert [row["kind"] for row in rows] == ["chat_upload_receive", "chat_upload_receive", "canvas_user"]
    assert [row["method"] for row in rows[:2]] == ["chat_upload_receive"] * 2
    assert {row["activity_type"] for row in rows} == {"a2a_receive"}
    assert [row["seq"] for row in rows] == [1, 2, 3]
    for row, file, content in zip(rows, files, (PNG, b""), strict=False):
        assert row["request_body"]["file_id"] == id_of(file)
        assert {name: row["request_body"][name] for name in file} == file
        taken = await get(server, f"/workspaces/{seat.id}/pending-uploads/{id_of(file)}/content", seat.token)
        assert (taken.status, taken.body) == (200, content)


@requirement("M35")
async def test_taking_a_file_can_be_said_twice_and_takes_nothing_away(server: Running) -> None:
    seat = await server.seat("Ops")
    (file,) = await uploaded(server, seat.id, ADMIN_TOKEN, ("a.txt", b"hello"))
    pending = f"/workspaces/{seat.id}/pending-uploads/{id_of(file)}"
    for _ in range(2):
        assert (await seat.api.post(f"{pending}/ack")) == {"acked": True}
        assert (await get(server, f"{pending}/content", seat.token)).body == b"hello"
    assert (await get(server, place_of(file), ADMIN_TOKEN)).body == b"hello"
    gone = await ask(server.port, "POST", f"/workspaces/{seat.id}/pending-uploads/{UNKNOWN}/ack", token=seat.token)
    assert (gone.status, gone.json["code"]) == (404, "not_found")


@requirement("M35")
async def test_a_file_that_nobody_took_is_still_there_after_a_restart(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path) as server:
        seat = await server.seat("Ops")
        (file,) = await uploaded(server, seat.id, ADMIN_TOKEN, ("a.txt", b"hello"))
    async with running(engine, place, tmp_path) as server:
        taken = await get(server, f"/workspaces/{seat.id}/pending-uploads/{id_of(file)}/content", seat.token)
        assert taken.body == b"hello"
        (row,) = await server.api(seat.token).claim(seat.id)
        assert row["request_body"]["file_id"] == id_of(file)


@requirement("M35", "M17")
@pytest.mark.parametrize(("include", "shown"), [("attachments", True), ("peer_info", True), ("instructions", False)])
async def test_a_row_shows_its_files_to_who_asks_for_them(server: Running, include: str, shown: bool) -> None:
    seat = await server.seat("Ops")
    (file,) = await uploaded(server, seat.id, ADMIN_TOKEN, ("a.png", PNG, "image/png"))
    elsewhere = {"uri": "https://files.example/x", "name": "../x\u202ey", "size": "large", "mimeType": 3}
    await mention(server, seat, ADMIN_TOKEN, "look", {"uri": file["uri"], "name": "lies.exe"}, elsewhere)

    newest = (await seat.api.get(f"/workspaces/{seat.id}/activity", include=include))[0]

    ours = {"kind": "file", "uri": file["uri"], "name": "a.png", "mime_type": "image/png", "size": len(PNG)}
    theirs = {"kind": "file", "uri": "https://files.example/x", "name": "xy"}
    assert newest.get("attachments") == ([ours, theirs] if shown else None)


@requirement("M35")
async def test_an_agent_sends_its_user_a_file(server: Running) -> None:
    seat, viewer = await server.seat("Ops"), await server.person("viewer")
    (file,) = await uploaded(server, seat.id, seat.token, ("report.pdf", b"%PDF", "application/pdf"))
    assert file["uri"] == f"/workspaces/{seat.id}/files/{id_of(file)}"
    assert await seat.api.claim(seat.id, wait=0) == []
    await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "here", "attachments": [file]})

    page = await viewer.get(f"/workspaces/{seat.id}/chat-history")
    told = {"kind": "file", "uri": file["uri"], "name": "report.pdf", "mime_type": "application/pdf", "size": 4}
    assert page["messages"][0]["attachments"] == [told]
    got = await get(server, file["uri"], ADMIN_TOKEN)
    assert (got.status, got.body, got.headers["content-type"]) == (200, b"%PDF", "application/octet-stream")
    assert got.headers["content-disposition"] == "attachment; filename=\"report.pdf\"; filename*=UTF-8''report.pdf"
    assert {name: got.headers[name] for name in DEMANDED} == DEMANDED


@requirement("M35", "S16")
async def test_a_peer_reads_a_file_once_a_message_has_brought_it(server: Running) -> None:
    lead = await server.seat("Lead")
    one, other, third = [await server.seat(name, parent_id=lead.id) for name in ("One", "Other", "Third")]
    (file,) = await uploaded(server, one.id, one.token, ("a.txt", b"hello"))
    assert (await get(server, file["uri"], other.token)).status == 404

    assert (await mention(server, other, one.token, "for you", file)).status == 200

    assert (await get(server, file["uri"], other.token)).body == b"hello"
    unknown = await get(server, f"/workspaces/{one.id}/files/{UNKNOWN}", third.token)
    refused = await get(server, file["uri"], third.token)
    assert (refused.status, refused.body) == (unknown.status, unknown.body) == (404, unknown.body)
    assert (await mention(server, third, other.token, "passed on", file)).status == 200
    assert (await get(server, file["uri"], third.token)).body == b"hello"


@requirement("M35")
async def test_a_peer_sends_files_into_an_inbox_and_only_where_it_may_talk(server: Running) -> None:
    cast = await cast_of(server)
    await cast.own.api.claim(cast.own.id)  # the mail that the cast brings with it
    (file,) = await uploaded(server, cast.own.id, cast.peer.token, ("a.txt", b"hello"))
    (row,) = await cast.own.api.claim(cast.own.id)
    assert (row["kind"], row["source_id"], row["request_body"]["params"]["metadata"]) == (
        "chat_upload_receive",
        cast.peer.id,
        {},
    )
    assert (await mention(server, cast.own, cast.peer.token, "see", file)).status == 200
    assert (await get(server, place_of(file), cast.peer.token)).body == b"hello"
    refused = await upload(server, cast.own.id, cast.far.token, ("a.txt", b"hello"))
    assert (refused.status, refused.json["code"]) == (403, "may_not_talk")
    assert len(on_disk(server)) == 1


@requirement("S8", "S16")
async def test_files_of_another_organisation_answer_byte_for_byte_like_unknown_ones(server: Running) -> None:
    cast = await cast_of(server)
    (file,) = await uploaded(server, cast.own.id, ADMIN_TOKEN, ("a.txt", b"hello"))
    for name, where in (("stranger", cast.foreign), ("foreign", cast.foreign)):
        token = cast.credentials[name].token or ""
        for tail in ("", "/preview"):
            theirs = await get(server, f"/workspaces/{cast.own.id}/files/{id_of(file)}{tail}", token)
            unknown = await get(server, f"/workspaces/{UNKNOWN}/files/{id_of(file)}{tail}", token)
            assert (theirs.status, theirs.body) == (unknown.status, unknown.body) == (404, unknown.body)
            theirs = await get(server, f"/workspaces/{where.id}/files/{id_of(file)}{tail}", token)
            unknown = await get(server, f"/workspaces/{where.id}/files/{UNKNOWN}{tail}", token)
            assert (theirs.status, theirs.body) == (unknown.status, unknown.body) == (404, unknown.body)


@requirement("M35", "S16")
async def test_a_message_mentions_only_files_that_its_sender_can_see(server: Running) -> None:
    cast = await cast_of(server)
    (file,) = await uploaded(server, cast.own.id, cast.own.token, ("a.txt", b"hello"))
    (theirs,) = await uploaded(server, cast.foreign.id, cast.foreign.token, ("b.txt", b"hello"))
    wrong = (
        f"platform-pending:{cast.own.id}/{UNKNOWN}",
        f"/workspaces/{cast.own.id}/files/{UNKNOWN}",
        f"/workspaces/{cast.peer.id}/files/{id_of(file)}",
        theirs["uri"],
        file["uri"],
    )
    for uri in wrong:
        refused = await mention(server, cast.own, cast.peer.token, "see", {"uri": uri})
        assert (refused.status, uri in refused.body.decode()) == (400, True), uri
        assert "Upload it first." in refused.json["error"]["message"]
    told = {"message": "see", "attachments": [{"uri": wrong[0]}]}
    notified = await ask(server.port, "POST", f"/workspaces/{cast.own.id}/notify", told, token=cast.own.token)
    assert (notified.status, notified.json["code"]) == (400, "invalid_message")
    mail = await cast.own.api.claim(cast.own.id)
    assert [row["source_id"] for row in mail if row["source_id"] == cast.peer.id] == []


@requirement("M35")
async def test_an_address_elsewhere_stays_data_and_a_whole_address_of_ours_gives_access(server: Running) -> None:
    one, other = await server.seat("One"), await server.seat("Other")
    (file,) = await uploaded(server, one.id, one.token, ("a.txt", b"hello"))
    foreign = {"uri": f"https://other.example/workspaces/{one.id}/files/{UNKNOWN}", "name": "x\u202ey"}
    whole = {"uri": server.url + file["uri"], "name": "y"}

    assert (await mention(server, other, one.token, "see", foreign, whole)).status == 200

    (row,) = await other.api.claim(other.id)
    parts = row["request_body"]["params"]["message"]["parts"]
    assert parts[1]["file"] == {**foreign, "name": "xy"}
    assert parts[2]["file"] == {**whole, "name": "a.txt", "mimeType": "text/plain", "size": 5}
    assert (await get(server, file["uri"], other.token)).body == b"hello"


@requirement("M13", "M35")
async def test_a_message_with_files_that_is_sent_again_is_one_message(server: Running) -> None:
    seat = await server.seat("Ops")
    (file,) = await uploaded(server, seat.id, ADMIN_TOKEN, ("a.txt", b"hello"))
    renamed = {**file, "name": "another name"}
    replies = [await mention(server, seat, ADMIN_TOKEN, "see", renamed, renamed, message_id="m1") for _ in range(2)]
    assert replies[0].json == replies[1].json
    assert len(await seat.api.claim(seat.id)) == 2


@requirement("M35")
@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0JFIF", "image/jpeg"),
        (b"GIF89a....", "image/gif"),
        (b"RIFF\n\n\n\nWEBPVP8 ", "image/webp"),
    ],
)
async def test_a_picture_is_shown_as_what_it_begins_like(server: Running, head: bytes, kind: str) -> None:
    seat = await server.seat("Ops")
    (file,) = await uploaded(server, seat.id, ADMIN_TOKEN, ("a.html", head, "text/html"))
    seen = await get(server, f"{place_of(file)}/preview", ADMIN_TOKEN)
    assert (seen.status, seen.body, seen.headers["content-type"]) == (200, head, kind)
    assert {name: seen.headers[name] for name in DEMANDED} == DEMANDED
    assert seen.headers["content-disposition"] == "inline"


@requirement("M35", "S19")
@pytest.mark.parametrize("content", [b"", b"<svg xmlns='x'><script>1</script></svg>", b"<html>", b"GIF87", b" \x89PNG"])
async def test_what_is_no_picture_has_no_preview_whatever_it_says_of_itself(server: Running, content: bytes) -> None:
    seat = await server.seat("Ops")
    (file,) = await uploaded(server, seat.id, ADMIN_TOKEN, ("a.png", content, "image/png"))
    seen = await get(server, f"{place_of(file)}/preview", ADMIN_TOKEN)
    assert (seen.status, seen.json["code"]) == (415, "no_preview")


@requirement("M35")
async def test_the_limits_are_told_to_everybody_who_is_somebody(server: Running) -> None:
    seat, viewer = await server.seat("Ops"), await server.person("viewer")
    told = await seat.api.get("/uploads/limits")
    limits = Limits()
    assert told == {
        "max_file_bytes": limits.attachment_bytes,
        "max_request_bytes": limits.upload_bytes,
        "max_attachments": limits.attachments,
        "keep_hours": limits.upload_hours,
    }
    assert await viewer.get("/uploads/limits") == told


@requirement("M35")
async def test_a_file_that_no_message_mentions_is_forgotten_after_a_day(poller: PollingAgent) -> None:
    server = poller.server
    kept, lost = await uploaded(server, poller.ops.id, ADMIN_TOKEN, ("kept", b"1"), ("lost", b"2"))
    await mention(server, poller.ops, ADMIN_TOKEN, "see", kept)
    await poller.clock.advance(DAY - 1)
    assert (await get(server, place_of(lost), ADMIN_TOKEN)).body == b"2"

    await poller.clock.advance(2)

    await _until_the_disk_holds(server, {id_of(kept)})
    assert (await get(server, place_of(lost), ADMIN_TOKEN)).status == 404
    assert (await mention(server, poller.ops, ADMIN_TOKEN, "see", lost)).status == 400
    await poller.clock.advance(30 * DAY)
    assert (await get(server, place_of(kept), ADMIN_TOKEN)).body == b"1"


@requirement("M35", "M37")
async def test_a_broadcast_brings_its_files_to_all_who_get_it(poller: PollingAgent) -> None:
    server = poller.server
    lead = await server.seat("Lead")
    child = await server.seat("Child", parent_id=lead.id)
    far = await server.seat("Far", parent_id=child.id)
    await server.let_broadcast(lead.id)
    (file,) = await uploaded(server, lead.id, lead.token, ("a.png", PNG, "image/png"))
    elsewhere = {"uri": "https://files.example/x", "name": "../x\u202ey"}
    said = {"message": "read", "attachments": [{"uri": file["uri"], "name": "lies.exe"}, elsewhere]}

    await lead.api.post(f"/workspaces/{lead.id}/broadcast", said)
    await poller.clock.advance(30 * DAY)

    ours = {"kind": "file", "uri": file["uri"], "name": "a.png", "mime_type": "image/png", "size": len(PNG)}
    theirs = {"kind": "file", "uri": "https://files.example/x", "name": "xy"}
    for seat in (lead, child, far):
        assert (await get(server, file["uri"], seat.token)).body == PNG
        (row,) = await seat.api.get(f"/workspaces/{seat.id}/activity", include="attachments")
        assert row["attachments"] == [ours, theirs]


@requirement("M35", "M37", "S16")
async def test_a_broadcast_of_a_file_that_its_sender_may_not_send_reaches_nobody(server: Running) -> None:
    lead = await server.seat("Lead")
    child = await server.seat("Child", parent_id=lead.id)
    await server.let_broadcast(lead.id)
    (private,) = await uploaded(server, child.id, child.token, ("a.txt", b"hello"))
    for uri in (private["uri"], f"/workspaces/{lead.id}/files/{UNKNOWN}"):
        said = {"message": "read", "attachments": [{"uri": uri}]}
        reply = await ask(server.port, "POST", f"/workspaces/{lead.id}/broadcast", said, token=lead.token)
        assert (reply.status, reply.json["code"]) == (400, "invalid_message")
    assert [await seat.api.get(f"/workspaces/{seat.id}/activity") for seat in (lead, child)] == [[], []]
    await lead.api.post(f"/workspaces/{lead.id}/broadcast", {"message": "never mind"})
    assert [row["seq"] for row in await child.api.claim(child.id)] == [1]


async def _until_the_disk_holds(server: Running, names: set[str]) -> None:
    async def look() -> set[str]:
        await checkpoint()
        return on_disk(server)

    await eventually(look, lambda found: found == names)


async def _names_in(folder: Path) -> set[str]:
    await checkpoint()
    return {each.name for each in folder.iterdir()}


@requirement("M35", "P1")
async def test_what_a_crash_left_without_a_row_is_moved_aside_and_deleted_a_day_later(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    """Where several servers share a folder, what is younger than a day may be an upload that another one receives."""
    ids = IdGenerator(clock, SeededRandomness(7))
    async with running(engine, place, tmp_path, clock=clock) as server:
        seat = await server.seat("Ops")
        (file,) = await uploaded(server, seat.id, ADMIN_TOKEN, ("a.txt", b"hello"))
        folder = server.server.settings.files_folder
        old, half = ids.new(), ids.new()
        (folder / old).write_bytes(b"no row")
        (folder / f"{half}.part").write_bytes(b"no end")
        (folder / "notes.txt").write_bytes(b"of the operator")
    stays, left, removed = {id_of(file), "notes.txt"}, {old, f"{half}.part"}, folder / "removed"
    await clock.advance(1)
    async with running(engine, place, tmp_path, clock=clock) as server:
        assert on_disk(server) == (stays | left if engine == "postgres" else stays | {"removed"})
        assert engine == "postgres" or {each.name for each in removed.iterdir()} == left
    await clock.advance(2 * DAY)
    async with running(engine, place, tmp_path, clock=clock) as server:
        await _until_the_disk_holds(server, {"notes.txt", "removed"})
        if engine == "postgres":  # moved only now
            assert {each.name for each in removed.iterdir()} == left
            await clock.advance(DAY + 2 * 3600)
        await eventually(lambda: _names_in(removed), lambda found: found == set())


@requirement("M35")
async def test_files_for_a_full_inbox_are_refused_and_nothing_of_them_stays(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=Limits(inbox_unhandled=2)) as server:
        seat = await server.seat("Ops")
        refused = await upload(server, seat.id, ADMIN_TOKEN, *((f"{n}", b"x") for n in range(3)))
        assert (refused.status, refused.json["code"]) == (429, "inbox_full")
        assert on_disk(server) == set()
        assert len(await uploaded(server, seat.id, ADMIN_TOKEN, ("a", b"1"), ("b", b"2"))) == 2
        rows: list[dict[str, Any]] = await seat.api.claim(seat.id)
        assert [row["seq"] for row in rows] == [1, 2]


@requirement("M35", "M3")
async def test_a_removed_workspace_takes_and_gives_no_files(server: Running) -> None:
    seat = await server.seat("Ops")
    (file,) = await uploaded(server, seat.id, ADMIN_TOKEN, ("a.txt", b"hello"))
    await server.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true"})
    assert (await upload(server, seat.id, ADMIN_TOKEN, ("a.txt", b"hello"))).status == 410
    assert (await get(server, place_of(file), seat.token)).status == 410
