"""Adds instructions for answering to the rows and events that an agent reads from its own inbox.

Only the response to this agent changes, never what is stored or what others read. Without an instruction builder, every
row stays byte for byte as it is.

Called by `api/messages/inbox.py` and `api/live/routes.py`; calls the instruction builder of messages and the envelope
of wire.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.model import ActivityPageRow
from molecule_core.messages.obligations.instructions import InstructionBuilder, InstructionOptions, LastInstructions
from molecule_core.org.model import Workspace
from molecule_core.views.feed import EncodedEvent
from molecule_core.wire.schemas.activity import ActivityRow, ActivityType
from molecule_core.wire.schemas.envelope import parse_includes, with_instructions_in_text


class InboxPresenter:
    """Presenter of an agent's inbox.

    `instruction_builder` None: no instructions are added. `delegations` None: a delegation keeps its first status.
    """

    def __init__(
        self, instruction_builder: InstructionBuilder | None, delegations: DelegationReader | None = None
    ) -> None:
        self._instruction_builder = instruction_builder
        self._delegations = delegations

    async def refresh_delegation_status(self, workspace_id: str, presented: list[ActivityRow]) -> None:
        """Set the current status of delegation rows, which were stored when the delegation began."""
        delegation_rows = [row for row in presented if row.activity_type == ActivityType.DELEGATION]
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
        """Return how instructions are added for a reader, or None for not at all.

        `own`: the workspace, if its own token reads. History never gets instructions in the text of messages.
        """
        if self._instruction_builder is None or own is None:
            return None
        wants_instructions, has_several = parse_includes(query.get("include", "").split(","))
        if wants_instructions:
            # A caller that asks reads the object, whatever the shape: a block in the text would look like the sender's
            # words.
            return InstructionOptions(in_envelope=True, multi_workspace=has_several)
        if only_if_requested or is_history or self._instruction_builder.shape(own) == "json":
            return None
        return InstructionOptions(in_envelope=False, multi_workspace=has_several)

    async def with_instructions(
        self, workspace: Workspace, rows: list[ActivityPageRow], options: InstructionOptions | None
    ) -> list[ActivityPageRow]:
        """Add instructions to inbound rows that lack them. Claimed rows have theirs already."""
        if self._instruction_builder is None or options is None or not any(map(_lacks_instructions, rows)):
            return rows
        instruction_builder, state = self._instruction_builder, await self._instruction_builder.load_last(workspace)

        def add_instructions(row: ActivityPageRow) -> ActivityPageRow:
            if not _lacks_instructions(row):
                return row
            rendered = instruction_builder.render(
                workspace, row, state, multi_workspace=options.multi_workspace, reminder=row.reminder
            )
            return row if rendered is None else replace(row, instructions=rendered[0])

        return [add_instructions(row) for row in rows]

    def present_row(
        self, presented: ActivityRow, row: ActivityPageRow, options: InstructionOptions | None
    ) -> ActivityRow:
        """Add the instructions of a row to its presented form, as an object or in its text."""
        if options is None or row.instructions is None:
            return presented
        if options.in_envelope:
            presented.instructions = row.instructions
        elif row.request_body is not None:
            body = with_instructions_in_text(row.request_body, row.instructions, row.summary or "")
            presented.request_body = presented.request_body if body is None else Raw(body.encode())
        return presented

    def present_event(self, workspace: Workspace, options: InstructionOptions, event: EncodedEvent) -> EncodedEvent:
        """Add instructions to an event about an inbound message, for the workspace's own agent."""
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
