"""A live turn and its keys."""

from typing import NamedTuple

from msgspec import Struct

from molecule_core.wire.schemas.live_turns import ENDED_STATUSES, LiveToolCall, TurnStatus


class TurnKey(NamedTuple):
    """Key of a live turn."""

    workspace_id: str
    activity_id: str


class LiveTurn(Struct, frozen=True, kw_only=True):
    """A turn that runs, or has ended a short time ago. Times in microseconds.

    `text` begins at character `text_at` of all text of the turn. `root_workspace_id`: the workspace in which the
    thread's tree begins, or empty. `rev`: changes with each report. `stop_requested_by`: name of a person, or None.
    `expires_at`: the turn is forgotten then, unless its agent reports again."""

    org_id: str
    workspace_id: str
    activity_id: str
    thread_id: str = ""
    root_workspace_id: str = ""
    started_at: int
    expires_at: int
    rev: int
    status: TurnStatus = "working"
    status_text: str = ""
    text_at: int = 0
    text: str = ""
    tools: tuple[LiveToolCall, ...] = ()
    stop_requested_by: str | None = None

    @property
    def key(self) -> TurnKey:
        """Return the key."""
        return TurnKey(self.workspace_id, self.activity_id)

    @property
    def ended(self) -> bool:
        """Return whether the turn is over."""
        return self.status in ENDED_STATUSES

    @property
    def text_end(self) -> int:
        """Return the number of characters of all text of the turn."""
        return self.text_at + len(self.text)

    @property
    def waits_for_stop(self) -> bool:
        """Return whether a person wants the turn to stop, and it has not ended."""
        return self.stop_requested_by is not None and not self.ended


class TurnVersion(NamedTuple):
    """Version of a stored turn."""

    key: TurnKey
    rev: int
    expires_at: int


class TurnThread(NamedTuple):
    """Thread of a turn. `root_workspace_id`: the workspace in which its tree begins, if it is another one."""

    thread_id: str
    root_workspace_id: str


NO_THREAD = TurnThread("", "")


def turns_key(org_id: str) -> str:
    """Return the wake-up key of the live turns of an organisation."""
    return f"live:{org_id}"


def stops_key(workspace_id: str) -> str:
    """Return the wake-up key of requests to stop turns of a workspace."""
    return f"stops:{workspace_id}"
