"""The organisation as a file: TOML, the same family as the demo's company file. Reads, checks and writes it.

Above: org_plan, cli. Below: ground.
"""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from molecule_core.ground.errors import MoleculeError, OrgFileFailed
from molecule_core.ground.limits import MOST_REPLY_SECONDS, Limits
from molecule_core.ground.text import clean_line, clean_name

DEFAULT_RUNTIME = "generic-mcp"
_GUIDE = "docs/organisation.md shows what such a file may hold"


class FileSeat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A seat, and those below it. What is left out has its default; of `delivery_mode` and `url`, which an agent may
    choose for itself, and of `key` it is left as it is."""

    name: str
    key: str | None = None
    role: str = ""
    runtime: str = DEFAULT_RUNTIME
    external: bool = False
    tier: Annotated[int, Meta(ge=0, le=9)] = 1
    max_concurrent_tasks: Annotated[int, Meta(ge=1, le=10_000)] = 1
    delivery_mode: str | None = None
    url: str | None = None
    instruction_template_id: str | None = None
    instruction_compact: bool = False
    instruction_shape: Literal["json", "xml", "both"] | None = None
    reply_seconds: Annotated[int, Meta(ge=0, le=MOST_REPLY_SECONDS)] | None = None
    send_drafts: bool = False
    broadcast_enabled: bool = False
    talk_to_user_enabled: bool = True
    # What the demo reads in its company files; an organisation takes no notice of it.
    behaviour: Any = None
    host: Any = None
    progress: Any = None
    stumbles: Any = None
    seconds: Any = None
    asks_before: Any = None
    prompt: Any = None
    craft: Any = None
    seat: "tuple[FileSeat, ...]" = ()


class OrgFile(Struct, frozen=True, forbid_unknown_fields=True):
    """An organisation: its name, and the seats at the top of its tree."""

    name: str
    seat: tuple[FileSeat, ...] = ()


class Node(Struct, frozen=True):
    """A seat of a file in its place: the names from the root down to it, and the number of the one above it."""

    path: tuple[str, ...]
    seat: FileSeat
    above: int | None


def nodes(file: OrgFile) -> list[Node]:
    """All seats, those above before those below."""
    found: list[Node] = []

    def walk(seats: tuple[FileSeat, ...], path: tuple[str, ...], above: int | None) -> None:
        for seat in seats:
            found.append(Node((*path, seat.name), seat, above))
            walk(seat.seat, found[-1].path, len(found) - 1)

    walk(file.seat, (), None)
    return found


# -- reading -----------------------------------------------------------------------------------------------------------


def read_file(path: Path) -> OrgFile:
    """The organisation that a file tells. Raises OrgFileFailed, which names the file, what is wrong, and what to do."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OrgFileFailed(reason=f"the org file {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OrgFileFailed(reason=f"the org file {path} is not TOML: {error}") from None
    except (msgspec.ValidationError, MoleculeError, RecursionError) as error:
        raise OrgFileFailed(reason=f"the org file {path} cannot be used: {error}; {_GUIDE}") from None


def parse(text: str) -> OrgFile:
    """The organisation that a text tells. Raises TOMLDecodeError, ValidationError, MoleculeError."""
    file = msgspec.convert(tomllib.loads(text), OrgFile)
    limits = Limits()
    clean = OrgFile(clean_name(file.name, limits.name_length), _clean((), file.seat, limits))
    keys = [node.seat.key for node in nodes(clean) if node.seat.key is not None]
    for key in keys:
        if keys.count(key) > 1:
            raise msgspec.ValidationError(f"two seats have the key {key!r}; a key is for one")
    return clean


def _clean(above: tuple[str, ...], seats: tuple[FileSeat, ...], limits: Limits) -> tuple[FileSeat, ...]:
    if len(above) >= limits.tree_depth and seats:
        raise msgspec.ValidationError(f"the tree is deeper than {limits.tree_depth} levels; make it flatter")
    clean = tuple(_clean_seat(above, seat, limits) for seat in seats)
    names = [seat.name for seat in clean]
    for name in names:
        if names.count(name) > 1:
            where = f"below {' / '.join(above)}" if above else "at the top"
            raise msgspec.ValidationError(f"two seats {where} are called {name!r}; rename one")
    return clean


def _clean_seat(above: tuple[str, ...], seat: FileSeat, limits: Limits) -> FileSeat:
    name = clean_name(seat.name, limits.name_length)
    return msgspec.structs.replace(
        seat,
        name=name,
        key=None if seat.key is None else clean_line(seat.key, limits.name_length, f"the key of {name!r}") or None,
        role=clean_line(seat.role, limits.short_text_length, f"the role of {name!r}"),
        runtime=clean_line(seat.runtime, limits.short_text_length, f"the runtime of {name!r}") or DEFAULT_RUNTIME,
        behaviour=None,
        host=None,
        progress=None,
        stumbles=None,
        seconds=None,
        asks_before=None,
        prompt=None,
        craft=None,
        seat=_clean((*above, name), seat.seat, limits),
    )


# -- writing -----------------------------------------------------------------------------------------------------------


def written(file: OrgFile) -> str:
    """The file as text; `parse` makes the same organisation of it."""
    lines = [f"name = {_quoted(file.name)}"]
    for node in nodes(file):
        lines += ["", f"[[{'.'.join(['seat'] * len(node.path))}]]", *_members(node.seat)]
    return "\n".join(lines) + "\n"


def _members(seat: FileSeat) -> Iterator[str]:
    """What differs from the defaults, in the order of the struct."""
    for field in msgspec.structs.fields(FileSeat):
        value = getattr(seat, field.name)
        if field.name == "seat" or value == field.default:
            continue
        text = str(value).lower() if isinstance(value, (bool, int)) else _quoted(value)
        yield f"{field.name} = {text}"


def _quoted(text: str) -> str:
    """A basic string of TOML, which escapes as JSON does, and one character more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def file_of(name: str, rows: list[dict[str, Any]]) -> OrgFile:
    """The file of an organisation as GET /workspaces shows it."""
    below: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows:
        below.setdefault(row["parent_id"], []).append(row)

    def seats(parent_id: str | None) -> tuple[FileSeat, ...]:
        return tuple(_seat_of(row, seats(row["id"])) for row in below.get(parent_id, []))

    return OrgFile(name, seats(None))


def _seat_of(row: dict[str, Any], below: tuple[FileSeat, ...]) -> FileSeat:
    pushed = row["delivery_mode"] == "push"
    return FileSeat(
        name=row["name"],
        key=row["key"],
        role=row["role"] or "",
        runtime=row["runtime"],
        external=row["external"],
        tier=row["tier"],
        max_concurrent_tasks=row["max_concurrent_tasks"],
        delivery_mode="push" if pushed else None,
        url=row["url"] if pushed else None,
        instruction_template_id=row["instruction_template_id"],
        instruction_compact=row["instruction_compact"],
        instruction_shape=row["instruction_shape"],
        reply_seconds=row["reply_seconds"],
        send_drafts=row["send_drafts"],
        broadcast_enabled=row["broadcast_enabled"],
        talk_to_user_enabled=row["talk_to_user_enabled"],
        seat=below,
    )
