"""Look-ups of what an argument names: an organisation or a workspace, by id, name or path."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from molecule_core.client.api import ApiClient
from molecule_core.client.org_plan import format_path, row_path
from molecule_core.common.errors import CommandFailed

Row = dict[str, Any]
_MAX_CHOICES = 10
_NEAR = 0.5


def find_workspace(rows: Iterable[Row], wanted: str) -> Row:
    """Return the workspace with this id, else this path (`Lead/Ops`), else this name that only one has.

    Raises CommandFailed, which names workspaces that are meant perhaps."""
    found = match_workspace(rows := list(rows), wanted)
    if found is None:
        names = [format_path(_path(row, rows)) if _is_repeated(row, rows) else str(row["name"]) for row in rows]
        raise CommandFailed(
            reason=f"workspace {wanted!r} does not exist. Use the id, path or unique name of a workspace"
            f"{_choices(wanted, names)}."
        )
    return found


def match_workspace(rows: Sequence[Row], wanted: str) -> Row | None:
    """Return the workspace that a text names, or None. Raises CommandFailed if several have that name."""
    named = [row for row in rows if row["id"] == wanted] or [row for row in rows if row["name"] == wanted]
    if not named:
        parts = tuple(part.strip() for part in wanted.split("/"))
        named = [row for row in rows if len(parts) > 1 and _path(row, rows)[-len(parts) :] == parts]
    if len(named) > 1:
        paths = [f"{format_path(_path(row, rows))} is {row['id']}" for row in named[:_MAX_CHOICES]]
        raise CommandFailed(reason=f"{len(named)} workspaces are named {wanted!r}. Use an id: {'; '.join(paths)}.")
    return named[0] if named else None


def find_org(orgs: Sequence[Row], wanted: str | None) -> Row:
    """Return the organisation with this id or name, or the first one without a name. Raises CommandFailed."""
    for each in orgs:
        if wanted in (None, each["id"], each["name"]):
            return each
    names = [str(each["name"]) for each in orgs]
    raise CommandFailed(
        reason=f"organisation {wanted!r} does not exist. Use the id or name of one{_choices(wanted or '', names)}."
    )


def find_named(rows: Sequence[Row], wanted: str, what: str = "person") -> Row:
    """Return the row with this id, else this name that only one has. Raises CommandFailed."""
    found = [row for row in rows if row["id"] == wanted] or [row for row in rows if row["name"] == wanted]
    if len(found) > 1:
        ids = ", ".join(str(row["id"]) for row in found)
        raise CommandFailed(reason=f"{len(found)} have the name {wanted!r}. Use an id: {ids}.")
    if not found:
        names = [str(row["name"]) for row in rows]
        raise CommandFailed(
            reason=f"{what} {wanted!r} does not exist. Use the id or unique name of one{_choices(wanted, names)}."
        )
    return found[0]


async def list_orgs(api: ApiClient) -> list[Row]:
    """Return the organisations that the caller can see: all as the admin, else the caller's own."""
    return (await read_own_org(api)) or await api.get("/orgs")


async def read_own_org(api: ApiClient) -> list[Row]:
    """Return the organisation of a person; nothing for the admin."""
    session = await api.get("/session")
    return [] if session["user"]["kind"] == "admin" else [session["org"]]


async def find_org_id(api: ApiClient, wanted: str | None) -> str:
    """Return the id of the organisation with this id or name, or of the first one. Raises CommandFailed."""
    return str(find_org(await list_orgs(api), wanted)["id"])


async def find_optional_org_id(api: ApiClient, wanted: str | None) -> str | None:
    """Return the id of the organisation with this id or name; None if none is wanted. Raises CommandFailed."""
    return None if wanted is None else await find_org_id(api, wanted)


async def find_workspace_or_removed(api: ApiClient, wanted: str, org: str | None = None) -> Row:
    """Return a workspace, an active one first, else a removed one. Raises CommandFailed."""
    org_id = await find_optional_org_id(api, org)
    rows = await api.get("/workspaces", org_id=org_id, include_removed="true")
    active = [row for row in rows if row["removed_at"] is None]
    return match_workspace(active, wanted) or find_workspace(rows, wanted)


async def find_workspace_id(api: ApiClient, wanted: str, org: str | None = None) -> str:
    """Return the id of the workspace with this id, path or unique name. Raises CommandFailed."""
    rows = await api.get("/workspaces", org_id=await find_optional_org_id(api, org))
    return str(find_workspace(rows, wanted)["id"])


def _path(row: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    return row_path(row, {each["id"]: each for each in rows})


def _is_repeated(row: Row, rows: Sequence[Row]) -> bool:
    return [each["name"] for each in rows].count(row["name"]) > 1


def _choices(wanted: str, names: Sequence[str]) -> str:
    """Return names that are near, else the first ones, as the end of a sentence."""
    lower = {name.lower(): name for name in names}
    near = [lower[each] for each in get_close_matches(wanted.lower(), list(lower), 3, _NEAR)]
    shown = near or sorted(names)[:_MAX_CHOICES]
    return f", such as: {', '.join(shown)}" if shown else ""
