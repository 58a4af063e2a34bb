"""Routes of shared context, and of the system prompt that an agent reports. Both contain data, never instructions."""

from typing import Any

import msgspec

from molecule_core.access.model import CredentialKind
from molecule_core.api.host_context import HostContextReader
from molecule_core.api.http.response import Response
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    WORKSPACE,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import InvalidField, PromptNotReported, SharedFilesForbidden
from molecule_core.common.limits import Limits
from molecule_core.common.validation import validation_error_text
from molecule_core.prompts.model import SharedFiles, StoredPrompt
from molecule_core.prompts.reader import PromptReader
from molecule_core.prompts.writer import PromptWriter
from molecule_core.wire.schemas.host_context import HostContext
from molecule_core.wire.schemas.prompts import (
    PromptBuild,
    PromptBuildView,
    PromptView,
    SharedContext,
    SharedFile,
    SharedFileView,
    diff_sections,
)


class SharedFilesBody(msgspec.Struct):
    """Files that a workspace shares with its direct children, replacing all it shared before. A bare list works too."""

    files: list[SharedFile]


class PromptReportResponse(msgspec.Struct):
    """Receipt of a stored prompt. `revision` counts the workspace's prompts; an unchanged prompt keeps its number."""

    revision: int
    hash: str
    status: str = "ok"


class PromptRoutes:
    """Routes of shared context and prompts."""

    def __init__(
        self, writer: PromptWriter, reader: PromptReader, contexts: HostContextReader, *, limits: Limits
    ) -> None:
        self._contexts = contexts
        self._writer = writer
        self._reader = reader
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        shared, prompt = "/workspaces/{id}/shared-context", "/workspaces/{id}/prompt"
        agent = AccessPolicy(frozenset((WORKSPACE,)), WorkspaceScope.OWN)
        own, talk = (
            AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN),
            AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.TALK),
        )
        return [
            Route(
                "PUT",
                shared,
                self.share_files,
                agent,
                "Share files with child workspaces",
                SharedFilesBody,
                SharedContext,
            ),
            Route(
                "GET", shared, self.get_shared_files, talk, "Get the files that a workspace shares", None, SharedContext
            ),
            Route(
                "PUT",
                prompt,
                self.report_prompt,
                agent,
                "Report the system prompt of an agent",
                PromptBuild,
                PromptReportResponse,
            ),
            Route(
                "GET",
                "/workspaces/{id}/host-context",
                self.get_host_context,
                own,
                "Get what an agent is shown of its surroundings",
                None,
                HostContext,
            ),
            Route("GET", prompt, self.get_prompt, own, "Get the system prompt of an agent", None, PromptView),
        ]

    async def share_files(self, request: Request) -> Response:
        """Replace the files that the workspace shares."""
        value = request.json()
        if not isinstance(value, list):
            files = request.parse_body(SharedFilesBody).files
        else:
            try:
                files = msgspec.convert(value, list[SharedFile])
            except msgspec.ValidationError as error:
                raise InvalidField(reason=validation_error_text(error, value=value, shape=list[SharedFile])) from None
        return json_response(
            _shared_context(request.workspace.id, await self._writer.save_shared_files(request.workspace.id, files))
        )

    async def get_shared_files(self, request: Request) -> Response:
        """Return the files that a workspace shares, to itself, its direct children and people.

        Other workspaces above, below or beside it get SharedFilesForbidden.
        """
        if (
            request.caller.kind is CredentialKind.WORKSPACE
            and not request.is_own_workspace
            and not self._is_child(request)
        ):
            raise SharedFilesForbidden
        return json_response(
            _shared_context(request.workspace.id, await self._reader.shared_files(request.workspace.id))
        )

    def _is_child(self, request: Request) -> bool:
        return self._reader.parent_id_of(request.caller.id) == request.workspace.id

    async def get_host_context(self, request: Request) -> Response:
        """Return the peers of a workspace and the files that its parent shares.

        MCP servers render them into the instructions of a host.
        """
        return json_response(await self._contexts.read_context(request.workspace))

    async def report_prompt(self, request: Request) -> Response:
        """Store a prompt and notify people of a new one."""
        build = request.parse_body(PromptBuild)
        return json_response(
            PromptReportResponse(await self._writer.record_prompt(request.workspace.id, build), build.hash)
        )

    async def get_prompt(self, request: Request) -> Response:
        """Return the newest prompt, the previous one, and the differences between them."""
        stored = await self._reader.latest_prompts(request.workspace.id)
        if not stored:
            raise PromptNotReported
        builds = [_build_view(each) for each in stored]
        previous = builds[1] if len(builds) > 1 else None
        changed = (
            diff_sections(previous.sections, builds[0].sections, self._limits.prompt_diff_lines) if previous else []
        )
        return json_response(PromptView(builds[0], previous, changed))


def _shared_context(workspace_id: str, shared: SharedFiles) -> SharedContext:
    files = [SharedFileView(e.path, e.content, len(e.content.encode()), to_rfc3339(e.updated_at)) for e in shared.files]
    return SharedContext(workspace_id, shared.revision, files)


def _build_view(stored: StoredPrompt) -> PromptBuildView:
    fields: dict[str, Any] = msgspec.structs.asdict(msgspec.json.decode(stored.build, type=PromptBuild))
    return PromptBuildView(**fields, built_at=to_rfc3339(stored.built_at), revision=stored.revision)
