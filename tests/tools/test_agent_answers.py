"""What a tool shows of the answer of a peer that was pushed to, in every form that A2A agents answer in."""

from typing import Any

import pytest

from molecule_core.tools.runners import message_tools
from molecule_core.tools.schemas.messages import ReplyToWorkspaceArguments
from tests.requirements import requirement

WORDS = {"kind": "text", "text": "at noon"}


class Answering:
    """A server whose peer answers with this."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def call(self, method: str, path: str, *, body: Any = None, query: Any = None, headers: Any = None) -> Any:
        """Whatever it is asked."""
        del method, body, query, headers
        return self._answer if path.endswith("/a2a") else {"status": "logged"}


@requirement("M14", "G11")
@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"kind": "message", "parts": [WORDS]}, "at noon"),
        ({"message": {"parts": [WORDS]}}, "at noon"),
        ({"status": "ok", "message": {"parts": [WORDS]}}, "at noon"),
        ({"parts": [WORDS], "task": {"id": "t"}}, "at noon"),
        ({"task": {"artifacts": [{"parts": [WORDS]}, {"parts": [WORDS]}]}}, "at noon\nat noon"),
        ({"status": {"state": "completed", "message": {"parts": [{"type": "text", "text": "at noon"}]}}}, "at noon"),
        ({"parts": [{"kind": "data", "data": {"hour": 12}}]}, '{"hour":12}'),
        (
            {"parts": [{"kind": "file", "file": {"name": "plan.pdf", "uri": "https://files.example/p"}}]},
            "[file plan.pdf]",
        ),
        ({"parts": [{"kind": "file", "file": {"uri": "https://files.example/p"}}]}, "[file https://files.example/p]"),
        ({"parts": [{"kind": "file", "file": {"bytes": "eA=="}}]}, "[file without a name]"),
        ("at noon", "at noon"),
        ({}, ""),
        ({"kind": "task", "status": {"state": "submitted"}}, ""),
        ([WORDS], ""),
    ],
)
async def test_a_tool_shows_what_the_peer_answered_at_once(result: Any, shown: str) -> None:
    speaks = Answering({"jsonrpc": "2.0", "id": 1, "result": result})
    told = await message_tools.reply_to_workspace(speaks, "w-1", ReplyToWorkspaceArguments(text="when?", peer_id="w-2"))
    assert told["answer"] == shown
