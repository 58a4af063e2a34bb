"""Stores on disk which session belongs to which conversation, and what a killed bridge must clean up.

One small file per workspace, written only by the workspace's leader before anything that depends on it.
"""

from pathlib import Path

import msgspec
from msgspec import Struct, field

from molecule_core.agent.bridges.outbox import DamagedOutboxError, save_durably
from molecule_core.agent.engines.vendor_limit import NO_LIMIT, StoredLimit

# Conversations that are remembered; beyond this the oldest without a message are forgotten.
_MAX_SESSIONS = 10_000


class _StoredSessions(Struct):
    """Content of the file.

    `sessions`: session id by conversation. `unanswered`: conversations whose session has had no answer yet.
    `approvals`: undecided approvals of this bridge. `limit`: of the vendor.
    """

    sessions: dict[str, str] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    approvals: list[str] = field(default_factory=list)
    limit: StoredLimit = NO_LIMIT


class SessionStore:
    """Sessions of one workspace and one driver."""

    def __init__(self, folder: Path, workspace_id: str, driver: str) -> None:
        self.path = folder / f".bridge_sessions_{driver}_{workspace_id}"
        self._stored = _StoredSessions()

    def load(self) -> None:
        """Load the file. Raises DamagedOutboxError."""
        try:
            self._stored = msgspec.json.decode(self.path.read_bytes(), type=_StoredSessions)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            raise DamagedOutboxError(
                f"{self.path} cannot be read ({error}); move the file away to begin new sessions"
            ) from None

    def session_of(self, conversation: str) -> str:
        """Return the session id of a conversation; empty if it has none."""
        return self._stored.sessions.get(conversation, "")

    def set_session(self, conversation: str, session_id: str) -> None:
        """Store the new session of a conversation. Raises OSError."""
        self._stored.sessions.pop(conversation, None)
        self._stored.sessions[conversation] = session_id
        while len(self._stored.sessions) > _MAX_SESSIONS:
            del self._stored.sessions[next(iter(self._stored.sessions))]
        kept = [each for each in self._stored.unanswered if each != conversation and each in self._stored.sessions]
        self._stored.unanswered = [*kept, conversation]
        self._save()

    def has_memory(self, conversation: str) -> bool:
        """Return whether the session of a conversation has had an answer, which would be lost with it."""
        return conversation in self._stored.sessions and conversation not in self._stored.unanswered

    def mark_answered(self, conversation: str) -> None:
        """Store that the session of a conversation has had an answer. Raises OSError."""
        if conversation in self._stored.unanswered:
            self._stored.unanswered.remove(conversation)
            self._save()

    @property
    def open_approvals(self) -> tuple[str, ...]:
        """Return the approvals that were requested and are not known to be decided."""
        return tuple(self._stored.approvals)

    def add_approval(self, approval_id: str) -> None:
        """Store an approval that waits for its decision. Raises OSError."""
        self._stored.approvals.append(approval_id)
        self._save()

    def remove_approval(self, approval_id: str) -> None:
        """Remove an approval that is decided or withdrawn. Raises OSError."""
        if approval_id in self._stored.approvals:
            self._stored.approvals.remove(approval_id)
            self._save()

    @property
    def limit(self) -> StoredLimit:
        """Return the vendor's limit. Implements `LimitStore`."""
        return self._stored.limit

    def set_limit(self, limit: StoredLimit) -> None:
        """Store the vendor's limit. Raises OSError."""
        self._stored.limit = limit
        self._save()

    def _save(self) -> None:
        save_durably(self.path, msgspec.json.encode(self._stored))
