"""Schedules of an org file: reads, compares, applies and writes them.

A file without `schedules` leaves those of the organisation alone; one with the member has all of them. Called by cli.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from molecule_core.client.api import ApiClient
from molecule_core.client.org_file import OrgFileSchedule
from molecule_core.client.org_plan import Row, format_path, row_path
from molecule_core.common.errors import CommandFailed

_SAME = ("cron", "time_zone", "action", "text", "rounds", "deadline_seconds", "misses", "overlap", "accept", "may")


class SchedulePlan(Struct, frozen=True):
    """Schedules to create, to change (each with its row), and rows to remove."""

    created: tuple[OrgFileSchedule, ...] = ()
    changed: tuple[tuple[OrgFileSchedule, Row], ...] = ()
    removed: tuple[Row, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing differs."""
        return not (self.created or self.changed or self.removed)

    def lines(self) -> Iterator[str]:
        """Yield a line for people per change."""
        yield from (f"+ schedule {each.name}" for each in self.created)
        yield from (f"~ schedule {each.name}" for each, _ in self.changed)
        yield from (f"- schedule {row['name']}" for row in self.removed)


async def list_schedules(api: ApiClient, org_id: str) -> list[Row]:
    """Return all schedules of an organisation. Raises ApiError, NoAnswerError."""
    rows: list[Row] = (await api.get(f"/orgs/{org_id}/schedules"))["schedules"]
    return rows


def plan_schedules(
    wanted: Sequence[OrgFileSchedule] | None, rows: Sequence[Row], workspaces: Sequence[Row]
) -> SchedulePlan:
    """Compare the schedules of a file with those of an organisation, by name."""
    if wanted is None:
        return SchedulePlan()
    known = {row["name"]: row for row in rows}
    current = {each.name: each for each in schedules_from_rows(rows, workspaces, with_ended=True)}
    names = {each.name for each in wanted}
    return SchedulePlan(
        tuple(each for each in wanted if each.name not in known),
        tuple(
            (each, known[each.name])
            for each in wanted
            if each.name in known and not _is_equal(each, current[each.name])
        ),
        tuple(row for row in rows if row["name"] not in names),
    )


async def apply_schedules(
    api: ApiClient, org_id: str, plan: SchedulePlan, workspaces: Sequence[Row], report: Callable[[str], None]
) -> None:
    """Execute a plan. `workspaces`: those that are there now. Raises ApiError, NoAnswerError, CommandFailed."""
    ids, path = _ids_by_path(workspaces), f"/orgs/{org_id}/schedules"
    for row in plan.removed:
        await api.call("DELETE", f"{path}/{row['schedule_id']}")
        report(f"- schedule {row['name']}")
    for schedule, row in plan.changed:
        await api.call("PUT", f"{path}/{row['schedule_id']}", body=_to_body(schedule, ids))
        report(f"~ schedule {schedule.name}")
    for schedule in plan.created:
        await api.post(path, _to_body(schedule, ids))
        report(f"+ schedule {schedule.name}")


def schedules_from_rows(
    rows: Sequence[Row], workspaces: Sequence[Row], *, with_ended: bool = False
) -> tuple[OrgFileSchedule, ...]:
    """Return schedules as a file has them. Ended ones, and those of removed workspaces, cannot be created again."""
    names = {id_: path for path, id_ in _ids_by_path(workspaces).items()}
    found = []
    for row in rows:
        is_lost = row["target_id"] not in names or row["source_id"] not in (None, *names)
        if not with_ended and (row["state"] == "ended" or is_lost):
            continue
        members: dict[str, Any] = {name: row[name] for name in _SAME}
        found.append(
            OrgFileSchedule(
                name=row["name"],
                to=names.get(row["target_id"], ""),
                source=None if row["source_id"] is None else names.get(row["source_id"], ""),
                once=row["once"],
                paused=row["state"] == "paused",
                **members,
            )
        )
    return tuple(found)


def render_schedules(schedules: Sequence[OrgFileSchedule]) -> str:
    """Render schedules as TOML that `parse_org_file` reads. Raises CommandFailed."""
    lines: list[str] = []
    for schedule in schedules:
        members = msgspec.to_builtins(schedule)
        defaults = msgspec.to_builtins(OrgFileSchedule(name="", to="", text=""))
        lines += ["", "[[schedules]]"]
        lines += [f"{name} = {_to_toml(value)}" for name, value in members.items() if value != defaults.get(name)]
    return "".join(f"{line}\n" for line in lines)


def _is_equal(one: OrgFileSchedule, other: OrgFileSchedule) -> bool:
    """Return whether two schedules are the same, however their times are written."""
    return _with_plain_times(one) == _with_plain_times(other)


def _with_plain_times(schedule: OrgFileSchedule) -> OrgFileSchedule:
    once, cron = schedule.once, schedule.cron
    with contextlib.suppress(ValueError):  # the server rejects it
        once = None if once is None else datetime.fromisoformat(once).astimezone(UTC).isoformat()
    return replace(schedule, once=once, cron=None if cron is None else " ".join(cron.split()))


def _to_toml(value: Any) -> str:
    """Return a JSON value as TOML in one line."""
    match value:
        case None:
            raise CommandFailed(reason="a schedule has checks with null, which TOML cannot write. Use the API.")
        case dict():
            items = (f"{json.dumps(name)} = {_to_toml(each)}" for name, each in value.items())
            return f"{{{', '.join(items)}}}"
        case list():
            return f"[{', '.join(map(_to_toml, value))}]"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _:
            return json.dumps(value)


def _ids_by_path(workspaces: Sequence[Row]) -> dict[str, str]:
    by_id = {row["id"]: row for row in workspaces}
    return {format_path(row_path(row, by_id)): row["id"] for row in workspaces}


def _to_body(schedule: OrgFileSchedule, ids: dict[str, str]) -> dict[str, Any]:
    members = {name: value for name, value in msgspec.to_builtins(schedule).items() if name not in ("to", "from")}
    source = schedule.source
    return {
        **members,
        "target_id": _find_id(ids, schedule.to, schedule.name),
        "source_id": None if source is None else _find_id(ids, source, schedule.name),
    }


def _find_id(ids: dict[str, str], path: str, name: str) -> str:
    parts = format_path(tuple(part.strip() for part in path.split("/")))
    if (found := ids.get(path) or ids.get(parts)) is None:
        raise CommandFailed(reason=f"schedule {name!r} names {path!r}, which is no workspace. Use a path: Lead / Ops.")
    return found
