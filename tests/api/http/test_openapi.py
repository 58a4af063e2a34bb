"""/openapi.json: the table of routes, in a form that others' tools read."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from molecule_core.api import openapi, system
from testing.access_matrix import OAUTH_WITHOUT_PUBLIC_URL
from testing.raw_http import ask
from testing.running_server import ADMIN_TOKEN, Running
from tests.api.http.request_targets import A2A_REST, BODYLESS
from tests.requirements import requirement

_TYPES = {"null", "boolean", "object", "array", "number", "string", "integer"}


@pytest.fixture
async def document(plain: Running) -> dict[str, Any]:
    """What the server says that it offers."""
    found: dict[str, Any] = await plain.admin.get("/openapi.json")
    return found


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method, path, operation


def _inside(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _inside(inner)


@requirement("A3", "M9")
async def test_the_document_is_for_those_with_a_credential(server: Running) -> None:
    seat, viewer = await server.seat(), await server.person("viewer")
    assert (await ask(server.port, "GET", "/openapi.json")).status == 401
    assert (await ask(server.port, "GET", "/openapi.json", token=ADMIN_TOKEN + "x")).status == 401
    assert await seat.api.get("/openapi.json") == await viewer.get("/openapi.json") != {}


async def test_the_document_is_made_once_however_often_it_is_asked_for(
    plain: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs as much as many messages: a few who ask for nothing else would leave nobody else a turn."""
    made = list[str]()

    def describe(table: Any, version: str) -> dict[str, Any]:
        made.append(version)
        return openapi.build_document(table, version)

    monkeypatch.setattr(system, "build_document", describe)
    first, second = [await plain.admin.get("/openapi.json") for _ in range(2)]
    assert first == second
    assert len(made) <= 1


@requirement("A3")
async def test_every_route_stands_in_the_document_and_nothing_else(plain: Running, document: dict[str, Any]) -> None:
    told = {(method.upper(), path) for method, path, _ in _operations(document)}
    assert told == {(row.method, row.path) for row in plain.server.routes.routes}


async def test_the_document_has_the_members_that_openapi_3_1_asks_for(document: dict[str, Any]) -> None:
    assert re.fullmatch(r"3\.1\.\d+", document["openapi"])
    assert isinstance(document["info"]["title"], str)
    assert re.match(r"\d+\.\d+", document["info"]["version"])
    assert all(path.startswith("/") for path in document["paths"])
    assert document.keys() <= {"openapi", "info", "servers", "paths", "components", "security", "tags"}


@requirement("A3")
async def test_a_message_whose_answer_comes_later_is_answered_as_the_document_says(server: Running) -> None:
    one, other = await server.seat(), await server.seat()
    message = {"role": "user", "messageId": "m", "parts": [{"kind": "text", "text": "do it"}]}
    asked = {"message": {**message, "metadata": {"delegation": True}}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": asked}
    reply = await ask(server.port, "POST", f"/workspaces/{other.id}/a2a", body, token=one.token)

    assert reply.status == 202, reply
    document = await server.admin.get("/openapi.json")
    assert str(reply.status) in document["paths"]["/workspaces/{id}/a2a"]["post"]["responses"]


async def test_every_operation_answers_something_and_says_what(document: dict[str, Any]) -> None:
    for method, path, operation in _operations(document):
        assert operation["summary"], (method, path)
        assert operation["description"], (method, path)
        assert operation["responses"], (method, path)
        for status, response in operation["responses"].items():
            assert re.fullmatch(r"[1-5](\d\d|XX)|default", status), (method, path, status)
            assert isinstance(response["description"], str), (method, path, status)
            assert all("schema" in content for content in response.get("content", {}).values())


async def test_every_placeholder_of_a_path_is_a_parameter_and_no_other(document: dict[str, Any]) -> None:
    for method, path, operation in _operations(document):
        named = [each for each in operation["parameters"] if each["in"] == "path"]
        assert [each["name"] for each in named] == re.findall(r"{(\w+)}", path), (method, path)
        assert all(each["required"] is True and each["schema"] for each in named), (method, path)


async def test_what_may_be_asked_in_a_query_stands_in_the_document(plain: Running, document: dict[str, Any]) -> None:
    asked = {}
    for method, path, operation in _operations(document):
        fields = {each["name"]: each for each in operation["parameters"] if each["in"] == "query"}
        assert all(each["description"] and each["schema"] and "required" not in each for each in fields.values())
        asked[method.upper(), path] = {*fields}
    assert asked == {(row.method, row.path): {*row.query} for row in plain.server.routes.routes}
    activity = document["paths"]["/workspaces/{id}/activity"]["get"]["parameters"]
    (include,) = [each for each in activity if each["name"] == "include"]
    assert (include["style"], include["explode"]) == ("form", False)
    assert include["schema"]["items"]["enum"] == ["attachments", "peer_info", "instructions", "arrival"]


async def test_who_needs_a_credential_is_told_so(plain: Running, document: dict[str, Any]) -> None:
    open_routes = {(row.method.lower(), row.path) for row in plain.server.routes.routes if not row.access.kinds}
    open_ones = {(method, path) for method, path, operation in _operations(document) if not operation.get("security")}
    page = {
        ("get", "/"),
        ("get", "/app"),
        ("get", "/app/{path}"),
        ("post", "/login"),
        ("get", "/login"),
        ("get", "/sessions"),
    }
    page |= {("get", "/agent-docs"), ("get", "/agent-docs/replies"), ("get", "/docs"), ("get", "/docs/{path}")}
    page.add(("post", "/a2a/push/{workspace_id}/{activity_id}"))  # has the token of one task in a header of A2A
    page |= {(method.lower(), path) for method, path in OAUTH_WITHOUT_PUBLIC_URL}
    for name in ("agent-card.json", "agent.json"):
        page |= {("get", f"/.well-known/{name}"), ("get", f"/workspaces/{{id}}/.well-known/{name}")}
    assert open_ones == open_routes == {("get", "/health"), ("get", "/ready")} | page
    schemes = document["components"]["securitySchemes"]
    for method, path, operation in _operations(document):
        assert all(scheme in schemes for each in operation.get("security", []) for scheme in each), (method, path)
    assert schemes["bearer"] == {"type": "http", "scheme": "bearer"}


async def test_every_reference_leads_to_a_schema(document: dict[str, Any]) -> None:
    references = {each["$ref"] for each in _inside(document) if "$ref" in each}
    schemas = document["components"]["schemas"]
    assert references
    assert references == {f"#/components/schemas/{name}" for name in schemas} | references
    assert {reference.rpartition("/")[2] for reference in references} <= schemas.keys()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in schemas)


async def test_every_schema_uses_the_types_of_json_schema(document: dict[str, Any]) -> None:
    schemas = [each for each in _inside(document["components"]["schemas"]) if isinstance(each.get("type"), str)]
    assert len(schemas) > 50
    assert {each["type"] for each in schemas} <= _TYPES
    for each in schemas:
        if each["type"] == "object":
            assert set(each.get("required", ())) <= each.get("properties", {}).keys()


async def test_what_a_route_reads_stands_in_the_document(plain: Running, document: dict[str, Any]) -> None:
    wrong = {}
    for row in [each for each in plain.server.routes.routes if each.body is not None]:
        content = document["paths"][row.path][row.method.lower()]["requestBody"]["content"]["application/json"]
        schema = document["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
        assert row.body is not None
        if list(schema["properties"]) != list(row.body.__struct_fields__):  # type: ignore[attr-defined]
            wrong[row.path] = list(schema["properties"])
    assert wrong == {}


async def test_a_route_that_reads_a_body_says_so(document: dict[str, Any]) -> None:
    posts = {path: operation for method, path, operation in _operations(document) if method == "post"}
    silent = {path for path, operation in posts.items() if "requestBody" not in operation}
    # JSON-RPC is read by hand: its shape is the A2A specification's. A notification of a task only makes the server ask
    # for it. The others need no body.
    rest = {f"/workspaces/{{id}}/a2a/{each}" for each in A2A_REST}
    assert silent <= {"/workspaces/{id}/a2a", "/a2a/push/{workspace_id}/{activity_id}", *rest, *BODYLESS}
    optional = {path for path, operation in posts.items() if operation.get("requestBody", {}).get("required") is False}
    assert optional == {
        "/workspaces/{id}/threads",
        *(f"/threads/{{thread_id}}/{act}" for act in ("interrupt", "close", "fork", "resume")),
        "/workspaces/{id}/external/rotate",
        "/workspaces/{id}/push-secret/rotate",
        "/workspaces/{id}/approvals/{approval_id}/withdraw",
        "/workspaces/{id}/messages/{activity_id}/draft/send",
        "/workspaces/{id}/delegations/{delegation_id}/cancel",
    }


async def test_what_streams_says_that_it_takes_a_form_and_what_is_no_json_says_so(document: dict[str, Any]) -> None:
    upload = document["paths"]["/workspaces/{id}/chat/uploads"]["post"]
    assert upload["requestBody"]["content"].keys() == {"multipart/form-data"}
    download = document["paths"]["/workspaces/{id}/files/{file_id}"]["get"]
    assert download["responses"]["200"]["content"].keys() == {"application/octet-stream"}
