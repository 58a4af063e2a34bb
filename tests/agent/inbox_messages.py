"""Messages for tests of the agent's inbox."""

import itertools
from typing import Any

from molecule_core.wire.schemas.inbox import InboxMessage

_numbers = itertools.count(1)


def letter(workspace_id: str = "w-1", **fields: Any) -> InboxMessage:
    """A message that came to a workspace, from a person unless a peer is named."""
    about: dict[str, Any] = {
        "activity_id": f"m-{next(_numbers)}",
        "workspace_id": workspace_id,
        "arrival_workspace_id": workspace_id,
        "kind": "peer_agent" if fields.get("peer_id") else "canvas_user",
        "peer_id": "",
        "method": "message/send",
        "text": "hello",
        "created_at": "2026-11-22T09:00:00Z",
        "attempt": 1,
    }
    told = {**about, **fields}
    return InboxMessage(**{"ts": told["created_at"], "body": told["text"], **told})
