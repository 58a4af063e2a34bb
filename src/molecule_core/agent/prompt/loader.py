"""Loads the server's inputs of a prompt: the agent's row, its parent's shared files, its peers.

Each request is authenticated and limited in time. A failed one costs only its own part and a warning.
"""

import asyncio
from typing import Any

import msgspec

from molecule_core.agent.prompt.assembly import PromptInputs
from molecule_core.agent.prompt.home import Home, HomeFile
from molecule_core.agent.prompt.peers import peer_from_row
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.tools.runners.requester import Requester
from molecule_core.wire.schemas.prompts import PromptBuild, SharedContext

REQUEST_SECONDS = 5.0
"""Time limit of a request; without an answer in time, its part is left out of this prompt."""
PARENT_VARIABLE = "PARENT_ID"
"""The variable by which the original runtime names a parent. The server knows the parent, so it is only compared."""
_SHARED_PATH = "shared-context"
# The request itself is invalid. Other errors are about rights and rate limits, which can change.
_FINAL_STATUSES = (400, 413, 422)


class PromptServerError(Exception):
    """The server did not do what was requested; the text is one line with the reason.

    `is_final`: a repetition would be rejected again.
    """

    def __init__(self, reason: str, *, final: bool = False) -> None:
        self.is_final = final
        super().__init__(reason)


class PromptLoader:
    """Loader of prompt inputs for one workspace.

    `api`: makes one request. `expected_parent`: what PARENT_ID names, where the parent's process has set it."""

    def __init__(
        self,
        api: Requester,
        workspace_id: str,
        *,
        clock: Clock,
        expected_parent: str = "",
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._expected_parent = expected_parent
        self._api = api
        self.workspace_id = workspace_id
        self._path = f"/workspaces/{workspace_id}"
        self._clock = clock
        self._seconds = seconds

    async def load_inputs(self, home: Home) -> PromptInputs:
        """Load all inputs of a prompt. Never fails: what could not be loaded is listed in `warnings`."""
        warnings: list[str] = []
        own_row, rows = await asyncio.gather(
            self._fetch_or_warn(self._path, "your own workspace", warnings),
            self._fetch_or_warn(f"/registry/{self.workspace_id}/peers", "the list of your peers", warnings),
        )
        parent_id = own_row.get("parent_id") if isinstance(own_row, dict) else None
        parent_id = parent_id if isinstance(parent_id, str) and parent_id else None
        if isinstance(own_row, dict) and self._expected_parent not in ("", parent_id):
            warnings.append(
                f"{PARENT_VARIABLE} names {sanitize_line(self._expected_parent, 64)}, but the server says that the "
                f"parent is {sanitize_line(parent_id or 'none', 64)}, which is used"
            )
        peers = None
        if isinstance(rows, list):
            found = (peer_from_row(each, self.workspace_id) for each in rows)
            peers = tuple(each for each in found if each is not None)
        return PromptInputs(
            home=home,
            workspace_id=self.workspace_id,
            parent_id=parent_id,
            parent_files=await self._parent_files(parent_id, warnings) if parent_id else None,
            peers=peers,
            warnings=tuple(warnings),
        )

    async def _parent_files(self, parent_id: str, warnings: list[str]) -> tuple[HomeFile, ...] | None:
        response = await self._fetch_or_warn(
            f"/workspaces/{parent_id}/{_SHARED_PATH}", "the shared files of your parent", warnings
        )
        if response is None:
            return None
        try:
            shared = msgspec.convert(response, SharedContext)
        except msgspec.ValidationError:
            warnings.append("the shared files of your parent could not be loaded: the response has an unknown format")
            return None
        return tuple(HomeFile(each.path, each.content) for each in shared.files)

    async def _fetch_or_warn(self, path: str, subject: str, warnings: list[str]) -> Any:
        try:
            return await self._request("GET", path)
        except PromptServerError as error:
            warnings.append(f"{subject} could not be loaded: {error}")
            return None

    async def upload_shared_files(self, home: Home) -> None:
        """Upload the files shared with children. Raises PromptServerError."""
        if home.shared is not None:
            files = [{"path": each.path, "content": each.text} for each in home.shared]
            await self._request("PUT", f"{self._path}/{_SHARED_PATH}", files)

    async def report_prompt(self, build: PromptBuild) -> None:
        """Report the agent's current prompt to the server. Raises PromptServerError."""
        await self._request("PUT", f"{self._path}/prompt", msgspec.to_builtins(build))

    async def reported_prompt(self) -> Any:
        """Return the last reported prompt; None if there is none. Raises PromptServerError."""
        try:
            return await self._request("GET", f"{self._path}/prompt")
        except PromptServerError as error:
            if isinstance(error.__cause__, ApiError) and error.__cause__.code == "no_prompt_yet":
                return None
            raise

    async def _request(self, method: str, path: str, body: Any = None) -> Any:
        pending = asyncio.ensure_future(self._api.call(method, path, body=body))
        try:
            if not await self._clock.wait(pending, self._seconds):
                raise PromptServerError(f"no answer within {self._seconds:g} seconds")
            return pending.result()
        except ApiError as error:
            raise PromptServerError(sanitize_line(str(error), 300), final=error.status in _FINAL_STATUSES) from error
        except NoAnswerError as error:
            raise PromptServerError(f"the server cannot be reached ({sanitize_line(str(error), 200)})") from error
        finally:
            pending.cancel()
