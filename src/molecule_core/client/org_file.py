"""The org file: an organisation as TOML, in the format of the demo's company file. Reads, checks and writes it.

Called by org_plan and cli.
"""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from molecule_core.common.errors import CommandFailed, MoleculeError
from molecule_core.common.limits import MAX_REPLY_SECONDS, Limits
from molecule_core.common.text import validate_line, validate_name
from molecule_core.wire.schemas.envelope import InstructionShape
from molecule_core.wire.schemas.schedules import ActionName, MissesName, OverlapName

DEFAULT_RUNTIME = "generic-mcp"
_GUIDE = "See docs/reference/org-file.md."


class OrgFileWorkspace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workspace and its children.

    Missing members have their defaults; a missing `key`, `delivery_mode`, `url` (which an agent may choose itself) or
    `a2a_card_url` stays as it is in the organisation. Credentials are never in a file."""

    name: str
    key: str | None = None
    role: str = ""
    runtime: str = DEFAULT_RUNTIME
    external: bool = False
    tier: Annotated[int, Meta(ge=0, le=9)] = 1
    max_concurrent_tasks: Annotated[int, Meta(ge=1, le=10_000)] = 1
    delivery_mode: str | None = None
    url: str | None = None
    a2a_card_url: str | None = None
    instruction_template_id: str | None = None
    instruction_compact: bool = False
    instruction_shape: InstructionShape | None = None
    reply_seconds: Annotated[int, Meta(ge=0, le=MAX_REPLY_SECONDS)] | None = None
    send_drafts: bool = True
    broadcast_enabled: bool = False
    talk_to_user_enabled: bool = True
    # Members of the demo's company files, ignored here.
    behaviour: Any = None
    host: Any = None
    progress: Any = None
    stumbles: Any = None
    seconds: Any = None
    asks_before: Any = None
    prompt: Any = None
    examples: Any = None
    craft: Any = None
    accept: Any = None
    delivers: Any = None
    hasty: Any = None
    cost: Any = None
    budget: Any = None
    seat: "tuple[OrgFileWorkspace, ...]" = ()


class OrgFileSchedule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"source": "from"}):
    """A schedule. `to` and `from`: workspaces by path, such as `Lead / Ops`; without `from` it acts for its author."""

    name: str
    to: str
    source: str | None = None
    cron: str | None = None
    time_zone: str = "UTC"
    once: str | None = None
    action: ActionName = "message"
    text: str
    accept: list[dict[str, Any]] | None = None
    rounds: int | None = None
    may: dict[str, Any] | None = None
    deadline_seconds: int | None = None
    misses: MissesName = "skip"
    overlap: OverlapName = "skip"
    paused: bool = False


class OrgFile(Struct, frozen=True, forbid_unknown_fields=True):
    """An organisation: its name, the workspaces at the top of its tree, and its schedules.

    `schedules` None: those of the organisation stay as they are."""

    name: str
    seat: tuple[OrgFileWorkspace, ...] = ()
    schedules: tuple[OrgFileSchedule, ...] | None = None


class OrgNode(Struct, frozen=True):
    """A workspace of a file: the names from the root to it, and the index of its parent."""

    path: tuple[str, ...]
    workspace: OrgFileWorkspace
    parent_index: int | None


def list_nodes(file: OrgFile) -> list[OrgNode]:
    """Return all workspaces, parents before children."""
    found: list[OrgNode] = []

    def collect(workspaces: tuple[OrgFileWorkspace, ...], path: tuple[str, ...], parent_index: int | None) -> None:
        for workspace in workspaces:
            found.append(OrgNode((*path, workspace.name), workspace, parent_index))
            collect(workspace.seat, found[-1].path, len(found) - 1)

    collect(file.seat, (), None)
    return found


# -- reading -----------------------------------------------------------------------------------------------------------


def read_org_file(path: Path) -> OrgFile:
    """Read an org file. Raises CommandFailed, which names the file, the problem and the remedy."""
    try:
        return parse_org_file(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CommandFailed(reason=f"the org file {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandFailed(reason=f"the org file {path} is not TOML: {error}") from None
    except (msgspec.ValidationError, MoleculeError, RecursionError) as error:
        raise CommandFailed(reason=f"the org file {path} cannot be used: {error}. {_GUIDE}") from None


def parse_org_file(text: str) -> OrgFile:
    """Parse an org file. Raises TOMLDecodeError, ValidationError, MoleculeError."""
    file = msgspec.convert(tomllib.loads(text), OrgFile)
    limits = Limits()
    workspaces = _clean_workspaces((), file.seat, limits)
    clean = OrgFile(validate_name(file.name, limits.name_length), workspaces, file.schedules)
    names = [each.name for each in file.schedules or ()]
    for name in names:
        if names.count(name) > 1:
            raise msgspec.ValidationError(f"two schedules are named {name!r}. Rename one")
    keys = [node.workspace.key for node in list_nodes(clean) if node.workspace.key is not None]
    for key in keys:
        if keys.count(key) > 1:
            raise msgspec.ValidationError(f"two workspaces have the key {key!r}. Keys must be unique")
    return clean


def _clean_workspaces(
    parent_path: tuple[str, ...], workspaces: tuple[OrgFileWorkspace, ...], limits: Limits
) -> tuple[OrgFileWorkspace, ...]:
    if len(parent_path) >= limits.tree_depth and workspaces:
        raise msgspec.ValidationError(f"the tree must not be deeper than {limits.tree_depth} levels")
    clean = tuple(_clean_workspace(parent_path, workspace, limits) for workspace in workspaces)
    names = [workspace.name for workspace in clean]
    for name in names:
        if names.count(name) > 1:
            where = f"below {' / '.join(parent_path)}" if parent_path else "at the top"
            raise msgspec.ValidationError(f"two workspaces {where} are named {name!r}. Rename one")
    return clean


def _clean_workspace(parent_path: tuple[str, ...], workspace: OrgFileWorkspace, limits: Limits) -> OrgFileWorkspace:
    name = validate_name(workspace.name, limits.name_length)
    return msgspec.structs.replace(
        workspace,
        name=name,
        key=None
        if workspace.key is None
        else validate_line(workspace.key, limits.name_length, f"the key of {name!r}") or None,
        role=validate_line(workspace.role, limits.short_text_length, f"the role of {name!r}"),
        runtime=validate_line(workspace.runtime, limits.short_text_length, f"the runtime of {name!r}")
        or DEFAULT_RUNTIME,
        behaviour=None,
        host=None,
        progress=None,
        stumbles=None,
        seconds=None,
        asks_before=None,
        prompt=None,
        examples=None,
        craft=None,
        accept=None,
        delivers=None,
        hasty=None,
        cost=None,
        budget=None,
        seat=_clean_workspaces((*parent_path, name), workspace.seat, limits),
    )


# -- writing -----------------------------------------------------------------------------------------------------------


def render_org_file(file: OrgFile) -> str:
    """Render the file; `parse_org_file` parses it back to an equal organisation."""
    lines = [f"name = {_quote_toml(file.name)}"]
    for node in list_nodes(file):
        lines += ["", f"[[{'.'.join(['seat'] * len(node.path))}]]", *_member_lines(node.workspace)]
    return "\n".join(lines) + "\n"


def _member_lines(workspace: OrgFileWorkspace) -> Iterator[str]:
    """Yield the members that differ from their defaults, in the order of the struct."""
    for field in msgspec.structs.fields(OrgFileWorkspace):
        value = getattr(workspace, field.name)
        if field.name == "seat" or value == field.default:
            continue
        text = str(value).lower() if isinstance(value, (bool, int)) else _quote_toml(value)
        yield f"{field.name} = {text}"


def _quote_toml(text: str) -> str:
    """Quote a TOML basic string: JSON's escapes and U+007F."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def org_file_from_rows(name: str, rows: list[dict[str, Any]]) -> OrgFile:
    """Build the file of an organisation from the rows of GET /workspaces."""
    children: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows:
        children.setdefault(row["parent_id"], []).append(row)

    def children_of(parent_id: str | None) -> tuple[OrgFileWorkspace, ...]:
        return tuple(_workspace_from_row(row, children_of(row["id"])) for row in children.get(parent_id, []))

    return OrgFile(name, children_of(None))


def _workspace_from_row(row: dict[str, Any], children: tuple[OrgFileWorkspace, ...]) -> OrgFileWorkspace:
    card_url = row.get("a2a_card_url")
    pushed = row["delivery_mode"] == "push" and card_url is None
    return OrgFileWorkspace(
        name=row["name"],
        key=row["key"],
        role=row["role"] or "",
        runtime=row["runtime"],
        external=row["external"],
        tier=row["tier"],
        max_concurrent_tasks=row["max_concurrent_tasks"],
        delivery_mode="push" if pushed else None,
        url=row["url"] if pushed else None,
        a2a_card_url=card_url,
        instruction_template_id=row["instruction_template_id"],
        instruction_compact=row["instruction_compact"],
        instruction_shape=row["instruction_shape"],
        reply_seconds=row["reply_seconds"],
        send_drafts=row["send_drafts"],
        broadcast_enabled=row["broadcast_enabled"],
        talk_to_user_enabled=row["talk_to_user_enabled"],
        seat=children,
    )
