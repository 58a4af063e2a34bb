"""What a stranger to the document cannot guess: ids that exist, texts that say something, words that a route knows."""

import json
import re
from collections import deque
from random import Random
from typing import Any

from proofs.http.frames import A2A, MCP
from testing.raw_http import Reply

# What is learned from answers: members with the names of placeholders.
_NAMES = (
    "activity_id approval_id delegation_id file_id handle invitation_id memory_id root_id template_id "
    "thread_id token_id turn_id"
).split()
_LEARNED = re.compile(rb'"(%b)":"([^"\\]{1,200})"' % "|".join(_NAMES).encode())
_ITS_ID = re.compile(rb'"id":"([\w.:-]{1,80})"')
# What a route that makes something calls just `id`, and what others call that.
_MADE_AT = {
    "memories": "memory_id",
    "tokens": "token_id",
    "invitations": "invitation_id",
    "instruction-templates": "template_id",
}
_MOST_LEARNED = 60
_MOST_READ = 20_000
# Members of bodies that name something: the names that are learned, and what else they are called.
_CALLED = {
    **{name: name for name in _NAMES},
    **dict.fromkeys(("id", "workspace_id", "target_id", "peer_id", "parent_id"), "id"),
    **dict.fromkeys(("since_id", "before", "after"), "activity_id"),
    "handle": "handle",
}
_WORDS: dict[str, tuple[Any, ...]] = {
    "activity_type": ("agent_log", "task_update", "error"),
    "decision": ("approve", "deny", "escalate", "more_info"),
    "delivery_mode": ("poll",),
    "generation": (0, 1, 2),
    "scope": ("LOCAL", "TEAM"),
    "status": ("completed", "failed"),
    "version": (1, 2),
}
_SAYING = ("action", "content", "message", "note", "question", "reason", "result", "summary", "task", "text", "title")
_WELL = 0.7


class Plausible:
    """What is known of the things on a server, and how a made request is told of it."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._known: dict[str, deque[str]] = {}

    def know(self, name: str, *ids: str) -> None:
        """Ids that exist, by the name of their placeholder."""
        self._known.setdefault(name, deque(maxlen=_MOST_LEARNED)).extend(ids)

    def learn(self, path: str, reply: Reply) -> None:
        """Takes what an answer names into what is asked about later. `path`: as the document has it."""
        if reply.status >= 300:
            return
        beginning = reply.body[:_MOST_READ]
        for name, id_ in _LEARNED.findall(beginning):
            self.know(name.decode(), id_.decode())
            if name == b"activity_id":
                self.know("queue_id", id_.decode())
        if name := _MADE_AT.get(path.rpartition("/")[2]):
            self.know(name, *(each.decode() for each in _ITS_ID.findall(beginning)))

    def one(self, name: str) -> str | None:
        """An id of this name; None if none is known."""
        return self._dice.choice(self._known[name]) if self._known.get(name) else None

    def body(self, path: str, made: bytes | None) -> bytes | None:
        """The body of a request, mostly with ids that exist and with texts. What speaks JSON-RPC is called in it."""
        if path.endswith(("/a2a", "/mcp")) and not made:
            call = self._dice.choice(A2A if path.endswith("/a2a") else MCP)
            return json.dumps({"jsonrpc": "2.0", "id": 1, **call}).encode()
        try:
            value = json.loads(made or b"")
        except ValueError:  # a form, or nothing
            return made
        return json.dumps(self._mended(value)).encode()

    def _mended(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._mended(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {name: self._member(name, inner) for name, inner in value.items()}

    def _member(self, name: str, made: Any) -> Any:
        if isinstance(made, dict | list):
            return self._mended(made)
        if made is None or self._dice.random() > _WELL:
            return made
        if name in _WORDS:
            return self._dice.choice(_WORDS[name])
        if name in _SAYING:
            return f"Something to say {self._dice.randrange(1000)}"
        found = self.one(_CALLED[name]) if name in _CALLED else None
        return made if found is None else found
