"""How an agent is shown its own mail: rows with what is said to it about answering, beside the message or in its text.

Only what this one reader gets is changed, never what is stored; nobody else's reads carry anything. A server that tells
nothing shows every row byte for byte as it is.

Above: `api/messages/inbox.py`, `api/live/routes.py`. Below: telling (messages), the builder of envelopes (wire).
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.model import TYPE_DELEGATION, ActivityPageRow
from molecule_core.messages.obligations.instructions import InstructionBuilder, InstructionOptions, LastInstructions
from molecule_core.org.model import Workspace
from molecule_core.views.feed import EncodedEvent
from molecule_core.wire.schemas.activity import ActivityRow
from molecule_core.wire.schemas.envelope import parse_includes, with_instructions_in_text


class InboxPresenter:
    """What is shown to whom. `telling` None: nobody is told how to answer. `delegated` None: what was delegated is
    shown as it began."""

    def __init__(
        self, instruction_builder: InstructionBuilder | None, delegations: DelegationReader | None = None
    ) -> None:
        self._instruction_builder = instruction_builder
        self._delegations = delegations

    async def refresh_delegation_status(self, workspace_id: str, presented: list[ActivityRow]) -> None:
        """What a workspace delegated is shown as it stands now; the row itself was written when that began."""
        delegation_rows = [row for row in presented if row.activity_type == TYPE_DELEGATION]
        if self._delegations is not None and delegation_rows:
            statuses = await self._delegations.statuses_by_seq(workspace_id, [row.seq for row in delegation_rows])
            for row in delegation_rows:
                row.status = statuses.get(row.seq, row.status)

    def options_for(
        self,
        own: Workspace | None,
        query: Mapping[str, str],
        *,
        is_history: bool = False,
        only_if_requested: bool = False,
    ) -> InstructionOptions | None:
        """How a reader is told; None: not at all. `own`: the workspace whose own token reads. Who looks back at what
        was said is shown no message with words of ours in its text."""
        if self._instruction_builder is None or own is None:
            return None
        wants_instructions, has_several = parse_includes(query.get("include", "").split(","))
        if (
            wants_instructions
        ):  # who asks reads the object, whatever the shape: a block in the text would be taken for the sender's
            return InstructionOptions(in_envelope=True, multi_workspace=has_several)
        if only_if_requested or is_history or self._instruction_builder.shape(own) == "json":
            return None
        return InstructionOptions(in_envelope=False, multi_workspace=has_several)

    async def with_instructions(
        self, workspace: Workspace, rows: list[ActivityPageRow], options: InstructionOptions | None
    ) -> list[ActivityPageRow]:
        """Rows, with what is said about each message that came in; those that were handed out have it already."""
        if self._instruction_builder is None or options is None or not any(map(_lacks_instructions, rows)):
            return rows
        instruction_builder, state = self._instruction_builder, await self._instruction_builder.load_last(workspace)

        def with_words(row: ActivityPageRow) -> ActivityPageRow:
            if not _lacks_instructions(row):
                return row
            rendered = instruction_builder.render(
                workspace, row, state, multi_workspace=options.multi_workspace, reminder=row.reminder
            )
            return row if rendered is None else replace(row, instructions=rendered[0])

        return [with_words(row) for row in rows]

    def present_row(
        self, presented: ActivityRow, row: ActivityPageRow, options: InstructionOptions | None
    ) -> ActivityRow:
        """A row for the agent that asked."""
        if options is None or row.instructions is None:
            return presented
        if options.in_envelope:
            presented.instructions = row.instructions
        elif row.request_body is not None:
            body = with_instructions_in_text(row.request_body, row.instructions, row.summary or "")
            presented.request_body = presented.request_body if body is None else Raw(body.encode())
        return presented

    def present_event(self, workspace: Workspace, options: InstructionOptions, event: EncodedEvent) -> EncodedEvent:
        """An event, for the workspace's own agent: one that tells of a message that came in says how to answer it."""
        row = event.message_row
        if self._instruction_builder is None or row is None or row.workspace_id != workspace.id:
            return event
        rendered = self._instruction_builder.render(
            workspace, row, LastInstructions(), multi_workspace=options.multi_workspace
        )
        if rendered is None:
            return event
        payload = msgspec.json.decode(event.payload, type=dict[str, Raw])
        payload["instructions"] = Raw(msgspec.json.encode(rendered[0]))
        return event.with_payload(msgspec.json.encode(payload))


def _lacks_instructions(row: ActivityPageRow) -> bool:
    return row.inbound_no is not None and row.instructions is None
