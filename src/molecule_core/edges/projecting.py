"""How an agent is shown its own mail: rows with what is said to it about answering, beside the message or in its text.

Only what this one reader gets is changed, never what is stored; nobody else's reads carry anything. A server that tells
nothing shows every row byte for byte as it is.

Above: `edges/inbox.py`, `edges/events.py`. Below: telling (messages), the builder of envelopes (wire).
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.model import DELEGATION, Shown
from molecule_core.messages.telling import SeatState, Telling, Wish
from molecule_core.org.model import Workspace
from molecule_core.views.feed import Notice
from molecule_core.wire.activity import ActivityRow
from molecule_core.wire.envelope import includes, rewritten


class Projection:
    """What is shown to whom. `telling` None: nobody is told how to answer. `delegated` None: what was delegated is
    shown as it began."""

    def __init__(self, telling: Telling | None, delegated: DelegationReader | None = None) -> None:
        self._telling = telling
        self._delegated = delegated

    async def bring_up_to_date(self, workspace_id: str, shown: list[ActivityRow]) -> None:
        """What a workspace delegated is shown as it stands now; the row itself was written when that began."""
        given = [row for row in shown if row.activity_type == DELEGATION]
        if self._delegated is not None and given:
            stands = await self._delegated.statuses(workspace_id, [row.seq for row in given])
            for row in given:
                row.status = stands.get(row.seq, row.status)

    def wish(
        self, own: Workspace | None, query: Mapping[str, str], *, looks_back: bool = False, only_if_asked: bool = False
    ) -> Wish | None:
        """How a reader is told; None: not at all. `own`: the workspace whose own token reads. Who looks back at what
        was said is shown no message with words of ours in its text."""
        if self._telling is None or own is None:
            return None
        asks, several = includes(query.get("include", "").split(","))
        if asks:  # who asks reads the object, whatever the shape: a block in the text would be taken for the sender's
            return Wish(beside=True, several=several)
        if only_if_asked or looks_back or self._telling.shape(own) == "json":
            return None
        return Wish(beside=False, several=several)

    async def told(self, workspace: Workspace, rows: list[Shown], wish: Wish | None) -> list[Shown]:
        """Rows, with what is said about each message that came in; those that were handed out have it already."""
        if self._telling is None or wish is None or not any(map(_is_untold, rows)):
            return rows
        telling, state = self._telling, await self._telling.remembered(workspace)

        def with_words(row: Shown) -> Shown:
            if not _is_untold(row):
                return row
            tells = telling.tell(workspace, row, state, several=wish.several, reminder=row.reminder)
            return row if tells is None else replace(row, instructions=tells[0])

        return [with_words(row) for row in rows]

    def show(self, shown: ActivityRow, row: Shown, wish: Wish | None) -> ActivityRow:
        """A row for the agent that asked."""
        if wish is None or row.instructions is None:
            return shown
        if wish.beside:
            shown.instructions = row.instructions
        elif row.request_body is not None:
            body = rewritten(row.request_body, row.instructions, row.summary or "")
            shown.request_body = shown.request_body if body is None else Raw(body.encode())
        return shown

    def notice(self, workspace: Workspace, wish: Wish, notice: Notice) -> Notice:
        """An event, for the workspace's own agent: one that tells of a message that came in says how to answer it."""
        row = notice.row
        if self._telling is None or row is None or row.workspace_id != workspace.id:
            return notice
        tells = self._telling.tell(workspace, row, SeatState(), several=wish.several)
        if tells is None:
            return notice
        said = msgspec.json.decode(notice.payload, type=dict[str, Raw])
        said["instructions"] = Raw(msgspec.json.encode(tells[0]))
        return notice.saying(msgspec.json.encode(said))


def _is_untold(row: Shown) -> bool:
    return row.inbound_no is not None and row.instructions is None
