"""Checks JSON against schemas, with bounds. The only module that imports the library for it, and only
once a delegation has a schema.

`find_schema_error` compiles a schema when a delegation begins. A check itself runs in a process of its own
(`python -m molecule_core.delegations.json_schema`), because a small schema can make the work exponential, and a process
can be killed. The bound is CPU time: a busy machine fails no answer. Remote references are rejected; patterns are
matched in linear time."""

import asyncio
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    import jsonschema_rs

MAX_DEPTH = 64
"""Levels of nesting of a schema and of what it checks."""
_PATTERN_BYTES = 1 << 20
_MAX_ERROR = 300
_HEADER = 12
_MODULE = "molecule_core.delegations.json_schema"


class SchemaValidator(Protocol):
    """Checks JSON against a schema."""

    async def validate(self, schema: dict[str, Any], instance: bytes) -> str | None:
        """Return why a JSON text does not fit a schema; None if it does."""


class ProcessSchemaValidator:
    """Checks JSON in a process, which is killed where the caller stops waiting, and after `cpu_seconds` of CPU time
    (not on Windows)."""

    def __init__(self, cpu_seconds: int) -> None:
        self._cpu_seconds = cpu_seconds

    async def validate(self, schema: dict[str, Any], instance: bytes) -> str | None:
        """Return why a JSON text does not fit a schema; None if it does."""
        encoded = msgspec.json.encode(schema)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-m", _MODULE, str(self._cpu_seconds)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            output, _ = await process.communicate(b"%0*d" % (_HEADER, len(encoded)) + encoded + instance)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode or not output:
            return "the check failed for lack of memory or time"
        error: str | None = msgspec.json.decode(output)
        return error


def find_schema_error(schema: dict[str, Any]) -> str | None:
    """Return why a schema cannot be used; None if it can."""
    import jsonschema_rs

    if depth_of(schema) > MAX_DEPTH:
        return f"it has more than {MAX_DEPTH} levels"
    if (reference := _remote_reference(schema)) is not None:
        return f"it refers to {reference[:_MAX_ERROR]!r}, and only references within the schema (#...) are allowed"
    try:
        _compile(schema)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return _first_line(str(error))
    return None


def depth_of(value: Any) -> int:
    """Return how many levels a JSON value has, without recursion."""
    depth, level = 0, [value]
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [child for each in level for child in _children(each)]
    return depth


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _remote_reference(schema: Any) -> str | None:
    """Return a reference that leads out of the schema, if there is one."""
    pending = [schema]
    while pending:
        each = pending.pop()
        pending += _children(each)
        if not isinstance(each, dict):
            continue
        for name in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = each.get(name)
            if isinstance(reference, str) and not reference.startswith("#"):
                return reference
    return None


def _compile(schema: dict[str, Any]) -> "jsonschema_rs.Validator":
    import jsonschema_rs

    def reject(uri: str) -> Any:
        raise ValueError(uri)

    options = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
    return jsonschema_rs.validator_for(schema, retriever=reject, pattern_options=options)


def find_instance_error(schema: dict[str, Any], instance: bytes) -> str | None:
    """Return why a JSON text does not fit a schema; None if it does. The time is not bounded."""
    import jsonschema_rs

    def reject(constant: str) -> Any:
        raise ValueError(constant)

    try:
        value = json.loads(instance, parse_constant=reject)
    except (ValueError, RecursionError):
        return "it is not valid JSON"
    if depth_of(value) > MAX_DEPTH:
        return f"it has more than {MAX_DEPTH} levels"
    try:
        _compile(schema).validate(value)
    except jsonschema_rs.ValidationError as error:
        place = "/".join(map(str, error.instance_path))
        return _first_line(f"at {place[:_MAX_ERROR]}: {error.message}" if place else error.message)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return _first_line(str(error))
    return None


def _first_line(text: str) -> str:
    lines = text.strip().splitlines() or ["it is not valid"]
    return lines[0][:_MAX_ERROR]


def main() -> None:
    """Check what standard input has: the length of the schema, the schema, the JSON text. Print the error or null.

    The argument is how many seconds of CPU time that may take."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), resource.RLIM_INFINITY))
    given = sys.stdin.buffer.read()
    end = _HEADER + int(given[:_HEADER])
    error = find_instance_error(msgspec.json.decode(given[_HEADER:end]), given[end:])
    sys.stdout.buffer.write(msgspec.json.encode(error))


if __name__ == "__main__":
    main()
