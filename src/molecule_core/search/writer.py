"""Writes the search index. Commands on the index of an organisation run one at a time."""

from collections.abc import Generator, Sequence
from typing import Any

from molecule_core.common.clock import yield_to_others
from molecule_core.common.limits import Limits
from molecule_core.search import rules
from molecule_core.search.model import IndexPosition, SourceDocument, SourceRef
from molecule_core.store.database import (
    Command,
    CommandSteps,
    ReadQuery,
    RequestBatch,
    Statement,
    StepRequest,
    Store,
    WriteSet,
)

NOT_INDEXED = IndexPosition(0, None)
"""Position of an organisation without a stored one: nothing of its journal is indexed, and nothing is from before."""


class SearchIndexWriter:
    """Writer of documents and of the position that they bring the index to."""

    def __init__(self, store: Store, *, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    async def advance(
        self,
        org_id: str,
        found: IndexPosition,
        reached: IndexPosition,
        documents: Sequence[SourceDocument],
        gone: Sequence[SourceRef],
    ) -> bool:
        """Write documents, delete those of rows that are gone, and advance the position, all in one transaction.

        Returns whether it did: if the position is not the one found, another process has advanced it."""
        words: dict[SourceRef, str] = {}
        for each in documents:
            words[each.ref] = rules.indexed_words(each, self._limits.search_text_characters)
            await yield_to_others()

        def decide() -> CommandSteps[bool]:
            stored, *existing = yield RequestBatch(
                [
                    ReadQuery("search_position", {"org_id": org_id}),
                    *(ReadQuery("search_document_of", _source_params(org_id, ref)) for ref in (*words, *gone)),
                ]
            )
            if (IndexPosition(*stored[0]) if stored else NOT_INDEXED) != found:
                return WriteSet(result=False)
            old = {ref: rows[0] for ref, rows in zip((*words, *gone), existing, strict=True) if rows}
            changed = [each for each in documents if each.ref not in old or old[each.ref][1] != words[each.ref]]
            numbers = yield from _number_documents(changed, {ref: row[0] for ref, row in old.items()})
            outdated = [ref for ref in (*(each.ref for each in changed), *gone) if ref in old]
            writes: list[Statement] = [("forget_search_document", {"no": old[ref][0]}) for ref in outdated]
            writes += [
                (
                    "insert_search_document",
                    {
                        **_source_params(org_id, each.ref),
                        "no": numbers[each.ref],
                        "at": each.at,
                        "words": words[each.ref],
                    },
                )
                for each in changed
            ]
            writes.append(("save_search_position", {"org_id": org_id, **reached._asdict()}))
            return WriteSet(True, writes)

        return await self._store.run(Command(org_id, (("search", org_id),), decide))


def _number_documents(
    documents: Sequence[SourceDocument], old: dict[SourceRef, int]
) -> Generator[StepRequest, Any, dict[SourceRef, int]]:
    """Choose a number for each document that no other one has; one that exists keeps its own."""
    numbers = {each.ref: old[each.ref] for each in documents if each.ref in old}
    taken, missing, attempt = set(numbers.values()), [each for each in documents if each.ref not in old], 0
    while missing:
        candidates = [(each, rules.document_number(each, attempt)) for each in missing]
        used = yield RequestBatch([ReadQuery("search_number_in_use", {"no": number}) for _, number in candidates])
        missing = []
        for (document, number), rows in zip(candidates, used, strict=True):
            if rows or number in taken:
                missing.append(document)
            else:
                numbers[document.ref] = number
                taken.add(number)
        attempt += 1
    return numbers


def _source_params(org_id: str, ref: SourceRef) -> dict[str, Any]:
    return {"org_id": org_id, "kind": ref.kind.value, "id": ref.id, "ordinal": ref.ordinal}
