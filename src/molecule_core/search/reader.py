"""Searches. What is found is read from its row, so nothing is shown that was changed or deleted since."""

from collections.abc import Sequence
from typing import Any

from molecule_core.common.clock import yield_to_others
from molecule_core.common.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.search import rules
from molecule_core.search.model import (
    FoundRefs,
    SearchHit,
    SearchKind,
    SearchPage,
    SearchRequest,
    SourceDocument,
    SourceRef,
)
from molecule_core.search.source_reader import SourceReader
from molecule_core.store.database import Store

# As many texts as may be read between two iterations of the event loop.
_ROWS_AT_ONCE = 8


class SearchReader:
    """Reader of the search index."""

    def __init__(self, store: Store, org: OrgReader, *, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._sources = SourceReader(store)
        self._limits = limits

    async def search(self, org_id: str, request: SearchRequest) -> SearchPage:
        """Return the newest documents of an organisation that match.

        A page ends early if many candidates do not match: their rows are gone, or a phrase is not in them."""
        limit = min(request.limit, self._limits.search_results)
        hits: list[SearchHit] = []
        before: int | None = request.before
        for _ in range(self._limits.search_reads):
            found = await self._find(org_id, request, before or 0, limit)
            documents = await self._sources.load(org_id, [ref for _, ref in found])
            for number, ref in found:
                before = number
                if ref in documents and self._is_match(documents[ref], org_id, request):
                    hits.append(self._to_hit(documents[ref], request))
                if len(hits) == limit:
                    break
            else:
                if len(found) < limit:
                    before = None
            if before is None or len(hits) == limit:
                break
        return SearchPage(hits, before, await self._is_complete(org_id))

    async def find_refs(self, org_id: str, request: SearchRequest, count: int) -> FoundRefs:
        """Return the newest rows that match, at most `count` candidates, without their texts."""
        found = await self._find(org_id, request, request.before, count)
        refs = [ref for _, ref in found]
        oldest_at = rules.time_of_number(found[-1][0]) if found else 0
        if request.terms.phrases:
            refs = list(await self.filter_refs(org_id, request, refs))
        is_complete = len(found) < count and await self._is_complete(org_id)
        return FoundRefs(frozenset(refs), oldest_at, is_complete)

    async def filter_refs(self, org_id: str, request: SearchRequest, refs: Sequence[SourceRef]) -> frozenset[SourceRef]:
        """Return those of some rows that match, read from the rows: also what is not indexed yet."""
        found: set[SourceRef] = set()
        most = self._limits.search_text_characters
        for first in range(0, len(refs), _ROWS_AT_ONCE):
            some = refs[first : first + _ROWS_AT_ONCE]
            for ref, document in (await self._sources.load(org_id, some)).items():
                if self._is_match(document, org_id, request) and rules.has_words(document.text, request.terms, most):
                    found.add(ref)
            await yield_to_others()
        return frozenset(found)

    async def _find(
        self, org_id: str, request: SearchRequest, before: int, count: int
    ) -> Sequence[tuple[int, SourceRef]]:
        """Return the numbers and rows of documents that the index finds, newest first."""
        marks = [] if request.workspace_id is None else [rules.workspace_mark(request.workspace_id)]
        params: dict[str, Any] = {
            "org_id": org_id,
            "partitions": " ".join(rules.partition_of(org_id, each) for each in request.kinds),
            "words": " ".join((*marks, *request.terms.words)),
            "prefix": int(request.terms.is_prefix),
            "since": request.since,
            "until": request.until,
            "first": rules.first_number(request.since),
            "before": min(before, rules.last_number(request.until)),
            "count": count,
        }
        rows = await self._store.rows("search_documents", params) if request.kinds else ()
        return [(no, SourceRef(SearchKind(kind), id_, ordinal)) for no, kind, id_, ordinal in rows]

    def _is_match(self, document: SourceDocument, org_id: str, request: SearchRequest) -> bool:
        """Return whether a found row may be shown. The index has chosen it already; who may see it does not rest on
        that alone."""
        if document.org_id != org_id or document.ref.kind not in request.kinds:
            return False
        if request.workspace_id is not None and request.workspace_id not in document.workspace_ids:
            return False
        if document.ref.kind is SearchKind.MEMORY and not self._org.is_active_in(document.owner_id, org_id):
            return False  # memories of a removed workspace are hidden before retention deletes them
        return rules.has_phrases(document.text, request.terms.phrases, self._limits.search_text_characters)

    def _to_hit(self, document: SourceDocument, request: SearchRequest) -> SearchHit:
        snippet = rules.make_snippet(
            document.text,
            request.terms,
            max_characters=self._limits.search_text_characters,
            length=self._limits.search_snippet_characters,
        )
        return SearchHit(document, snippet)

    async def _is_complete(self, org_id: str) -> bool:
        rows = await self._store.rows("search_position", {"org_id": org_id})
        return not rows or rows[0][1] is None
