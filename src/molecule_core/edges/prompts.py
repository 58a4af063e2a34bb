"""What a workspace shares with its children, and the system prompt that its agent has told. Both are data."""

from typing import Any

import msgspec

from molecule_core.access.model import Kind
from molecule_core.edges.routes import EVERYBODY, WORKSPACE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import InvalidField
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import NoPromptYet, SharedWithChildren
from molecule_core.prompts.model import Kept, Shared
from molecule_core.prompts.reader import PromptReader
from molecule_core.prompts.writer import PromptWriter
from molecule_core.wire.prompts import (
    Build,
    BuildView,
    PromptView,
    SharedContext,
    SharedFile,
    SharedFileView,
    diff,
)


class Share(msgspec.Struct):
    """The files that a workspace shares with its direct children, in place of all it has shared before. Also taken as a
    bare list."""

    files: list[SharedFile]


class Told(msgspec.Struct):
    """A prompt is kept. `revision` counts those of the workspace; the same prompt again keeps its number."""

    revision: int
    hash: str
    status: str = "ok"


class PromptEdge:
    """The routes of shared context and prompts."""

    def __init__(self, writer: PromptWriter, reader: PromptReader, *, limits: Limits) -> None:
        self._writer = writer
        self._reader = reader
        self._limits = limits

    def routes(self) -> list[Route]:
        """The rows for the table."""
        shared, prompt = "/workspaces/{id}/shared-context", "/workspaces/{id}/prompt"
        agent = Who(frozenset((WORKSPACE,)), Reach.OWN)
        own, talk = Who(EVERYBODY, Reach.OWN), Who(EVERYBODY, Reach.TALK)
        return [
            Route("PUT", shared, self.share, agent, "Share files with one's children", Share, SharedContext),
            Route("GET", shared, self.shared, talk, "What a parent shares", None, SharedContext),
            Route("PUT", prompt, self.tell, agent, "Tell the agent's system prompt", Build, Told),
            Route("GET", prompt, self.prompt, own, "The agent's system prompt", None, PromptView),
        ]

    async def share(self, call: Call) -> Answer:
        """Replaces what the workspace shares."""
        value = call.json()
        if not isinstance(value, list):
            files = call.read(Share).files
        else:
            try:
                files = msgspec.convert(value, list[SharedFile])
            except msgspec.ValidationError as error:
                raise InvalidField(reason=str(error)[:300]) from None
        return json_answer(_view(call.target.id, await self._writer.share(call.target.id, files)))

    async def shared(self, call: Call) -> Answer:
        """The files that a workspace shares: for its direct children, people and itself; for nobody else below or
        beside it."""
        if call.by.kind is Kind.WORKSPACE and not call.is_own and not self._is_child(call):
            raise SharedWithChildren
        return json_answer(_view(call.target.id, await self._reader.shared(call.target.id)))

    def _is_child(self, call: Call) -> bool:
        return self._reader.parent_of(call.by.id) == call.target.id

    async def tell(self, call: Call) -> Answer:
        """Keeps a prompt, and tells people that there is a new one."""
        build = call.read(Build)
        return json_answer(Told(await self._writer.built(call.target.id, build), build.hash))

    async def prompt(self, call: Call) -> Answer:
        """The newest prompt, the one before, and what differs between both."""
        kept = await self._reader.newest(call.target.id)
        if not kept:
            raise NoPromptYet
        builds = [_build(each) for each in kept]
        previous = builds[1] if len(builds) > 1 else None
        changed = diff(previous.sections, builds[0].sections, self._limits.prompt_diff_lines) if previous else []
        return json_answer(PromptView(builds[0], previous, changed))


def _view(workspace_id: str, shared: Shared) -> SharedContext:
    files = [SharedFileView(e.path, e.content, len(e.content.encode()), rfc3339(e.updated_at)) for e in shared.files]
    return SharedContext(workspace_id, shared.revision, files)


def _build(kept: Kept) -> BuildView:
    told: dict[str, Any] = msgspec.structs.asdict(msgspec.json.decode(kept.build, type=Build))
    return BuildView(**told, built_at=rfc3339(kept.built_at), revision=kept.revision)
