"""Agents that are pushed to look after what they owe: a push whose line broke is not sent again, and still wants its
answer (docs/explanation/delivery.md)."""

from typing import Any

from proofs.harness.caller import Caller, Refused
from proofs.harness.serving import Place
from proofs.workload.company import Company, Seat
from proofs.workload.observations import Book
from proofs.workload.workers import Doers

# They look again when so much has been done, or at once when nothing has been for so long.
_PROGRESS, _QUIET_SECONDS = 30, 2.0
_UNSURE = "unknown_after_send"


class Debtor:
    """One seat that is pushed to."""

    def __init__(self, seat: Seat, server: Place, company: Company, doers: Doers) -> None:
        self._seat = seat
        self._server = server
        self._company = company
        self._doers = doers

    async def look(self, book: Book) -> None:
        """Now and then, until it is told to go: asks what the server knows no end of, and says it once more."""
        path = f"/workspaces/{self._seat.id}/delegations"
        async with Caller(self._server.port, self._seat.token) as api:
            while True:
                await book.progress.after("begun", _PROGRESS, seconds=_QUIET_SECONDS)
                try:
                    rows: list[dict[str, Any]] = await self._company.insist(
                        lambda: api.get(path, direction="in", state=_UNSURE)
                    )
                except Refused as error:
                    self._company.refused(error, "debts")
                    continue
                for row in rows:
                    book.figures["pushes without an end"] += 1
                    await self._doers.answer(api, row["delegation_id"], row["source_id"])
