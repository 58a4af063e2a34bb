"""Builds the OpenAPI 3.1 document from the route table."""

import re
from typing import Any

import msgspec

from molecule_core.api.routing import Route

FORM_TYPE = "application/x-www-form-urlencoded"
_PARAMETER = re.compile(r"{(\w+)}")
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_PROBLEM = {
    "title": "Problem",
    "description": "Problem details (RFC 9457), with `error`, the same text as `detail`.",
    "type": "object",
    "properties": {
        **dict.fromkeys(("error", "code", "type", "title", "detail"), _TEXT),
        "status": {
            "type": ["integer", "string"],
            "description": "HTTP status, or `confirmation_required`.",
        },
    },
    "required": ["error", "code", "type", "title", "status", "detail"],
}
_RPC_ERROR = {
    "title": "RpcError",
    "description": "Error of a JSON-RPC request.",
    "type": "object",
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"type": ["string", "integer", "number", "null"]},
        "error": {"type": "object", "properties": {"code": _NUMBER, "message": _TEXT}, "required": ["code", "message"]},
    },
    "required": ["jsonrpc", "error"],
}
_ERROR_SCHEMA = {"anyOf": [{"$ref": f"#/components/schemas/{shape['title']}"} for shape in (_PROBLEM, _RPC_ERROR)]}


def build_document(routes: list[Route], version: str) -> dict[str, Any]:
    """Build the document. Its schemas come from the structs that handlers decode and encode."""
    shapes = [
        shape for route in routes for shape in (route.body, route.response, route.gone_response) if shape is not None
    ]
    schemas, components = msgspec.json.schema_components(shapes, ref_template="#/components/schemas/{name}")
    by_shape = {str(shape): schema for shape, schema in zip(shapes, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_shape)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Molecule", "version": version},
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": _PROBLEM, "RpcError": _RPC_ERROR},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _success_response(route: Route, by_shape: dict[str, Any]) -> dict[str, Any]:
    """Return the success response. Upgrades, redirects and 204 have no content."""
    if route.status in (101, 204, 302):
        return {"description": "Success."}
    return {"description": "Success.", "content": {route.media_type: {"schema": by_shape.get(str(route.response), {})}}}


def _error_contents(route: Route) -> dict[str, Any]:
    """Return the contents of rejections: where a protocol has a type of JSON of its own, also its errors."""
    contents: dict[str, Any] = {"application/json": {"schema": _ERROR_SCHEMA}}
    if route.media_type.endswith("+json"):
        contents[route.media_type] = {"schema": {"type": "object", "required": ["error"]}}
    return contents


def _operation(route: Route, by_shape: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "description": (route.handler.__doc__ or "").strip(),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _PARAMETER.findall(route.path)
        ]
        + [
            {"name": each.name, "in": "query", "description": each.description, "schema": each.schema, **each.style}
            for each in route.query.values()
        ],
        "responses": {
            str(route.status): _success_response(route, by_shape),
            "4XX": {
                "description": "Rejected. `error` has the reason and what to do.",
                "content": _error_contents(route),
            },
        },
    }
    if route.gone_response is not None:
        either = {"anyOf": [by_shape[str(route.gone_response)], _ERROR_SCHEMA]}
        gone_response = {"description": "Removed or not found.", "content": {"application/json": {"schema": either}}}
        operation["responses"]["404"] = gone_response
    if route.may_accept:
        operation["responses"]["202"] = {
            **_success_response(route, by_shape),
            "description": "Accepted. The response arrives later.",
        }
    if route.may_stream_events:
        event_media = {
            "schema": by_shape.get(str(route.response), {}),
            "description": "Each event contains one such message.",
        }
        operation["responses"][str(route.status)]["content"]["text/event-stream"] = event_media
        operation["responses"]["202"] = {"description": "Accepted. There is no response."}
    if route.access.kinds:
        operation["security"] = [{"bearer": []}]
        operation["x-credentials"] = sorted(route.access.kinds)
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {"application/json": {"schema": by_shape[str(route.body)]}},
        }
    if route.streams_body:
        files = {"type": "array", "items": {"type": "string", "contentMediaType": "application/octet-stream"}}
        form = {"type": "object", "properties": {"files": files}, "required": ["files"]}
        operation["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": form}}}
    if route.form_fields:
        fields = {"type": "object", "properties": {name: {"type": "string"} for name in route.form_fields}}
        operation["requestBody"] = {"required": True, "content": {FORM_TYPE: {"schema": fields}}}
    return operation
