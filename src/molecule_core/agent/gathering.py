"""What a prompt needs of the server: who the agent is, what its parent shares, whom it may talk to. Each question is
authenticated and bounded in time; what fails costs its own part and is told, never more.

Above: rebuilding, the command line. Below: client.
"""

import asyncio
from typing import Any

import msgspec

from molecule_core.agent.home import Home, HomeFile
from molecule_core.agent.neutral import line
from molecule_core.agent.prompt import Inputs
from molecule_core.agent.prompt_peers import peer_of
from molecule_core.client.api import ApiError, NoAnswer
from molecule_core.ground.clock import Clock
from molecule_core.wire.prompts import Build, SharedContext
from molecule_core.wire.speaks import Speaks

SECONDS = 5.0
"""A server that has not answered after so long is gone without, this time."""
_SHARED = "shared-context"
# What is wrong with a request itself stays wrong; who may ask, and how often, can change.
_FINAL = (400, 413, 422)


class Failed(Exception):
    """The server did not do as it was asked; the text is one line that says why. `final`: the same would be refused
    again, whenever it is asked."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        self.final = final
        super().__init__(reason)


class Gatherer:
    """Asks one server as one workspace. `api`: makes one request, as a client does."""

    def __init__(self, api: Speaks, workspace_id: str, *, clock: Clock, seconds: float = SECONDS) -> None:
        self._api = api
        self.workspace_id = workspace_id
        self._path = f"/workspaces/{workspace_id}"
        self._clock = clock
        self._seconds = seconds

    async def gather(self, home: Home) -> Inputs:
        """All inputs of a prompt, as they are now. Never fails: what is not known stands in `warnings`."""
        warnings: list[str] = []
        own, rows = await asyncio.gather(
            self._told(self._path, "who you are", warnings),
            self._told(f"/registry/{self.workspace_id}/peers", "whom you may talk to", warnings),
        )
        parent_id = own.get("parent_id") if isinstance(own, dict) else None
        parent_id = parent_id if isinstance(parent_id, str) and parent_id else None
        peers = None
        if isinstance(rows, list):
            found = (peer_of(each, self.workspace_id) for each in rows)
            peers = tuple(each for each in found if each is not None)
        return Inputs(
            home=home,
            workspace_id=self.workspace_id,
            parent_id=parent_id,
            parent_files=await self._parent_files(parent_id, warnings) if parent_id else None,
            peers=peers,
            warnings=tuple(warnings),
        )

    async def _parent_files(self, parent_id: str, warnings: list[str]) -> tuple[HomeFile, ...] | None:
        told = await self._told(f"/workspaces/{parent_id}/{_SHARED}", "what your parent shares", warnings)
        if told is None:
            return None
        try:
            shared = msgspec.convert(told, SharedContext)
        except msgspec.ValidationError:
            warnings.append("what your parent shares is not known: its answer cannot be read")
            return None
        return tuple(HomeFile(each.path, each.content) for each in shared.files)

    async def _told(self, path: str, what: str, warnings: list[str]) -> Any:
        try:
            return await self._ask("GET", path)
        except Failed as error:
            warnings.append(f"{what} is not known: {error}")
            return None

    async def share(self, home: Home) -> None:
        """Uploads what the home says is to be shared with children. Raises Failed."""
        if home.shared is not None:
            files = [{"path": each.path, "content": each.text} for each in home.shared]
            await self._ask("PUT", f"{self._path}/{_SHARED}", files)

    async def tell(self, build: Build) -> None:
        """Tells the server which prompt the agent has now. Raises Failed."""
        await self._ask("PUT", f"{self._path}/prompt", msgspec.to_builtins(build))

    async def told(self) -> Any:
        """The prompt that the server was told last; None if it was told none. Raises Failed."""
        try:
            return await self._ask("GET", f"{self._path}/prompt")
        except Failed as error:
            if isinstance(error.__cause__, ApiError) and error.__cause__.code == "no_prompt_yet":
                return None
            raise

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        asking = asyncio.ensure_future(self._api.call(method, path, body=body))
        try:
            if not await self._clock.wait(asking, self._seconds):
                raise Failed(f"no answer within {self._seconds:g} seconds")
            return asking.result()
        except ApiError as error:
            raise Failed(line(str(error), 300), final=error.status in _FINAL) from error
        except NoAnswer as error:
            raise Failed(f"the server cannot be reached ({line(str(error), 200)})") from error
        finally:
            asking.cancel()
