"""Results of the search over messages, delegations, items of threads and memories."""

from msgspec import Struct


class FoundWorkspace(Struct):
    """A workspace that takes part in what was found. `name` is null if the workspace is not known any more."""

    id: str
    name: str | None


class SearchSnippet(Struct):
    """A part of the text. `matches`: where the words are in it, as [from, to) in Unicode code points."""

    text: str
    matches: list[list[int]]


class SearchItem(Struct):
    """Something that was found.

    `id`: of the message, delegation, thread or memory; `ordinal`: of the item within its thread, else null.
    `workspace_id`: the workspace whose log, thread or memory has it, or the source of the delegation. `workspaces`: all
    that take part. `in_chat`: whether a message is in the chat of its workspace with people. `at` is RFC 3339.
    """

    kind: str
    id: str
    ordinal: int | None
    workspace_id: str
    workspaces: list[FoundWorkspace]
    in_chat: bool
    at: str
    snippet: SearchSnippet


class SearchResponse(Struct):
    """A page of results, newest first.

    `next_cursor`: the `cursor` of the next page; null at the end. `complete`: whether texts from before the search
    index are all indexed; new texts are indexed within about a second.
    """

    results: list[SearchItem]
    next_cursor: str | None
    complete: bool
