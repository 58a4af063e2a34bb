"""Fetches the files of received messages, so that what an agent reads names local copies.

The announcement of an upload is no message of its own: the file is named by the message that mentions it, or by the
next one of the same sender.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.tools.runners.file_tools import fetch_file, is_platform_file
from molecule_core.tools.spec import ToolError
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.inbox import InboxMessage

_log = logging.getLogger("molecule.agent")
PATH_MEMBER = "path"
"""Member of an attachment: its local copy."""
# Uploads without a message that are kept for the next message of their sender.
_MAX_ANNOUNCED = 100


class ReceivedFiles:
    """The received files of one workspace, in a folder of its agent."""

    def __init__(self, folder: Path, api: Callable[[], ApiClient]) -> None:
        self._folder = folder
        self._api = api
        self._announced: list[tuple[tuple[str, str], dict[str, Any]]] = []

    async def complete_message(self, message: InboxMessage) -> InboxMessage | None:
        """Return a message with the paths of its files; None for the announcement of an upload."""
        fetched = [await self._fetch(each) for each in message.attachments]
        sender = (message.peer_id, message.user_name)
        if message.kind == MessageKind.UPLOAD:
            self._announced += [(sender, each) for each in fetched]
            del self._announced[:-_MAX_ANNOUNCED]
            return None
        uris = {each.get("uri") for each in fetched}
        earlier = [file for owner, file in self._announced if owner == sender and file.get("uri") not in uris]
        self._announced = [each for each in self._announced if each[0] != sender]
        attachments = [*fetched, *earlier]
        return replace(message, attachments=attachments) if attachments else message

    async def _fetch(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Return an attachment with the path of its local copy, or unchanged if it cannot be fetched now."""
        uri = attachment.get("uri")
        if not is_platform_file(uri):
            return attachment
        try:
            path = await fetch_file(self._api(), str(uri), self._folder)
        except (ApiError, NoAnswerError, ToolError) as error:
            _log.warning("the file %s could not be fetched: %s", sanitize_line(str(uri)), sanitize_line(str(error)))
            return attachment
        return {**attachment, PATH_MEMBER: str(path)}
