"""Templates of instructions over the wire: seeded, edited, tried, restored, chosen for a workspace, and by whom."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from molecule_core.common.limits import Limits
from molecule_core.instructions import builtin_templates
from molecule_core.instructions.model import (
    ActiveVersion,
    AgentProfile,
    MessageContext,
    Template,
    TemplateContent,
    TemplateVersionRef,
    Verbosity,
)
from testing.engines import Engine
from testing.running_server import Running, running
from testing.waits import eventually, refused
from tests.instructions.template_requests import TERSE, Office, office_of
from tests.requirements import requirement

DEFAULTS = ["claude-code-default", "codex-default", "generic-mcp-default"]


@pytest.fixture
async def office(server: Running) -> Office:
    """On each engine."""
    return await office_of(server)


@requirement("I5")
async def test_a_new_server_has_the_three_templates(office: Office) -> None:
    rows = await office.owner.get(office.every)
    assert [row["template"]["id"] for row in rows] == DEFAULTS
    assert {(row["template"]["built_in"], row["edited"], row["canary"], row["percent"]) for row in rows} == {
        (True, False, None, 0)
    }
    assert [row["default_for"] for row in rows] == [1, 0, 0]


@requirement("I5", "I12")
async def test_edits_outlive_a_restart_and_are_never_overwritten(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path) as server:
        office = await office_of(server)
        base = (await office.row("codex-default"))["template"]["parts"]
        saved = await office.save("codex-default", {**base, "lines": ["Ours."]}, note="first try")
        assert (saved["template"]["version"], saved["template"]["extends"]) == (
            builtin_templates.BUILT_IN_VERSION + 1,
            None,
        )
        await office.save("terse", TERSE)
        seat_id = office.seat.id
    for _ in range(2):
        async with running(engine, place, tmp_path) as server:
            org_id = server.server.registry.orgs()[0].id
            rows = await server.admin.get(f"/orgs/{org_id}/instruction-templates")
            found = {row["template"]["id"]: (row["template"]["version"], row["edited"]) for row in rows}
            assert found == {
                "claude-code-default": (builtin_templates.BUILT_IN_VERSION, False),
                "codex-default": (builtin_templates.BUILT_IN_VERSION + 1, True),
                "generic-mcp-default": (builtin_templates.BUILT_IN_VERSION, False),
                "terse": (1, False),
            }
            versions = await server.admin.get(f"/orgs/{org_id}/instruction-templates/codex-default/versions")
            assert [(each["version"], each["built_in"], each["note"]) for each in versions] == [
                (builtin_templates.BUILT_IN_VERSION + 1, False, "first try"),
                (builtin_templates.BUILT_IN_VERSION, True, None),
            ]
            wish = {"workspace_id": seat_id, "template_id": "codex-default"}
            told = await server.admin.post(f"/orgs/{org_id}/instruction-templates/preview", wish)
            assert "Ours." in told["text"]


@requirement("I5", "G20")
async def test_a_store_with_older_words_gets_the_newer_beside_them_and_an_organisation_keeps_its_own(
    engine: Engine, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def older(at: int) -> Iterator[Template]:
        for each in builtin_templates.iter_builtin_templates(at):
            yield replace(
                each, version=1, parts=TemplateContent(blocks={"reply": "As before.", "compact": "As before."})
            )

    with monkeypatch.context() as then:
        then.setattr("molecule_core.instructions.writer.iter_builtin_templates", older)
        async with running(engine, place, tmp_path) as server:
            office = await office_of(server)
            program = await server.seat("Script", runtime="claude-code")
            card = {"name": "Script", "loaded_mcp_tools": [], "bridge": "command"}
            await program.api.post("/registry/register", {"id": program.id, "agent_card": card})
            await office.save("codex-default", {"blocks": {"reply": "Ours.", "compact": "Ours."}}, extends=None)
            assert (await office.preview(workspace_id=program.id))["text"] == "As before."
    async with running(engine, place, tmp_path) as server:
        org_id = server.server.registry.orgs()[0].id
        path = f"/orgs/{org_id}/instruction-templates"
        assert {row["template"]["id"]: row["edited"] for row in await server.admin.get(path)} == {
            "claude-code-default": False,
            "codex-default": True,
            "generic-mcp-default": False,
        }
        versions = await server.admin.get(f"{path}/claude-code-default/versions")
        assert [each["version"] for each in versions] == [builtin_templates.BUILT_IN_VERSION, 1]
        told = await server.admin.post(f"{path}/preview", {"workspace_id": program.id})
        assert told["template"] == f"claude-code-default@{builtin_templates.BUILT_IN_VERSION}"
        assert "`molecule reply m17-k3f9q`" in told["text"] and "is sent as your answer" in told["text"]
        ours = await server.admin.post(f"{path}/preview", {"workspace_id": program.id, "template_id": "codex-default"})
        assert (ours["template"], ours["text"]) == ("codex-default@2", "Ours.")


@requirement("I5")
async def test_another_organisation_has_the_originals(office: Office) -> None:
    await office.save("claude-code-default", {"blocks": {"reply": "ours", "compact": "ours"}}, extends=None)
    other = await office.server.org("Other")
    rows = await office.server.admin.get(f"/orgs/{other}/instruction-templates")
    assert [(row["template"]["id"], row["template"]["version"]) for row in rows] == [
        (each, builtin_templates.BUILT_IN_VERSION) for each in DEFAULTS
    ]
    assert (await refused(office.owner.get(f"/orgs/{other}/instruction-templates"))).code == "not_found"


@requirement("I7", "I12")
async def test_a_template_is_in_force_with_the_next_message(office: Office) -> None:
    before = await office.preview()
    assert before["template"] == f"claude-code-default@{builtin_templates.BUILT_IN_VERSION}"
    await office.save("terse", TERSE)
    assert await office.preview() == before
    chosen = await office.owner.post(office.of_seat, {"template_id": "terse"})
    assert (chosen["chosen"], chosen["template"]["version"], chosen["inline_template"]) == ("terse", 1, None)
    after = await office.preview()
    assert after["template"] == "terse@1"
    assert "Be brief: canvas_user." in after["text"]
    await office.save("terse", {"lines": ["Be very brief."]})
    assert (await office.preview())["template"] == "terse@2"


@requirement("I7")
async def test_a_workspace_is_told_with_a_text_of_its_own_and_later_with_none(office: Office) -> None:
    text = "Escalate to {{ reply_tool }}, {kind}."
    said = await office.owner.post(office.of_seat, {"inline_template": text})
    assert said["chosen"] == f"workspace:{office.seat.id}"
    assert said["inline_template"] == text
    assert len(said["warnings"]) == 1 and "{kind} is plain text" in said["warnings"][0]
    told = await office.preview()
    assert "Escalate to mcp__molecule__reply_to_workspace, {kind}." in told["text"]
    assert told["text"].startswith("This Molecule message is from the user")
    workspace = await office.server.admin.get(f"/workspaces/{office.seat.id}")
    assert workspace["instruction_template_id"] == f"workspace:{office.seat.id}"
    await office.owner.post(office.of_seat, {"inline_template": {"blocks": {"silence": "Be loud."}}})
    assert "Be loud." in (await office.preview())["text"]
    assert (await office.owner.get(office.of_seat))["inline_template"] is None
    gone = await office.owner.call("DELETE", office.of_seat)
    assert (gone["chosen"], gone["template"]["id"]) == (None, "claude-code-default")
    assert [row["template"]["id"] for row in await office.owner.get(office.every)] == DEFAULTS
    assert (await office.owner.call("DELETE", office.of_seat))["chosen"] is None


@requirement("I6", "I7")
async def test_an_inline_template_follows_its_workspaces_runtime(office: Office) -> None:
    await office.owner.post(office.of_seat, {"inline_template": "Ours."})
    await office.server.admin.call("PATCH", f"/workspaces/{office.seat.id}", body={"runtime": "codex"})
    told = await office.preview()
    assert "Ours." in told["text"] and "final message of your turn" in told["text"]


@requirement("I5", "M15")
async def test_only_a_living_workspace_of_the_organisation_has_a_template_of_its_own(office: Office) -> None:
    other = await office.server.org("Other")
    foreign = await office.server.seat("Foreign", org_id=other)
    gone = await office.server.seat("Gone")
    await office.server.admin.call("DELETE", f"/workspaces/{gone.id}", query={"confirm": "true"})
    for id_ in (foreign.id, gone.id, "", "nobody"):
        refusal = await refused(office.save(f"workspace:{id_}", {"lines": ["x"]}))
        assert refusal.code == "invalid_field", id_
    saved = await office.save(f"workspace:{office.seat.id}", {"lines": ["x"]})
    assert saved["template"]["version"] == 1


@requirement("I7")
async def test_exactly_one_kind_of_template_is_taken_for_a_workspace(office: Office) -> None:
    for body in ({}, {"template_id": None}, {"template_id": "terse", "inline_template": "x"}):
        refusal = await refused(office.owner.post(office.of_seat, body))
        assert (refusal.status, refusal.code) == (400, "not_one_template")
    unknown = await refused(office.owner.post(office.of_seat, {"template_id": "nobody"}))
    assert (unknown.status, unknown.code) == (404, "not_found")
    nowhere = f"/cp/admin/workspace/{'0' * 8}-0000-4000-8000-{'0' * 12}/instruction-template"
    assert (await refused(office.owner.post(nowhere, {"template_id": "codex-default"}))).status == 404
    assert (await refused(office.owner.post(office.of_seat, {"inline_template": " \n"}))).status == 422


@requirement("I7", "I11")
async def test_what_does_not_compile_is_refused_with_part_line_and_reason_and_nothing_changes(office: Office) -> None:
    refusal = await refused(office.owner.post(office.of_seat, {"inline_template": "fine\n{{ kind.upper() }}"}))
    assert (refusal.status, refusal.code) == (422, "invalid_template")
    assert (refusal.problem["part"], refusal.problem["line"]) == ("lines[0]", 2)
    assert "'.upper() '" in refusal.problem["reason"] and "not part of the language" in refusal.problem["reason"]
    for parts in (
        {"blocks": {"reply": "{% for x in kind %}{% endfor %}"}},
        {"blocks": {"unknown": "x"}},
        {"reply_tool": "rm -rf"},
        {"tools": ["a b"]},
        {"tools": [f"tool_{number}" for number in range(65)]},
        {"lines": ["x"] * 51},
        {"docs_url": "javascript:alert(1)"},
        {"docs_url": "//elsewhere.example"},
        {"stdout_warning": "two\nlines"},
        {"lines": ["{% for x in attachments %}" + "y" * 2000 + "{% endfor %}"]},
    ):
        assert (await refused(office.save("bad", parts))).code == "invalid_template", parts
    assert (await refused(office.save("bad", {"unknown": 1}))).code == "invalid_field"
    assert [row["template"]["id"] for row in await office.owner.get(office.every)] == DEFAULTS


@requirement("I6")
async def test_circles_and_missing_parents_are_refused_when_saved(office: Office) -> None:
    missing = await refused(office.save("a", TERSE, extends="b"))
    assert (missing.code, missing.problem["part"]) == ("invalid_template", "extends")
    await office.save("b", TERSE)
    await office.save("a", TERSE, extends="b")
    circle = await refused(office.save("b", TERSE, extends="a"))
    assert "in a circle: b extends a extends b" in circle.problem["reason"]
    assert (await refused(office.save("b", TERSE, extends="b"))).code == "invalid_template"
    assert (await refused(office.save("codex-default", TERSE, extends="a"))).code == "invalid_template"
    alone = await refused(office.save("root", TERSE, extends=None))
    assert alone.problem["part"] == "blocks.reply"
    used = await refused(office.owner.call("DELETE", f"{office.every}/b"))
    assert (used.status, used.code, used.problem["users"]) == (409, "template_in_use", "a")


@requirement("I6")
async def test_two_who_would_close_a_circle_at_once_do_not_both_succeed(office: Office) -> None:
    await office.save("a", TERSE)
    await office.save("b", TERSE)
    both = (office.save("a", TERSE, extends="b"), office.save("b", TERSE, extends="a"))
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert sum(isinstance(each, BaseException) for each in outcomes) == 1


@requirement("I5", "I7")
async def test_versions_are_restored_and_an_original_taken_again(office: Office) -> None:
    base = (await office.row("claude-code-default"))["template"]["parts"]
    for number in (1, 2):
        await office.save("claude-code-default", {**base, "lines": [f"Edit {number}."]})
    assert "Edit 2." in (await office.preview())["text"]
    path = f"{office.every}/claude-code-default"
    row = await office.owner.post(f"{path}/restore", {"version": builtin_templates.BUILT_IN_VERSION + 1})
    assert (row["template"]["version"], row["edited"]) == (builtin_templates.BUILT_IN_VERSION + 1, True)
    assert "Edit 1." in (await office.preview())["text"]
    row = await office.owner.post(f"{path}/restore", {"version": builtin_templates.BUILT_IN_VERSION})
    assert (row["template"]["built_in"], row["edited"]) == (True, True)
    assert "Edit" not in (await office.preview())["text"]
    assert (await refused(office.owner.post(f"{path}/restore", {"version": 99}))).status == 404
    await office.owner.call("DELETE", path)
    assert (await office.row("claude-code-default"))["edited"] is False
    assert (await refused(office.owner.call("DELETE", path))).status == 404
    again = await office.save("claude-code-default", {**base, "lines": ["Edit 3."]})
    assert again["template"]["version"] == builtin_templates.BUILT_IN_VERSION + 3


@requirement("I5")
async def test_of_two_versions_with_one_number_each_can_be_taken(office: Office) -> None:
    base = (await office.row("claude-code-default"))["template"]["parts"]
    path, number = f"{office.every}/claude-code-default", builtin_templates.BUILT_IN_VERSION + 1
    await office.save("claude-code-default", {**base, "lines": ["Ours."]})
    layer = office.server.server.instructions
    newer = msgspec.structs.replace(
        next(builtin_templates.iter_builtin_templates(0)),
        version=number,
        parts=msgspec.convert({**base, "lines": ["Newer."]}, TemplateContent),
    )
    layer.writer._catalogue.put_versions([newer], [ActiveVersion("", newer.id, number, None, 0, 0)])
    rows = await office.owner.get(f"{path}/versions")
    assert [(row["version"], row["built_in"]) for row in rows[:2]] == [(number, False), (number, True)]
    for built_in, text in ((True, "Newer."), (None, "Ours."), (True, "Newer."), (False, "Ours.")):
        row = await office.owner.post(f"{path}/restore", {"version": number, "built_in": built_in})
        assert (row["template"]["built_in"], row["edited"]) == (text == "Newer.", text == "Ours.")
        assert text in (await office.preview())["text"]
    await office.owner.post(f"{path}/restore", {"version": number, "built_in": True})
    await office.save("claude-code-default", {**base, "lines": ["Later."]}, in_force=False)
    assert "Newer." in (await office.preview())["text"]
    share = {"version": number + 1, "percent": 10}
    assert (await refused(office.owner.post(f"{path}/canary", share))).code == "invalid_field"
    older = {"version": builtin_templates.BUILT_IN_VERSION, "built_in": False}
    assert (await refused(office.owner.post(f"{path}/restore", older))).status == 404


@requirement("I5", "I16")
async def test_a_version_can_be_saved_without_being_in_force(office: Office) -> None:
    base = (await office.row("claude-code-default"))["template"]["parts"]
    saved = await office.save("claude-code-default", {**base, "lines": ["Later."]}, in_force=False)
    assert saved["template"]["version"] == builtin_templates.BUILT_IN_VERSION + 1
    row = await office.row("claude-code-default")
    assert (row["template"]["version"], row["template"]["built_in"]) == (builtin_templates.BUILT_IN_VERSION, True)
    assert "Later." not in (await office.preview())["text"]
    tried = await office.preview(template_id="claude-code-default", version=builtin_templates.BUILT_IN_VERSION + 1)
    assert "Later." in tried["text"]


@requirement("I6")
@pytest.mark.parametrize(("kind", "due"), [("canvas_user", True), ("broadcast", False), ("delegation", False)])
async def test_a_preview_names_a_due_time_only_where_an_answer_is_due(office: Office, kind: str, due: bool) -> None:
    assert ("due 20" in (await office.preview(kind=kind))["text"]) is due
    assert "due 20" not in (await office.preview(kind=kind, intent="inform"))["text"]


@requirement("I7")
async def test_a_draft_is_previewed_without_being_saved(office: Office) -> None:
    told = await office.preview(kind="peer_agent", parts={"lines": ["Draft {{ kind }}."]}, form="full")
    assert "Draft peer_agent." in told["text"]
    assert told["bytes"] == len(told["text"].encode()) > told["tokens"] > 50
    assert told["template"] == f"workspace:{office.seat.id}@1"
    assert [row["template"]["id"] for row in await office.owner.get(office.every)] == DEFAULTS
    compact = await office.preview(form="compact")
    assert compact["form"] == "compact" and compact["tokens"] < told["tokens"] / 2
    anywhere = await office.owner.post(f"{office.every}/preview", {"runtime": "gemini-cli"})
    assert "mcp_molecule_reply(handle=" in anywhere["text"]
    assert (await refused(office.preview(parts={}, inline_template="x"))).status == 400
    assert (await refused(office.preview(inline_template="{{ x }}"))).code == "invalid_template"
    assert (await refused(office.preview(template_id="nobody"))).status == 404
    assert (await refused(office.preview(workspace_id="nobody"))).status == 404
    assert (await refused(office.preview(kind="nothing"))).status == 422


@requirement("I7")
async def test_a_template_is_tried_against_the_last_messages(office: Office) -> None:
    peer = await office.server.seat("Peer")
    for number in range(3):
        await office.server.admin.send(office.seat.id, f"user {number}", message_id=f"u{number}")
    await peer.api.send(office.seat.id, "from a peer", message_id="p")
    wish = {"workspace_id": office.seat.id, "inline_template": "For {{ peer_name }}|{{ peer_id }}.", "last": 3}
    found = await office.owner.post(f"{office.every}/render", wish)
    assert [(each["kind"], each["summary"]) for each in found["messages"]] == [
        ("peer_agent", "from a peer"),
        ("canvas_user", "user 2"),
        ("canvas_user", "user 1"),
    ]
    assert f"For Peer|{peer.id}." in found["messages"][0]["text"]
    assert "For |." in found["messages"][1]["text"]
    assert (await refused(office.owner.post(f"{office.every}/render", {"last": 1}))).status == 422
    assert (await refused(office.owner.post(f"{office.every}/render", {**wish, "last": 51}))).status == 422


@requirement("I7", "S20")
async def test_templates_are_for_owners_of_the_organisation_alone(office: Office) -> None:
    other = await office.server.org("Other")
    strangers = {
        "credential_not_accepted": office.seat.api,
        "role_too_low": await office.server.person("operator"),
        "not_found": await office.server.person("owner", other),
    }
    asked: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("POST", "", {"id": "x", "parts": {}}),
        ("POST", "/preview", {}),
        ("POST", "/render", {}),
    ]
    asked += [("GET", "/x", None), ("PUT", "/x", {"parts": {}}), ("DELETE", "/x", None), ("GET", "/x/versions", None)]
    asked += [("POST", "/x/restore", {"version": 1})]
    places = [(method, f"{office.every}{path}", body) for method, path, body in asked]
    places += [(method, office.of_seat, {"template_id": "x"}) for method in ("POST", "GET", "DELETE")]
    for code, api in strangers.items():
        for method, path, body in places:
            refusal = await refused(api.call(method, path, body=body))
            assert (refusal.code, refusal.status) == (code, 404 if code == "not_found" else 403), (method, path)
    assert (await office.server.admin.get(office.of_seat))["chosen"] is None


@requirement("I5")
async def test_a_change_is_told_to_the_persons_of_the_organisation(office: Office) -> None:
    saved = await office.save("terse", TERSE)
    await office.owner.call("DELETE", f"{office.every}/terse")
    org_id = office.every.split("/")[2]
    rows = await office.server.server.store.rows("events_after", {"org_id": org_id, "seq": 0, "count": 1000})
    told = [row for row in rows if row[1] == "INSTRUCTION_TEMPLATE_SAVED"]
    assert len(told) == 2
    assert saved["template"]["created_by"].startswith("person:")


@requirement("I13")
async def test_a_template_that_fails_is_told_once_for_each_version(server: Running) -> None:
    office = await office_of(server)
    layer = server.server.instructions
    org_id = office.every.split("/")[2]
    at = AgentProfile(office.seat.id, org_id, "claude-code", None, (), has_tool_list=False)
    for version in (7, 7, 8):
        gone = TemplateVersionRef("gone", version, org_id)
        assert layer.renderer.render(at, gone, Verbosity.FULL, MessageContext(kind="canvas_user")) is None
    assert layer.renderer.failure_count == 3

    async def told() -> list[object]:
        rows = await server.server.store.rows("events_after", {"org_id": org_id, "seq": 0, "count": 1000})
        return [row for row in rows if row[1] == "INSTRUCTION_TEMPLATE_FAILED"]

    await eventually(told, lambda rows: len(rows) == 2)


@requirement("I5", "M15")
async def test_an_organisation_has_so_many_templates_and_a_template_so_many_versions(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    limits = Limits(templates=2, template_versions=3)
    async with running(engine, place, tmp_path, limits=limits) as server:
        office = await office_of(server)
        for template_id in ("a", "b"):
            await office.save(template_id, TERSE)
        full = await refused(office.save("c", TERSE))
        assert (full.status, full.code) == (409, "too_many_templates")
        await office.owner.post(office.of_seat, {"inline_template": "a workspace's own does not count"})
        await office.owner.call("DELETE", f"{office.every}/b")
        await office.save("c", TERSE)
        for _ in range(2):
            await office.save("a", TERSE)
        assert (await refused(office.save("a", TERSE))).code == "too_many_templates"
        for bad in ("a b", "preview", "x" * 129):
            assert (await refused(office.owner.post(office.every, {"id": bad, "parts": {}}))).status == 422


@requirement("I5")
async def test_an_unknown_template_is_refused_on_every_way_to_choose_one_and_changes_nothing(office: Office) -> None:
    seat, wrong = office.seat, {"instruction_template_id": "no-such-template"}
    one = f"/workspaces/{seat.id}"
    attempts = (
        ("POST", office.of_seat, {"template_id": "no-such-template"}),
        ("POST", "/workspaces", {"name": "Desk", **wrong}),
        ("PATCH", one, {"role": "another", **wrong}),
        ("POST", f"{one}/expand", {"children": [{"name": "A", "children": [{"name": "B", **wrong}]}]}),
    )
    errors = [await refused(office.owner.call(method, path, body=body)) for method, path, body in attempts]
    assert {(each.status, each.code) for each in errors} == {(404, "not_found")}
    (text,) = {str(each) for each in errors}
    assert text.startswith("404: instruction template not found")
    rows = await office.owner.get("/workspaces")
    assert [(each["name"], each["role"], each["instruction_template_id"]) for each in rows] == [("Ops", None, None)]


@requirement("I5")
async def test_only_an_owner_chooses_a_template_whatever_route_it_takes(office: Office) -> None:
    operator, one = await office.server.person("operator"), f"/workspaces/{office.seat.id}"
    chosen = {"instruction_template_id": "codex-default"}
    attempts = (
        ("POST", office.of_seat, {"template_id": "codex-default"}),
        ("DELETE", office.of_seat, None),
        ("POST", "/workspaces", {"name": "Desk", **chosen}),
        ("PATCH", one, {"role": "another", **chosen}),
        ("POST", f"{one}/expand", {"children": [{"name": "A", **chosen}]}),
    )
    errors = [await refused(operator.call(method, path, body=body)) for method, path, body in attempts]
    assert {(each.status, each.code) for each in errors} == {(403, "role_too_low")}

    await office.owner.call("PATCH", one, body=chosen)
    assert (await refused(operator.call("PATCH", one, body={"instruction_template_id": None}))).status == 403
    # What is set already may be sent again with other changes, as clients do that send a whole workspace.
    changed = await operator.call("PATCH", one, body={"role": "another", **chosen})
    assert (changed["role"], changed["instruction_template_id"]) == ("another", "codex-default")
