"""Gives each conversation its folder: the same for all, or a git worktree of its own whose changes are attached."""

import asyncio
import hashlib
import logging
from pathlib import Path
from typing import Protocol

from molecule_core.agent.bridges.outbox import save_durably
from molecule_core.agent.mailbox.membership import Membership
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.wire.schemas.inbox import InboxMessage

_log = logging.getLogger("molecule.bridge")
_PATCH_NAME = "changes.patch"


class WorktreeError(Exception):
    """The folder of a conversation cannot be made; the text says why."""


class ConversationFolders(Protocol):
    """Folders that programs of conversations work in."""

    async def folder_of(self, conversation: str) -> Path:
        """Return the folder of a conversation."""

    async def attach_changes(self, message: InboxMessage, conversation: str) -> None:
        """Attach what a turn changed to the conversation. Never raises for an error of git or of the server."""


class SharedFolder:
    """One folder for all conversations."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def folder_of(self, conversation: str) -> Path:
        """Return the folder."""
        return self._folder

    async def attach_changes(self, message: InboxMessage, conversation: str) -> None:
        """Do nothing: changes of several conversations are mixed."""


class Worktrees:
    """A git worktree per conversation, made from the current commit of a repository."""

    def __init__(self, repository: Path, folder: Path, membership: Membership) -> None:
        self._repository = repository
        self._folder = folder
        self._membership = membership

    async def folder_of(self, conversation: str) -> Path:
        """Return the worktree of a conversation, made if necessary. Raises WorktreeError."""
        path, base_file = self._folder / conversation, self._folder / f"{conversation}.base"
        if not (path / ".git").exists():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._git(self._repository, "worktree", "prune")
            base = (await self._git(self._repository, "rev-parse", "HEAD")).decode().strip()
            save_durably(base_file, base.encode())
            await self._git(self._repository, "worktree", "add", "--force", "--detach", str(path), base)
        return path

    async def attach_changes(self, message: InboxMessage, conversation: str) -> None:
        """Send the changes since the conversation began as a patch, if they are others than were sent before."""
        try:
            patch = await self._read_patch(conversation)
            sent_file = self._folder / f"{conversation}.sent"
            digest = hashlib.sha256(patch).hexdigest()
            known = sent_file.read_text() if sent_file.exists() else hashlib.sha256(b"").hexdigest()
            if digest == known or not message.reply_handle:
                return
            await self._send_patch(message, patch, digest)
            save_durably(sent_file, digest.encode())
        except (WorktreeError, ApiError, NoAnswerError, OSError) as error:
            _log.warning("the changes of conversation %s are not attached: %s", conversation, error)

    async def _read_patch(self, conversation: str) -> bytes:
        path = self._folder / conversation
        base = (self._folder / f"{conversation}.base").read_text()
        await self._git(path, "add", "--all", "--intent-to-add")
        return await self._git(path, "diff", "--binary", base)

    async def _send_patch(self, message: InboxMessage, patch: bytes, digest: str) -> None:
        """Upload the patch and send it to the sender of a message as progress; repeatable."""
        api, id_ = self._membership.api(), self._membership.id
        uploaded = await api.upload(f"/workspaces/{id_}/chat/uploads", _PATCH_NAME, patch, "text/x-diff")
        files = patch.count(b"\ndiff --git ") + patch.startswith(b"diff --git ")
        body = {
            "handle": message.reply_handle,
            "text": f"Changes of this conversation: {files} {'file' if files == 1 else 'files'}.",
            "attachments": uploaded["files"],
            "progress": True,
            "messageId": f"changes-{digest[:32]}",
        }
        await api.post(f"/workspaces/{id_}/reply", body)

    async def _git(self, folder: Path, *arguments: str) -> bytes:
        """Run git and return its output. Raises WorktreeError."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                "git", "-C", str(folder), *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            raise WorktreeError(f"git cannot be started: {error.strerror or error}") from None
        output, problem = await process.communicate()
        if process.returncode:
            text = sanitize_line(problem.decode(errors="replace"), 300)
            raise WorktreeError(f"git {arguments[0]} failed with exit code {process.returncode}: {text}")
        return output
