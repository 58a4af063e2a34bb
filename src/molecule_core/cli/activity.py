"""`molecule activity`: what happened in an organisation, over the API of a running server."""

from collections.abc import AsyncIterator
from typing import Any

import click
import msgspec

from molecule_core.cli._client import client_options, org_option, run_with_api
from molecule_core.cli._context import printable_line
from molecule_core.cli._lookup import find_org_id, find_workspace_or_removed
from molecule_core.client.api import ApiClient
from molecule_core.wire.schemas.event_log import EVENT_DIRECTIONS, EVENT_KINDS, EVENT_STATES

_TIME_LENGTH = len("2026-11-21T22:41:07")
# As the server allows at most by default; a lower limit of the server applies.
_PAGE_EVENTS = 200
_WAIT_SECONDS = 25
Event = dict[str, Any]


@click.command("activity")
@click.argument("words", nargs=-1)
@click.option("--workspace", help="Only events about this workspace (an id, a unique name or a path).")
@click.option("--subtree", is_flag=True, help="With --workspace: also events about workspaces below it.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(EVENT_KINDS), help="Only this kind; may be repeated.")
@click.option("--event", "names", multiple=True, help="Only events of this name; may be repeated.")
@click.option("--state", type=click.Choice(EVENT_STATES), help="Only events that say this about the work.")
@click.option(
    "--direction",
    type=click.Choice(EVENT_DIRECTIONS),
    help="Only messages, tasks and results that came into a workspace, or went out of it.",
)
@click.option("--since", help="Only from this time on, such as 2026-11-21T22:41:07Z.")
@click.option("--until", help="Only before this time.")
@click.option("--delegation", help="Only events of this delegation (an id).")
@click.option("--thread", help="Only events of this thread (an id).")
@click.option("--item", help="Only events about the message, approval or other item with this id.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Number of events.")
@click.option("--all", "is_all", is_flag=True, help="All events, without a limit.")
@click.option("--follow", is_flag=True, help="Print the newest events, oldest first, then new ones as they happen.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, with all fields.")
@org_option
@client_options
def command(
    words: tuple[str, ...],
    workspace: str | None,
    limit: int,
    is_all: bool,
    follow: bool,
    as_json: bool,
    org: str | None,
    **flags: Any,
) -> None:
    """Show what happened in an organisation, newest first: messages, delegations, approvals, agents and more.

    WORDS: only events about texts that `molecule search` finds. All filters must be met."""
    names = ("state", "direction", "since", "until", "delegation", "thread", "item")
    filters = {name: flags.pop(name) for name in names}
    filters["kind"], filters["event"] = (",".join(flags.pop(name)) or None for name in ("kinds", "names"))
    filters["subtree"] = "true" if flags.pop("subtree") else None

    async def work(api: ApiClient) -> None:
        org_id = await find_org_id(api, org)
        log = _EventLog(
            api,
            f"/orgs/{org_id}/activity",
            {
                **filters,
                "q": " ".join(words) or None,
                "workspace": workspace and (await find_workspace_or_removed(api, workspace, org))["id"],
            },
        )
        most = None if is_all else limit
        if follow:
            await _follow(log, most, as_json)
            return
        count = 0
        async for event in log.events(most):
            _print_event(event, as_json)
            count += 1
        if not count and not as_json:
            click.echo("no events")
        if not as_json:
            log.print_remarks()

    run_with_api(work, flags)


class _EventLog:
    """The activity of an organisation with some filters. `newest_seq`: where events begin that were not read."""

    def __init__(self, api: ApiClient, path: str, filters: dict[str, Any]) -> None:
        self._api = api
        self._path = path
        self._filters = filters
        self._last_page: Event = {}
        self._is_text_complete = True
        self.newest_seq: int | None = None

    async def events(self, most: int | None) -> AsyncIterator[Event]:
        """Yield events, newest first."""
        cursor, left = None, most
        while left is None or left > 0:
            size = _PAGE_EVENTS if left is None else min(left, _PAGE_EVENTS)
            page = await self._api.get(self._path, **self._filters, limit=size, cursor=cursor)
            self._last_page = page
            self._is_text_complete = self._is_text_complete and page["is_text_complete"]
            if self.newest_seq is None:
                self.newest_seq = page["newest_seq"]
            for event in page["events"]:
                yield event
            left = None if left is None else left - len(page["events"])
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def new_events(self) -> list[Event]:
        """Wait for events after those that were read, and return them, oldest first; none after some seconds."""
        page = await self._api.get(self._path, **self._filters, after=self.newest_seq or 0, wait=_WAIT_SECONDS)
        self.newest_seq = page["newest_seq"]
        return list(page["events"])

    def print_remarks(self) -> None:
        """Print what the events that were read do not contain."""
        if self._last_page["next_cursor"] is not None:
            click.echo("... older events: raise --limit, or use --all")
        elif self._last_page["kept_since"] is not None:
            click.echo(f"... events before {self._last_page['kept_since'][:_TIME_LENGTH]} were deleted by retention")
        if not self._is_text_complete:
            click.echo("... not all texts were searched: use --since and --until")


async def _follow(log: _EventLog, most: int | None, as_json: bool) -> None:
    for event in reversed([each async for each in log.events(most)]):
        _print_event(event, as_json)
    while True:
        for event in await log.new_events():
            _print_event(event, as_json)


def _print_event(event: Event, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(event).decode())
        return
    line = event["line"]
    words = " ".join(each for each in (line["actor"], line["verb"], line.get("target")) if each)
    text = f": {line['text']}" if line.get("text") else ""
    state = f" [{event['state']}]" if event["state"] else ""
    click.echo(f"{event['timestamp'][:_TIME_LENGTH]}  {event['kind']:<12}  {printable_line(words + text)}{state}")
