"""The canvas' types, made from the shapes of the wire: `scripts/docs` writes canvas/src/core/wire.ts with it.

A member has a question mark if it may be left out: by the server where msgspec omits it (UNSET, or a default of a
struct that omits defaults), by the page where the server has a default. None becomes null, Raw and Any unknown.
"""

import json
import textwrap
from collections.abc import Iterable, Iterator
from types import ModuleType

from msgspec import NODEFAULT, Struct, inspect

from molecule_core.tools import host_config
from molecule_core.wire.schemas import (
    acceptance,
    activity,
    approvals,
    budgets,
    chains,
    conversations,
    delegation_scope,
    delegations,
    envelope,
    event_log,
    events,
    live,
    live_turns,
    prompts,
    runners,
    schedules,
    search,
    template_metrics,
    templates,
    thread_log,
    threads,
    traces,
    usage,
)
from molecule_core.wire.schemas.events import EVENTS

FROM_THE_PAGE = (live.SubscribeFrame,)
NOT_SENT = (events.EventDefinition, host_config.Host, host_config.HostWorkspace)
WIDTH = 110  # of comments

TYPES: dict[type[inspect.Type], str] = {
    inspect.AnyType: "unknown",
    inspect.RawType: "unknown",
    inspect.StrType: "string",
    inspect.BoolType: "boolean",
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.NoneType: "null",
}


def page() -> Iterator[str]:
    """The file, line by line."""
    yield "// Made by scripts/docs from the server's shapes (src/molecule_core/wire). Edit those, not this."
    yield ""
    yield from comment(
        "The protocol of the live channel that this page speaks; a server with a newer one asks for a reload."
    )
    yield f"export const PROTOCOL = {live.PROTOCOL_VERSION};"
    modules = (
        events,
        approvals,
        budgets,
        schedules,
        acceptance,
        delegation_scope,
        delegations,
        envelope,
        activity,
        event_log,
        chains,
        conversations,
        live,
        live_turns,
        runners,
        search,
        host_config,
        templates,
        template_metrics,
        prompts,
        thread_log,
        threads,
        traces,
        usage,
    )
    shapes = [shape for module in modules for shape in structs_of(module)]
    for shape in shapes:
        yield from interface(shape)
    yield from frames([shape for shape in structs_of(live) if shape.__struct_config__.tag_field == "type"])
    yield from event_table()


def structs_of(module: ModuleType) -> list[type[Struct]]:
    """The shapes that a module defines, in its order."""
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Struct)]
    return [shape for shape in found if shape.__module__ == module.__name__ and shape not in NOT_SENT]


def interface(shape: type[Struct]) -> Iterator[str]:
    """One struct, with its docstring."""
    info = inspect.type_info(shape)
    assert isinstance(info, inspect.StructType)
    yield ""
    yield from comment(shape.__doc__ or "")
    yield f"export interface {shape.__name__} {{"
    if info.tag_field is not None:
        yield f"  {info.tag_field}: {json.dumps(info.tag)};"
    for field in info.fields:
        yield f"  {member(field, shape)};"
    yield "}"


def member(field: inspect.Field, shape: type[Struct]) -> str:
    """One field. A default of None that is omitted is never written as null."""
    kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
    may_be_unset = not field.required and field.default is NODEFAULT and field.default_factory is NODEFAULT
    is_omitted = not field.required and bool(shape.__struct_config__.omit_defaults)
    if is_omitted and field.default is None:
        kinds = tuple(kind for kind in kinds if not isinstance(kind, inspect.NoneType))
    is_optional = may_be_unset or is_omitted or (shape in FROM_THE_PAGE and not field.required)
    return f"{field.encode_name}{'?' if is_optional else ''}: {union(kinds)}"


def union(kinds: Iterable[inspect.Type]) -> str:
    """Each name once; null last, as one reads it; what may be anything is nothing else beside."""
    names = sorted(dict.fromkeys(type_name(kind) for kind in kinds), key=lambda name: name == "null")
    return "unknown" if "unknown" in names else " | ".join(names)


def type_name(kind: inspect.Type) -> str:
    """How TypeScript calls a type; a KeyError for one that the wire has not used so far."""
    match kind:
        case inspect.Metadata(type=inner):
            name = type_name(inner)
        case inspect.UnionType(types=kinds):
            name = union(kinds)
        case inspect.LiteralType(values=values):
            name = " | ".join(json.dumps(value) for value in values)
        case inspect.StructType(cls=shape):
            name = shape.__name__
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            inner_name = type_name(item)
            name = f"{inner_name}[]" if inner_name.isidentifier() else f"Array<{inner_name}>"
        case inspect.DictType(key_type=key, value_type=value):
            name = f"Record<{type_name(key)}, {type_name(value)}>"
        case _:
            name = TYPES[type(kind)]
    return name


def frames(tagged: list[type[Struct]]) -> Iterator[str]:
    """The frames that `type` tells apart, by who sends them."""
    server = [shape.__name__ for shape in tagged if shape not in FROM_THE_PAGE]
    yield ""
    yield from comment("What the server sends beside events; `type` tells which.")
    yield f"export type ServerFrame = {' | '.join(server)};"
    yield ""
    yield from comment("What the page sends.")
    yield f"export type ClientFrame = {' | '.join(shape.__name__ for shape in FROM_THE_PAGE)};"


def event_table() -> Iterator[str]:
    """Names, payloads, and which events are numbered."""
    yield ""
    yield from comment("The payload of each event.")
    yield "export interface EventPayloads {"
    yield from (f"  {name}: {shape.payload.__name__};" for name, shape in EVENTS.items())
    yield "}"
    yield ""
    yield "export type EventName = keyof EventPayloads;"
    yield ""
    yield from comment("A frame with an event that this page knows; `event` tells what its payload is.")
    yield "export type KnownEventFrame = {"
    yield '  [N in EventName]: Omit<EventFrame, "event" | "payload"> & { event: N; payload: EventPayloads[N] };'
    yield "}[EventName];"
    yield from names("JOURNALED", "Events with `seq` and `prev`: nobody misses one without noticing.", journaled=True)
    yield from names("TRANSIENT", "Events without them: the next one makes up for a lost one.", journaled=False)


def names(constant: str, about: str, *, journaled: bool) -> Iterator[str]:
    yield ""
    yield from comment(about)
    yield f"export const {constant} = ["
    yield from (f"  {json.dumps(name)}," for name, shape in EVENTS.items() if shape.journaled is journaled)
    yield "] as const satisfies readonly EventName[];"


def comment(text: str) -> Iterator[str]:
    """A text for people above what it is about."""
    lines = textwrap.wrap(" ".join(text.replace("*/", "").split()), WIDTH)
    if len(lines) == 1:
        yield f"/** {lines[0]} */"
    else:
        yield from ("/**", *(f" * {line}" for line in lines), " */")
