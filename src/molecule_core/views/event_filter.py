"""Decides which events of the journal a reader sees and wants. Pure.

Who sees an event is the rule of `api/live/hub.py` and of the query `events_after_for`; `tests/views/test_event_log.py`
compares them.
"""

from msgspec import Struct

from molecule_core.search.model import SearchKind, SearchRequest, SourceRef, ref_of_event
from molecule_core.store.journal import EventHead
from molecule_core.views.event_lines import kind_of, may_have_direction, may_have_state
from molecule_core.views.feed import Audience
from molecule_core.wire.schemas.event_log import EventDirection, EventKind, EventState

_MESSAGE_KINDS = ("activity", "message")
_DELEGATION_KINDS = ("delegation", *_MESSAGE_KINDS)


class EventQuery(Struct, frozen=True, kw_only=True):
    """Which events to read. None: no condition. Times in microseconds.

    `workspace_ids`: events about one of these. `kinds` and `names`: events of one of these kinds or names.
    `delegation_id`: events of a delegation and of its message. `entity_id`: events about anything with this id.
    `text`: events about what this search finds."""

    workspace_ids: frozenset[str] | None = None
    kinds: frozenset[EventKind] = frozenset()
    names: frozenset[str] = frozenset()
    state: EventState | None = None
    direction: EventDirection | None = None
    since: int | None = None
    until: int | None = None
    delegation_id: str | None = None
    thread_id: str | None = None
    entity_id: str | None = None
    text: SearchRequest | None = None

    @property
    def needs_payloads(self) -> bool:
        """Return whether a condition is met or not by what is in payloads."""
        return self.state is not None or self.direction is not None

    @property
    def is_sent_by_agents(self) -> bool:
        """Return whether events of all workspaces are wanted that say what some workspaces sent."""
        return self.direction == "out" and self.workspace_ids is not None

    def has_direction(self, workspace_id: str, direction: EventDirection | None, actor_id: str | None) -> bool:
        """Return whether an event has the wanted direction: its own one, or that of what its actor sent."""
        if not self.is_sent_by_agents or self.workspace_ids is None:
            return self.direction in (None, direction)
        if direction == "in":
            return actor_id in self.workspace_ids
        return direction == "out" and workspace_id in self.workspace_ids

    @property
    def accepts_all(self) -> bool:
        """Return whether the query has no condition except on the time."""
        return self == EventQuery(since=self.since, until=self.until)


class EventMatcher:
    """A query, and what its reader may see, as a condition on events without their payloads."""

    def __init__(self, audience: Audience, query: EventQuery) -> None:
        self._audience = audience
        self._query = query
        self._peer_ids = frozenset(audience.peer_ids.split(",")) - {""}
        self._tree = audience.audience_params["tree"]
        self._is_wanted: dict[str, bool] = {}

    def matches(self, head: EventHead) -> bool:
        """Return whether an event is visible and meets all conditions but those on its payload and text."""
        query = self._query
        wanted = self._is_wanted.get(head.name)
        if wanted is None:
            wanted = self._is_wanted[head.name] = self._is_wanted_name(head.name)
        return (
            wanted
            and self._is_visible(head)
            and (query.workspace_ids is None or query.is_sent_by_agents or head.workspace_id in query.workspace_ids)
            and (query.since is None or head.at >= query.since)
            and (query.until is None or head.at < query.until)
            and (query.entity_id is None or head.entity_id == query.entity_id)
            and self._is_about(head)
        )

    def _is_wanted_name(self, name: str) -> bool:
        query = self._query
        if query.state is not None and not may_have_state(name, query.state):
            return False
        if query.direction is not None and not self._may_have_direction(name, query.direction):
            return False
        return not (query.kinds or query.names) or kind_of(name) in query.kinds or name in query.names

    def _may_have_direction(self, name: str, direction: EventDirection) -> bool:
        # What agents sent is also in the events of its receivers.
        return may_have_direction(name, direction) or (self._query.is_sent_by_agents and may_have_direction(name, "in"))

    def _is_about(self, head: EventHead) -> bool:
        query = self._query
        if query.delegation_id is not None and (
            head.entity_id != query.delegation_id or head.entity_kind not in _DELEGATION_KINDS
        ):
            return False
        return query.thread_id is None or (head.entity_id == query.thread_id and head.entity_kind == "thread")

    def _is_visible(self, head: EventHead) -> bool:
        audience = self._audience
        if audience.workspace_id is None or head.workspace_id == audience.workspace_id:
            return True
        if head.audience == "peers":
            return head.workspace_id in self._peer_ids
        if head.audience == "children":
            return head.workspace_id == audience.parent_id
        return bool(self._tree) and head.audience == self._tree


def refs_of(head: EventHead) -> tuple[SourceRef, ...]:
    """Return the rows whose text an event is about. A message may be that of a delegation, which has its id."""
    if head.entity_kind in _MESSAGE_KINDS:
        return SourceRef(SearchKind.MESSAGE, head.entity_id), SourceRef(SearchKind.DELEGATION, head.entity_id)
    ref = ref_of_event(head.entity_kind, head.entity_id, head.rev, head.name)
    return () if ref is None else (ref,)
