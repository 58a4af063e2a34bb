"""Sends the messages of a session, over restarts of the server: each once, whatever happens to the responses."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.editor.account import PersonAccount
from molecule_core.agent.editor.prompt_content import PromptContent
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.wire.schemas.activity import Intent

_log = logging.getLogger("molecule.agent")
Members = dict[str, Any]


class MessageSender:
    """Sends to one workspace. `on_outage`: called when the server does not respond, before it is tried again."""

    def __init__(
        self, account: PersonAccount, clock: Clock, back_off: BackOff, on_outage: Callable[[], Awaitable[None]]
    ) -> None:
        self._account = account
        self._clock = clock
        self._back_off = back_off
        self._on_outage = on_outage

    async def send(self, workspace_id: str, client_id: str, content: PromptContent) -> None:
        """Upload the files of a prompt, and send it with them. Raises EditorError if the server rejects it."""
        parts: list[Members] = [{"kind": "text", "text": content.text}] if content.text else []
        for file in content.files:
            parts.append({"kind": "file", "file": {"uri": await self._upload(workspace_id, file)}})
        await self._send_parts(workspace_id, client_id, parts, {})

    async def choose(self, workspace_id: str, client_id: str, words: str, question_id: str, option: int) -> None:
        """Answer an agent's question with one of its options. Raises EditorError."""
        metadata = {"option_of": question_id, "option": option}
        await self._send_parts(workspace_id, client_id, [{"kind": "text", "text": words}], metadata)

    async def _send_parts(self, workspace_id: str, client_id: str, parts: list[Members], metadata: Members) -> None:
        about = {"intent": Intent.REQUEST, **metadata}
        message = {"role": "user", "messageId": client_id, "parts": parts, "metadata": about}
        body = {"jsonrpc": "2.0", "id": client_id, "method": "message/send", "params": {"message": message}}
        await self._repeat(lambda: self._account.api.post(f"/workspaces/{workspace_id}/a2a", body))

    async def _upload(self, workspace_id: str, file: Any) -> str:
        path = f"/workspaces/{workspace_id}/chat/uploads"
        stored = await self._repeat(lambda: self._account.api.upload(path, file.name, file.content, file.mime_type))
        return str(stored["files"][0]["uri"])

    async def _repeat(self, request: Callable[[], Awaitable[Any]]) -> Any:
        """Make a request until the server answers it."""
        while True:
            try:
                return await request()
            except (ApiError, NoAnswerError) as error:
                if isinstance(error, ApiError) and not error.is_transient:
                    raise self._account.editor_error(error, self._account.url) from None
                _log.warning("the request is made again: %s", error)
            await self._on_outage()
            await sleep(self._clock, self._back_off.next_delay())
