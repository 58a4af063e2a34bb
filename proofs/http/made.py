"""Requests that schemathesis makes from the server's own document: such as fit it, and such as do not."""

import json
from collections.abc import Iterator
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from msgspec import Struct

_FITS, _FITS_NOT = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
_BOUNDARY = "a-line-between-files"


class Made(Struct):
    """One request without its caller. `params`: what was made for the placeholders of its path; `fits` the document."""

    method: str
    path: str
    params: dict[str, str]
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes | None
    fits: bool


def made_for(document: dict[str, Any], count: int, chance: int) -> Iterator[list[Made]]:
    """For one route after the other, its share of `count` requests: three of five fit the document."""
    # What is no route of OpenAPI has no `ok`, and ends the run.
    found: Any = list(schemathesis.openapi.from_dict(document).get_all_operations())
    routes = [each.ok() for each in found]
    for number, route in enumerate(routes):
        share = count * (number + 1) // len(routes) - count * number // len(routes)
        good = _draw(route, _FITS, share - share * 2 // 5, chance)
        bad = _draw(route, _FITS_NOT, share - len(good), chance)
        # A route that takes nothing has nothing that would not fit.
        yield good + bad + _draw(route, _FITS, share - len(good) - len(bad), chance + 1)


def _draw(route: Any, mode: Any, count: int, chance: int) -> list[Made]:
    """So many cases of a route, or none if there are none. Those of a route that can do little are repeated."""
    found: list[Any] = []
    for more in range(3):
        if len(found) >= count:
            break

        @seed(f"{chance} {more}")
        @settings(
            max_examples=count - len(found),
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(route.as_strategy(generation_mode=mode))
        def collect(case: Any) -> None:
            found.append(case)

        try:
            collect()
        except Unsatisfiable:
            break
    if not found:
        return []
    made = [_made(case, fits=mode is _FITS) for case in found]
    return [made[place % len(made)] for place in range(count)]


def _made(case: Any, *, fits: bool) -> Made:
    headers = {str(name): str(value) for name, value in (case.headers or {}).items()}
    body: bytes | None = None
    if not isinstance(case.body, schemathesis.core.NotSet):
        body, kind = _written(case.body, case.media_type or "application/json")
        headers.setdefault("Content-Type", kind)
    return Made(
        case.method.upper(),
        case.path,
        {name: _text(value) for name, value in (case.path_parameters or {}).items()},
        {name: _listed(value) for name, value in (case.query or {}).items()},
        headers,
        body,
        fits,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _listed(value: Any) -> str:
    """A list has commas between, as the document says of each."""
    return ",".join(map(_text, value)) if isinstance(value, list) else _text(value)


def _written(value: Any, kind: str) -> tuple[bytes, str]:
    if isinstance(value, bytes):
        return value, kind
    if kind != "multipart/form-data":
        return json.dumps(value).encode(), kind
    files = value.get("files", []) if isinstance(value, dict) else [value]
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="f{number}"\r\n\r\n'.encode()
        + (each if isinstance(each, bytes) else _text(each).encode("utf-8", "replace"))
        + b"\r\n"
        for number, each in enumerate(files if isinstance(files, list) else [files])
    ]
    return b"".join(parts) + f"--{_BOUNDARY}--\r\n".encode(), f"{kind}; boundary={_BOUNDARY}"
